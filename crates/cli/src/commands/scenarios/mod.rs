//! Commands on fleets that really are in trouble: every cause `why` names, every section of
//! the troubleshooting guides, and what steering commands refuse, from a person's YAML to
//! the whole answer.
//!
//! Each scenario has a hub, three members and their workloads in this process, under paused
//! time, and asks as the command line does. What differs from run to run is named as
//! [`normal`] names it; `UPDATE_EXPECT=1` writes down what comes instead.
//!
//! Guides, as the comments number them: 1 runs that are stuck, 2 how a run progresses,
//! 3 runs that fail, 4 and 5 the two older guides of the field for both scopes. Our own
//! telling of them is in `docs/guides`.

mod applying;
mod approving;
mod budgets;
mod console;
mod failures;
mod fleet;
mod freezing;
mod gates;
mod placements;
mod planning;
mod policies;
mod records;
mod rehearsing;
mod steering;
mod views;
mod workloads;

use clap::{Args, Parser};
use flagship_apiserver::rest::ClusterHandle;
use flagship_runtime::client::Client;
use flagship_sim::fleet::{Cluster, Fleet, FleetConfig, HUB};
use flagship_sim::normal::normal;
use flagship_store::{Change, Encoded, Expect, Head, ObjectKey, Write};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::connect::Hub;
use super::{
    Approve, Clusters, History, Inbox, Plan, Reject, Resume, Rollback, Run, Simulate, Status, Stop,
    Watch, Why,
};

const API: &str = "placement.kubernetes-fleet.io/v1beta1";

/// Cluster-wide kinds, or the namespaced ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespaced,
}

use Scope::{Cluster as CLUSTER, Namespaced as NAMESPACED};

impl Scope {
    /// The namespace of runs and placements, empty for cluster-wide ones.
    fn space(self) -> &'static str {
        match self {
            CLUSTER => "",
            NAMESPACED => "my-app-namespace",
        }
    }

    /// Where the application lives.
    fn home(self) -> &'static str {
        match self {
            CLUSTER => "test-namespace",
            NAMESPACED => "my-app-namespace",
        }
    }

    /// `ClusterStagedUpdateRun` or `StagedUpdateRun`.
    fn kind(self, kind: &str) -> String {
        match self {
            CLUSTER => format!("Cluster{kind}"),
            NAMESPACED => kind.to_owned(),
        }
    }

    fn meta(self, name: &str) -> Value {
        match self {
            CLUSTER => json!({"name": name}),
            NAMESPACED => json!({"name": name, "namespace": self.space()}),
        }
    }
}

/// A fleet with an application: a Deployment that works, of which nothing is rolled out.
struct Scenario {
    fleet: Fleet,
    scope: Scope,
}

/// A command line, as a person types it after `flagship` and the command's name.
#[derive(Parser)]
struct Line<C: Args> {
    #[command(flatten)]
    command: C,
}

impl Scenario {
    /// Three members, `member2` being the staging one, and the application.
    async fn begin(scope: Scope) -> Self {
        Self::with(scope, |_| ()).await
    }

    async fn with(scope: Scope, change: impl FnOnce(&mut FleetConfig)) -> Self {
        let mut config = FleetConfig::of(3)
            .labelled("member1", "environment", "canary")
            .labelled("member2", "environment", "staging")
            .labelled("member3", "environment", "canary");
        config.workloads.missing_images = vec!["nginx:1.28-typo".to_owned()];
        // Five minutes by default; scenarios are as true after half a minute.
        config.hub.update_runs.stuck_after = SignedDuration::from_secs(30);
        // Whoever calls in the process is who they say.
        config.hub.update_runs.approvers_are_verified = true;
        change(&mut config);
        let scenario = Self { fleet: Fleet::joined(config).await, scope };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scope.home()}});
        scenario.hub().apply_object(&namespace).await;
        if scope == NAMESPACED {
            // A ResourcePlacement expects its namespace on the members.
            for member in scenario.fleet.clusters.members() {
                member.apply_object(&namespace).await;
            }
        }
        scenario.deploy("nginx:1.27").await;
        scenario
    }

    fn hub(&self) -> &Cluster {
        &self.fleet.clusters.hub
    }

    fn member(&self, name: &str) -> &Cluster {
        self.fleet.clusters.member(name)
    }

    fn handle(&self, cluster: &str) -> &ClusterHandle {
        self.fleet.handle(cluster)
    }

    /// The application with this image.
    async fn deploy(&self, image: &str) {
        self.deploy_with(json!({}), json!({"containers": [{"name": "nginx", "image": image}]}))
            .await;
    }

    /// The application with these annotations and this pod spec.
    async fn deploy_with(&self, annotations: Value, pod: Value) {
        let labels = json!({"app": "nginx"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "nginx-deployment", "namespace": self.scope.home()},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels, "annotations": annotations}, "spec": pod}},
        });
        self.hub().apply_object(&deployment).await;
    }

    /// The placement `example-placement` of the application on all members.
    async fn place(&self, strategy: Value) {
        self.place_with(json!({"policy": {"placementType": "PickAll"}, "strategy": strategy}))
            .await;
        let scheduled = match self.scope {
            CLUSTER => "ClusterResourcePlacementScheduled",
            NAMESPACED => "ResourcePlacementScheduled",
        };
        let kind = self.scope.kind("ResourcePlacement");
        self.hub().becomes(&kind, self.scope.space(), "example-placement", scheduled, "True").await;
    }

    /// The same with this spec, not waited for.
    async fn place_with(&self, mut spec: Value) {
        if spec["resourceSelectors"].is_null() {
            spec["resourceSelectors"] = match self.scope {
                CLUSTER => {
                    json!([{"group": "", "version": "v1", "kind": "Namespace", "name": self.scope.home()}])
                }
                NAMESPACED => {
                    json!([{"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx-deployment"}])
                }
            };
        }
        self.make("ResourcePlacement", "example-placement", spec).await;
    }

    /// An object of ours in the story's scope.
    async fn make(&self, kind: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": API, "kind": self.scope.kind(kind),
            "metadata": self.scope.meta(name), "spec": spec});
        self.hub().apply_object(&object).await;
    }

    /// The strategy `example-strategy`: `staging` with these tasks, then `canary`.
    async fn strategy(&self, tasks: Value) {
        self.stages(json!([stage("staging", tasks), stage("canary", json!({}))])).await;
    }

    async fn stages(&self, stages: Value) {
        self.make("StagedUpdateStrategy", "example-strategy", json!({"stages": stages})).await;
    }

    /// Writes the strategy past every check, as a server that lacked them would have.
    fn smuggle_strategy(&self, stages: Value) {
        let kind = self.scope.kind("StagedUpdateStrategy");
        let object = json!({"apiVersion": API, "kind": kind, "metadata": {
            "name": "example-strategy", "uid": "smuggled", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"stages": stages}});
        self.put_past_checks("StagedUpdateStrategy", "example-strategy", &object);
    }

    /// Writes fields of a status past every check.
    async fn spoil_status(&self, kind: &str, name: &str, fields: Value) {
        let scoped = self.scope.kind(kind);
        let mut object = self.hub().get(&scoped, self.scope.space(), name).await;
        for (field, value) in fields.as_object().into_iter().flatten() {
            object["status"][field] = value.clone();
        }
        self.put_past_checks(kind, name, &object);
    }

    fn put_past_checks(&self, kind: &str, name: &str, object: &Value) {
        let info = flagship_api::kinds::find(&self.scope.kind(kind)).unwrap();
        let resource: std::sync::Arc<str> = format!("{}.{}", info.plural, info.group).into();
        let key = ObjectKey::new(self.scope.space(), name);
        let store = self.handle(HUB).store();
        let there = store.get(&resource, &key).map(|there| there.revision);
        let expect = there.map_or(Expect::Absent, Expect::At);
        let (head, json) = (Head::of(object, Default::default()), Encoded::new(object));
        let change = Change::Put { head, json };
        store.commit(Write { resource: &resource, key, expect, change }).unwrap();
    }

    /// A run of the placement in this state.
    async fn run(&self, name: &str, state: &str) {
        self.run_with(name, json!({"state": state})).await;
    }

    async fn run_with(&self, name: &str, more: Value) {
        let mut spec = json!({"placementName": "example-placement",
            "stagedRolloutStrategyName": "example-strategy"});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.make("StagedUpdateRun", name, spec).await;
    }

    /// Everything an External rollout needs, and a run of it.
    async fn rolling(scope: Scope, tasks: Value) -> Self {
        let scenario = Self::begin(scope).await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(tasks).await;
        scenario.run("example-run", "Run").await;
        scenario
    }

    /// Rolls the application out, placed with this strategy, until the run is stuck.
    async fn gets_stuck(&self, strategy: Value) {
        self.place(strategy).await;
        self.strategy(json!({})).await;
        self.run("example-run", "Run").await;
        self.until("example-run", "UpdateRunStuck").await;
    }

    /// Waits until the run has a condition with this reason.
    async fn until(&self, run: &str, reason: &str) {
        let says_so = |found: Option<&Value>| {
            let conditions = found.and_then(|run| run["status"]["conditions"].as_array());
            conditions.into_iter().flatten().any(|condition| condition["reason"] == reason)
        };
        let kind = self.scope.kind("StagedUpdateRun");
        self.hub().eventually_within(900, &kind, self.scope.space(), run, says_so).await;
    }

    /// Waits until something failed, drifted or differs on `member2` by the placement's status.
    async fn until_failed_on(&self, cluster: &str) {
        let says_so = |found: Option<&Value>| {
            let clusters = found.and_then(|one| one["status"]["placementStatuses"].as_array());
            clusters
                .into_iter()
                .flatten()
                .any(|one| one["clusterName"] == cluster && one["failedPlacements"].is_array())
        };
        let kind = self.scope.kind("ResourcePlacement");
        self.hub().eventually(&kind, self.scope.space(), "example-placement", says_so).await;
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.hub().patch(&self.scope.kind(kind), self.scope.space(), name, patch).await;
    }

    async fn pass(&self, seconds: u64) {
        self.fleet.pass(seconds).await;
    }

    /// What the command prints, and its exit code.
    async fn why(&self, words: &str) -> String {
        self.asked(words, self.fleet.clusters.members.keys().map(String::as_str)).await
    }

    /// The same by somebody whose kubeconfig reaches these members.
    async fn asked(&self, words: &str, reached: impl Iterator<Item = &str>) -> String {
        let members = reached.map(|name| (name.to_owned(), self.member(name).client().clone()));
        let hub = Hub::of(self.hub().client().clone(), members.collect());
        let mut out = Vec::new();
        let ended = self.typed::<Why>(words).answer(&hub, self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship status` prints.
    async fn status(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Status>(words);
        let ended = command.answer(&self.reach(), self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship watch` prints to somebody who keeps a log.
    async fn watch(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Watch>(words);
        let ended = command.on(&self.reach(), &self.fleet.env, false, &mut out).await;
        told(out, ended)
    }

    /// What `flagship plan` prints.
    async fn plan(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Plan>(words);
        let ended = command.answer(&self.reach(), self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship clusters` prints.
    async fn clusters(&self, words: &str) -> String {
        let mut out = Vec::new();
        let arguments = std::iter::once("flagship").chain(words.split_whitespace());
        let command = Line::<Clusters>::try_parse_from(arguments).unwrap().command;
        let ended = command.answer(&self.reach(), self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship simulate` prints.
    async fn simulate(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Simulate>(words);
        let ended = command.answer(&self.reach(), self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship history` prints.
    async fn history(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<History>(words);
        let ended = command.answer(&self.reach(), self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship run` prints.
    async fn start(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Run>(words);
        let ended = command.on(&self.reach(), &self.fleet.env, &mut out).await;
        told(out, ended)
    }

    /// What `flagship rollback` prints.
    async fn rollback(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Rollback>(words);
        let ended = command.on(&self.reach(), &self.fleet.env, &mut out).await;
        told(out, ended)
    }

    /// What `flagship approve` prints.
    async fn approve(&self, words: &str) -> String {
        let mut out = Vec::new();
        let mut notes = Vec::new();
        let command = self.typed::<Approve>(words);
        let ended = command.on(&self.reach(), &self.fleet.env, &mut out, &mut notes).await;
        notes.extend(out);
        told(notes, ended)
    }

    /// The hub for somebody of this name.
    fn reached_by(&self, who: &str) -> Hub {
        let client = Client::in_process(self.handle(HUB).called_by(who));
        Hub::of(client.named(who), Default::default())
    }

    /// What `flagship approve` prints for somebody.
    async fn approve_as(&self, who: &str, words: &str) -> String {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let command = self.typed::<Approve>(words);
        let hub = self.reached_by(who);
        let ended = command.on(&hub, &self.fleet.env, &mut out, &mut notes).await;
        told(out, ended)
    }

    /// What `flagship reject` prints for somebody.
    async fn reject_as(&self, who: &str, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Reject>(words);
        let ended = command.on(&self.reached_by(who), &self.fleet.env, &mut out).await;
        told(out, ended)
    }

    /// What `flagship inbox` prints for somebody.
    async fn inbox_of(&self, who: &str, words: &str) -> String {
        let mut out = Vec::new();
        let arguments = std::iter::once("flagship").chain(words.split_whitespace());
        let command = Line::<Inbox>::try_parse_from(arguments).unwrap().command;
        let ended = command.on(&self.reached_by(who), &self.fleet.env, &mut out).await;
        told(out, ended)
    }

    /// What `flagship resume` prints.
    async fn resume(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Resume>(words);
        let ended = command.on(&self.reach(), &self.fleet.env, &mut out).await;
        told(out, ended)
    }

    /// What `flagship stop` prints.
    async fn stop(&self, words: &str) -> String {
        let mut out = Vec::new();
        let ended = self.typed::<Stop>(words).on(&self.reach(), &mut out).await;
        told(out, ended)
    }

    /// The hub without a way to its members.
    fn reach(&self) -> Hub {
        Hub::of(self.hub().client().clone(), Default::default())
    }

    fn typed<C: Args>(&self, words: &str) -> C {
        let mut arguments = vec!["flagship"];
        arguments.extend(words.split_whitespace());
        if self.scope == NAMESPACED {
            arguments.extend(["-n", self.scope.space()]);
        }
        Line::try_parse_from(&arguments).unwrap().command
    }
}

/// What a command printed, and its exit code or its error.
fn told(out: Vec<u8>, ended: anyhow::Result<u8>) -> String {
    let text = String::from_utf8(out).unwrap();
    normal(&match ended {
        Ok(code) => format!("{text}[exit {code}]\n"),
        Err(error) => format!("{text}error: {error:#}\n"),
    })
}

/// A stage of the members in this environment.
fn stage(environment: &str, tasks: Value) -> Value {
    let mut stage = json!({"name": environment,
        "labelSelector": {"matchLabels": {"environment": environment}}});
    for (field, value) in tasks.as_object().into_iter().flatten() {
        stage[field] = value.clone();
    }
    stage
}

/// A container of this image, and nothing else.
fn container(image: &str) -> Value {
    json!({"containers": [{"name": "nginx", "image": image}]})
}
