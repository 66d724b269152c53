//! Lets members into the fleet and sees them off, on the side of the hub.
//!
//! A member owns a namespace on the hub, may do everything in it and nothing elsewhere,
//! and talks through one InternalMemberCluster there. Leaving is asked for by deleting
//! the MemberCluster; a member that does not answer is let go after a while.
//!
//! What the member's agent does about it is the `member` crate's business; taints are the
//! scheduler's.

mod from_api;
mod observed;
mod rights;
mod status;
mod status_rate_limit;

#[cfg(test)]
mod tests;

use flagship_api::cluster::{
    AgentType, ClusterState, InternalMemberClusterSpec, MemberClusterStatus,
};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::member_cluster as kind;
use flagship_api::defaults::HEARTBEAT_PERIOD_SECONDS;
use flagship_api::error_class::ErrorClass;
use flagship_api::names::member_namespace;
use flagship_api::reason::event as reason;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::{Deserialize, Serialize};

use crate::event::Event;
pub use observed::{Internal, Member, Namespace, Observed, Options, RoleBinding};
pub use rights::{REVIEWED_RIGHTS, Rights, binding, rules};
pub use status::{report, turned};
pub use status_rate_limit::StatusRateLimit;

/// A namespace that is being deleted is looked at this often.
pub const NAMESPACE_POLL: SignedDuration = SignedDuration::from_secs(1);

/// A namespace that takes longer than this to go is an error.
pub const NAMESPACE_PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// What one pass decided, in the order to carry it out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Writes, in order.
    pub actions: Vec<Action>,
    /// What to tell people, each as soon as its write is done.
    pub events: Vec<PlannedEvent>,
    /// When to look again even if nothing happens.
    pub wake: Option<SignedDuration>,
    /// Something that should not be possible; the plan stands all the same.
    pub failure: Option<String>,
}

/// Something to tell people. What was written stays told, whatever becomes of later writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedEvent {
    /// How many of the plan's writes must be done.
    pub after: usize,
    /// What to say then.
    pub event: Event,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Put our finalizer on the MemberCluster.
    AddFinalizer,
    /// Label the MemberCluster with its own name.
    Label,
    /// Create its namespace, labelled as ours and owned by it.
    CreateNamespace,
    /// Label its namespace as ours.
    LabelNamespace,
    /// Create its Role, owned by it.
    CreateRole(Vec<PolicyRule>),
    /// Rewrite the rules of its Role.
    UpdateRole(Vec<PolicyRule>),
    /// Create its RoleBinding, owned by it.
    CreateRoleBinding(RoleBinding),
    /// Rewrite the subjects of its RoleBinding.
    UpdateRoleBinding(RoleBinding),
    /// Delete its RoleBinding and create it anew: a role reference cannot be changed.
    ReplaceRoleBinding(RoleBinding),
    /// Create its InternalMemberCluster, owned by it.
    CreateInternal(InternalMemberClusterSpec),
    /// Rewrite the spec of its InternalMemberCluster.
    UpdateInternal(InternalMemberClusterSpec),
    /// Write the status of the MemberCluster.
    Status(MemberClusterStatus),
    /// Take every finalizer off a Work in its namespace.
    RemoveWorkFinalizers {
        /// The Work.
        name: String,
    },
    /// Delete its namespace, and everything in it.
    DeleteNamespace,
    /// Take our finalizer off the MemberCluster.
    RemoveFinalizer,
}

/// Decides one pass over one member.
pub fn plan(seen: &Observed) -> Plan {
    match seen.member.leaving_since {
        None => join(seen),
        Some(since) => leave(seen, since),
    }
}

/// The agents a member is expected to run.
pub fn expected_agents(options: &Options) -> &'static [AgentType] {
    const ALL: [AgentType; 3] = [
        AgentType::MemberAgent,
        AgentType::MultiClusterServiceAgent,
        AgentType::ServiceExportImportAgent,
    ];
    const MEMBER: [AgentType; 1] = [AgentType::MemberAgent];
    if options.networking_agents { &ALL } else { &MEMBER }
}

impl Plan {
    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn act_and_tell(&mut self, action: Action, reason: &str, message: &str) {
        self.act(action);
        self.tell(Event::normal(reason, message));
    }

    /// Says something once all writes so far are done.
    fn tell(&mut self, event: Event) {
        self.events.push(PlannedEvent { after: self.actions.len(), event });
    }

    /// Writes the status if it says something new.
    fn report(&mut self, member: &Member, status: MemberClusterStatus, events: Vec<Event>) {
        if status != member.status {
            self.act(Action::Status(status));
        }
        for event in events {
            self.tell(event);
        }
    }
}

fn join(seen: &Observed) -> Plan {
    let member = &seen.member;
    let mut plan = Plan::default();
    if !member.has_finalizer {
        plan.act(Action::AddFinalizer);
    }
    if member.label.as_ref() != Some(&member.name) {
        plan.act(Action::Label);
    }
    match &seen.namespace {
        None => plan.act_and_tell(
            Action::CreateNamespace,
            reason::NAMESPACE_CREATED,
            "Namespace was created",
        ),
        // Nothing can be created in it; wait for it to go, then start over.
        Some(namespace) if namespace.deleting_since.is_some() => {
            plan.wake = Some(NAMESPACE_POLL);
            return plan;
        }
        Some(namespace) if !namespace.labelled => plan.act_and_tell(
            Action::LabelNamespace,
            reason::NAMESPACE_PATCHED,
            "Namespace was patched",
        ),
        Some(_) => {}
    }
    give_rights(seen, &mut plan);
    // Written out, because the server does the same to what is left open.
    let period = member.spec.heartbeat_period_seconds.unwrap_or(HEARTBEAT_PERIOD_SECONDS);
    let wanted = InternalMemberClusterSpec {
        state: ClusterState::Join,
        heartbeat_period_seconds: Some(period),
    };
    match &seen.internal {
        None => plan.act_and_tell(
            Action::CreateInternal(wanted),
            reason::INTERNAL_MEMBER_CREATED,
            "Internal member cluster was created",
        ),
        Some(internal) if internal.spec != wanted => tell_agent(&mut plan, wanted),
        Some(_) => {}
    }
    let (status, events) = reported(seen, true);
    plan.report(member, status, events);
    plan
}

fn reported(seen: &Observed, ready: bool) -> (MemberClusterStatus, Vec<Event>) {
    let expected = expected_agents(&seen.options);
    report(&seen.member, seen.internal.as_ref(), expected, ready, seen.now)
}

fn give_rights(seen: &Observed, plan: &mut Plan) {
    let rules = rules(&seen.options);
    match &seen.role {
        None => {
            plan.act_and_tell(Action::CreateRole(rules), reason::ROLE_CREATED, "role was created");
        }
        Some(role) if *role != rules => {
            plan.act_and_tell(Action::UpdateRole(rules), reason::ROLE_UPDATED, "role was updated");
        }
        Some(_) => {}
    }
    let wanted = binding(&seen.member.name, &seen.member.spec);
    let (updated, message) = (reason::ROLE_BINDING_UPDATED, "role binding was updated");
    match &seen.role_binding {
        None => plan.act_and_tell(
            Action::CreateRoleBinding(wanted),
            reason::ROLE_BINDING_CREATED,
            "role binding was created",
        ),
        Some(bound) if bound.role != wanted.role => {
            plan.act_and_tell(Action::ReplaceRoleBinding(wanted), updated, message);
        }
        Some(bound) if bound.subjects != wanted.subjects => {
            plan.act_and_tell(Action::UpdateRoleBinding(wanted), updated, message);
        }
        Some(_) => {}
    }
}

fn tell_agent(plan: &mut Plan, wanted: InternalMemberClusterSpec) {
    plan.act_and_tell(
        Action::UpdateInternal(wanted),
        reason::INTERNAL_MEMBER_UPDATED,
        "internal member cluster spec updated",
    );
}

fn leave(seen: &Observed, since: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !seen.member.has_finalizer {
        return plan;
    }
    let Some(namespace) = &seen.namespace else {
        plan.act(Action::RemoveFinalizer);
        return plan;
    };
    if let Some(deleting) = namespace.deleting_since {
        plan.wake = Some(NAMESPACE_POLL);
        plan.failure = overdue(seen, deleting);
        return plan;
    }
    let Some(internal) = &seen.internal else {
        sweep(seen, &mut plan);
        return plan;
    };
    let (status, events) = reported(seen, false);
    let generation = Generation(seen.member.generation);
    let has_left = status.conditions.is_false_at(kind::JOINED, generation);
    let asked = internal.spec.state == ClusterState::Leave;
    let waited = seen.now.duration_since(since);
    let given_up = asked && waited >= seen.options.force_delete_wait;
    if has_left || given_up {
        sweep(seen, &mut plan);
    } else {
        if !asked {
            let heartbeat_period_seconds = internal.spec.heartbeat_period_seconds;
            let wanted =
                InternalMemberClusterSpec { state: ClusterState::Leave, heartbeat_period_seconds };
            tell_agent(&mut plan, wanted);
        }
        let left = seen.options.force_delete_wait - waited;
        plan.wake = Some(left.max(NAMESPACE_POLL));
    }
    plan.report(&seen.member, status, events);
    plan
}

/// Deletes the namespace. Nobody is left to honour the finalizers of its Works; what the
/// member applied stays there.
fn sweep(seen: &Observed, plan: &mut Plan) {
    for name in &seen.works_with_finalizers {
        plan.act(Action::RemoveWorkFinalizers { name: name.clone() });
    }
    plan.act(Action::DeleteNamespace);
    plan.wake = Some(NAMESPACE_POLL);
}

fn overdue(seen: &Observed, deleting: Timestamp) -> Option<String> {
    if seen.now.duration_since(deleting) < NAMESPACE_PATIENCE {
        return None;
    }
    let namespace = member_namespace(&seen.member.name);
    Some(ErrorClass::Unexpected.message(format!(
        "failed to delete the member cluster namespace {namespace}, it has been deleting since {deleting}"
    )))
}
