//! What setting, reading, carrying over and cutting a condition promise.

use proptest::prelude::*;

use super::*;
use crate::condition_type::update_run::{INITIALIZED, PROGRESSING, SUCCEEDED};
use crate::reason::update_run as reason;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const ONE: Generation = Generation(1);
const TWO: Generation = Generation(2);

/// One line per condition, in list order.
fn told(conditions: &[Condition]) -> Vec<String> {
    let line = |c: &Condition| {
        let seen = Generation::seen_by(c).0;
        let since = c.last_transition_time.0.as_second();
        format!("{}={} {} {:?} @{seen} since {since}", c.type_, c.status, c.reason, c.message)
    };
    conditions.iter().map(line).collect()
}

#[test]
fn a_condition_reads_like_the_sentence_it_writes() {
    let mut conditions = Vec::new();
    draft(PROGRESSING)
        .is_false(reason::STUCK)
        .because(format!("{} has been updating for {}", "member2", "5m"))
        .set(&mut conditions, ONE, at(10));
    assert_eq!(
        told(&conditions),
        [r#"Progressing=False UpdateRunStuck "member2 has been updating for 5m" @1 since 10"#]
    );
}

#[test]
fn the_transition_time_stays_while_the_status_stays() {
    let mut conditions = Vec::new();
    draft(PROGRESSING).is_false(reason::WAITING).set(&mut conditions, ONE, at(10));
    draft(PROGRESSING)
        .is_false(reason::FAILED)
        .because("The stages are aborted due to a non-recoverable error")
        .set(&mut conditions, TWO, at(70));
    draft(SUCCEEDED).is_false(reason::FAILED).set(&mut conditions, TWO, at(70));
    assert_eq!(
        told(&conditions),
        [
            "Progressing=False UpdateRunFailed \
             \"The stages are aborted due to a non-recoverable error\" @2 since 10",
            "Succeeded=False UpdateRunFailed \"\" @2 since 70",
        ]
    );
}

#[test]
fn the_transition_time_moves_with_the_status() {
    let mut conditions = Vec::new();
    draft(PROGRESSING).is_true(reason::PROGRESSING).set(&mut conditions, ONE, at(10));
    draft(PROGRESSING).is_unknown(reason::STOPPING).set(&mut conditions, ONE, at(20));
    assert_eq!(told(&conditions), ["Progressing=Unknown UpdateRunStopping \"\" @1 since 20"]);
}

#[test]
fn a_stale_reader_cannot_undo_a_newer_word() {
    let mut conditions = Vec::new();
    draft(PROGRESSING).is_false(reason::STOPPED).set(&mut conditions, TWO, at(10));
    let before = conditions.clone();
    draft(PROGRESSING).is_true(reason::PROGRESSING).set(&mut conditions, ONE, at(20));
    draft(PROGRESSING).is_true(reason::PROGRESSING).set_afresh(&mut conditions, ONE, at(20));
    draft(PROGRESSING).is_true(reason::PROGRESSING).set_per_generation(
        &mut conditions,
        ONE,
        at(20),
    );
    assert_eq!(conditions, before);
}

#[test]
fn the_list_keeps_the_order_of_first_writing() {
    let mut conditions = Vec::new();
    for kind in [INITIALIZED, PROGRESSING, SUCCEEDED, PROGRESSING, INITIALIZED] {
        draft(kind).is_true("Yes").set(&mut conditions, ONE, at(1));
    }
    let kinds: Vec<_> = conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(kinds, ["Initialized", "Progressing", "Succeeded"]);
}

/// How a run marks a binding: the start signal is new even when it was True before.
#[test]
fn setting_afresh_forgets_the_past() {
    let mut conditions = Vec::new();
    draft("RolloutStarted").is_true("RolloutStarted").set(&mut conditions, ONE, at(10));
    draft("Available").is_true("AllWorkAreAvailable").set(&mut conditions, ONE, at(15));
    draft("RolloutStarted").is_true("RolloutStarted").set_afresh(&mut conditions, ONE, at(20));
    assert_eq!(
        told(&conditions),
        [
            "Available=True AllWorkAreAvailable \"\" @1 since 15",
            "RolloutStarted=True RolloutStarted \"\" @1 since 20",
        ]
    );
}

/// How work status is rolled up: available since the new generation, and no earlier.
#[test]
fn setting_per_generation_restarts_the_clock_with_the_generation_only() {
    let mut conditions = Vec::new();
    let available = || draft("Available").is_true("AllWorkAreAvailable");
    available().set_per_generation(&mut conditions, ONE, at(10));
    available().set_per_generation(&mut conditions, ONE, at(20));
    assert_eq!(conditions[0].last_transition_time.0, at(10));
    available().set_per_generation(&mut conditions, TWO, at(30));
    assert_eq!(conditions[0].last_transition_time.0, at(30));
}

#[test]
fn a_condition_can_repeat_another_word_for_word() {
    let source = draft("Applied")
        .is_false("NotAllWorkHaveBeenApplied")
        .because("Work object a-work has failed to apply")
        .into_condition(Generation(7), at(1));
    let copied = draft("Applied").is_as(&source).into_condition(ONE, at(2));
    assert_eq!(
        told(&[copied]),
        ["Applied=False NotAllWorkHaveBeenApplied \"Work object a-work has failed to apply\" \
          @1 since 2"]
    );
}

#[test]
fn only_a_current_condition_counts_as_decided() {
    let conditions = vec![
        draft("Fresh").is_true("R").into_condition(TWO, at(1)),
        draft("Stale").is_true("R").into_condition(ONE, at(1)),
        draft("Ahead").is_false("R").into_condition(Generation(3), at(1)),
        draft("Unsure").is_unknown("R").into_condition(TWO, at(1)),
        draft("Denied").is_false("R").into_condition(TWO, at(1)),
    ];
    let seen = |kind| {
        [
            conditions.is_true_at(kind, TWO),
            conditions.is_false_at(kind, TWO),
            conditions.is_decided_at(kind, TWO),
            conditions.current(kind, TWO).is_some(),
        ]
    };
    assert_eq!(seen("Fresh"), [true, false, true, true]);
    assert_eq!(seen("Stale"), [false, false, false, false]);
    assert_eq!(seen("Ahead"), [false, false, false, false]);
    assert_eq!(seen("Unsure"), [false, false, false, true]);
    assert_eq!(seen("Denied"), [false, true, true, true]);
    assert_eq!(seen("Absent"), [false, false, false, false]);
}

/// An approval given without a generation must not count for generation 1.
#[test]
fn a_condition_without_a_generation_is_about_none() {
    let mut approved = draft("Approved").is_true("lgtm").into_condition(ONE, at(1));
    approved.observed_generation = None;
    assert!(!vec![approved].is_true_at("Approved", ONE));
}

#[test]
fn equality_ignores_message_and_time_and_lets_the_newer_generation_win() {
    let said = |reason: &'static str, generation, second| {
        let draft = draft("Available").is_true(reason).because(format!("at {second}"));
        draft.into_condition(Generation(generation), at(second))
    };
    let (old, new) = (said("A", 1, 5), said("A", 2, 9));
    assert!(says_the_same(None, None));
    assert!(!says_the_same(None, Some(&old)));
    assert!(!says_the_same(Some(&old), None));
    assert!(says_the_same(Some(&old), Some(&said("A", 1, 8))));
    assert!(says_the_same(Some(&new), Some(&old)));
    assert!(!says_the_same(Some(&old), Some(&new)));
    assert!(!says_the_same(Some(&old), Some(&said("B", 1, 5))));
}

#[test]
fn carrying_over_keeps_everything_but_the_generation() {
    let mut conditions = vec![draft("Started").is_true("R").into_condition(ONE, at(4))];
    carry_over(&mut conditions, Generation(5));
    assert_eq!(told(&conditions), ["Started=True R \"\" @5 since 4"]);
}

#[test]
fn a_stale_reader_carries_nothing_back() {
    let mut conditions = vec![draft("Started").is_true("R").into_condition(TWO, at(4))];
    carry_over(&mut conditions, ONE);
    assert_eq!(told(&conditions), ["Started=True R \"\" @2 since 4"]);
}

#[test]
fn a_copy_from_another_object_takes_the_generation_of_its_new_place() {
    let mut copied = vec![draft("Joined").is_true("R").into_condition(TWO, at(4))];
    relabel(&mut copied, ONE);
    assert_eq!(told(&copied), ["Joined=True R \"\" @1 since 4"]);
}

#[test]
fn a_message_the_api_would_refuse_is_cut() {
    let message = |text: String| {
        draft("A").is_true("R").because(text).into_condition(ONE, at(1)).message.clone()
    };
    let longest = "x".repeat(LONGEST_MESSAGE);
    assert_eq!(message(longest.clone()), longest);
    let cut = message(longest + "x");
    assert_eq!((cut.len(), cut.ends_with("x...")), (LONGEST_MESSAGE, true));
    // Two bytes each, and an odd number of bytes to fill.
    let cut = message("é".repeat(LONGEST_MESSAGE));
    assert_eq!((cut.len(), cut.ends_with("é...")), (LONGEST_MESSAGE - 1, true));
}

#[test]
fn a_time_on_the_wire_has_whole_seconds() {
    for (written, read) in [
        ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("1969-12-31T23:59:58.5Z", "1969-12-31T23:59:58Z"),
    ] {
        let time = wire_time(written.parse().unwrap());
        assert_eq!(serde_json::to_value(&time).unwrap(), read);
        assert_eq!(time, Time(read.parse().unwrap()));
    }
}

#[test]
fn removing_takes_one_type_only() {
    let mut conditions = vec![
        draft("A").is_true("R").into_condition(ONE, at(4)),
        draft("B").is_true("R").into_condition(ONE, at(4)),
    ];
    remove(&mut conditions, "A");
    assert_eq!(told(&conditions), ["B=True R \"\" @1 since 4"]);
}

#[test]
fn a_condition_equals_its_own_copy_read_back() {
    let now = Timestamp::new(1_700_000_000, 123_456_789).unwrap();
    let written = draft("Applied").is_true("R").into_condition(ONE, now);
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Condition>(&text).unwrap(), written);
}

fn any_truth() -> impl Strategy<Value = ConditionStatus> {
    prop_oneof![
        Just(ConditionStatus::True),
        Just(ConditionStatus::False),
        Just(ConditionStatus::Unknown)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_laws_of_the_setter(
        writes in prop::collection::vec((0usize..3, any_truth(), 0i64..5), 1..40),
    ) {
        let kinds = ["A", "B", "C"];
        let mut conditions: Vec<Condition> = Vec::new();
        for (second, (kind, truth, generation)) in (1i64..).zip(writes) {
            let before = conditions.clone();
            draft(kinds[kind]).is(truth, "R").set(&mut conditions, Generation(generation), at(second));
            for now in &conditions {
                let Some(then) = before.of_type(&now.type_) else { continue };
                prop_assert!(Generation::seen_by(now) >= Generation::seen_by(then));
                let moved = now.last_transition_time != then.last_transition_time;
                prop_assert_eq!(moved, now.status != then.status);
            }
            // A second time changes nothing, however much later.
            let settled = conditions.clone();
            draft(kinds[kind]).is(truth, "R").set(&mut conditions, Generation(generation), at(second + 99));
            prop_assert_eq!(&conditions, &settled);
            // One entry per type, never reordered.
            let types = |list: &[Condition]| list.iter().map(|c| c.type_.clone()).collect::<Vec<_>>();
            prop_assert!(types(&conditions).starts_with(&types(&before)));
            prop_assert!(conditions.len() <= kinds.len());
        }
    }
}
