//! `flagship hub`: the hub's controllers on a real API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ArgAction::Set;
use clap::Args;
use flagship_api::names::{HUB_LEASE, ObjectKey};
use flagship_hub::Options;
use flagship_rules::membership::Rights;
use flagship_rules::placement::Batching;
use flagship_rules::placement::selection::{SelectionOptions, SkippedNamespaces, TypeRules};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::lease::LeaseConfig;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::RateLimit;

use super::console::TeamConsoleFlags;
use super::endpoints::{self, Answers};
use super::hub_choices::{HubChoices, signed};
use super::spelling::{Complaints, Logging, duration};
use super::webhooks::{CERTIFICATE_FOLDER, Certificate, Judging, Pending, Reach, Webhooks};
use super::{block_on, cluster, read_words, told_to_stop};
use flagship_runtime::whoami::whoami;

/// Run the hub's controllers on a Kubernetes API server
#[derive(Args, Clone, Debug)]
pub struct Hub {
    /// The hub's kubeconfig; without it the cluster this process runs in
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one by default
    #[arg(long)]
    context: Option<String>,

    /// Lead only while holding a Lease
    #[arg(long, default_value_t = false, action = Set)]
    leader_elect: bool,
    /// How long others wait for a silent leader
    #[arg(long, default_value = "60s", value_parser = duration)]
    leader_lease_duration: Duration,
    /// How long a leader goes on without renewing
    #[arg(long, default_value = "45s", value_parser = duration)]
    leader_renew_deadline: Duration,
    /// Pause between attempts to lead
    #[arg(long, default_value = "5s", value_parser = duration)]
    leader_retry_period: Duration,
    /// Where the Lease stands
    #[arg(long, default_value = "fleet-system")]
    leader_election_namespace: String,

    /// Where /healthz and /readyz are served; 0 turns them off
    #[arg(long, default_value = ":8081")]
    health_probe_bind_address: String,
    /// Where /metrics is served, :8080 for everybody; 0 turns it off
    #[arg(long, default_value = "127.0.0.1:8080")]
    metrics_bind_address: String,

    /// Requests a second to the hub in the long run; negative for no limit
    #[arg(long, default_value_t = 250.0, allow_negative_numbers = true)]
    hub_api_qps: f64,
    /// Requests to the hub at once
    #[arg(long, default_value_t = 1000)]
    hub_api_burst: u32,

    /// Serve namespaced placements
    #[arg(long, default_value_t = true, action = Set)]
    enable_resource_placement: bool,
    /// Serve evictions and disruption budgets
    #[arg(long, default_value_t = true, action = Set)]
    enable_eviction_apis: bool,
    /// Judge and complete what is written to the hub; needs POD_NAMESPACE and a service. A hub
    /// runs without webhooks only if this is false
    #[arg(long, default_value_t = true, action = Set)]
    enable_webhook: bool,
    /// How the API server reaches the webhooks: by the service's name in the DNS, or through it
    #[arg(long, default_value = "url", ignore_case = true, value_parser = ["url", "service"])]
    webhook_client_connection_type: String,
    /// The service in front of the webhooks
    #[arg(long, default_value = "fleetwebhook")]
    webhook_service_name: String,
    /// Where webhooks are listened for; everywhere if it is empty
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    webhook_bind_address: String,
    /// The port of the webhooks, here and of their service
    #[arg(long, default_value_t = 9443, value_name = "PORT")]
    webhook_port: u16,
    /// Serve webhooks with the certificate that cert-manager keeps in
    /// /tmp/k8s-webhook-server/serving-certs, and let it say whom to trust
    #[arg(long, default_value_t = false, action = Set)]
    use_cert_manager: bool,
    /// Keep the webhooks' certificate in this Secret of POD_NAMESPACE, so that all replicas show
    /// the same one; without it each makes its own, and the API server trusts the leader's alone
    #[arg(long, default_value = "", value_name = "NAME")]
    webhook_certificate_secret: String,
    /// Expect the two networking agents of every member
    #[arg(long, default_value_t = false, action = Set)]
    networking_agents_enabled: bool,
    /// What members may do in their namespaces: what agents need, or all that KubeFleet gives
    #[arg(long, default_value = "needed", value_parser = ["needed", "original"])]
    member_rights: String,
    /// Types that stay on the hub: GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND between `;`
    #[arg(long, default_value = "")]
    skipped_propagating_apis: String,
    /// The only types that leave the hub, written alike
    #[arg(long, default_value = "")]
    allowed_propagating_apis: String,
    /// Namespaces that stay on the hub, between `;`
    #[arg(long, default_value = "")]
    skipped_propagating_namespaces: String,
    /// Changed objects looked at side by side
    #[arg(long, default_value_t = 20)]
    concurrent_resource_change_syncs: usize,
    /// How many clusters the hub is made for
    #[arg(long, default_value_t = 100)]
    max_fleet_size: usize,
    /// How long changes of clusters are gathered before placements look at them; 5m is what
    /// KubeFleet's batched scheduler queue does
    #[arg(long, default_value = "1s", value_parser = duration)]
    cluster_change_window: Duration,
    /// Count topology domains only over clusters that pass the other filters
    #[arg(long, default_value_t = false, action = Set)]
    spread_over_feasible_clusters: bool,
    /// How many placements are expected to move at once
    #[arg(long, default_value_t = 100)]
    max_concurrent_cluster_placement: usize,
    /// First back-off of a failing placement
    #[arg(long, default_value = "5ms", value_parser = duration)]
    rate_limiter_base_delay: Duration,
    /// Longest back-off of a failing placement
    #[arg(long, default_value = "60s", value_parser = duration)]
    rate_limiter_max_delay: Duration,
    /// Retries a second in the long run
    #[arg(long, default_value_t = 10)]
    rate_limiter_qps: u32,
    /// Retries at once
    #[arg(long, default_value_t = 100)]
    rate_limiter_bucket_size: u32,
    /// Least time between two versions of a placement's resources
    #[arg(long, default_value = "30s", value_parser = duration)]
    resource_snapshot_creation_minimum_interval: Duration,
    /// How long changes are collected into one version
    #[arg(long, default_value = "15s", value_parser = duration)]
    resource_changes_collection_duration: Duration,
    /// Carry staged update runs out
    #[arg(long, default_value_t = true, action = Set)]
    enable_staged_update_run_apis: bool,
    /// How long a cluster may take before its update run is stuck
    #[arg(long, default_value = "5m", value_parser = duration)]
    update_run_stuck_threshold: Duration,

    #[command(flatten)]
    console: TeamConsoleFlags,
    #[command(flatten)]
    choices: HubChoices,
    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    accepted: Accepted,
}

/// Flags of KubeFleet that change nothing here, checked as KubeFleet checks them.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Accepted for KubeFleet's charts, without effect")]
struct Accepted {
    #[arg(long, default_value_t = 250.0, allow_negative_numbers = true)]
    leader_election_qps: f64,
    #[arg(long, default_value_t = 1000)]
    leader_election_burst: u32,
    #[arg(long, default_value_t = false, action = Set)]
    enable_pprof: bool,
    #[arg(long, default_value_t = 6065)]
    pprof_port: u32,
    #[arg(long, default_value = "6h", value_parser = duration)]
    resync_period: Duration,
    #[arg(long, default_value_t = true, action = Set)]
    enable_v1beta1_apis: bool,
    #[arg(long, default_value = "15s", value_parser = duration)]
    work_pending_grace_period: Duration,
}

impl Accepted {
    /// Flags that ask for something nobody here does. What a chart passes anyway and what
    /// changes nothing for users is not among them.
    fn asks_for_more(&self) -> Vec<&'static str> {
        let flags = [("enable-pprof", self.enable_pprof)];
        flags.iter().filter(|(_, asked)| *asked).map(|(flag, _)| *flag).collect()
    }
}

impl Hub {
    /// Looks at the arguments of a hub agent that is there already: those that would do nothing
    /// here, or why they would be refused.
    pub fn look_at<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<&'static str>, String> {
        let hub: Self = read_words(words).map_err(|error| {
            let said = error.to_string();
            let first = said.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        })?;
        hub.check().map_err(|error| error.to_string())?;
        Ok(hub.accepted.asks_for_more())
    }

    /// Runs until told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        self.check()?;
        self.logging.begin("flagship-hub");
        tracing::info!(flags = ?self, "starting the hub");
        for flag in self.accepted.asks_for_more() {
            tracing::warn!(flag, "accepted, but nothing here does what it asks for");
        }
        block_on(self.work())
    }

    /// As whom the API server knows this hub, which alone may write records of runs.
    async fn own_name(client: &Client) -> Option<String> {
        let name = whoami(client).await;
        if name.is_none() {
            tracing::warn!(
                "the API server does not say as whom it knows this hub (SelfSubjectReview): \
                 rights alone keep people from writing records of runs"
            );
        }
        name
    }

    async fn work(self) -> anyhow::Result<()> {
        let env = Env::system();
        let metrics = Metrics::default();
        let reach = self.webhooks(std::env::var("POD_NAMESPACE").ok())?;
        let client = cluster(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let client =
            client.named("flagship-hub").with_rate_limit(self.hub_api_qps, self.hub_api_burst);
        let options = self.options(&env)?;
        let judging = Judging {
            options: options.admission(),
            guard_rails: options.guard_rails.clone().map(Arc::new),
            hub_user: match reach {
                Some(_) => Self::own_name(&client).await,
                None => None,
            },
        };
        let policies = self.choices.policies()?;
        let hub = flagship_hub::Hub::new(client.clone(), env.clone(), metrics.clone(), options);
        hub.look_for_definitions().await?;
        if let Some(policies) = policies {
            flagship_hub::policies::install(&client, &env, &policies)
                .await
                .context("the admission policies cannot be installed")?;
        }
        let certificate = match (self.use_cert_manager, self.webhook_certificate_secret.as_str()) {
            (true, _) => Certificate::Folder(Path::new(CERTIFICATE_FOLDER)),
            (false, "") => Certificate::Own,
            (false, name) => {
                let namespace = std::env::var("POD_NAMESPACE").unwrap_or_default();
                Certificate::Shared(ObjectKey::namespaced(&namespace, name))
            }
        };
        let mut pending = Pending::default();
        let _judging = match reach {
            Some(reach) => {
                let address = (self.webhook_bind_address.as_str(), self.webhook_port);
                let webhooks =
                    Webhooks::listen(&client, &env, judging, reach, address, certificate).await?;
                pending = webhooks.pending();
                Some(webhooks.serve(hub.clone(), metrics.clone()))
            }
            None => None,
        };
        let readiness = hub.clone();
        let answers = Answers::of(move || readiness.ready(), metrics).unless(move || pending.why());
        let addresses = [
            ("health-probe-bind-address", &self.health_probe_bind_address),
            ("metrics-bind-address", &self.metrics_bind_address),
        ];
        let _serving = endpoints::serve_all(&addresses, &answers).await?;
        let _console = self.console.serve(&client, &env).await?;
        hub.run(told_to_stop()).await;
        Ok(())
    }

    /// How the API server is to reach the webhooks, if they are wanted. Outside a cluster it
    /// cannot, and a webhook that nobody answers would stop every write; running without is
    /// for the operator to say.
    fn webhooks(&self, namespace: Option<String>) -> anyhow::Result<Option<Reach>> {
        if !self.enable_webhook {
            tracing::warn!(
                "no webhooks: what is written to the hub is judged only when it is used"
            );
            return Ok(None);
        }
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).context(
            "the webhooks have no service: set POD_NAMESPACE to the namespace it is in, as a pod \
             of the chart has it, or run without webhooks by --enable-webhook=false",
        )?;
        let name = self.webhook_service_name.clone();
        Ok(Some(match self.webhook_client_connection_type.eq_ignore_ascii_case("service") {
            true => Reach::Service { name, namespace, port: self.webhook_port },
            false => Reach::Url { name, namespace, port: self.webhook_port },
        }))
    }

    fn options(&self, env: &Env) -> anyhow::Result<Options> {
        let types =
            TypeRules::read(&self.skipped_propagating_apis, &self.allowed_propagating_apis)?;
        let lease = self.leader_elect.then(|| LeaseConfig {
            key: ObjectKey::namespaced(&self.leader_election_namespace, HUB_LEASE),
            duration: self.leader_lease_duration,
            renew_deadline: self.leader_renew_deadline,
            retry: self.leader_retry_period,
            ..LeaseConfig::new(env, HUB_LEASE, "flagship-hub")
        });
        let mut options = Options {
            resource_placement: self.enable_resource_placement,
            max_fleet_size: self.max_fleet_size,
            max_concurrent_placements: self.max_concurrent_cluster_placement,
            placement_limit: RateLimit {
                base: self.rate_limiter_base_delay,
                max: self.rate_limiter_max_delay,
                qps: self.rate_limiter_qps.into(),
                burst: self.rate_limiter_bucket_size,
            },
            selection: SelectionOptions {
                types,
                skipped_namespaces: SkippedNamespaces::read(&self.skipped_propagating_namespaces),
                ..SelectionOptions::default()
            },
            batching: Batching {
                minimum_interval: signed(self.resource_snapshot_creation_minimum_interval),
                collection: signed(self.resource_changes_collection_duration),
            },
            concurrent_resource_changes: self.concurrent_resource_change_syncs,
            cluster_window: self.cluster_change_window,
            spread_over_feasible_clusters: self.spread_over_feasible_clusters,
            lease,
            ..Options::default()
        };
        options.controllers.eviction = self.enable_eviction_apis;
        self.choices.choose(&mut options);
        options.membership.networking_agents = self.networking_agents_enabled;
        if self.member_rights == "original" {
            options.membership.rights = Rights::Original;
        }
        options.controllers.update_runs = self.enable_staged_update_run_apis;
        options.update_runs.stuck_after = signed(self.update_run_stuck_threshold);
        options.update_runs.approvers_are_verified = self.enable_webhook;
        Ok(options)
    }

    /// KubeFleet's ranges and cross checks.
    fn check(&self) -> anyhow::Result<()> {
        const fn seconds(n: u64) -> Duration {
            Duration::from_secs(n)
        }
        let accepted = &self.accepted;
        let mut complaints = Complaints::default();
        complaints.within(
            "concurrent-resource-change-syncs",
            self.concurrent_resource_change_syncs,
            1..=100,
        );
        complaints.within("max-fleet-size", self.max_fleet_size, 30..=200);
        complaints.within(
            "max-concurrent-cluster-placement",
            self.max_concurrent_cluster_placement,
            10..=200,
        );
        complaints.within("rate-limiter-qps", self.rate_limiter_qps, 1..=1000);
        complaints.within("rate-limiter-bucket-size", self.rate_limiter_bucket_size, 1..=10_000);
        complaints.within("leader-election-burst", accepted.leader_election_burst, 10..=2000);
        complaints.within("hub-api-burst", self.hub_api_burst, 10..=20_000);
        complaints.lasts(
            "rate-limiter-base-delay",
            self.rate_limiter_base_delay,
            Duration::from_millis(1)..=Duration::from_millis(200),
        );
        complaints.lasts(
            "rate-limiter-max-delay",
            self.rate_limiter_max_delay,
            seconds(1)..=seconds(300),
        );
        complaints.lasts("resync-period", accepted.resync_period, seconds(3600)..=seconds(43_200));
        self.choices.check(&mut complaints);
        complaints.lasts(
            "resource-snapshot-creation-minimum-interval",
            self.resource_snapshot_creation_minimum_interval,
            seconds(0)..=seconds(300),
        );
        complaints.lasts(
            "resource-changes-collection-duration",
            self.resource_changes_collection_duration,
            seconds(0)..=seconds(60),
        );
        complaints.lasts(
            "cluster-change-window",
            self.cluster_change_window,
            seconds(0)..=seconds(3600),
        );
        complaints.lasts(
            "update-run-stuck-threshold",
            self.update_run_stuck_threshold,
            seconds(1)..=seconds(86_400),
        );
        complaints.rate("leader-election-qps", accepted.leader_election_qps, 10.0..=1000.0, true);
        complaints.rate("hub-api-qps", self.hub_api_qps, 10.0..=10_000.0, false);
        complaints.unless(f64::from(self.hub_api_burst) >= self.hub_api_qps, || {
            "--hub-api-burst must be at least --hub-api-qps".into()
        });
        complaints.unless(
            f64::from(accepted.leader_election_burst) >= accepted.leader_election_qps,
            || "--leader-election-burst must be at least --leader-election-qps".into(),
        );
        complaints.unless(self.rate_limiter_base_delay < self.rate_limiter_max_delay, || {
            "--rate-limiter-base-delay must be below --rate-limiter-max-delay".into()
        });
        complaints.unless(self.rate_limiter_qps <= self.rate_limiter_bucket_size, || {
            "--rate-limiter-qps must not be above --rate-limiter-bucket-size".into()
        });
        complaints.unless(accepted.enable_v1beta1_apis, || {
            "the KubeFleet v1beta1 APIs are the storage version and must be enabled".into()
        });
        complaints.unless(!self.enable_webhook || !self.webhook_service_name.is_empty(), || {
            "--webhook-service-name must not be empty when webhooks are enabled".into()
        });
        complaints.unless(!self.use_cert_manager || self.choices.runs_workloads(), || {
            "--use-cert-manager needs --enable-workload".into()
        });
        let both = self.use_cert_manager && !self.webhook_certificate_secret.is_empty();
        complaints.unless(!both, || {
            "--webhook-certificate-secret and --use-cert-manager are mutually exclusive".into()
        });
        self.console.check(&mut complaints);
        complaints.unless(self.leader_renew_deadline < self.leader_lease_duration, || {
            "--leader-renew-deadline must be below --leader-lease-duration".into()
        });
        complaints.settle()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn read(line: &str) -> Result<Hub, clap::Error> {
        super::super::read(line)
    }

    fn refusal(line: &str) -> String {
        read(line).unwrap().check().unwrap_err().to_string()
    }

    #[test]
    fn without_flags_the_hub_is_as_its_options_say() {
        let hub = read("").unwrap();
        hub.check().unwrap();
        let mut expected = Options::default();
        // Its webhooks write who approves.
        expected.update_runs.approvers_are_verified = true;
        assert_eq!(hub.options(&Env::simulated(1)).unwrap(), expected);
    }

    #[test]
    fn the_flags_of_kubefleets_chart_are_understood() {
        let hub = read(
            "--leader-elect=true --enable-webhook=true --webhook-service-name=fleetwebhook \
             --enable-guard-rail=true --whitelisted-users=system:serviceaccount:fleet-system:hub-agent-sa \
             --webhook-client-connection-type=service --v=5 -add_dir_header --log_file_max_size=1000000 \
             --force-delete-wait-time=15m0s --cluster-unhealthy-threshold=3m0s \
             --resource-snapshot-creation-minimum-interval=30s --resource-changes-collection-duration=15s \
             --enable-workload --use-cert-manager --skipped-propagating-namespaces=a;b",
        )
        .unwrap();
        hub.check().unwrap();
        let options = hub.options(&Env::simulated(1)).unwrap();
        assert!(options.selection.workloads_run_here);
        let rails = options.guard_rails.unwrap();
        assert_eq!(rails.administrators, ["system:serviceaccount:fleet-system:hub-agent-sa"]);
        assert_eq!(options.unhealthy_after, SignedDuration::from_mins(3));
        let lease = options.lease.unwrap();
        assert_eq!(lease.key.to_string(), "fleet-system/136224848560.hub.fleet.azure.com");
        assert_eq!(lease.duration, Duration::from_secs(60));
    }

    #[test]
    fn what_is_accepted_and_not_done_is_said() {
        let hub = read("--enable-guard-rail --enable-pprof").unwrap();
        assert_eq!(hub.accepted.asks_for_more(), ["enable-pprof"]);
    }

    #[test]
    fn webhooks_are_served_where_the_api_server_can_reach_them() {
        let reached = |line: &str, namespace: Option<&str>| {
            read(line).unwrap().webhooks(namespace.map(str::to_owned))
        };
        let (name, namespace) = ("fleetwebhook".to_owned(), "fleet-system".to_owned());
        let url = Reach::Url { name: name.clone(), namespace: namespace.clone(), port: 9443 };
        assert_eq!(reached("", Some("fleet-system")).unwrap(), Some(url));
        let line = "--webhook-client-connection-type=Service --webhook-port=9444";
        let service = Reach::Service { name, namespace, port: 9444 };
        assert_eq!(reached(line, Some("fleet-system")).unwrap(), Some(service));
        for namespace in [Some("fleet-system"), Some(""), None] {
            assert_eq!(reached("--enable-webhook=false", namespace).unwrap(), None);
        }
        // Nobody loses them by the way a process is started.
        for (line, namespace) in [("", None), ("", Some("")), ("--enable-webhook=true", None)] {
            let refusal = reached(line, namespace).unwrap_err().to_string();
            assert!(refusal.contains("set POD_NAMESPACE"), "{refusal}");
            assert!(refusal.contains("--enable-webhook=false"), "{refusal}");
        }
    }

    #[test]
    fn members_get_what_they_need_unless_told_otherwise() {
        let rights = |line: &str| {
            let options = read(line).unwrap().options(&Env::simulated(1)).unwrap();
            options.membership.rights
        };
        assert_eq!(rights(""), Rights::Needed);
        assert_eq!(rights("--member-rights=original"), Rights::Original);
    }

    #[test]
    fn a_boolean_takes_its_value_only_after_an_equals_sign() {
        assert!(!read("--enable-resource-placement=false").unwrap().enable_resource_placement);
        assert!(read("--enable-resource-placement").unwrap().enable_resource_placement);
        assert!(read("--enable-resource-placement false").is_err());
    }

    #[test]
    fn of_a_repeated_flag_the_last_counts() {
        let hub = read("--metrics-bind-address=:8080 --metrics-bind-address=0 --v=2 --v=3");
        assert_eq!(hub.unwrap().metrics_bind_address, "0");
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (line, complaint) in [
            ("--max-fleet-size=10", "--max-fleet-size must be from 30 to 200, not 10"),
            (
                "--hub-api-qps=0",
                "--hub-api-qps must be from 10 to 10000, or negative for no limit, not 0",
            ),
            ("--hub-api-qps=2000", "--hub-api-burst must be at least --hub-api-qps"),
            (
                "--rate-limiter-base-delay=1s",
                "--rate-limiter-base-delay must be from 1ms to 200ms, not 1s",
            ),
            ("--use-cert-manager", "--use-cert-manager needs --enable-workload"),
            (
                "--enable-v1beta1-apis=false",
                "the KubeFleet v1beta1 APIs are the storage version and must be enabled",
            ),
        ] {
            assert_eq!(refusal(line), format!("invalid parameter: {complaint}"), "{line}");
        }
        read("--hub-api-qps=-1").unwrap().check().unwrap();
    }

    #[test]
    fn update_runs_can_be_left_out_and_given_more_patience() {
        let line = "--enable-staged-update-run-apis=false --update-run-stuck-threshold=20m";
        let hub = read(line).unwrap();
        hub.check().unwrap();
        let options = hub.options(&Env::simulated(1)).unwrap();
        assert!(!options.controllers.update_runs);
        assert_eq!(options.update_runs.stuck_after, SignedDuration::from_mins(20));
    }

    #[test]
    fn the_scheduler_may_gather_changes_and_look_at_feasible_clusters_only() {
        let hub = read("--cluster-change-window=5m --spread-over-feasible-clusters").unwrap();
        hub.check().unwrap();
        let options = hub.options(&Env::simulated(1)).unwrap();
        assert_eq!(options.cluster_window, Duration::from_secs(300));
        assert!(options.spread_over_feasible_clusters);
        assert_eq!(
            refusal("--cluster-change-window=2h"),
            "invalid parameter: --cluster-change-window must be from 0ns to 3600s, not 7200s"
        );
    }

    #[test]
    fn both_type_lists_at_once_are_refused() {
        let hub = read("--skipped-propagating-apis=a --allowed-propagating-apis=b").unwrap();
        let refusal = hub.options(&Env::simulated(1)).unwrap_err().to_string();
        assert_eq!(
            refusal,
            "--skipped-propagating-apis and --allowed-propagating-apis are mutually exclusive"
        );
    }
}
