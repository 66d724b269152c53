//! What members show of objects that failed there, looked at in the background.
//!
//! A board never waits for a member: it shows what the hub says at once, and what the member
//! says as soon as it has answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flagship_api::placement_status::ResourceIdentifier;
use flagship_explain::why::{Facts, MemberView};
use flagship_rules::update_run::lifecycle::in_flight;
use tokio::time::Instant;

use crate::commands::Commands;

/// How long a look is good for.
const FRESH: Duration = Duration::from_secs(3);
/// How long one that nobody asked for again is kept.
const KEPT: Duration = Duration::from_secs(60);
/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Members that are looked at for one run: the first cause is enough.
const ENOUGH: usize = 3;
/// Looks that are kept at most.
const MOST: usize = 256;

/// What members have shown.
#[derive(Debug, Default)]
pub struct MemberLookups(Mutex<BTreeMap<String, Look>>);

#[derive(Debug)]
struct Look {
    resource: ResourceIdentifier,
    wanted: Instant,
    looked: Option<Instant>,
    view: Option<MemberView>,
}

impl MemberLookups {
    /// Adds to the facts what is known of the members that fail, and wants to know the rest.
    /// Of a run, only clusters under way matter.
    pub fn add_to(&self, facts: &mut Facts) {
        let moving: Option<Vec<String>> = facts.run.as_ref().map(|run| {
            let stages = run.status.stages_status.iter().chain(&run.status.deletion_stage_status);
            let moving = stages.flat_map(|stage| &stage.clusters).filter(|c| in_flight(c));
            moving.map(|cluster| cluster.cluster_name.clone()).collect()
        });
        let failing = facts.bindings.iter().filter_map(|bound| {
            let failed = bound.status.failed_placements.first()?;
            let cluster = &bound.spec.target_cluster;
            let matters = moving.as_ref().is_none_or(|moving| moving.contains(cluster));
            matters.then(|| (cluster.clone(), failed.resource.clone()))
        });
        let failing: Vec<(String, ResourceIdentifier)> = failing.take(ENOUGH).collect();
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for (cluster, resource) in failing {
            let look = looks.entry(cluster.clone()).or_insert_with(|| Look {
                resource: resource.clone(),
                wanted: now,
                looked: None,
                view: None,
            });
            look.wanted = now;
            if look.resource != resource {
                (look.resource, look.looked, look.view) = (resource, None, None);
            }
            if let Some(view) = &look.view {
                facts.members.insert(cluster, view.clone());
            }
        }
    }

    /// Looks at every member that somebody wants to know of. Says whether there is news.
    pub async fn refresh(&self, commands: &dyn Commands) -> bool {
        let due: Vec<(String, ResourceIdentifier)> = {
            let now = Instant::now();
            let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            looks.retain(|_, look| now - look.wanted < KEPT);
            while looks.len() > MOST {
                looks.pop_first();
            }
            let is_due = |look: &Look| look.looked.is_none_or(|at| now - at >= FRESH);
            let due = looks.iter_mut().filter(|(_, look)| is_due(look));
            due.map(|(cluster, look)| {
                look.looked = Some(now);
                (cluster.clone(), look.resource.clone())
            })
            .collect()
        };
        let news = !due.is_empty();
        for (cluster, resource) in due {
            let look = commands.look(&cluster, &resource);
            let view = tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| MemberView {
                blind: format!("{cluster} does not answer"),
                ..MemberView::default()
            });
            let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(look) = looks.get_mut(&cluster).filter(|look| look.resource == resource) {
                look.view = Some(view);
            }
        }
        news
    }
}
