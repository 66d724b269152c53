//! `flagship member`: the agent of a member, between a real cluster and a real hub.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ArgAction::Set;
use clap::Args;
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_member::Options;
use flagship_rules::apply::{Ageing, Timing};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::lease::LeaseConfig;
use flagship_runtime::metrics::Metrics;
use jiff::SignedDuration;

use super::endpoints::{self, Answers};
use super::hub_access::Environment;
use super::spelling::{Complaints, Logging, duration};
use super::{block_on, cluster, told_to_stop};

/// Run the agent of a member cluster
#[derive(Args, Clone, Debug)]
pub struct Member {
    /// Name of its MemberCluster on the hub
    #[arg(long, env = "MEMBER_CLUSTER_NAME")]
    name: Option<String>,
    /// The member's kubeconfig; without it the cluster this process runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The member's context of that file
    #[arg(long)]
    context: Option<String>,
    /// The hub's kubeconfig; without it HUB_SERVER_URL, CONFIG_PATH, … of the environment
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// The hub's context of that file
    #[arg(long)]
    hub_context: Option<String>,
    /// Show the hub a certificate (IDENTITY_CERT, IDENTITY_KEY) instead of a token
    #[arg(long, default_value_t = false, action = Set)]
    use_ca_auth: bool,
    /// Do not check who the hub is
    #[arg(long, default_value_t = false, action = Set)]
    tls_insecure: bool,

    /// Where /healthz and /readyz are served; 0 turns them off
    #[arg(long, default_value = ":8091")]
    health_probe_bind_address: String,
    /// Where /metrics is served, :8090 for everybody; 0 turns it off
    #[arg(long, default_value = "127.0.0.1:8090")]
    metrics_bind_address: String,
    /// The same for probes of the hub-facing side
    #[arg(long, default_value = ":8081")]
    hub_health_probe_bind_address: String,
    /// The same for metrics of the hub-facing side
    #[arg(long, default_value = "127.0.0.1:8080")]
    hub_metrics_bind_address: String,

    /// Requests a second to the hub in the long run; negative for no limit
    #[arg(long, default_value_t = 50.0, allow_negative_numbers = true)]
    hub_api_qps: f64,
    /// Requests to the hub at once
    #[arg(long, default_value_t = 500)]
    hub_api_burst: u32,
    /// Requests a second to the member in the long run; negative for no limit
    #[arg(long, default_value_t = 250.0, allow_negative_numbers = true)]
    member_api_qps: f64,
    /// Requests to the member at once
    #[arg(long, default_value_t = 1000)]
    member_api_burst: u32,

    /// The namespace this agent lives in; no placement may touch what is there
    #[arg(long, env = "POD_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    agent_namespace: String,
    /// Work only while holding a Lease on the member
    #[arg(long, default_value_t = false, action = Set)]
    leader_elect: bool,
    /// How long others wait for a silent leader
    #[arg(long, default_value = "15s", value_parser = duration)]
    leader_lease_duration: Duration,
    /// How long a leader goes on without renewing
    #[arg(long, default_value = "10s", value_parser = duration)]
    leader_renew_deadline: Duration,
    /// Pause between attempts to lead
    #[arg(long, default_value = "2s", value_parser = duration)]
    leader_retry_period: Duration,
    /// Where the Lease stands
    #[arg(long, default_value = "kube-system")]
    leader_election_namespace: String,

    /// Minutes after which objects with other owners no longer hold a deletion up
    #[arg(long, default_value_t = 5)]
    deletion_wait_time: u64,
    /// Look at newer Works first
    #[arg(long, default_value_t = false, action = Set)]
    enable_work_applier_priority_queue: bool,
    #[arg(long, default_value_t = -3, allow_negative_numbers = true, hide = true)]
    work_applier_priority_linear_equation_coeff_a: i32,
    #[arg(long, default_value_t = 100, hide = true)]
    work_applier_priority_linear_equation_coeff_b: i32,
    #[command(flatten)]
    requeue: Requeue,

    /// Report the namespaces of the member too
    #[arg(long, default_value_t = false, action = Set)]
    enable_namespace_collection_in_property_provider: bool,

    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    accepted: Accepted,
}

/// When Works are looked at again although nothing happened
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Looking again")]
struct Requeue {
    #[arg(
        long,
        default_value_t = 1,
        id = "attempts",
        long = "work-applier-requeue-rate-limiter-attempts-with-fixed-delay"
    )]
    attempts: u32,
    #[arg(
        long,
        default_value_t = 5.0,
        id = "fixed",
        long = "work-applier-requeue-rate-limiter-fixed-delay-seconds"
    )]
    fixed: f64,
    #[arg(
        long,
        default_value_t = 1.2,
        id = "slow-base",
        long = "work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff"
    )]
    slow_base: f64,
    #[arg(
        long,
        default_value_t = 2.0,
        id = "slow-start",
        long = "work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds"
    )]
    slow_start: f64,
    #[arg(
        long,
        default_value_t = 15.0,
        id = "slow-cap",
        long = "work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds"
    )]
    slow_cap: f64,
    #[arg(
        long,
        default_value_t = 1.5,
        id = "fast-base",
        long = "work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff"
    )]
    fast_base: f64,
    #[arg(
        long,
        default_value_t = 900.0,
        id = "fast-cap",
        long = "work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds"
    )]
    fast_cap: f64,
    #[arg(long, default_value_t = true, action = Set, id = "skip", long = "work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs")]
    skip_to_fast: bool,
}

/// Flags of KubeFleet that change nothing here.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Accepted for KubeFleet's charts, without effect")]
struct Accepted {
    #[arg(long, default_value_t = false, action = Set)]
    enable_pprof: bool,
    #[arg(long, default_value_t = 6065)]
    pprof_port: u32,
    #[arg(long, default_value_t = 6066)]
    hub_pprof_port: u32,
    #[arg(long, default_value = "none")]
    property_provider: String,
    #[arg(long, default_value = "")]
    region: String,
    #[arg(long, default_value = "/etc/kubernetes/provider/config.json")]
    cloud_config: String,
    #[arg(long, default_value_t = true, action = Set)]
    use_cost_properties_in_azure_provider: bool,
    #[arg(long, default_value_t = true, action = Set)]
    use_available_res_properties_in_azure_provider: bool,
    #[arg(long, default_value_t = true, action = Set)]
    enable_v1beta1_apis: bool,
}

impl Member {
    /// Runs until told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        self.check()?;
        let name = self.name.clone().filter(|name| !name.is_empty());
        let name = name.context(
            "member cluster name cannot be empty: pass --name, or set MEMBER_CLUSTER_NAME",
        )?;
        self.logging.begin("flagship-member");
        tracing::info!(flags = ?self, "starting the agent of {name}");
        if self.accepted.property_provider != "none" {
            let provider = &self.accepted.property_provider;
            tracing::warn!(provider, "no such property provider here; nodes and pods are counted");
        }
        block_on(self.work(name))
    }

    async fn work(self, name: String) -> anyhow::Result<()> {
        let env = Env::system();
        let metrics = Metrics::default();
        let member = cluster(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let member = member
            .named("flagship-member")
            .with_rate_limit(self.member_api_qps, self.member_api_burst);
        let hub = self.hub().await?.named("flagship-member");
        let hub = hub.with_rate_limit(self.hub_api_qps, self.hub_api_burst);
        let options = self.options(&env);
        let agent = flagship_member::Member::new(&name, member, hub, env, metrics.clone(), options);
        let readiness = agent.clone();
        let answers = Answers::of(move || readiness.ready(), metrics);
        let addresses = [
            ("health-probe-bind-address", &self.health_probe_bind_address),
            ("metrics-bind-address", &self.metrics_bind_address),
            ("hub-health-probe-bind-address", &self.hub_health_probe_bind_address),
            ("hub-metrics-bind-address", &self.hub_metrics_bind_address),
        ];
        let _serving = endpoints::serve_all(&addresses, &answers).await?;
        agent.run(told_to_stop()).await;
        Ok(())
    }

    async fn hub(&self) -> anyhow::Result<Client> {
        match &self.hub_kubeconfig {
            Some(path) => Client::from_kubeconfig(Some(path), self.hub_context.as_deref())
                .await
                .with_context(|| format!("cannot use the hub's kubeconfig {}", path.display())),
            None => Environment::read().connect(self.use_ca_auth, self.tls_insecure).await,
        }
    }

    fn options(&self, env: &Env) -> Options {
        // Of KubeFleet's two, the one that its controllers run under: while one of its
        // agents works, ours must not, and the other way round.
        let lease = self.leader_elect.then(|| LeaseConfig {
            key: ObjectKey::namespaced(&self.leader_election_namespace, HUB_LEASE),
            duration: self.leader_lease_duration,
            renew_deadline: self.leader_renew_deadline,
            retry: self.leader_retry_period,
            ..LeaseConfig::new(env, HUB_LEASE, "flagship-member")
        });
        let priorities = self.enable_work_applier_priority_queue.then_some(Ageing {
            a: self.work_applier_priority_linear_equation_coeff_a,
            b: self.work_applier_priority_linear_equation_coeff_b,
        });
        Options {
            timing: self.requeue.timing(),
            priorities,
            deletion_wait: Duration::from_secs(self.deletion_wait_time * 60),
            collect_namespaces: self.enable_namespace_collection_in_property_provider,
            home: self.agent_namespace.clone(),
            lease,
            ..Options::default()
        }
    }

    /// KubeFleet's ranges and cross checks.
    fn check(&self) -> anyhow::Result<()> {
        let mut complaints = Complaints::default();
        complaints.within("deletion-wait-time", self.deletion_wait_time, 1..=60);
        complaints.within(
            "work-applier-priority-linear-equation-coeff-a",
            self.work_applier_priority_linear_equation_coeff_a,
            -100..=-1,
        );
        complaints.within(
            "work-applier-priority-linear-equation-coeff-b",
            self.work_applier_priority_linear_equation_coeff_b,
            1..=1000,
        );
        complaints.rate("hub-api-qps", self.hub_api_qps, 10.0..=1000.0, false);
        complaints.rate("member-api-qps", self.member_api_qps, 10.0..=10_000.0, false);
        complaints.within("hub-api-burst", self.hub_api_burst, 10..=2000);
        complaints.within("member-api-burst", self.member_api_burst, 10..=20_000);
        complaints.unless(f64::from(self.hub_api_burst) >= self.hub_api_qps, || {
            "--hub-api-burst must be at least --hub-api-qps".into()
        });
        complaints.unless(f64::from(self.member_api_burst) >= self.member_api_qps, || {
            "--member-api-burst must be at least --member-api-qps".into()
        });
        complaints.unless(self.leader_renew_deadline < self.leader_lease_duration, || {
            "--leader-renew-deadline must be below --leader-lease-duration".into()
        });
        self.requeue.check(&mut complaints);
        complaints.settle()
    }
}

impl Requeue {
    fn timing(&self) -> Timing {
        Timing {
            attempts: self.attempts,
            fixed: span(self.fixed),
            slow_base: self.slow_base,
            slow_start: span(self.slow_start),
            slow_cap: span(self.slow_cap),
            fast_base: self.fast_base,
            fast_cap: span(self.fast_cap),
            skip_to_fast: self.skip_to_fast,
        }
    }

    fn check(&self, complaints: &mut Complaints) {
        let named = |rest: &str| format!("work-applier-requeue-rate-limiter-{rest}");
        complaints.within(&named("attempts-with-fixed-delay"), self.attempts, 1..=40);
        complaints.within(&named("fixed-delay-seconds"), self.fixed, 2.0..=300.0);
        complaints.within(&named("exponential-base-for-slow-backoff"), self.slow_base, 1.05..=2.0);
        complaints.within(
            &named("initial-slow-backoff-delay-seconds"),
            self.slow_start,
            2.0..=3600.0,
        );
        complaints.within(&named("max-slow-backoff-delay-seconds"), self.slow_cap, 2.0..=3600.0);
        complaints.within(&named("exponential-base-for-fast-backoff"), self.fast_base, 1.0..=2.0);
        complaints.within(&named("max-fast-backoff-delay-seconds"), self.fast_cap, 0.0..=3600.0);
        complaints
            .unless(self.slow_start <= self.slow_cap && self.slow_cap <= self.fast_cap, || {
                "the delays must grow: initial slow, greatest slow, greatest fast".into()
            });
        complaints.unless(self.slow_base <= self.fast_base, || {
            "the fast base must not be below the slow one".into()
        });
    }
}

/// Checked to be within an hour before.
fn span(seconds: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Member {
        super::super::read(line).unwrap()
    }

    #[test]
    fn without_flags_the_agent_is_as_its_options_say() {
        let member = read("");
        member.check().unwrap();
        assert_eq!(member.options(&Env::simulated(1)), Options::default());
    }

    #[test]
    fn the_flags_of_kubefleets_chart_are_understood() {
        let member = read(
            "--leader-elect=true --use-ca-auth=false --tls-insecure=true --v=5 -add_dir_header \
             --hub-api-qps=50 --hub-api-burst=500 --member-api-qps=250 --member-api-burst=1000 \
             --property-provider=azure --region=eastus --enable-v1beta1-apis=true \
             --work-applier-requeue-rate-limiter-attempts-with-fixed-delay=3",
        );
        member.check().unwrap();
        let options = member.options(&Env::simulated(1));
        assert_eq!(options.timing.attempts, 3);
        let lease = options.lease.unwrap();
        assert_eq!(lease.key.to_string(), "kube-system/136224848560.hub.fleet.azure.com");
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let refusal = |line: &str| read(line).check().unwrap_err().to_string();
        assert_eq!(
            refusal("--deletion-wait-time=0"),
            "invalid parameter: --deletion-wait-time must be from 1 to 60, not 0"
        );
        assert_eq!(
            refusal("--work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds=1000"),
            "invalid parameter: the delays must grow: initial slow, greatest slow, greatest fast"
        );
    }
}
