//! What a member does with one Work: every decision of a pass, none of its reads and writes.
//!
//! The shell reads, writes and loops; this is the order in which it asks:
//!
//! ```text
//! terms     = ApplyOptions::new(spec.applyStrategy, AppliedWork)     what holds for all manifests
//! manifests = read(spec.workload.manifests)                   JSON, names
//!             types(&manifests) ─► look up on the member ─► map(&mut manifests, found)
//! intent    = intent(work, AppliedWork.status, terms, &manifests, now)
//!             for each left-over: get it ─► removal(live, owner) ─► delete, disown, or nothing
//!             write status.manifestConditions                 before anything is applied
//! wave      = waves(&manifests, terms), one after the other; in a wave, side by side:
//!             begin(&manifest, terms) ─► Step ─► do it ─► answer ─► Step … ─► Done(Outcome)
//! again     = reconsider(&manifests, &outcomes) ─► map and process those once more
//! report    = report(work, AppliedWork.status, terms, complete(&manifests, outcomes), now)
//!             carry out its writes in order
//! back_off.next(…)                                            when to look again
//! ```
//!
//! A failure of the member's API server about one manifest is an answer and becomes a
//! condition; it never ends the pass. Nothing here prints what a Secret holds.
//!
//! Whether an applied object works is decided in [`crate::availability`]. Deleting a Work is
//! [`withdrawal`], with [`release`] for an object whose deletion is stuck.

mod apply_options;
mod diff;
mod drift;
mod intent;
mod manifest;
mod outcome;
mod owners;
mod prepare;
mod priority;
mod protected;
mod reconsider;
pub(crate) mod redact;
mod report;
mod requeue;
mod step;
mod take_over;
mod waves;
mod withdrawal;
mod write;

#[cfg(test)]
mod tests;

pub use apply_options::ApplyOptions;
pub use drift::DryRun;
pub use intent::{Intent, intent, removal_failed};
pub use manifest::{GroupVersionKind, Manifest, Mapping, Unmapped, Untried, map, read, types};
pub use outcome::{Findings, Outcome, Verdict, complete};
pub use owners::{Removal, release, removal};
pub use priority::{Ageing, Trigger, priority};
pub use reconsider::{awaited_namespaces, reconsider};
pub use redact::redacted;
pub use report::{Options, Report, StatusWrite, report};
pub use requeue::{Look, RequeueBackOff, Timing};
pub use step::{Find, Refusal, RefusalKind, Step, begin};
pub use take_over::{FindWorks, TakeOver};
pub use waves::{LAST_WAVE, waves};
pub use withdrawal::{WITHDRAWAL_CHECK, Withdrawal, withdrawal};
pub use write::{Operation, PatchStyle, Write};
