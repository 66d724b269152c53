//! How many clusters of a stage may be updated at once: `maxConcurrency` of the strategy.
//!
//! Slots are filled in `execution`; that no pass exceeds them is law S1, in `laws`.

use flagship_api::defaults::MAX_CONCURRENCY;
use flagship_api::int_or_string::max_concurrency;
use flagship_api::staged_update::StageConfig;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::messages::Failure;

/// How many clusters of a stage may be in flight.
pub fn concurrency(stage: &StageConfig, clusters: usize) -> Result<usize, Failure> {
    let given = stage.max_concurrency.clone().unwrap_or(IntOrString::Int(MAX_CONCURRENCY));
    let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
    let most = max_concurrency(&given, clusters);
    let most = most.map_err(|error| Failure::abort(error.to_string()))?;
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}
