//! Worlds in which people must approve by a policy, and planners that count wrongly (law P3).

use expect_test::expect;
use flagship_rules::policy::Policy;
use flagship_rules::update_run::{Observed, Plan, plan};
use flagship_sim::model::{Faults, World};
use serde_json::json;

use super::checker::explore;
use super::policies::believing_it;
use super::worlds::holds;

/// Two people, not the author, whose words are worth less than a tick.
fn strict() -> Vec<Policy> {
    let approvals = json!({"required": 2, "notAuthor": true, "expiresAfter": "5m"});
    let spec = serde_json::from_value(json!({"approvals": approvals})).unwrap();
    vec![Policy { name: "strict".to_owned(), spec }]
}

fn world(people: Vec<&'static str>) -> World {
    let before = vec![0];
    World { stages: 1, clusters: 1, before, people, policies: strict(), ..World::default() }
}

#[test]
fn people_approve_words_expire_and_somebody_writes_the_status() {
    let faults = Faults { late: 1, crash: 1, stale: 1, ..Faults::default() };
    let world = World { records: true, faults, ..world(vec!["alice", "bob"]) };
    holds("1x1, two people: late, crash, stale", world, 300);
}

#[test]
fn people_approve_and_two_hubs_that_both_lead() {
    let faults = Faults { late: 1, lose: 1, ..Faults::default() };
    let world = World { hubs: 2, faults, ..world(vec!["alice", "bob"]) };
    holds("1x1, two people, two hubs: late, lose", world, 300);
}

fn way(world: World, planner: fn(&Observed) -> Plan) -> String {
    explore(world, planner, &["P3"]).broken.map(|(_, way)| way).unwrap_or_default()
}

fn with_rules(
    seen: &Observed,
    change: fn(&mut flagship_api::rollout_policy::ApprovalRules),
) -> Plan {
    let mut seen = seen.clone();
    for policy in seen.run.adopted.iter_mut().flat_map(|adopted| &mut adopted.policies) {
        policy.spec.approvals.iter_mut().for_each(change);
    }
    believing_it(&seen)
}

/// Counts words that are worth nothing any more.
fn patient(seen: &Observed) -> Plan {
    with_rules(seen, |rules| rules.expires_after = None)
}

/// Counts who created the run.
fn trusting(seen: &Observed) -> Plan {
    with_rules(seen, |rules| rules.not_author = None)
}

/// Counts objects, and not people.
fn counting(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    for word in seen.policy.words.iter_mut().map(std::sync::Arc::make_mut) {
        let name = word.name.clone();
        word.spec.by.iter_mut().for_each(|by| by.user.push_str(&name));
    }
    plan(&seen)
}

/// Takes the status of a request for an approval.
fn believing(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    seen.run.adopted = None;
    seen.approvals.iter_mut().for_each(|request| request.plan = None);
    believing_it(&seen)
}

#[test]
fn a_planner_that_counts_expired_words_is_found() {
    let faults = Faults { late: 1, ..Faults::default() };
    let world = World { faults, ..world(vec!["alice", "bob"]) };
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the policies it follows
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the new request run0-before-s0
        hub 0 writes the status: UpdateRunWaiting ()
        alice says yes
        time passes
        bob says yes
        hub 0 reads run0
    "#]]
    .assert_eq(&way(world, patient));
}

#[test]
fn a_planner_that_counts_the_author_is_found() {
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the policies it follows
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the new request run0-before-s0
        hub 0 writes the status: UpdateRunWaiting ()
        alice says yes
        author says yes
        hub 0 reads run0
    "#]]
    .assert_eq(&way(world(vec!["alice", "author"]), trusting));
}

#[test]
fn a_planner_that_counts_one_person_twice_is_found() {
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the policies it follows
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the new request run0-before-s0
        hub 0 writes the status: UpdateRunWaiting ()
        alice says yes
        alice says yes
        hub 0 reads run0
    "#]]
    .assert_eq(&way(world(vec!["alice", "alice"]), counting));
}

#[test]
fn a_planner_that_believes_the_status_of_a_request_is_found() {
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the policies it follows
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the new request run0-before-s0
        hub 0 writes the status: UpdateRunWaiting ()
        somebody approves run0-before-s0
        hub 0 reads run0
    "#]]
    .assert_eq(&way(world(vec!["alice"]), believing));
}
