//! Nobody hands out more than they hold.
//!
//! Whoever writes a role needs its rules already, or the verb `escalate` on roles; whoever
//! binds a role needs its rules already, or the verb `bind` on that role. Those in
//! `system:masters` need nothing.

use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::status::ApiError;
use serde_json::Value;

use super::policy::{Policy, RoleRef};
use super::rule::{Rule, missing, quoted};
use crate::auth::{Decision, RequestAttributes, User, group};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role or binding that somebody wants to write.
pub struct Grant<'a> {
    /// Who.
    pub user: &'a User,
    /// What holds now.
    pub policy: &'a Policy,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub plural: &'a str,
    /// Empty for the whole cluster.
    pub namespace: &'a str,
    /// The name in the path of the request; empty on create.
    pub name: &'a str,
}

impl Grant<'_> {
    /// Refuses a role or binding that grants what the user does not hold. `old` is absent
    /// on create.
    pub fn check(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        if self.user.is_in(group::MASTERS) {
            return Ok(());
        }
        match self.plural {
            "roles" | "clusterroles" => self.role(new, old),
            _ => self.binding(new, old),
        }
    }

    fn role(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let same = |key: &str| old.is_some_and(|old| is_same(&new[key], &old[key]));
        if (same("rules") && same("aggregationRule"))
            || self.may("escalate", self.plural, self.name)
        {
            return Ok(());
        }
        self.confirm(new, &Rule::list(new))?;
        let gathers = |role: &Value| {
            let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
            selectors.is_some_and(|list| !list.is_empty())
        };
        if (gathers(new) || old.is_some_and(gathers)) && self.lacking(&Rule::everything()).is_some()
        {
            let says = "must have cluster-admin privileges to use the aggregationRule";
            return Err(self.refused(new, says));
        }
        Ok(())
    }

    fn binding(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let same = |key: &str| old.is_some_and(|old| is_same(&new[key], &old[key]));
        let role = RoleRef::of(new);
        if (same("roleRef") && same("subjects")) || self.may("bind", role.resource(), &role.name) {
            return Ok(());
        }
        match self.policy.role(&role, self.namespace) {
            Some(role) => self.confirm(new, &role.rules),
            None => Err(ApiError::not_found(&format!("{}.{GROUP}", self.plural), &role.name)),
        }
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let at = ObjectPath {
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            namespace: some(self.namespace),
            resource: resource.to_owned(),
            name: some(name),
            subresource: None,
        };
        let ask = RequestAttributes::Resource { verb: verb.to_owned(), at };
        matches!(self.policy.decide(self.user, &ask), Decision::Allow(_))
    }

    /// What the user lacks of these rules, in Kubernetes' words.
    fn lacking(&self, wanted: &[Rule]) -> Option<String> {
        let (held, wrong) = self.policy.rules_of(self.user, self.namespace, Some(self.plural));
        let lines: Vec<String> = missing(&held, wanted).into_iter().collect();
        if lines.is_empty() {
            return None;
        }
        let mut says = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.name,
            quoted(&self.user.groups),
            lines.join("\n")
        );
        if let Some(wrong) = wrong {
            says.push_str(&format!("; resolution errors: [{wrong}]"));
        }
        Some(says)
    }

    fn confirm(&self, object: &Value, wanted: &[Rule]) -> Result<(), ApiError> {
        self.lacking(wanted).map_or(Ok(()), |says| Err(self.refused(object, &says)))
    }

    fn refused(&self, object: &Value, why: &str) -> ApiError {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        ApiError::forbidden(&format!("{}.{GROUP}", self.plural), name, why)
    }
}

/// Nothing and an empty list are the same.
fn is_same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    one == other || (empty(one) && empty(other))
}
