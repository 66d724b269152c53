//! Kills a hub at one write and starts the next.

use std::io::Write;
use std::sync::Arc;

use flagship_hub::{Hub, Options};
use flagship_rules::record::Keep;
use flagship_runtime::client::Client;
use flagship_store::env::Point;
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::policy::records;
use crate::update_run::story::{CLUSTER, NAMESPACED, Scope, Story};
use flagship_sim::testing::{text, tries_everything};

/// The hub that dies.
const MORTAL: &str = "hub";

/// What belongs to an update run, by which its writes are told from those of the other
/// controllers.
fn kinds(scope: Scope) -> [String; 5] {
    let records = records::records(scope).to_owned();
    [scope.runs(), scope.bindings.to_owned(), scope.approvals(), scope.snapshots(), records]
}

/// A write to die after: which of the kinds, and the how manieth of its writes.
type Death = (usize, u64);

/// Rules that count the writes of each kind, and let the hub die at one of them.
fn rules(scope: Scope, death: Option<Death>) -> Vec<Rule> {
    let rule = |(at, resource): (usize, String)| {
        let nth = death.filter(|(kind, _)| *kind == at).map_or(u64::MAX, |(_, nth)| nth);
        Rule {
            who: MORTAL.to_owned(),
            resource,
            verbs: Verbs::Writes,
            when: When::Nth(nth),
            ..Rule::at(Point::PostCommit, Effect::Crash)
        }
    };
    kinds(scope).into_iter().enumerate().map(rule).collect()
}

/// A hub that is started again whenever it dies.
struct Kept(JoinHandle<()>);

impl Kept {
    fn running(story: &Story, name: &'static str) -> Self {
        let died = Arc::new(Notify::new());
        // Only one of two hubs ever dies, and that is the one of this name.
        if name == MORTAL {
            let told = died.clone();
            story.faults.on_crash(move |_| told.notify_one());
        }
        let (cluster, env, metrics) = (story.hub.clone(), story.env.clone(), story.metrics.clone());
        let options = story.options.clone();
        Self(tokio::spawn(async move {
            loop {
                let client = Client::in_process(cluster.called_by(name)).named(name);
                let hub = Hub::new(client, env.clone(), metrics.clone(), options.clone());
                // Dropping the future is dying: nothing of the hub is left.
                let life = hub.run(std::future::pending());
                let death = died.notified();
                futures::future::select(std::pin::pin!(life), std::pin::pin!(death)).await;
            }
        }))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a story begins with.
#[derive(Clone)]
pub struct Setting {
    /// The policy of the placement `web`.
    pub policy: Value,
    /// The stages of the strategy `plan`.
    pub stages: Value,
    /// Whether a second hub leads too, and never dies.
    pub two_hubs: bool,
    /// Of which runs records are kept.
    pub records: Keep,
}

/// One telling: how it ended, and how many writes of each kind there were.
async fn tell(
    scope: Scope,
    setting: &Setting,
    death: Option<Death>,
    story: &impl AsyncFn(&Story),
) -> (String, Vec<u64>) {
    let mut options = Options::default();
    options.update_runs.records = setting.records;
    let told = Story::prepared(scope, options).await;
    told.place("web", setting.policy.clone()).await;
    told.strategy(setting.stages.clone()).await;
    // The first to be started is the first to look.
    let _hub = Kept::running(&told, MORTAL);
    let _second = setting.two_hubs.then(|| Kept::running(&told, "other"));
    told.settle().await;
    told.disturb(rules(scope, death));
    story(&told).await;
    let fired: u64 = told.faults.fired().iter().sum();
    // Two hubs share the work as it comes, so the one may have had less to do this time.
    assert!(fired == u64::from(death.is_some()) || setting.two_hubs, "the hub did not die");
    let counted = told.faults.matched();
    told.disturb(Vec::new());
    told.settle().await;
    (end(&told), counted)
}

/// How a story ended: what each run says, what each cluster, request and snapshot holds.
fn end(story: &Story) -> String {
    let mut text_of = String::new();
    for run in story.list(&story.scope.runs(), "") {
        let name = text(&run["metadata"]["name"]);
        text_of += &format!("{name} {}", story.told(&name));
    }
    text_of += &story.holds().join("\n");
    for request in story.list(&story.scope.approvals(), "") {
        let conditions = request["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said =
            conditions.iter().map(|c| format!(" {}={}", text(&c["type"]), text(&c["status"])));
        text_of +=
            &format!("\n{}:{}", text(&request["metadata"]["name"]), said.collect::<String>());
    }
    text_of + "\n" + &story.resource_snapshots().join("\n") + &recorded(story)
}

/// What is recorded, in whatever order; and P6, that no death breaks a record.
fn recorded(story: &Story) -> String {
    records::hold(story);
    let mut lines = Vec::new();
    for object in story.list(records::records(story.scope), "") {
        for entry in object["spec"]["entries"].as_array().into_iter().flatten() {
            let about = ["what", "stage", "cluster", "gate"].map(|field| text(&entry[field]));
            lines.push(format!("\n{} {}", text(&object["spec"]["run"]["name"]), about.join(" ")));
        }
    }
    lines.sort_unstable();
    lines.concat()
}

/// How many deaths a story is told with, unless `FLAGSHIP_CUTS=all` asks for each.
const A_FEW: usize = 2;

/// Tells a story with a death after its writes. Scopes take turns: the rules are the same,
/// and each kind of write is met in both.
pub async fn survives(setting: Setting, story: impl AsyncFn(&Story)) {
    let all = tries_everything();
    let namespaced = setting.stages.to_string().len() % 2 == 1;
    let few = if namespaced { [NAMESPACED] } else { [CLUSTER] };
    let scopes: &[Scope] = if all { &[CLUSTER, NAMESPACED] } else { &few };
    for scope in scopes {
        let (calm, counted) = tell(*scope, &setting, None, &story).await;
        let kinds_and_writes = counted.iter().enumerate();
        let deaths: Vec<Death> =
            kinds_and_writes.flat_map(|(kind, n)| (1..=*n).map(move |n| (kind, n))).collect();
        assert!(deaths.len() > 10, "the story is too short: {} writes", deaths.len());
        let stride = if all { 1 } else { deaths.len() / A_FEW };
        if all {
            // Straight to stderr: the runner hides what a passing test prints.
            let (scope, writes) = (scope.runs(), deaths.len());
            drop(writeln!(std::io::stderr(), "{scope}: a death after each of {writes} writes"));
        }
        // Not always the first: with two stories of one length other writes are met.
        for death in deaths.iter().skip(stride / 2).step_by(stride) {
            let (end, _) = tell(*scope, &setting, Some(*death), &story).await;
            let kind = &kinds(*scope)[death.0];
            assert_eq!(end, calm, "death after write {} of {kind}", death.1);
        }
    }
}

/// Stages of this kind for canary and prod.
pub fn stages(canary: Value, prod: Value) -> Value {
    json!([
        crate::update_run::story::stage("canary", canary),
        crate::update_run::story::stage("prod", prod)
    ])
}
