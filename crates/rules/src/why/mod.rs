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
mod object;
mod placement;
mod refusal;
mod run;
#[cfg(test)]
mod tests;

pub use cause::Cause;
pub use facts::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, MemberView, PlacementFacts, RunFacts, Subject,
};
pub use finding::{Evidence, Finding, Hint, State};

/// The first true cause.
pub fn explain(facts: &Facts) -> Finding {
    match &facts.subject {
        Subject::Run(key) => run::explain(facts, key),
        Subject::Placement(key) => placement::explain(facts, key),
        Subject::Cluster(name) => cluster::explain(facts, name),
    }
}
