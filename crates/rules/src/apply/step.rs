//! The way of one manifest, step by step.
//!
//! [`begin`] returns the first [`Step`]. The shell does what it says and hands the answer to
//! it, which yields the next, until [`Step::Done`]. A step takes only the answer it asked for.
//!
//! Taking over is in `take_over`, comparing in `drift`, writing in `write`.

use flagship_api::apply_strategy::{ComparisonOption, WhenToApply, WhenToTakeOver};
use flagship_api::error_class::ErrorClass;
use flagship_api::hash::spec_hash;
use flagship_api::keys::annotation;
use flagship_api::placement_status::PatchDetail;
use serde_json::Value;

use super::apply_options::ApplyOptions;
use super::drift::{self, Compared, DryRun, Purpose};
use super::manifest::{Manifest, Untried};
use super::outcome::{Findings, Outcome, Verdict};
use super::owners::{is_ours, is_terminating};
use super::protected;
use super::redact::Redactor;
use super::take_over::{self, FindWorks, TakeOver};
use super::write::{self, Write};
use crate::availability::{self, Availability};

/// What to do next for a manifest.
pub enum Step<'a> {
    /// Get the object from the member itself, not from a cache.
    Find(Find<'a>),
    /// Find out which Works exist in the member's namespace on the hub.
    FindWorks(FindWorks<'a>),
    /// Apply server-side as a dry run, forced, under the field manager.
    DryRun(DryRun<'a>),
    /// Write the object back, by update, if it is still the version that was read.
    TakeOver(TakeOver<'a>),
    /// Create, patch or apply it, under the field manager.
    Write(Write<'a>),
    /// Nothing is left to do.
    Done(Box<Outcome>),
}

/// Why the API server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which kind of answer it was.
    pub kind: RefusalKind,
    /// The server's own words.
    pub message: String,
}

/// The answers that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// 422: the object is invalid.
    Invalid,
    /// 409: somebody else has changed or owns it.
    Conflict,
    /// Any other.
    Other,
}

impl Refusal {
    /// A refusal with the server's own words.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// A manifest on its way.
pub(super) struct ManifestContext<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) terms: &'a ApplyOptions,
    /// The object on the member, as last seen.
    pub(super) live: Option<Value>,
    redactor: Redactor,
}

/// A request for the object.
pub struct Find<'a>(ManifestContext<'a>);

/// The first step of a manifest.
pub fn begin<'a>(manifest: &'a Manifest, terms: &'a ApplyOptions) -> Step<'a> {
    let case = ManifestContext { manifest, terms, live: None, redactor: Redactor::of(manifest) };
    match &manifest.untried {
        Some(untried) => {
            let Untried { verdict, error } = untried.clone();
            case.failed(verdict, error)
        }
        None if manifest.identifier.name.is_empty() => case.not_found("name is required"),
        None => match protected::refused(&manifest.identifier, &manifest.object, &terms.home) {
            Some(why) => {
                case.failed(Verdict::ApplyFailed, format!("failed to apply the manifest: {why}"))
            }
            None => Step::Find(Find(case)),
        },
    }
}

impl<'a> Find<'a> {
    /// The object, if there is one.
    pub fn answer(self, found: Result<Option<Value>, Refusal>) -> Step<'a> {
        let Self(mut case) = self;
        match found {
            Ok(Some(live)) => case.see(live),
            Ok(None) => {}
            Err(refusal) => return case.not_found(&refusal.message),
        }
        let foreign = case.live.as_ref().is_some_and(|live| !is_ours(live, &case.terms.owner));
        if foreign && case.terms.when_to_take_over != WhenToTakeOver::Never {
            return take_over::start(case);
        }
        case.settle()
    }
}

impl<'a> ManifestContext<'a> {
    /// Takes note of the object as it is now.
    pub(super) fn see(&mut self, live: Value) {
        self.redactor.learn(&live);
        self.live = Some(live);
    }

    /// Goes on once it is clear whose the object is.
    pub(super) fn settle(self) -> Step<'a> {
        let Some(live) = &self.live else {
            return if self.terms.only_compares() { self.absent() } else { write::start(self) };
        };
        if self.terms.only_compares() {
            return drift::start(self, Purpose::Report);
        }
        if !is_ours(live, &self.terms.owner) {
            let error = "no ownership of the object in the member cluster; takeover is needed";
            return self.failed(Verdict::NotTakenOver, error.to_owned());
        }
        if is_terminating(live) {
            let error = "failed to apply the manifest: object is being deleted".to_owned();
            return self.failed(Verdict::ApplyFailed, error);
        }
        if self.terms.when_to_apply == WhenToApply::IfNotDrifted {
            match spec_hash(&self.manifest.object) {
                // This very manifest was applied before: what differs now is a drift.
                Ok(hash) if recorded_hash(live) == Some(hash.as_str()) => {
                    return drift::start(self, Purpose::Drift);
                }
                Ok(_) => {}
                Err(error) => {
                    let error = format!(
                        "failed to determine if pre-apply drift detection is needed: {error}"
                    );
                    return self.failed(Verdict::FailedToRunDriftDetection, error);
                }
            }
        }
        write::start(self)
    }

    /// Goes on once the member has taken the manifest.
    pub(super) fn written(mut self, object: Value) -> Step<'a> {
        let full = self.terms.comparison == ComparisonOption::FullComparison;
        let drifts = if full { drift::full(&self.manifest.object, &object) } else { Ok(vec![]) };
        self.see(object);
        match drifts {
            Ok(drifts) if drifts.is_empty() => self.done(Verdict::Applied, None, Findings::Nothing),
            Ok(drifts) => self.done(Verdict::Applied, None, Findings::Drifts(drifts)),
            Err(why) => {
                let error = format!(
                    "failed to calculate post-apply drifts between the manifest object and the \
                     object from the member cluster: {why}"
                );
                self.failed(Verdict::AppliedWithFailedDriftDetection, error)
            }
        }
    }

    /// Goes on once the two were compared.
    pub(super) fn compared(self, purpose: Purpose, result: Result<Compared, String>) -> Step<'a> {
        match purpose {
            Purpose::TakeOver { owners } => take_over::compared(self, owners, result),
            Purpose::Report => self.reported(result),
            Purpose::Drift => self.drift_checked(result),
        }
    }

    /// The end of a comparison with nothing.
    fn absent(self) -> Step<'a> {
        let whole = PatchDetail {
            path: "/".to_owned(),
            value_in_member: String::new(),
            value_in_hub: "(the whole object)".to_owned(),
        };
        self.done(Verdict::FoundDiff, None, Findings::Diffs(vec![whole]))
    }

    fn reported(self, result: Result<Compared, String>) -> Step<'a> {
        match result {
            Err(why) => {
                self.failed(Verdict::FailedToReportDiff, format!("{DIFF_CALCULATION_FAILED}{why}"))
            }
            Ok(Compared { details, .. }) if details.is_empty() => {
                self.done(Verdict::NoDiffFound, None, Findings::Nothing)
            }
            Ok(Compared { details, degraded: false }) => {
                self.done(Verdict::FoundDiff, None, Findings::Diffs(details))
            }
            Ok(Compared { details, degraded: true }) => {
                self.done(Verdict::FoundDiffInDegradedMode, None, Findings::Diffs(details))
            }
        }
    }

    fn drift_checked(self, result: Result<Compared, String>) -> Step<'a> {
        const FOUND: &str = "cannot apply manifest: drifts are found between the manifest and the \
                             object from the member cluster";
        match result {
            Err(why) => {
                let error = format!(
                    "failed to calculate pre-apply drifts between the manifest and the object \
                     from the member cluster: {why}"
                );
                self.failed(Verdict::FailedToRunDriftDetection, error)
            }
            Ok(Compared { details, .. }) if details.is_empty() => write::start(self),
            Ok(Compared { details, degraded: false }) => {
                let error = Some(FOUND.to_owned());
                self.done(Verdict::FoundDrifts, error, Findings::Drifts(details))
            }
            Ok(Compared { details, degraded: true }) => {
                let error = Some(format!("{FOUND}{IN_DEGRADED_MODE}"));
                self.done(Verdict::FoundDriftsInDegradedMode, error, Findings::Drifts(details))
            }
        }
    }

    fn not_found(self, why: &str) -> Step<'a> {
        let error = format!(
            "failed to find the corresponding object for the manifest object in the member \
             cluster: {}",
            ErrorClass::ApiServer.message(why)
        );
        self.failed(Verdict::FailedToFind, error)
    }

    /// The end, without anything found.
    pub(super) fn failed(self, verdict: Verdict, error: String) -> Step<'a> {
        self.done(verdict, Some(error), Findings::Nothing)
    }

    /// The end. What a Secret holds is taken out here, whoever put it in.
    pub(super) fn done(
        self,
        verdict: Verdict,
        error: Option<String>,
        findings: Findings,
    ) -> Step<'a> {
        let Self { manifest, terms, live, redactor } = self;
        let availability = match &live {
            Some(live) if verdict.is_applied() => availability::assess(&manifest.identifier, live),
            _ => Availability::Skipped,
        };
        let ours = |live: &Value| is_terminating(live) && is_ours(live, &terms.owner);
        let terminating = verdict == Verdict::ApplyFailed && live.as_ref().is_some_and(ours);
        Step::Done(Box::new(Outcome {
            identifier: manifest.identifier.clone(),
            verdict,
            error: error.map(|error| redactor.text(error)),
            findings: redactor.findings(findings),
            live,
            availability,
            terminating,
        }))
    }
}

/// Said when nobody can tell whether the two differ.
pub(super) const DIFF_CALCULATION_FAILED: &str = "failed to calculate configuration diffs between the manifest object and the object from the \
     member cluster: ";

/// Said after a finding that compared more than was asked for.
pub(super) const IN_DEGRADED_MODE: &str = " in degraded mode (full comparison is performed instead of partial comparison, as the \
     manifest object is considered to be invalid by the member cluster API server)";

fn recorded_hash(live: &Value) -> Option<&str> {
    live.get("metadata")?.get("annotations")?.get(annotation::SPEC_HASH)?.as_str()
}
