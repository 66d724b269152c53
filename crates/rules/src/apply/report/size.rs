//! Keeps a Work small enough to be stored.
//!
//! First long values are cut, which nobody misses. If that is not enough, all details go and a
//! condition says so.

use flagship_api::condition::{self, Generation, draft};
use flagship_api::condition_type::work::STATUS_TRIMMED;
use flagship_api::go_json;
use flagship_api::placement_status::PatchDetail;
use flagship_api::reason::work::OVERSIZED;
use flagship_api::work::{ManifestCondition, Work, WorkSpec, WorkStatus};
use jiff::Timestamp;
use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

/// Bytes a Work may have, as compact JSON.
pub(super) const LIMIT: usize = 1_415_578;

/// Bytes of a value that are kept when there is not room for all.
const VALUE: usize = 4096;

const CUT: &str = "…(truncated)";
const OMITTED: &str = "(omitted)";

/// Makes the status fit into the Work.
pub(super) fn keep_within_limit(
    work: &Work,
    status: &mut WorkStatus,
    generation: Generation,
    now: Timestamp,
) {
    condition::remove(&mut status.conditions, STATUS_TRIMMED);
    if size(work, status) <= LIMIT {
        return;
    }
    for_each_detail(&mut status.manifest_conditions, cut);
    let size = size(work, status);
    if size <= LIMIT {
        return;
    }
    status.manifest_conditions.iter_mut().for_each(trim);
    let trimmed = draft(STATUS_TRIMMED).is_true(OVERSIZED).because(format!(
        "The status data (drift/diff details and back-reported status) has been trimmed due to \
         size constraints ({} bytes over limit {LIMIT})",
        size - LIMIT
    ));
    // As before, if it was there before.
    let old = work.status.as_ref().map(|old| old.conditions.clone()).unwrap_or_default();
    status.conditions.extend(old.into_iter().filter(|one| one.type_ == STATUS_TRIMMED));
    trimmed.set(&mut status.conditions, generation, now);
}

fn size(work: &Work, status: &WorkStatus) -> usize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole<'a> {
        api_version: &'static str,
        kind: &'static str,
        metadata: &'a ObjectMeta,
        spec: &'a WorkSpec,
        status: &'a WorkStatus,
    }
    let Work { metadata, spec, .. } = work;
    let (api_version, kind) = (Work::API_VERSION, Work::KIND);
    let whole = Whole { api_version, kind, metadata, spec, status };
    go_json::to_string(&whole).map_or(0, |text| text.len())
}

fn for_each_detail(entries: &mut [ManifestCondition], change: impl Fn(&mut PatchDetail)) {
    for entry in entries {
        let drifts = entry.drift_details.iter_mut().flat_map(|found| &mut found.observed_drifts);
        let diffs = entry.diff_details.iter_mut().flat_map(|found| &mut found.observed_diffs);
        drifts.chain(diffs).for_each(&change);
    }
}

fn cut(detail: &mut PatchDetail) {
    for value in [&mut detail.value_in_member, &mut detail.value_in_hub] {
        if value.len() > VALUE {
            let end = (0..=VALUE).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
            value.truncate(end);
            value.push_str(CUT);
        }
    }
}

fn trim(entry: &mut ManifestCondition) {
    if let Some(found) = &mut entry.drift_details {
        summarise(&mut found.observed_drifts);
    }
    if let Some(found) = &mut entry.diff_details {
        summarise(&mut found.observed_diffs);
    }
    entry.back_reported_status = None;
}

/// Leaves the first path and the number of the others.
fn summarise(details: &mut Vec<PatchDetail>) {
    let others = details.len().saturating_sub(1);
    details.truncate(1);
    for detail in details {
        if others > 0 {
            detail.path.push_str(&format!(" and {others} more path(s)"));
        }
        detail.value_in_member = OMITTED.to_owned();
        detail.value_in_hub = OMITTED.to_owned();
    }
}
