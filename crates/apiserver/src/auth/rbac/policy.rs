//! The roles and bindings of one cluster, compiled and indexed by whom they are for.
//!
//! A [`Cache`] looks at one number a request: the last revision that touched any of the
//! four resources. Only when it moved is anything read again, and then only the objects
//! that did move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use flagship_base::selector;
use flagship_store::{ObjectKey, Scope, Store};
use serde_json::Value;

use super::rule::Rule;
use crate::auth::{Ask, Decision, User, group};

/// Where ClusterRoles are stored.
pub const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
/// Where ClusterRoleBindings are stored.
pub const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";

/// The policy of one cluster, kept up to date.
#[derive(Default)]
pub struct Cache {
    now: RwLock<Arc<Policy>>,
}

impl Cache {
    /// The policy as the store has it now.
    pub fn current(&self, store: &Store) -> Arc<Policy> {
        let revision = store.last_change(&[CLUSTER_ROLES, ROLES, CLUSTER_BINDINGS, BINDINGS]);
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.revision >= revision {
            return known;
        }
        let fresh = Arc::new(known.refreshed(store, revision));
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have read later than we did.
        if now.revision < fresh.revision {
            *now = fresh.clone();
        }
        fresh
    }
}

/// All roles and bindings of a cluster at one revision.
#[derive(Debug, Default)]
pub struct Policy {
    revision: u64,
    /// ClusterRoles have no namespace.
    roles: BTreeMap<ObjectKey, Arc<Role>>,
    /// ClusterRoleBindings have no namespace.
    bindings: BTreeMap<ObjectKey, Arc<Binding>>,
    /// Bindings by their namespace; empty text for the whole cluster.
    by_place: BTreeMap<Arc<str>, Index>,
}

/// Bindings of one namespace by whom they are for.
#[derive(Debug, Default)]
struct Index {
    users: BTreeMap<Box<str>, Vec<Arc<Binding>>>,
    groups: BTreeMap<Box<str>, Vec<Arc<Binding>>>,
}

/// A role, compiled.
#[derive(Debug)]
pub struct Role {
    revision: u64,
    /// What it allows.
    pub rules: Vec<Rule>,
    /// Labels, for those that gather roles.
    labels: BTreeMap<Box<str>, Box<str>>,
    /// Whose rules it gathers; `None` when its rules are its own.
    gathers: Option<Vec<selector::Selector>>,
}

#[derive(Debug)]
struct Binding {
    revision: u64,
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
    fn read(revision: u64, value: &Value) -> Self {
        let labels = value["metadata"]["labels"].as_object().into_iter().flatten();
        let selectors = value["aggregationRule"]["clusterRoleSelectors"].as_array();
        let gathers = selectors.filter(|list| !list.is_empty()).map(|list| {
            list.iter().filter_map(|one| selector::Selector::from_value(one).ok()).collect()
        });
        Self {
            revision,
            rules: Rule::list(value),
            labels: labels
                .filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into())))
                .collect(),
            gathers,
        }
    }
}

impl Binding {
    fn read(key: ObjectKey, revision: u64, value: &Value) -> Self {
        let list = value["subjects"].as_array().into_iter().flatten();
        let subjects = list.filter_map(|one| Subject::read(one, &key.namespace)).collect();
        Self { revision, role: RoleRef::of(value), subjects, key }
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
            policy.roles.insert(name(role), Arc::new(Role::read(0, role)));
        }
        for binding in bindings {
            let key = name(binding);
            policy.bindings.insert(key.clone(), Arc::new(Binding::read(key, 0, binding)));
        }
        policy.index();
        policy
    }

    fn refreshed(&self, store: &Store, revision: u64) -> Self {
        let mut fresh = Self { revision, ..Self::default() };
        for resource in [CLUSTER_ROLES, ROLES] {
            for stored in store.list(resource, Scope::All).items {
                let known = self.roles.get(&stored.key).filter(|r| r.revision == stored.revision);
                let role = known.cloned().unwrap_or_else(|| {
                    let value = serde_json::from_slice(&stored.json).unwrap_or_default();
                    Arc::new(Role::read(stored.revision, &value))
                });
                fresh.roles.insert(stored.key.clone(), role);
            }
        }
        for resource in [CLUSTER_BINDINGS, BINDINGS] {
            for stored in store.list(resource, Scope::All).items {
                let known =
                    self.bindings.get(&stored.key).filter(|b| b.revision == stored.revision);
                let binding = known.cloned().unwrap_or_else(|| {
                    let value = serde_json::from_slice(&stored.json).unwrap_or_default();
                    Arc::new(Binding::read(stored.key.clone(), stored.revision, &value))
                });
                fresh.bindings.insert(stored.key.clone(), binding);
            }
        }
        fresh.index();
        fresh
    }

    fn index(&mut self) {
        for (key, binding) in &self.bindings {
            let index = self.by_place.entry(key.namespace.clone()).or_default();
            for subject in &binding.subjects {
                let side = if subject.is_group { &mut index.groups } else { &mut index.users };
                let list = side.entry(subject.name.clone()).or_default();
                if !list.last().is_some_and(|last| Arc::ptr_eq(last, binding)) {
                    list.push(binding.clone());
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
    pub fn decide(&self, user: &User, ask: &Ask) -> Decision {
        if user.is_in(group::MASTERS) {
            return Decision::Allow(String::new());
        }
        let namespace = match ask {
            Ask::Resource { at, .. } => at.namespace.as_deref().unwrap_or_default(),
            Ask::Path { .. } => "",
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
    fn decide(&self, user: &User, ask: &Ask) -> Decision {
        Self::decide(self, user, ask)
    }
}
