//! Does a policy tolerate the taints of a cluster?

use flagship_api::policy::{TaintEffect, Toleration, TolerationOperator};

use crate::model::{Cluster, Taint};

/// The words for the first taint that nothing tolerates.
pub fn untolerated(cluster: &Cluster, tolerations: &[Toleration]) -> Option<String> {
    let taint = cluster.taints.iter().find(|t| !tolerations.iter().any(|by| tolerates(by, t)))?;
    Some(format!(
        "taint &{{Key:{} Value:{} Effect:{}}} cannot be tolerated",
        taint.key, taint.value, taint.effect
    ))
}

fn tolerates(by: &Toleration, taint: &Taint) -> bool {
    let effect = match by.effect {
        None => true,
        Some(TaintEffect::NoSchedule) => taint.effect == "NoSchedule",
    };
    effect
        && match by.operator {
            Some(TolerationOperator::Exists) => by.key.is_empty() || by.key == taint.key,
            Some(TolerationOperator::Equal) => by.key == taint.key && by.value == taint.value,
            // The schema writes a default; without one a toleration means nothing.
            None => false,
        }
}
