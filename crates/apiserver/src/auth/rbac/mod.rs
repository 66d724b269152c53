//! Role-based access control over the roles and bindings that a cluster stores.
//!
//! [`Rbac`] decides; [`Cache`] keeps the policy of a cluster compiled; [`grant`] refuses
//! those who would hand out more than they hold. Which objects a cluster starts with is
//! in [`bootstrap`]. Writing them, and keeping gathered rules up to date, is `rest::roles`.

pub mod bootstrap;
pub mod grant;
mod policy;
mod rule;
#[cfg(test)]
mod stories;

use serde_json::{Value, json};

pub use policy::{CLUSTER_BINDINGS, CLUSTER_ROLES, Cache, Policy, RoleRef};
pub(crate) use rule::quoted;
pub use rule::{Rule, missing};

use super::{Authorizer, Decision, RequestAttributes, User, group};
use crate::rest::ClusterHandle;

/// Decides by the roles and bindings of the cluster that is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rbac;

impl Authorizer for Rbac {
    fn authorize(
        &self,
        user: &User,
        ask: &RequestAttributes,
        cluster: Option<&ClusterHandle>,
    ) -> Decision {
        match cluster {
            Some(cluster) => cluster.policy().decide(user, ask),
            None => bootstrap::NOWHERE.decide(user, ask),
        }
    }

    fn rules(&self, user: &User, namespace: &str, cluster: Option<&ClusterHandle>) -> Value {
        let (mut rules, wrong) = match cluster {
            Some(cluster) => cluster.policy().rules_of(user, namespace, None),
            None => bootstrap::NOWHERE.rules_of(user, namespace, None),
        };
        // They need no binding, and have one only where people reach the cluster.
        if user.is_in(group::MASTERS) && !rules.starts_with(&Rule::everything()) {
            rules.splice(..0, Rule::everything());
        }
        let pick = |paths: bool| -> Vec<Value> {
            let of = rules.iter().filter(|rule| rule.urls.is_empty() != paths);
            of.map(Rule::to_value).collect()
        };
        let mut status = json!({
            "resourceRules": pick(false), "nonResourceRules": pick(true), "incomplete": false,
        });
        if let Some(wrong) = wrong {
            status["evaluationError"] = json!(wrong);
        }
        status
    }
}
