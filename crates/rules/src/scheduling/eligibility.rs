//! May a cluster take new placements at all?
//!
//! Used by the filters, by PickFixed and by the watcher of clusters. A cluster that
//! stops being eligible keeps what it has: eligibility is for new decisions only.

use jiff::{SignedDuration, Timestamp};

use crate::model::Cluster;

/// How long a silent or unhealthy cluster is still trusted.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Why the cluster is not eligible; `None` when it is. The first failed check wins.
pub fn ineligible(cluster: &Cluster, now: Timestamp) -> Option<String> {
    if cluster.leaving {
        return Some("cluster has left the fleet".to_owned());
    }
    unconnected(cluster, now).map(|why| format!("cluster is not connected to the fleet: {why}"))
}

fn unconnected(cluster: &Cluster, now: Timestamp) -> Option<String> {
    let Some(agent) = &cluster.agent else {
        return Some("member agent not online yet".to_owned());
    };
    let silent = now.duration_since(agent.heartbeat);
    if silent > PATIENCE {
        let ago = minutes(silent);
        return Some(format!("no recent heartbeat signals (last received {ago} minutes ago)"));
    }
    if !agent.joined {
        return Some("member agent not joined yet".to_owned());
    }
    let Some(health) = &agent.health else {
        return Some("health condition from member agent is not available".to_owned());
    };
    let since = now.duration_since(health.since);
    if !health.healthy && since > PATIENCE {
        let ago = minutes(since);
        return Some(format!(
            "unhealthy for a prolonged period of time (last transitioned {ago} minutes ago)"
        ));
    }
    None
}

fn minutes(span: SignedDuration) -> String {
    format!("{:.2}", span.as_secs_f64() / 60.0)
}
