//! Why is it not done? The troubleshooting guides as one pure function.
//!
//! [`explain`] walks from what a person asked about inwards (run, stage, cluster,
//! binding, object, pod) and returns the *first true cause*, the evidence it met on
//! the way, and at most three commands. It reads [`Facts`] and nothing else; what
//! could not be read is a fact too, and is said.
//!
//! Where not to look: gathering facts and printing findings is the command line's
//! business; the words of conditions belong to the rules that write them.

mod apply;
mod cause;
mod cluster;
mod facts;
mod finding;
mod gate;
mod hints;
mod hub_silent;
mod object;
mod placement;
mod refusal;
mod rival;
mod run;
mod stuck;
#[cfg(test)]
mod tests;
mod versions;

use flagship_api::names::ObjectKey;

pub(crate) use apply::cause_of as apply_cause;
pub use cause::Cause;
pub use cluster::{last_heartbeat, silent_since};
pub use facts::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, MemberView, PlacementFacts, PlacementGlance,
    RunFacts, Subject,
};
pub use finding::{Evidence, Finding, Hint, SeenCondition, State, Stuck};
pub use gate::{approve, spoken};
pub use hub_silent::wants_reports;
pub use refusal::detail;
pub use stuck::{causes, worth_a_look};
pub use versions::index_of;

fn nothing(key: &ObjectKey, elsewhere: &[ObjectKey]) -> Finding {
    let headline = format!("there is no run, placement or member {key}.");
    let mut finding = Finding::new(State::Failed, Cause::NotFound, headline);
    for other in elsewhere {
        let what = match &other.namespace {
            Some(namespace) => format!("ask about the one in namespace {namespace}"),
            None => "ask about the cluster-wide one".to_owned(),
        };
        finding = finding.hint("fix", what, hints::flagship("why", other));
    }
    finding
        .hint("look", "see which runs exist", hints::kubectl(None, "get csur,sur -A"))
        .hint("look", "see which placements exist", hints::kubectl(None, "get crp,rp -A"))
        .hint("look", "see which members exist", "flagship clusters")
}

/// The first true cause.
pub fn explain(facts: &Facts) -> Finding {
    match &facts.subject {
        Subject::Run(key) => run::explain(facts, key),
        Subject::Placement(key) => placement::explain(facts, key),
        Subject::Cluster(name) => cluster::explain(facts, name),
        Subject::Nothing(key, elsewhere) => nothing(key, elsewhere),
    }
}
