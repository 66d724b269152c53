//! One pass over one channel: what is to be told, one message after the other, each noted in
//! the channel's status before the next is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use flagship_api::keys::own;
use flagship_api::names::{ObjectKey, Scope, rolled_back_run};
use flagship_api::notification_channel::{
    ChannelTest, NotificationChannel, NotificationChannelStatus,
};
use flagship_api::rollout_record::{RecordEntry, What};
use flagship_rules::notification::delivery::{self, Trouble};
use flagship_rules::notification::message::{Form, Message, message, test};
use flagship_rules::notification::{AboutRun, Notice, due, expect, note, told};
use flagship_rules::policy::selects::{Wanted, selects};
use flagship_rules::record::Keep;
use flagship_runtime::client::{ClientError, Precondition, ResourceType, Selection};
use flagship_runtime::effects::{PendingWrites, Writer};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use http::{HeaderMap, HeaderValue, Method, header};
use jiff::{SignedDuration, Timestamp};
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;
use ring::hmac;
use serde_json::{Value, json};

use super::{Notices, RunId};
use crate::egress::{Outgoing, secret};
use crate::hub::Context;
use crate::mirrors::{Channel, Mirrors};
use crate::scope::{ClusterWide, InNamespace, Scoped};
use crate::update_run::{Recorded, labels_by_name};

/// How much of a receiver's answer is read.
const ANSWER: usize = 16 * 1024;
/// How far `toldUntil` may lag behind before it is worth a write of its own.
const LAG: SignedDuration = SignedDuration::from_mins(10);

/// Serves channels.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    notices: Notices,
    seen: PendingWrites<ObjectKey>,
}

/// A record that a channel may have to tell of.
struct Found {
    run: RunId,
    recorded: Option<Timestamp>,
    about: AboutRun,
    entries: Vec<RecordEntry>,
}

/// The status of a channel in the course of a pass.
struct Noted<'a> {
    at: Precondition,
    stored: NotificationChannelStatus,
    status: NotificationChannelStatus,
    writer: Writer<'a, ObjectKey>,
}

impl Shell {
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<NotificationChannel>(), &mirrors.channels);
        Self { cx: cx.clone(), mirrors: mirrors.clone(), notices: cx.notices.clone(), seen }
    }

    /// One pass.
    pub async fn pass(&self, key: ObjectKey) -> Result<Outcome, Failure> {
        self.seen.caught_up(&key).await;
        let Some(channel) = self.mirrors.channels.get(&key) else { return Ok(Outcome::Done) };
        let pending = self.notices.state().pending.remove(&key).unwrap_or_default();
        let told = self.tell(&key, &channel, &pending).await;
        let left = match &told {
            Ok((_, left)) => left.clone(),
            Err(_) => pending,
        };
        if !left.is_empty() {
            self.notices.state().pending.entry(key).or_default().extend(left);
        }
        told.map(|(outcome, _)| outcome)
    }

    /// Tells what is due; runs of which something is left come back.
    async fn tell(
        &self,
        key: &ObjectKey,
        channel: &Channel,
        pending: &BTreeSet<RunId>,
    ) -> Result<(Outcome, BTreeSet<RunId>), Failure> {
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        let stored = channel.status.clone();
        let at = channel.precondition.clone();
        let mut noted = Noted { at, status: stored.clone(), stored, writer };
        if self.cx.options.update_runs.records == Keep::Off {
            delivery::without_records(&mut noted.status, channel.generation, self.cx.env.now());
        }
        self.try_out(key, channel, &mut noted).await?;
        let uid = &channel.precondition.uid;
        let catches_up = !self.notices.state().caught_up.contains(uid);
        let mut runs = pending.clone();
        if catches_up {
            runs.extend(self.unfinished(channel).await?);
        }
        let mut found = Vec::new();
        for run in &runs {
            found.extend(match run.0 {
                None => self.record::<ClusterWide>(channel, run).await?,
                Some(_) => self.record::<InNamespace>(channel, run).await?,
            });
        }
        found.sort_by(|a, b| (a.recorded, &a.run).cmp(&(b.recorded, &b.run)));
        let known: Vec<_> =
            found.iter().map(|found| (found.run.1.clone(), found.recorded)).collect();
        let lag = noted.status.told_until.as_ref().map(|until| until.0);
        let lag = lag.is_none_or(|until| self.cx.env.now().duration_since(until) > LAG);
        let before = noted.status.clone();
        expect(&mut noted.status, &known, self.cx.env.now());
        let mut left: BTreeSet<RunId> = found.iter().map(|found| found.run.clone()).collect();
        let mut sent = false;
        for found in &found {
            let Some(from) = told(&noted.status, &found.run.1, found.recorded) else {
                left.remove(&found.run);
                continue;
            };
            let takes_back = found.about.takes_back;
            let all = due(&channel.spec, channel.created, takes_back, &found.entries, from);
            for notice in all {
                sent = true;
                if let Some(wait) = self.send(channel, found, &notice, &mut noted).await? {
                    return Ok((Outcome::After(wait), left));
                }
            }
            let last = found.entries.last();
            let ended = last.is_some_and(|last| last.what == What::Ended);
            let now = self.cx.env.now();
            note(&mut noted.status, &found.run.1, last.map_or(from, |last| last.n), ended, now);
            left.remove(&found.run);
        }
        self.notices.state().caught_up.insert(uid.clone());
        let worth_noting = sent || (catches_up && lag);
        if !worth_noting {
            // How far it is need not be written where there was nothing to say.
            (noted.status.runs, noted.status.told_until) = (before.runs, before.told_until);
        }
        noted.write().await?;
        Ok((Outcome::Done, BTreeSet::new()))
    }

    /// Sends one message and notes it; how long to wait if it did not arrive.
    async fn send(
        &self,
        channel: &Channel,
        found: &Found,
        notice: &Notice,
        noted: &mut Noted<'_>,
    ) -> Result<Option<std::time::Duration>, Failure> {
        let key = &channel.precondition.key;
        let wanted = message(self.form(channel), &found.about, notice);
        let arrived = self.post(channel, wanted).await;
        let now = self.cx.env.now();
        let (n, ended) = (notice.entry.n, notice.entry.what == What::Ended);
        match arrived {
            Ok(()) => {
                self.notices.state().failures.remove(key);
                delivery::delivered(&mut noted.status, channel.generation, now);
                note(&mut noted.status, &found.run.1, n, ended, now);
                noted.write().await?;
                Ok(None)
            }
            Err(why) => {
                let about = notice.entry.time.0;
                let given_up =
                    delivery::failed(&mut noted.status, channel.generation, &why, about, now);
                tracing::warn!(channel = key.name, "a notification was not taken: {}", why.told());
                if given_up {
                    note(&mut noted.status, &found.run.1, n, ended, now);
                }
                noted.write().await?;
                if given_up {
                    return Ok(None);
                }
                let mut state = self.notices.state();
                let failures = state.failures.entry(key.clone()).or_default();
                *failures += 1;
                Ok(Some(delivery::wait(*failures)))
            }
        }
    }

    /// Answers whoever wants to know whether the channel works.
    async fn try_out(
        &self,
        key: &ObjectKey,
        channel: &Channel,
        noted: &mut Noted<'_>,
    ) -> Result<(), Failure> {
        let Some(id) = &channel.asked else { return Ok(()) };
        if noted.status.test.as_ref().is_some_and(|test| test.id == *id) {
            return Ok(());
        }
        let now = self.cx.env.now();
        let arrived = self.post(channel, test(self.form(channel), &key.name, id, now)).await;
        let error = arrived.as_ref().err().map(|why| why.told().chars().take(1000).collect());
        noted.status.test = Some(ChannelTest { id: id.clone(), error });
        let (status, now) = (&mut noted.status, self.cx.env.now());
        match &arrived {
            Ok(()) => delivery::arrives(status, channel.generation, now),
            Err(why) => delivery::does_not_arrive(status, channel.generation, why, now),
        }
        noted.write().await
    }

    fn form<'a>(&'a self, channel: &'a Channel) -> Form<'a> {
        Form {
            kind: channel.spec.r#type,
            template: channel.spec.template.as_deref(),
            console: self.cx.options.console_url.as_deref(),
        }
    }

    async fn post(&self, channel: &Channel, wanted: Message) -> Result<(), Trouble> {
        let spec = &channel.spec;
        let url = match (&spec.url, &spec.secret_ref) {
            (Some(url), _) => url.clone(),
            (None, Some(of)) => {
                let text = String::from_utf8(secret(&self.cx, of).await?);
                let text = text.map_err(|_| Trouble::Refused("the URL is no text".to_owned()))?;
                text.trim().to_owned()
            }
            (None, None) => return Err(Trouble::Refused("the channel has no URL".to_owned())),
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(wanted.content_type));
        if let Some(of) = &spec.signing_secret_ref {
            let at = self.cx.env.now().as_second();
            let signed = signature(&secret(&self.cx, of).await?, at, wanted.body.as_bytes());
            headers.insert("x-flagship-timestamp", HeaderValue::from(at));
            if let Ok(signed) = HeaderValue::from_str(&signed) {
                headers.insert("x-flagship-signature", signed);
            }
        }
        if let Ok(id) = HeaderValue::from_str(&wanted.id) {
            headers.insert("x-flagship-id", id);
        }
        let body = Bytes::from(wanted.body);
        let trust = spec.ca_bundle.as_ref().map(|bundle| Bytes::from(bundle.0.clone()));
        let request = Outgoing { method: Method::POST, headers, body, trust, at_most: ANSWER };
        let answer = self.cx.options.egress.call(&url, request).await?;
        let status = answer.status;
        if status.is_success() {
            return Ok(());
        }
        let also = if status.is_redirection() { ", and redirects are not followed" } else { "" };
        Err(Trouble::Failed(format!("the receiver answers {status}{also}")))
    }

    /// Runs that may have something to tell which no hub has told this one of.
    async fn unfinished(&self, channel: &Channel) -> Result<BTreeSet<RunId>, Failure> {
        let mut all = self.recorded::<ClusterWide>(channel).await?;
        if self.cx.options.resource_placement {
            all.extend(self.recorded::<InNamespace>(channel).await?);
        }
        Ok(all)
    }

    async fn recorded<S: Scoped>(&self, channel: &Channel) -> Result<BTreeSet<RunId>, Failure> {
        let records =
            self.cx.client.of_type::<PartialObjectMeta<S::Record>>(ResourceType::of::<S::Record>());
        let listed = match records.metadata_only().list(&Selection::all()).await {
            Err(ClientError::NotServed { .. }) => return Ok(BTreeSet::new()),
            listed => listed?.items,
        };
        let found = listed.iter().filter_map(|record| {
            let meta = record.meta();
            let uid = meta.labels.as_ref()?.get(own::UPDATE_RUN_UID)?.clone();
            let recorded = meta.creation_timestamp.as_ref().map(|time| time.0);
            let first_look = channel.status.told_until.is_none();
            let before = recorded.is_some_and(|recorded| recorded < channel.created);
            // What was over when the channel was made is none of its business.
            let matters = !(first_look && before) || self.is_under_way::<S>(&uid);
            let wanted = matters && told(&channel.status, &uid, recorded).is_some();
            wanted.then(|| (meta.namespace.clone(), uid))
        });
        Ok(found.collect())
    }

    fn is_under_way<S: Scoped>(&self, uid: &str) -> bool {
        self.run::<S>(uid).is_some_and(|run| !run.rival.ended)
    }

    fn run<S: Scoped>(&self, uid: &str) -> Option<Arc<crate::mirrors::Run>> {
        let scope = match S::SCOPE {
            Scope::Cluster => Some(&self.mirrors.cluster_wide),
            Scope::Namespaced => self.mirrors.in_namespaces.as_ref(),
        };
        scope?.runs.with_uid(uid)
    }

    /// The record of a run, if the channel means it.
    async fn record<S: Scoped>(
        &self,
        channel: &Channel,
        run: &RunId,
    ) -> Result<Option<Found>, Failure> {
        let selection = run.0.as_deref().map_or_else(Selection::all, Selection::namespace);
        let selection = selection.with_labels(format!("{}={}", own::UPDATE_RUN_UID, run.1));
        let listed = match self.cx.client.of::<S::Record>().list(&selection).await {
            Err(ClientError::NotServed { .. }) => return Ok(None),
            listed => listed?.items,
        };
        let mut parts: Vec<_> = listed
            .into_iter()
            .map(|record| {
                let recorded = record.meta().creation_timestamp.as_ref().map(|time| time.0);
                (recorded, record.spec())
            })
            .filter(|(_, part)| part.run.uid == run.1)
            .collect();
        parts.sort_by_key(|(_, part)| part.part);
        let Some((recorded, first)) = parts.first() else { return Ok(None) };
        let (recorded, name) = (*recorded, first.run.name.clone());
        let plan = first.plan.clone().unwrap_or_default();
        let namespace = run.0.as_deref();
        let wanted = Wanted::by([&channel.spec.selects]);
        let of = |name: &str| ObjectKey::new(namespace, name);
        let labels =
            labels_by_name::<S>(&self.cx, wanted, &of(&plan.strategy), &of(&plan.placement))
                .await?;
        // A selector that cannot be read selects nothing: nobody asked for all of it.
        if !selects(&channel.spec.selects, &labels).unwrap_or(false) {
            return Ok(None);
        }
        let known = self.run::<S>(&run.1);
        let about = AboutRun {
            key: Some(ObjectKey::new(namespace, &name)),
            uid: run.1.clone(),
            placement: plan.placement,
            strategy: plan.strategy,
            snapshot: plan.snapshot,
            takes_back: match known {
                Some(known) => known.value.rollback_of.is_some(),
                None => rolled_back_run(&name).is_some(),
            },
        };
        let entries = parts.into_iter().flat_map(|(_, part)| part.entries).collect();
        Ok(Some(Found { run: run.clone(), recorded, about, entries }))
    }
}

impl Noted<'_> {
    /// Writes the status, if it says something new.
    async fn write(&mut self) -> Result<(), Failure> {
        if self.status == self.stored {
            return Ok(());
        }
        let patch = json!({"status": whole(&self.status)});
        let written = self.writer.patch_status::<NotificationChannel>(&self.at, patch).await?;
        if let Some(at) = Precondition::of(&written) {
            self.at = at;
        }
        self.stored = self.status.clone();
        Ok(())
    }
}

/// A status with what it does not say as null, so that a merge removes it.
fn whole(status: &NotificationChannelStatus) -> Value {
    let mut all = serde_json::to_value(status).unwrap_or_default();
    for field in ["lastError", "failingSince", "toldUntil", "test", "runs"] {
        if all.get(field).is_none() {
            all[field] = Value::Null;
        }
    }
    all
}

/// `v1=` and HMAC-SHA256 in hex over the moment, a dot and the body.
fn signature(key: &[u8], at: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{at}.").as_bytes());
    context.update(body);
    let bytes = context.sign();
    let hex: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // By openssl: printf '1800000000.{"a":1}' | openssl dgst -sha256 -hmac key
    #[test]
    fn a_signature_covers_the_moment_and_the_body() {
        let signed = signature(b"key", 1_800_000_000, br#"{"a":1}"#);
        assert_eq!(signed, "v1=7330c9cf7d886970cbebbbb5494c04d2aeff06a990adb7d7a75abfeb0159d291");
        assert_ne!(signature(b"key", 1_800_000_001, br#"{"a":1}"#), signed);
        assert_ne!(signature(b"other", 1_800_000_000, br#"{"a":1}"#), signed);
    }
}
