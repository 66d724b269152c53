//! Sessions of people with a fleet: what the troubleshooting guides for update runs tell,
//! typed into stock kubectl and printed by it, in both scopes.
//!
//! Each file in `guides/` names the rows of the scenario table that it shows. The fleet is
//! a whole one and lives by paused time, which stands still while a command runs and passes
//! between two: a second, or as long as a `sleep` says. What is there at the beginning is
//! `fleet.yaml`; `member2` is the first to be updated, and everything takes a minute to
//! become ready. `what_members_get` has no row: it is delivery itself, on all three members,
//! and is replayed on real API servers too (`tests/real_kube`).

use std::path::Path;

use flagship_sim::fleet::{Fleet, FleetConfig};
use flagship_sim::normal::aligned;
use flagship_store::env::plan::{Effect, Rule};
use flagship_store::env::{FaultOutcome, Point};
use jiff::SignedDuration;

use super::session::Session;
use super::stories::all_told;
use super::transcript::{Script, kubectl};

macro_rules! guides {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                replay(stringify!($name)).await;
            }
        )*

        #[test]
        fn every_guide_is_told() {
            all_told("guides", &[$(stringify!($name)),*]);
        }
    };
}

guides!(
    a_cluster_is_taken_by_another_run,
    a_rollout_is_stuck,
    a_run_is_stopped_and_resumed,
    an_approval_does_not_count,
    clusters_do_not_fit_the_stages,
    from_the_first_word_to_the_last,
    no_run_yet,
    no_such_version,
    the_placement_is_deleted,
    the_strategy_is_missing_or_wrong,
    what_members_get,
);

/// The fleet of the guides, whose hub serves our own kinds or does not.
async fn fleet(own_kinds: bool) -> Fleet {
    let mut config = FleetConfig::of(3);
    for (member, environment) in [("member1", "canary"), ("member2", "staging")] {
        config = config.labelled(member, "environment", environment);
    }
    config = config.labelled("member3", "environment", "canary");
    config.workloads.ready_after = SignedDuration::from_mins(1);
    let mut fleet = Fleet::new(config).await;
    if !own_kinds {
        for info in flagship_api::kinds::policies() {
            fleet.clusters.hub.delete(DEFINITIONS, "", &info.crd_name()).await;
        }
    }
    let user = fleet.clusters.hub.client().clone();
    fleet.start_all(&user).await.unwrap();
    fleet.all_joined().await;
    fleet.clusters.hub.apply(include_str!("fleet.yaml")).await;
    fleet.pass(60).await;
    fleet
}

async fn replay(name: &str) {
    let Some(kubectl) = kubectl(name) else { return };
    replay_on(&fleet(true).await, &format!("guides/{name}"), name, kubectl).await;
}

/// Every guide is told on a hub that serves our own kinds; what it prints there is what it prints
/// on a hub that does not.
#[tokio::test(start_paused = true)]
async fn our_own_kinds_change_nothing_that_is_printed() {
    let Some(kubectl) = kubectl("our_own_kinds") else { return };
    for installed in [true, false] {
        let fleet = fleet(installed).await;
        for info in flagship_api::kinds::policies() {
            let found = fleet.clusters.hub.find(DEFINITIONS, "", &info.crd_name()).await;
            assert_eq!(found.is_some(), installed, "{}", info.kind);
        }
        if !installed {
            for guide in ["no_run_yet", "a_run_is_stopped_and_resumed"] {
                let session = format!("{guide}-without-our-kinds");
                replay_on(&fleet, &format!("guides/{guide}"), &session, kubectl).await;
            }
        }
    }
}

const DEFINITIONS: &str = "customresourcedefinitions";

/// Replays a file on a fleet. `sleep` lets time pass, `silence` cuts the agent of a member off
/// and `hear` lets it come back; everything else is typed into a shell.
pub async fn replay_on(fleet: &Fleet, file: &str, session: &str, kubectl: &Path) {
    let mut script = Script::open(&format!("{file}.txt"));
    let mut session = Session::with(session, kubectl, fleet).await;
    for step in script.steps() {
        let printed;
        (session, printed) = match step.line.split_once(' ') {
            Some(("sleep", span)) => {
                let span: SignedDuration = span.parse().unwrap();
                fleet.pass(span.as_secs().unsigned_abs()).await;
                (session, String::new())
            }
            Some(("silence", member)) => {
                let cut = Rule::at(Point::Request, Effect::Do(FaultOutcome::Sever));
                fleet.disturb(vec![Rule { who: member.to_owned(), ..cut }]);
                (session, String::new())
            }
            Some(("hear", _)) => {
                fleet.disturb(Vec::new());
                (session, String::new())
            }
            _ => said(session, step.line.clone(), step.input.clone()).await,
        };
        script.compare(&step, &printed);
    }
    script.close();
    session.end().await;
}

/// What a command prints. Time stands still meanwhile: it does while something blocks.
async fn said(session: Session, line: String, input: String) -> (Session, String) {
    let run = move || {
        let mut session = session;
        let mut printed = session.shell.run(&line, &input);
        // Seen once in a hundred sessions on a machine with ten builds beside it, and not
        // understood: kubectl does not get the schemas and refuses before it sends anything.
        if printed.contains("failed to download openapi") {
            printed = session.shell.run(&line, &input);
        }
        (session, aligned(&printed))
    };
    let said = tokio::task::spawn_blocking(run).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    said
}
