//! Checks by Jobs: sends a Work to each updated cluster, looks at what members report, and
//! deletes what is of no use any more.

use flagship_api::names::{ObjectKey, member_namespace};
use flagship_api::rollout_policy::{RolloutPolicy, RolloutPolicySpec};
use flagship_api::work::Work;
use flagship_rules::policy::checks::Ask;
use flagship_rules::policy::checks::jobs::{self, JobReport, Seen};
use flagship_runtime::client::{ClientError, Propagation};
use flagship_runtime::effects::Writer;
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use futures::future::join_all;

use super::{AT_ONCE, CheckKey, Shell};

impl Shell {
    /// Sends the Jobs that are not sent, and takes what is known of all of them.
    pub(super) async fn look_at_jobs(&self, key: &CheckKey, ask: &Ask) -> Outcome {
        let caught_up = self.sent.caught_up(key).await;
        let mut seen: Vec<Seen> = ask
            .updated
            .iter()
            .map(|cluster| Seen {
                cluster: cluster.clone(),
                report: self.report(key, ask, cluster),
                trouble: None,
                withheld: None,
            })
            .collect();
        let mut missing: Vec<&mut Seen> =
            seen.iter_mut().filter(|one| one.report.is_none()).collect();
        if !missing.is_empty() {
            self.send_to(key, ask, &mut missing).await;
        }
        let again = self.checks.take_jobs(key, self.cx.env.now(), &seen);
        let ended = match again {
            Some(again) => Outcome::After(again.unsigned_abs()),
            None => Outcome::Done,
        };
        ended.having_caught_up(caught_up)
    }

    /// Sends the Job to these, if it still is that of a policy.
    async fn send_to(&self, key: &CheckKey, ask: &Ask, missing: &mut [&mut Seen]) {
        let ask = match self.policy_of(ask).await {
            Ok(policy) => jobs::sends(ask, policy.as_ref()),
            Err(error) => {
                let why = format!("rollout policy `{}` cannot be read: {error}", ask.policy);
                return missing.iter_mut().for_each(|one| one.trouble = Some(why.clone()));
            }
        };
        let ask = match ask {
            Ok(ask) => ask,
            Err(why) => {
                return missing.iter_mut().for_each(|one| one.withheld = Some(why.clone()));
            }
        };
        for some in missing.chunks_mut(AT_ONCE) {
            let sent = some.iter().map(|one| self.send(key, &ask, &one.cluster));
            let sent = join_all(sent).await;
            for (one, sent) in some.iter_mut().zip(sent) {
                one.trouble = sent.err();
            }
        }
    }

    /// The policy of a check as it is on the server now.
    async fn policy_of(&self, ask: &Ask) -> Result<Option<RolloutPolicySpec>, ClientError> {
        let policies = self.cx.client.of::<RolloutPolicy>();
        match policies.find(&ObjectKey::cluster(&ask.policy)).await {
            Err(ClientError::NotServed { .. }) => Ok(None),
            found => Ok(found?.map(|policy| policy.spec)),
        }
    }

    /// What is stored of the Job on a cluster.
    fn report(&self, (uid, key): &CheckKey, ask: &Ask, cluster: &str) -> Option<JobReport> {
        let space = member_namespace(cluster);
        let work = ObjectKey::new(Some(&space), &jobs::name(ask, uid, cluster));
        let report = self.mirrors.works.works.get(&work)?.value.check.clone()?;
        (report.run_uid == *uid && report.key == *key).then_some(*report)
    }

    async fn send(&self, key: &CheckKey, ask: &Ask, cluster: &str) -> Result<(), String> {
        let work = jobs::work(ask, &key.0, cluster)?;
        tracing::info!(
            run = ask.run,
            check = ask.check.name,
            cluster,
            "sending the Job of a check"
        );
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.sent, key);
        match writer.create(&work).await {
            // One of that name that the mirror does not show yet, or that is not ours: what
            // becomes of it is seen, or nothing is, and then the check fails.
            Ok(_) => Ok(()),
            // All that can be missing is the namespace.
            Err(ClientError::NotFound { .. }) => Err(format!("cluster {cluster} has left")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Deletes the Work of a check that is over, and with it the Job on the member.
    pub async fn sweep(&self, key: ObjectKey) -> Result<Outcome, Failure> {
        let caught_up = self.swept.caught_up(&key).await;
        let Some(work) = self.mirrors.works.works.get(&key) else { return Ok(Outcome::Done) };
        let Some(report) = work.value.check.as_ref().filter(|_| !work.value.deleting) else {
            return Ok(Outcome::Done);
        };
        let run = self.mirrors.scopes().find_map(|scope| scope.runs.with_uid(&report.run_uid));
        if report.is_over(run.map(|run| run.rival.ended)) {
            tracing::info!(work = %key, "the Job of a check is of no use any more");
            let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.swept, &key);
            writer.delete::<Work>(&work.precondition, Propagation::Background).await?;
        }
        Ok(Outcome::Done.having_caught_up(caught_up))
    }
}
