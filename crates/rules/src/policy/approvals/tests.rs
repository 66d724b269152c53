//! Whose word counts: a table of people and policies.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::policy::{Labels, Policy};

fn adopted(specs: &[Value]) -> Result<Adopted, String> {
    let policies: Vec<Policy> = specs
        .iter()
        .enumerate()
        .map(|(at, spec)| Policy {
            name: format!("p{at}"),
            spec: serde_json::from_value(json!({"approvals": spec})).unwrap(),
        })
        .collect();
    Adopted::of(&policies, &Labels::default(), &["prod"])
}

/// `alice@managers -10m: fine`, `bob no: too risky`, `carol glass: it burns`.
fn word(at: usize, text: &str) -> Word {
    let (head, reason) = text.split_once(": ").unwrap_or((text, ""));
    let mut parts = head.split(' ');
    let who = parts.next().unwrap();
    let (user, groups) = who.split_once('@').unwrap_or((who, ""));
    let mut spec = ApprovalSpec {
        request: "r".into(),
        request_uid: "u".into(),
        plan_hash: "h".into(),
        decision: Decision::Approve,
        reason: reason.to_owned(),
        break_glass: false,
        by: (user != "nobody").then(|| Person {
            user: user.to_owned(),
            uid: String::new(),
            groups: groups.split('+').map(str::to_owned).collect(),
        }),
    };
    let mut age = 0;
    let mut deleting = false;
    for part in parts {
        match part {
            "no" => spec.decision = Decision::Reject,
            "glass" => spec.break_glass = true,
            "deleted" => deleting = true,
            "other-request" => spec.request_uid = "v".into(),
            "other-plan" => spec.plan_hash = "i".into(),
            age_of => age = age_of.trim_end_matches('m').parse().unwrap(),
        }
    }
    let at_time = Timestamp::from_second(1_000_000 + age * 60).unwrap();
    Word { name: format!("w{at}"), at: at_time, deleting, spec }
}

fn tally(specs: &[Value], words: &[&str]) -> Tally {
    let authors = Authors { created: Some("carol".into()), started: Vec::new() };
    tally_of(specs, words, &authors, true)
}

fn tally_of(specs: &[Value], words: &[&str], authors: &Authors, verified: bool) -> Tally {
    let words: Vec<Word> = words.iter().enumerate().map(|(at, text)| word(at, text)).collect();
    let asking = Asking {
        request: "r",
        uid: "u",
        plan: "h",
        authors,
        verified,
        now: Timestamp::from_second(1_000_000).unwrap(),
    };
    let adopted = adopted(specs).unwrap();
    adopted.approvals("prod").unwrap().count(&words, &asking)
}

#[test]
fn whose_word_counts() {
    let two = json!({"required": 2, "groups": ["managers"], "users": ["dora"],
        "notAuthor": true, "expiresAfter": "1h"});
    let table: [(&[&str], &str); 14] = [
        (&["alice@managers", "bob@managers"], "approved by alice, bob"),
        (&["alice@managers: checked", "dora"], "approved by alice (checked), dora"),
        (&["alice@managers", "alice@managers"], "1 of 2 approvals, by alice; 1 missing"),
        (&["alice@managers", "carol@managers"], "carol created or started the run"),
        (&["alice@managers", "eve@interns"], "eve is not of group managers, or dora (policy p0)"),
        (&["alice@managers", "bob@managers -61m"], "that of bob expired at 1970-01-12T13:45:40Z"),
        (&["alice@managers", "bob@managers 5m"], "that of bob is dated later than the clock"),
        (&["alice@managers", "bob@managers other-request"], "about another request of this name"),
        (&["alice@managers", "bob@managers other-plan"], "about another plan (i), this one is h"),
        (&["alice@managers", "bob@managers deleted"], "that of bob is being deleted"),
        (&["alice@managers", "nobody"], "vouches for who wrote it"),
        (&["alice@managers", "bob@managers no: too risky"], "rejected by bob (too risky)"),
        (
            &["alice@managers", "bob@managers no -2m: wait", "bob@managers"],
            "approved by alice, bob",
        ),
        (&["alice@managers", "dora", "eve@interns no: I want to"], "approved by alice, dora"),
    ];
    for (words, told) in table {
        let found = tally(std::slice::from_ref(&two), words);
        let said = if found.passes() { found.approved() } else { found.told() };
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

#[test]
fn several_policies_ask_for_the_stricter_of_each() {
    let both = [
        json!({"required": 1, "groups": ["managers"], "reason": "Required"}),
        json!({"required": 2, "groups": ["sre"], "expiresAfter": "1h"}),
    ];
    let found = tally(&both, &["alice@managers+sre: a", "bob@managers: b", "dan@sre: c"]);
    assert_eq!((found.given.len(), found.missing), (1, 1));
    let found = tally(&both, &["alice@managers+sre: a", "bob@managers+sre"]);
    assert!(found.told().contains("bob gave no reason"), "{}", found.told());
    let found = tally(&both, &["alice@managers+sre: a", "bob@managers+sre: b"]);
    assert!(found.passes());
    expect![["2 people, of group managers and also of group sre, with a reason, worth 1h"]]
        .assert_eq(&found.wanted);
    let disagree = [
        json!({"required": 1, "expiresAfter": "1h", "then": "Wait"}),
        json!({"required": 1, "expiresAfter": "1h", "then": "Stop"}),
    ];
    let told = adopted(&disagree).unwrap_err();
    assert!(told.contains("disagree on approvals.then of stage `prod`"), "{told}");
}

#[test]
fn who_breaks_the_glass_says_why_and_is_named() {
    let rules = [json!({"required": 2, "groups": ["managers"], "notAuthor": true,
        "breakGlass": {"groups": ["leads"]}})];
    let table: [(&[&str], bool); 5] = [
        (&["lea@leads glass: it burns"], true),
        (&["lea@leads glass"], false),
        (&["lea@leads: it burns"], false),
        (&["eve@managers glass: it burns"], false),
        (&["lea@leads glass: it burns", "bob@managers no: wait"], true),
    ];
    for (words, passes) in table {
        assert_eq!(tally(&rules, words).passes(), passes, "{words:?}");
    }
    let found = tally(&rules, &["lea@leads glass: it burns"]);
    assert_eq!(found.approved(), "break glass: let pass by lea (it burns)");
    // One policy that knows no emergency is enough to forbid it.
    let both = [rules[0].clone(), json!({"required": 1})];
    assert!(!tally(&both, &["lea@leads glass: it burns"]).passes());
}

#[test]
fn an_author_nobody_knows_and_a_hub_without_webhooks_let_nobody_count() {
    let rules = [json!({"required": 1, "notAuthor": true})];
    let found = tally_of(&rules, &["alice"], &Authors::default(), true);
    assert!(found.told().contains("nobody knows who created the run"), "{}", found.told());
    let known = Authors { created: Some("carol".into()), started: vec!["dan".into()] };
    assert!(tally_of(&rules, &["alice"], &known, true).passes());
    assert!(!tally_of(&rules, &["dan"], &known, true).passes(), "who started it does not count");
    let found = tally_of(&rules, &["alice"], &known, false);
    assert!(found.told().contains("--enable-webhook"), "{}", found.told());
}

#[test]
fn a_run_ends_where_an_approval_expires_and_the_policy_says_stop() {
    let stop = [json!({"required": 2, "expiresAfter": "1h", "then": "Stop"})];
    let found = tally(&stop, &["alice -61m", "bob"]);
    let why = found.stops.unwrap();
    assert!(why.contains("by alice expired before 2 were given, and policy p0 says"), "{why}");
    assert_eq!(tally(&stop, &["alice", "bob"]).stops, None);
    let wait = [json!({"required": 2, "expiresAfter": "1h"})];
    let found = tally(&wait, &["alice -61m", "bob -30m"]);
    assert_eq!(found.stops, None);
    assert_eq!(found.expires, Some(Timestamp::from_second(1_000_000 + 30 * 60).unwrap()));
}
