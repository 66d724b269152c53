//! S10: a hub that crashes after any single write, or that has a second hub beside it which
//! read at any moment and writes at any later one, ends where a single one ends that never
//! crashes. The stories are in `crash_stories`.
//!
//! The rules are the same in both scopes, so the scopes take turns: a crash after each second
//! write in the one, after the others in the other. `FLAGSHIP_CUTS=all` crashes after each in both.

use super::fixture::{Fixture, Second, both_scopes};
use crate::record::chain;

/// How a story ended: what each run says, what each cluster and request holds.
fn end(fixture: &Fixture) -> String {
    let mut text: String = (0..fixture.runs.len()).map(|run| fixture.told(run)).collect();
    for binding in &fixture.bindings {
        let spec = &binding.spec;
        let overrides = spec.cluster_resource_override_snapshots.join(" ");
        text += &format!("{}: {} {overrides}\n", binding.name, spec.resource_snapshot_name);
    }
    for request in &fixture.approvals {
        let said = request.conditions.iter().map(|c| format!(" {}={}", c.type_, c.status));
        text += &format!("{}:{}\n", request.name, said.collect::<String>());
    }
    for snapshot in &fixture.resource_snapshots {
        text += &format!("{} {}\n", snapshot.name, snapshot.latest);
    }
    text + &recorded(fixture)
}

/// What is recorded, in whatever order; P6: and that the chain verifies.
fn recorded(fixture: &Fixture) -> String {
    let mut told = Vec::new();
    for (run, record) in &fixture.records {
        assert_eq!(chain::verify(&[record]), [], "run {run}");
        let entries = record.entries.iter().map(|entry| {
            let about = [&entry.stage, &entry.cluster, &entry.gate].map(|part| part.as_deref());
            format!("{run} {:?} {}\n", entry.what, about.map(Option::unwrap_or_default).join(" "))
        });
        told.extend(entries);
    }
    told.sort_unstable();
    told.concat()
}

/// Whether every cut is asked for in every form.
pub fn tries_everything() -> bool {
    std::env::var("FLAGSHIP_CUTS").is_ok_and(|cuts| cuts == "all")
}

/// Tells a story in both scopes once in peace, then once for every write it made, in one of the
/// scopes, with a crash right after it, then with a second hub.
pub fn survives(prepare: impl Fn(&mut Fixture), story: impl Fn(&mut Fixture)) {
    survives_policed(prepare, |fixture| {
        story(fixture);
        if fixture.crash_after.is_none() && fixture.second.is_none() && !fixture.crashed {
            same_writes_as_ever(fixture);
        }
    });
}

/// The same for a story in which somebody has a policy.
pub fn survives_policed(prepare: impl Fn(&mut Fixture), story: impl Fn(&mut Fixture)) {
    both_scopes(|mut fixture| {
        prepare(&mut fixture);
        let mut calm = fixture.clone();
        story(&mut calm);
        assert!(calm.writes > 5, "the story is too short");
        // Entries that go side by side with a write to the run may be stored second, in whatever
        // scope.
        let either = fixture.namespace.is_none() && !calm.records.is_empty();
        let (all, turn) = (tries_everything(), usize::from(fixture.namespace.is_some()));
        for entries_second in [false, true].into_iter().take(1 + usize::from(either)) {
            let turn = turn + usize::from(entries_second);
            for cut in (1..=calm.writes).filter(|cut| all || cut % 2 == turn) {
                let mut crashed = Fixture { entries_second, ..fixture.clone() };
                crashed.crash_after = Some(cut);
                crashed.crashed = true;
                story(&mut crashed);
                let told = format!("crash after write {cut}, entries second: {entries_second}");
                assert_eq!(end(&crashed), end(&calm), "{told}");
            }
        }
        // What hubs do to each other has nothing to do with the scope.
        for reads_at in 0..=if fixture.namespace.is_none() { calm.writes } else { 0 } {
            for later in [0, 2].into_iter().filter(|later| all || reads_at % 2 * 2 == *later) {
                let mut raced = fixture.clone();
                let writes_at = reads_at + later;
                raced.crashed = true;
                raced.second = Some(Second { reads_at, writes_at, plan: None });
                story(&mut raced);
                assert_eq!(end(&raced), end(&calm), "a hub that read at {reads_at}, +{later}");
            }
        }
    });
}

/// P7: nobody has a policy here, so the writes are those from before there were any, byte for
/// byte. The list was made then; a change to it changes what KubeFleet's users get.
fn same_writes_as_ever(calm: &Fixture) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let story = name.rsplit("::").next().unwrap_or_default();
    // What is written has nothing to do with the scope.
    if calm.namespace.is_some() {
        return;
    }
    let recorded: Vec<String> = calm.log.iter().map(|line| as_recorded(line)).collect();
    let hash = recorded.iter().flat_map(|line| line.bytes()).fold(0xcbf2_9ce4_8422_2325, fnv);
    let line = format!("{story} {} {hash:016x}", calm.writes);
    assert!(include_str!("writes.txt").lines().any(|known| known == line), "new writes: {line}");
}

/// Actions had other names when the list was made; what they write is the same.
fn as_recorded(line: &str) -> String {
    let names = [
        ("UpdateBinding", "Deliver"),
        ("SignalStart", "Signal"),
        ("DeleteBinding", "Withdraw"),
        ("CreateApprovalRequest", "Ask"),
        ("AcceptApproval", "Accept"),
        ("DeleteForeignRequest", "Dismiss"),
        ("AnnounceWrites", "Announce"),
        ("DeleteApprovalRequests", "ForgetRequests"),
    ];
    names.iter().fold(line.to_owned(), |line, (now, then)| {
        line.replace(&format!("\"{now}\""), &format!("\"{then}\""))
    })
}

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

#[test]
fn a_hub_that_read_an_older_generation_does_not_write() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", flagship_api::staged_update::UpdateRunState::Run);
        fixture.settle(run);
        let old = fixture.seen(run);
        let fence = fixture.binding("m2").fence.clone().unwrap();
        fixture.binding("m2").fence.as_mut().unwrap().generation = fence.generation + 1;
        let late = crate::update_run::plan(&crate::update_run::Observed {
            bindings: fixture.seen(run).bindings,
            ..old
        });
        assert_eq!(late.actions, []);
        assert_eq!(
            late.trouble.unwrap().cause(),
            "binding web-m2 was written for a later generation of the update run than the one read"
        );
    });
}
