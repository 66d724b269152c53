//! What became of one manifest in one pass.

use std::collections::BTreeMap;
use std::fmt;

use flagship_api::placement_status::PatchDetail;
use flagship_api::reason::work::manifest as reason;
use flagship_api::work::WorkResourceIdentifier;
use serde_json::Value;

use super::manifest::Manifest;
use crate::availability::Availability;

/// How the processing of a manifest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is applied.
    Applied,
    /// It is applied, but nobody knows whether it drifted.
    AppliedWithFailedDriftDetection,
    /// It cannot be read, or the member does not know its kind.
    DecodingErred,
    /// It has no name of its own.
    FoundGenerateName,
    /// The Work holds the object twice.
    Duplicated,
    /// The member could not be asked for the object.
    FailedToFind,
    /// The object belongs to somebody, or differs.
    FailedToTakeOver,
    /// The object was there before, and is not to be taken over.
    NotTakenOver,
    /// The comparison before the write failed.
    FailedToRunDriftDetection,
    /// Somebody edited the object, and edits are not to be overwritten.
    FoundDrifts,
    /// The same, found by comparing every field in place of some.
    FoundDriftsInDegradedMode,
    /// The member refused the write, or there was nothing to write.
    ApplyFailed,
    /// Compared: the same.
    NoDiffFound,
    /// Compared: different.
    FoundDiff,
    /// Compared by every field in place of some: different.
    FoundDiffInDegradedMode,
    /// It could not be compared.
    FailedToReportDiff,
}

impl Verdict {
    /// The word that conditions use for it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Applied => reason::APPLIED,
            Self::AppliedWithFailedDriftDetection => reason::APPLIED_WITH_FAILED_DRIFT_DETECTION,
            Self::DecodingErred => reason::DECODING_ERRED,
            Self::FoundGenerateName => reason::FOUND_GENERATE_NAME,
            Self::Duplicated => reason::DUPLICATED,
            Self::FailedToFind => reason::FAILED_TO_FIND_OBJECT,
            Self::FailedToTakeOver => reason::FAILED_TO_TAKE_OVER,
            Self::NotTakenOver => reason::NOT_TAKEN_OVER,
            Self::FailedToRunDriftDetection => reason::FAILED_TO_RUN_DRIFT_DETECTION,
            Self::FoundDrifts => reason::FOUND_DRIFTS,
            Self::FoundDriftsInDegradedMode => reason::FOUND_DRIFTS_IN_DEGRADED_MODE,
            Self::ApplyFailed => reason::APPLY_FAILED,
            Self::NoDiffFound => reason::NO_DIFF_FOUND,
            Self::FoundDiff => reason::FOUND_DIFF,
            Self::FoundDiffInDegradedMode => reason::FOUND_DIFF_IN_DEGRADED_MODE,
            Self::FailedToReportDiff => reason::FAILED_TO_REPORT_DIFF,
        }
    }

    /// Whether the manifest is on the member as written.
    pub const fn is_applied(self) -> bool {
        matches!(self, Self::Applied | Self::AppliedWithFailedDriftDetection)
    }
}

/// Which fields differ, and what that means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Findings {
    /// None, or nobody looked.
    #[default]
    Nothing,
    /// Edits of an object that was applied.
    Drifts(Vec<PatchDetail>),
    /// Differences of an object that was not.
    Diffs(Vec<PatchDetail>),
}

/// What became of one manifest.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// Which manifest.
    pub identifier: WorkResourceIdentifier,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it ended badly.
    pub error: Option<String>,
    /// Which fields differ.
    pub findings: Findings,
    /// The object as last seen on the member.
    pub live: Option<Value>,
    /// Whether the object works.
    pub availability: Availability,
    /// The object is on its way out, and the manifest has to wait for that.
    pub terminating: bool,
}

impl fmt::Debug for Outcome {
    /// Without the object, which may be a Secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identifier, verdict, error, findings, availability, .. } = self;
        let mut text = out.debug_struct("Outcome");
        text.field("identifier", identifier).field("verdict", verdict).field("error", error);
        text.field("findings", findings).field("availability", availability).finish_non_exhaustive()
    }
}

impl Outcome {
    /// A manifest that ended without the member being touched.
    pub(super) fn untried(manifest: &Manifest, verdict: Verdict, error: String) -> Self {
        Self {
            identifier: manifest.identifier.clone(),
            verdict,
            error: Some(error),
            findings: Findings::Nothing,
            live: None,
            availability: Availability::Skipped,
            terminating: false,
        }
    }

    /// `metadata.generation` of the object; 0 if there is none, and for kinds without.
    pub fn generation(&self) -> i64 {
        self.live.as_ref().map_or(0, generation)
    }
}

/// `metadata.generation` of an object; 0 for kinds without.
pub(super) fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// The outcomes of all manifests in order: those in trouble from the start, those that were
/// processed, and those that the pass never got to.
pub fn complete(manifests: &[Manifest], mut processed: BTreeMap<usize, Outcome>) -> Vec<Outcome> {
    let outcome = |(at, manifest): (usize, &Manifest)| match &manifest.untried {
        Some(untried) => Outcome::untried(manifest, untried.verdict, untried.error.clone()),
        None => processed.remove(&at).unwrap_or_else(|| {
            let error = "the pass ended before the manifest was processed".to_owned();
            Outcome::untried(manifest, Verdict::ApplyFailed, error)
        }),
    };
    manifests.iter().enumerate().map(outcome).collect()
}
