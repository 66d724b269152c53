//! The roles and bindings of one cluster, compiled and indexed by whom they are for.
//!
//! A [`Cache`] looks at one number a request: the last revision that touched any of the
//! four resources. Only when it moved is anything read again, and then only the objects
//! that did move are taken in; all is read anew when some are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use flagship_base::selector;
use flagship_store::{ObjectKey, Store, Stored};
use serde_json::Value;

use super::rule::Rule;
use crate::auth::{Decision, RequestAttributes, User, group};

/// Where ClusterRoles are stored.
pub const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
/// Where ClusterRoleBindings are stored.
pub const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
/// All that a policy is made of.
const RESOURCES: [&str; 4] = [CLUSTER_ROLES, ROLES, CLUSTER_BINDINGS, BINDINGS];

/// The policy of one cluster, kept up to date.
#[derive(Default)]
pub struct Cache {
    now: RwLock<Arc<Policy>>,
}

impl Cache {
    /// The policy as the store has it now.
    pub fn current(&self, store: &Store) -> Arc<Policy> {
        let revision = store.last_change(&RESOURCES);
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.revision >= revision {
            return known;
        }
        drop(known);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have read later than we did.
        if now.revision < revision {
            // A copy only while a request still decides by what was.
            Arc::make_mut(&mut now).catch_up(store, revision);
        }
        now.clone()
    }
}

/// All roles and bindings of a cluster at one revision.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    revision: u64,
    /// How many objects of each of [`RESOURCES`] are known.
    counts: [usize; 4],
    /// ClusterRoles have no namespace.
    roles: BTreeMap<ObjectKey, Arc<Role>>,
    /// ClusterRoleBindings have no namespace.
    bindings: BTreeMap<ObjectKey, Arc<Binding>>,
    /// Bindings by their namespace; empty text for the whole cluster.
    by_place: BTreeMap<Arc<str>, Index>,
}

/// Bindings of one namespace by whom they are for.
#[derive(Clone, Debug, Default)]
struct Index {
    users: BTreeMap<Box<str>, Vec<Arc<Binding>>>,
    groups: BTreeMap<Box<str>, Vec<Arc<Binding>>>,
}

/// A role, compiled.
#[derive(Debug)]
pub struct Role {
    /// What it allows.
    pub rules: Vec<Rule>,
    /// Labels, for those that gather roles.
    labels: BTreeMap<Box<str>, Box<str>>,
    /// Whose rules it gathers; `None` when its rules are its own.
    gathers: Option<Vec<selector::Selector>>,
}

#[derive(Debug)]
struct Binding {
    key: ObjectKey,
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// What a binding binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

#[derive(Debug)]
struct Subject {
    /// The kind and name as Kubernetes shows them.
    shown: String,
    is_group: bool,
    /// The user or group that it stands for.
    name: Box<str>,
}

impl RoleRef {
    /// From a binding.
    pub fn of(binding: &Value) -> Self {
        let text = |key: &str| binding["roleRef"][key].as_str().unwrap_or_default().into();
        Self { kind: text("kind"), name: text("name") }
    }

    /// `clusterroles` or `roles`.
    pub fn resource(&self) -> &'static str {
        if &*self.kind == "ClusterRole" { "clusterroles" } else { "roles" }
    }

    fn key(&self, namespace: &str) -> ObjectKey {
        let namespace = if &*self.kind == "ClusterRole" { "" } else { namespace };
        ObjectKey::new(namespace, &*self.name)
    }

    /// `role.rbac.authorization.k8s.io "x" not found`, with this noun for `role`.
    fn not_found(&self, noun: &str) -> String {
        format!("{noun}.rbac.authorization.k8s.io {:?} not found", self.name)
    }
}

impl Role {
    fn read(value: &Value) -> Self {
        let labels = value["metadata"]["labels"].as_object().into_iter().flatten();
        let selectors = value["aggregationRule"]["clusterRoleSelectors"].as_array();
        let gathers = selectors.filter(|list| !list.is_empty()).map(|list| {
            list.iter().filter_map(|one| selector::Selector::from_value(one).ok()).collect()
        });
        Self {
            rules: Rule::list(value),
            labels: labels
                .filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into())))
                .collect(),
            gathers,
        }
    }
}

impl Binding {
    fn read(key: ObjectKey, value: &Value) -> Self {
        let list = value["subjects"].as_array().into_iter().flatten();
        let subjects = list.filter_map(|one| Subject::read(one, &key.namespace)).collect();
        Self { role: RoleRef::of(value), subjects, key }
    }

    /// As Kubernetes names the reason that something is allowed.
    fn shown(&self, to: &Subject) -> String {
        let ObjectKey { namespace, name } = &self.key;
        let (kind, name) = match namespace.is_empty() {
            true => ("ClusterRoleBinding", name.to_string()),
            false => ("RoleBinding", format!("{name}/{namespace}")),
        };
        format!("{kind} {name:?} of {} {:?} to {}", self.role.kind, self.role.name, to.shown)
    }
}

impl Subject {
    fn read(value: &Value, namespace: &str) -> Option<Self> {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let shown = format!("{kind} {name:?}");
        Some(match kind {
            "User" => Self { shown, is_group: false, name: name.into() },
            "Group" => Self { shown, is_group: true, name: name.into() },
            "ServiceAccount" => {
                let namespace =
                    Some(text("namespace")).filter(|n| !n.is_empty()).unwrap_or(namespace);
                Self {
                    shown: format!("{kind} {:?}", format!("{name}/{namespace}")),
                    is_group: false,
                    name: format!("system:serviceaccount:{namespace}:{name}").into(),
                }
            }
            _ => return None,
        })
    }

    fn is(&self, user: &User) -> bool {
        if self.is_group { user.is_in(&self.name) } else { *self.name == *user.name }
    }
}

impl Policy {
    /// From objects that no store holds: what a server without clusters goes by.
    pub fn of(roles: &[Value], bindings: &[Value]) -> Self {
        let name = |value: &Value| {
            ObjectKey::new("", value["metadata"]["name"].as_str().unwrap_or_default())
        };
        let mut policy = Self::default();
        for role in roles {
            policy.roles.insert(name(role), Arc::new(Role::read(role)));
        }
        for binding in bindings {
            let key = name(binding);
            let binding = Arc::new(Binding::read(key.clone(), binding));
            policy.index(&binding);
            policy.bindings.insert(key, binding);
        }
        policy
    }

    /// Takes in what changed since this policy was read; reads everything if some of it is gone.
    fn catch_up(&mut self, store: &Store, revision: u64) {
        let since = self.revision;
        for (at, resource) in RESOURCES.into_iter().enumerate() {
            let (changed, count) = store.changed_since(resource, since);
            changed.iter().for_each(|stored| self.take(at, stored));
            if self.counts[at] != count && since > 0 {
                *self = Self::default();
                return self.catch_up(store, revision);
            }
            self.counts[at] = count;
        }
        self.revision = revision;
    }

    /// Takes one stored object in, in place of an older version of it.
    fn take(&mut self, at: usize, stored: &Stored) {
        let value = serde_json::from_slice(&stored.json).unwrap_or_default();
        let key = stored.key.clone();
        let known = if [CLUSTER_ROLES, ROLES].contains(&RESOURCES[at]) {
            let role = Role::read(&value);
            self.roles.insert(key, Arc::new(role)).is_some()
        } else {
            let binding = Arc::new(Binding::read(key.clone(), &value));
            let old = self.bindings.insert(key, binding.clone());
            old.iter().for_each(|old| self.forget(old));
            self.index(&binding);
            old.is_some()
        };
        self.counts[at] += usize::from(!known);
    }

    fn index(&mut self, binding: &Arc<Binding>) {
        let index = self.by_place.entry(binding.key.namespace.clone()).or_default();
        for subject in &binding.subjects {
            let side = if subject.is_group { &mut index.groups } else { &mut index.users };
            let list = side.entry(subject.name.clone()).or_default();
            // In the order of names, in which reasons are given.
            let place = list.partition_point(|other| other.key < binding.key);
            if !list.get(place).is_some_and(|there| Arc::ptr_eq(there, binding)) {
                list.insert(place, binding.clone());
            }
        }
    }

    fn forget(&mut self, binding: &Arc<Binding>) {
        let Some(index) = self.by_place.get_mut(&binding.key.namespace) else { return };
        for subject in &binding.subjects {
            let side = if subject.is_group { &mut index.groups } else { &mut index.users };
            if let Some(list) = side.get_mut(&subject.name) {
                list.retain(|other| !Arc::ptr_eq(other, binding));
                if list.is_empty() {
                    side.remove(&subject.name);
                }
            }
        }
    }

    /// The bindings for a user in the whole cluster, then those in a namespace. One that
    /// names both the user and a group of it comes more than once.
    fn bindings_of<'p>(
        &'p self,
        user: &'p User,
        namespace: &'p str,
    ) -> impl Iterator<Item = &'p Arc<Binding>> {
        let places = std::iter::once("").chain(Some(namespace).filter(|text| !text.is_empty()));
        places.filter_map(|place| self.by_place.get(place)).flat_map(move |index| {
            let own = index.users.get(&*user.name).into_iter().flatten();
            let groups = user.groups.iter().filter_map(|group| index.groups.get(&**group));
            own.chain(groups.flatten())
        })
    }

    /// Whether a user may do something.
    pub fn decide(&self, user: &User, ask: &RequestAttributes) -> Decision {
        if user.is_in(group::MASTERS) {
            return Decision::Allow(String::new());
        }
        let namespace = match ask {
            RequestAttributes::Resource { at, .. } => at.namespace.as_deref().unwrap_or_default(),
            RequestAttributes::Path { .. } => "",
        };
        let mut gone = Vec::new();
        for binding in self.bindings_of(user, namespace) {
            match self.roles.get(&binding.role.key(&binding.key.namespace)) {
                Some(role) if role.rules.iter().any(|rule| rule.allows(ask)) => {
                    let to = binding.subjects.iter().find(|subject| subject.is(user));
                    let why = to.map(|to| binding.shown(to)).unwrap_or_default();
                    return Decision::Allow(format!("RBAC: allowed by {why}"));
                }
                Some(_) => {}
                None => gone.push(binding.role.not_found(&binding.role.kind.to_lowercase())),
            }
        }
        match aggregate(gone) {
            Some(why) => Decision::Deny(format!("RBAC: {why}")),
            None => Decision::Deny(String::new()),
        }
    }

    /// The rules that hold for a user in a namespace, and what is wrong with them. `noun`
    /// is what roles that are missing are called; their own kind when `None`.
    pub fn rules_of(
        &self,
        user: &User,
        namespace: &str,
        noun: Option<&str>,
    ) -> (Vec<Rule>, Option<String>) {
        let (mut rules, mut gone) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for binding in self.bindings_of(user, namespace).filter(|b| seen.insert(&b.key)) {
            match self.roles.get(&binding.role.key(&binding.key.namespace)) {
                Some(role) => rules.extend(role.rules.iter().cloned()),
                None => {
                    let kind = binding.role.kind.to_lowercase();
                    gone.push(binding.role.not_found(noun.unwrap_or(&kind)));
                }
            }
        }
        (rules, aggregate(gone))
    }

    /// The role that a binding of this namespace means.
    pub fn role(&self, role: &RoleRef, namespace: &str) -> Option<&Role> {
        self.roles.get(&role.key(namespace)).map(|role| &**role)
    }

    /// The ClusterRoles that gather others, and the rules they should have by now.
    pub fn gathered(&self) -> Vec<(ObjectKey, Vec<Rule>)> {
        let cluster = || self.roles.iter().filter(|(key, _)| key.namespace.is_empty());
        let gather = |own: &ObjectKey, selectors: &[selector::Selector]| {
            let (mut rules, mut seen) = (Vec::new(), BTreeSet::new());
            for (key, role) in cluster() {
                let wanted = |s: &selector::Selector| {
                    s.matches_what(|label| role.labels.get(label).map(|v| &**v))
                };
                if key == own || !selectors.iter().any(wanted) {
                    continue;
                }
                rules.extend(role.rules.iter().filter(|rule| seen.insert(*rule)).cloned());
            }
            rules
        };
        let gathering = cluster().filter_map(|(key, role)| Some((key, role.gathers.as_ref()?)));
        gathering.map(|(key, selectors)| (key.clone(), gather(key, selectors))).collect()
    }
}

/// Several errors as Go joins them; `None` without any.
fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut errors = errors;
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

impl flagship_schema::AccessPolicy for Policy {
    fn decide(&self, user: &User, ask: &RequestAttributes) -> Decision {
        Self::decide(self, user, ask)
    }
}

#[cfg(test)]
mod tests {
    use flagship_store::env::Env;
    use flagship_store::{Change, Encoded, Expect, Head, Limits, Write};
    use serde_json::json;

    use super::*;

    fn write(store: &Store, resource: &str, space: &str, name: &str, object: Option<Value>) {
        let key = ObjectKey::new(space, name);
        let expect = match store.get(resource, &key) {
            Some(there) => Expect::At(there.revision),
            None => Expect::Absent,
        };
        let resource = resource.into();
        let last = object.clone().unwrap_or_else(|| json!({"metadata": {"name": name}}));
        let (head, json) = (Head::of(&last, Default::default()), Encoded::new(&last));
        let change = match object {
            Some(_) => Change::Put { head, json },
            None => Change::Delete { head, json },
        };
        store.commit(Write { resource: &resource, key, expect, change }).unwrap();
    }

    fn role(name: &str, verb: &str) -> Value {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        json!({"metadata": {"name": name}, "rules": [rule]})
    }

    fn bound(name: &str, users: &[&str]) -> Value {
        let subjects: Vec<Value> =
            users.iter().map(|user| json!({"kind": "User", "name": user})).collect();
        json!({"metadata": {"name": name}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": subjects})
    }

    #[test]
    fn a_policy_that_catches_up_is_the_one_that_is_read_anew() {
        let store = Store::new(Env::simulated(1), Limits::default());
        let cache = Cache::default();
        let steps: [(&str, &str, &str, Option<Value>); 9] = [
            (CLUSTER_ROLES, "", "all", Some(role("all", "*"))),
            (ROLES, "a", "r", Some(role("r", "get"))),
            (BINDINGS, "a", "z", Some(bound("z", &["ann", "ann"]))),
            (BINDINGS, "a", "b", Some(bound("b", &["ann", "bob"]))),
            (ROLES, "a", "r", Some(role("r", "list"))),
            (BINDINGS, "a", "b", Some(bound("b", &["bob"]))),
            (BINDINGS, "a", "z", None),
            (BINDINGS, "c", "z", Some(bound("z", &["cid"]))),
            (CLUSTER_ROLES, "", "all", None),
        ];
        for (at, (resource, space, name, object)) in steps.into_iter().enumerate() {
            write(&store, resource, space, name, object);
            let anew = Cache::default().current(&store);
            // Also over several changes at once.
            if at % 3 != 1 {
                assert_eq!(
                    format!("{:?}", cache.current(&store)),
                    format!("{anew:?}"),
                    "step {at}"
                );
            }
        }
    }
}
