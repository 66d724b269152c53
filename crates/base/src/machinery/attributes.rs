//! What a request asks permission for, and how a refusal reads.

use super::fields;
use super::path::{self, ObjectPath, Target};
use super::query::{Query, decode};
use super::status::{ApiError, Details};
use super::user::User;

/// A verb on a resource or on a path, as rules of authorization name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestAttributes {
    /// Something below `/api` or `/apis/<group>/<version>`.
    Resource {
        /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
        /// `deletecollection` or a special one such as `impersonate`.
        verb: String,
        /// Group, version, namespace, resource, name and subresource.
        at: ObjectPath,
    },
    /// Discovery, health, version and whatever else has no resource.
    Path {
        /// The method in lower case.
        verb: String,
        /// The path without the cluster, decoded.
        path: String,
    },
}

/// The answer of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead, for this reason, which only reviews tell; it may be empty.
    Allow(String),
    /// No, for this reason, which the user is told; it may be empty.
    Deny(String),
}

impl RequestAttributes {
    /// What a request with this method asks for. `path` and `query` are as sent, without the cluster.
    pub fn of(method: &str, path: &str, query: &str) -> Self {
        match path::parse(path) {
            Ok(Target::Object(at)) => Self::resource(method, at, query),
            Ok(Target::Watch(at)) => Self::resource("GET", at, "watch"),
            // What cannot be read is refused later; here it needs the right to its path.
            _ => {
                let path = decode(path).unwrap_or_else(|| path.to_owned());
                Self::Path { verb: method.to_ascii_lowercase(), path }
            }
        }
    }

    fn resource(method: &str, mut at: ObjectPath, query: &str) -> Self {
        let query = Query::parse(query).ok();
        let watch = query.as_ref().is_some_and(|query| query.flag("watch"));
        let verb = match (method, at.name.is_some()) {
            ("GET" | "HEAD", _) if watch => "watch",
            ("GET" | "HEAD", true) => "get",
            ("GET" | "HEAD", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            (other, _) => &other.to_ascii_lowercase(),
        };
        let verb = verb.to_owned();
        if at.name.is_none() && matches!(verb.as_str(), "list" | "watch" | "deletecollection") {
            // A collection that can only hold one object counts as that object.
            let text = query.as_ref().and_then(|query| query.get("fieldSelector"));
            let selector = text.and_then(|text| fields::Selector::parse(text).ok());
            at.name = selector.and_then(|s| s.exact_name().map(|name| name.to_string()));
        }
        // A namespace lies within itself.
        if at.group.is_empty() && at.resource == "namespaces" {
            at.namespace.clone_from(&at.name);
        }
        Self::Resource { verb, at }
    }

    /// 403 as Kubernetes words it.
    pub fn forbidden(&self, user: &User, why: &str) -> ApiError {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        match self {
            Self::Path { verb, path } => {
                let says =
                    format!("forbidden: User {:?} cannot {verb} path {path:?}{why}", user.name);
                let mut error = ApiError::new(403, "Forbidden", says);
                error.details = Some(Box::default());
                error
            }
            Self::Resource { verb, at } => {
                let resource = match &at.subresource {
                    Some(sub) => format!("{}/{sub}", at.resource),
                    None => at.resource.clone(),
                };
                let place = match &at.namespace {
                    Some(namespace) => format!("in the namespace {namespace:?}"),
                    None => "at the cluster scope".to_owned(),
                };
                let qualified = super::gvk::qualified(&at.resource, &at.group);
                let named = at.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
                let says = format!(
                    "{qualified}{named} is forbidden: User {:?} cannot {verb} resource {resource:?} \
                     in API group {:?} {place}{why}",
                    user.name, at.group
                );
                let mut error = ApiError::new(403, "Forbidden", says);
                error.details = Some(Box::new(Details {
                    name: at.name.clone().unwrap_or_default(),
                    group: at.group.clone(),
                    kind: at.resource.clone(),
                    ..Details::default()
                }));
                error
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let ask = RequestAttributes::of(method, path, query);
        ask.forbidden(&User::authenticated("bob", []), "").message
    }

    #[test]
    fn refusals_read_as_kubernetes_writes_them() {
        let table = [
            (
                "GET",
                "/api/v1/namespaces/a/pods",
                r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "a""#,
            ),
            (
                "GET",
                "/api/v1/pods?watch=1",
                r#"pods is forbidden: User "bob" cannot watch resource "pods" in API group "" at the cluster scope"#,
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/p/log",
                r#"pods "p" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "a""#,
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                r#"deployments.apps is forbidden: User "bob" cannot deletecollection resource "deployments" in API group "apps" in the namespace "a""#,
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a",
                r#"namespaces "a" is forbidden: User "bob" cannot delete resource "namespaces" in API group "" in the namespace "a""#,
            ),
            (
                "GET",
                "/api/v1/nodes?fieldSelector=metadata.name%3Dn",
                r#"nodes "n" is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                "GET",
                "/api/v1/watch/namespaces/x/configmaps?watch=false",
                r#"configmaps is forbidden: User "bob" cannot watch resource "configmaps" in API group "" in the namespace "x""#,
            ),
            (
                "POST",
                "/api/v1/namespaces/x/serviceaccounts%2Fx%2Ftoken",
                r#"serviceaccounts "x" is forbidden: User "bob" cannot create resource "serviceaccounts/token" in API group "" in the namespace "x""#,
            ),
            ("GET", "/healthz%2Fping", r#"forbidden: User "bob" cannot get path "/healthz/ping""#),
            ("GET", "/apis", r#"forbidden: User "bob" cannot get path "/apis""#),
        ];
        for (method, target, want) in table {
            assert_eq!(refusal(method, target), want);
        }
    }
}
