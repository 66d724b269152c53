//! What `flagship hub` and `flagship up` let an operator choose for the hub alike: what runs
//! there, who may write to it, and what it publishes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ArgAction::Set;
use clap::{Args, ValueEnum};
use flagship_hub::Options;
use flagship_hub::policies::Config;
use flagship_rules::admission::guard_rails;
use flagship_rules::egress::{Allowed, target};
use flagship_rules::record::Keep;
use flagship_rules::record::retention::Retention;
use flagship_runtime::network::Tcp;
use jiff::SignedDuration;

use super::spelling::{Complaints, duration};

/// Flags that both commands have.
#[derive(Args, Clone, Debug)]
pub struct HubChoices {
    /// Whether workloads run on the hub itself
    #[arg(long, default_value_t = false, action = Set)]
    enable_workload: bool,
    /// Whether PodDisruptionBudgets may be created on the hub itself
    #[arg(long, default_value_t = true, action = Set)]
    enable_pdbs: bool,
    /// How long a silent member may take to leave
    #[arg(long, default_value = "15m", value_parser = duration)]
    force_delete_wait_time: Duration,

    /// Judge by its sender what is written to the fleet's own kinds and namespaces
    #[arg(long, default_value_t = false, action = Set)]
    enable_guard_rail: bool,
    /// Users whom guard rails take for administrators, between commas
    #[arg(long, default_value = "", value_name = "USERS")]
    whitelisted_users: String,
    /// Let guard rails keep people from changing labels of members that a managed service owns
    #[arg(long, default_value_t = false, action = Set)]
    deny_modify_member_cluster_labels: bool,
    /// Install the fleet's ValidatingAdmissionPolicies on the hub
    #[arg(long, default_value_t = false, action = Set)]
    enable_admission_policy_manager: bool,
    /// Which of them, and who is exempt; without a file all, and nobody
    #[arg(long, value_name = "FILE")]
    admission_policy_manager_config: Option<PathBuf>,

    /// Publish each member as a ClusterProfile in fleet-system
    #[arg(long, default_value_t = true, action = Set)]
    enable_cluster_inventory_apis: bool,
    /// How old a heartbeat may be before a ClusterProfile says that it is lost
    #[arg(long, default_value = "60s", value_parser = duration)]
    cluster_unhealthy_threshold: Duration,

    /// Of which runs a RolloutRecord is kept; of those under a policy if left out
    #[arg(long, value_enum, ignore_case = true, value_name = "RUNS")]
    rollout_records: Option<RolloutRecords>,
    /// How long a RolloutRecord is kept
    #[arg(long, default_value = "2160h", value_parser = duration)]
    rollout_record_age: Duration,
    /// Of how many runs RolloutRecords are kept, in each namespace and of those without one
    #[arg(long, default_value_t = 1000, value_name = "COUNT")]
    rollout_record_runs: usize,
    /// Where notification channels may call, between commas: hosts, *.hosts, addresses or
    /// networks, each with or without :port; nowhere if left out
    #[arg(long, default_value = "", value_name = "PLACES", value_parser = str::parse::<Allowed>)]
    allow_egress: Allowed,
    /// Where people find the console, for links in notifications
    #[arg(long, value_name = "URL", value_parser = console_url)]
    console_url: Option<String>,
}

/// Only what a browser can open becomes a link.
fn console_url(text: &str) -> Result<String, String> {
    target(text).map(|_| text.to_owned())
}

/// Of which runs a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum RolloutRecords {
    /// Of none
    Off,
    /// Of runs that follow a RolloutPolicy
    Policies,
    /// Of all
    All,
}

impl HubChoices {
    /// Whether workloads run on the hub itself.
    pub fn runs_workloads(&self) -> bool {
        self.enable_workload
    }

    /// KubeFleet's ranges.
    pub fn check(&self, complaints: &mut Complaints) {
        let range = Duration::from_secs(30)..=Duration::from_secs(3600);
        complaints.lasts(
            "cluster-unhealthy-threshold",
            self.cluster_unhealthy_threshold,
            range.clone(),
        );
        complaints.lasts("force-delete-wait-time", self.force_delete_wait_time, range);
        let years = Duration::from_secs(3600)..=Duration::from_secs(20 * 365 * 24 * 3600);
        complaints.lasts("rollout-record-age", self.rollout_record_age, years);
        complaints.within("rollout-record-runs", self.rollout_record_runs, 1..=100_000);
    }

    /// Puts the choices into what a hub is told.
    pub fn choose(&self, options: &mut Options) {
        options.selection.workloads_run_here = self.enable_workload;
        options.pod_disruption_budgets = self.enable_pdbs;
        options.membership.force_delete_wait = signed(self.force_delete_wait_time);
        if let Some(records) = self.rollout_records {
            options.update_runs.records = match records {
                RolloutRecords::Off => Keep::Off,
                RolloutRecords::Policies => Keep::Policies,
                RolloutRecords::All => Keep::All,
            };
        }
        options.record_retention =
            Retention { age: signed(self.rollout_record_age), runs: self.rollout_record_runs };
        options.egress.allowed = self.allow_egress.clone();
        options.egress.network = Some(Arc::new(Tcp::default()));
        options.console_url = self.console_url.clone();
        options.controllers.inventory = self.enable_cluster_inventory_apis;
        options.unhealthy_after = signed(self.cluster_unhealthy_threshold);
        options.guard_rails = self.enable_guard_rail.then(|| guard_rails::Options {
            administrators: self
                .whitelisted_users
                .split(',')
                .map(str::trim)
                .filter(|user| !user.is_empty())
                .map(str::to_owned)
                .collect(),
            lock_member_labels: self.deny_modify_member_cluster_labels,
        });
    }

    /// The admission policies to install, if any are wanted.
    pub fn policies(&self) -> anyhow::Result<Option<Config>> {
        if !self.enable_admission_policy_manager {
            return Ok(None);
        }
        let Some(path) = &self.admission_policy_manager_config else {
            return Ok(Some(Config::default()));
        };
        let refused =
            || format!("--admission-policy-manager-config: {} cannot be used", path.display());
        let text = std::fs::read_to_string(path).with_context(refused)?;
        let config: Config = serde_saphyr::from_str(&text).with_context(refused)?;
        let mistakes = config.mistakes();
        ensure!(
            mistakes.is_empty(),
            "--admission-policy-manager-config: {}: {}",
            path.display(),
            mistakes.join("; ")
        );
        Ok(Some(config))
    }
}

/// A flag's duration as the rules want it; ranges keep it far from overflowing.
pub fn signed(span: Duration) -> SignedDuration {
    SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> HubChoices {
        super::super::read(line).unwrap()
    }

    fn chosen(line: &str) -> Options {
        let mut options = Options::default();
        read(line).choose(&mut options);
        options
    }

    // checklist fleet 12.53
    #[test]
    fn without_flags_nothing_is_chosen_differently() {
        assert_eq!(chosen(""), Options::default());
        assert_eq!(read("").policies().unwrap(), None);
    }

    #[test]
    fn records_are_kept_of_the_runs_that_are_named() {
        for (line, kept) in [
            ("", Keep::Policies),
            ("--rollout-records=off", Keep::Off),
            ("--rollout-records=Policies", Keep::Policies),
            ("--rollout-records=All", Keep::All),
        ] {
            assert_eq!(chosen(line).update_runs.records, kept, "{line}");
        }
    }

    #[test]
    fn records_are_kept_as_long_and_of_as_many_runs_as_asked() {
        let kept = chosen("--rollout-record-age=720h --rollout-record-runs=50").record_retention;
        assert_eq!(kept, Retention { age: SignedDuration::from_hours(720), runs: 50 });
        let mut complaints = Complaints::default();
        read("--rollout-record-age=1s --rollout-record-runs=0").check(&mut complaints);
        let told = complaints.settle().unwrap_err().to_string();
        for flag in ["rollout-record-age", "rollout-record-runs"] {
            assert!(told.contains(flag), "{told}");
        }
    }

    // checklist fleet 12.40
    #[test]
    fn guard_rails_know_their_administrators() {
        let line = "--enable-guard-rail --whitelisted-users=ana,,system:serviceaccount:ops:hub --deny-modify-member-cluster-labels";
        let expected = guard_rails::Options {
            administrators: vec!["ana".to_owned(), "system:serviceaccount:ops:hub".to_owned()],
            lock_member_labels: true,
        };
        assert_eq!(chosen(line).guard_rails, Some(expected));
        assert_eq!(chosen("--whitelisted-users=ana").guard_rails, None);
    }

    // checklist fleet 12.30
    #[test]
    fn profiles_are_published_unless_told_otherwise() {
        assert!(!chosen("--enable-cluster-inventory-apis=false").controllers.inventory);
        let patient = chosen("--cluster-unhealthy-threshold=3m");
        assert_eq!(patient.unhealthy_after, SignedDuration::from_mins(3));
    }

    // checklist fleet 12.51
    #[test]
    fn policies_are_read_from_a_file_and_mistakes_in_it_are_named() {
        let manager = "--enable-admission-policy-manager";
        assert_eq!(read(manager).policies().unwrap(), Some(Config::default()));
        let file = std::env::temp_dir().join(format!("flagship-policies-{}", std::process::id()));
        let line = format!("{manager} --admission-policy-manager-config={}", file.display());
        let told = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&line).policies().map_err(|error| format!("{error:#}"))
        };
        let one = "denyPodsAndReplicaSetsOutsideReservedNamespaces:\n  ReservedNamespacePrefixes: [ops-]\n";
        let config = told(one).unwrap().unwrap();
        assert_eq!(
            (config.workloads.unwrap().prefixes, config.accounts),
            (vec!["ops-".to_owned()], None)
        );
        let refused = told(&one.replace("ops-", "A_")).unwrap_err();
        assert!(refused.contains("the prefix \"A_\" must consist of"), "{refused}");
        assert!(told("denyPods: {}").is_err());
        std::fs::remove_file(&file).unwrap();
        let refused = format!("{:#}", read(&line).policies().unwrap_err());
        assert!(refused.contains("cannot be used"), "{refused}");
    }
}
