//! What Kubernetes allows before anybody wrote a binding.
//!
//! `system:masters` may do everything; whoever is known may discover the API and ask
//! about itself; everybody may see health and version.

use serde_json::{Value, json};

use super::{Ask, Authorizer, Decision, User, group};
use crate::rest::ClusterHandle;

/// The rule of a server without roles.
#[derive(Debug, Clone, Copy, Default)]
pub struct Masters;

/// Kinds that tell a user about itself and store nothing.
const REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

impl Authorizer for Masters {
    fn authorize(&self, user: &User, ask: &Ask, _: Option<&ClusterHandle>) -> Decision {
        let known = user.is_in(group::AUTHENTICATED);
        let allowed = user.is_in(group::MASTERS)
            || match ask {
                Ask::Path { verb, path } => {
                    let reads = matches!(verb.as_str(), "get" | "head");
                    reads && (is_public(path) || known && is_discovery(path))
                }
                Ask::Resource { verb, at } => {
                    let review = REVIEWS.contains(&(at.group.as_str(), at.resource.as_str()));
                    known && verb == "create" && review
                }
            };
        if allowed { Decision::Allow } else { Decision::Deny(String::new()) }
    }

    fn rules(&self, user: &User, _: &str, _: Option<&ClusterHandle>) -> Value {
        let resource = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
        let path =
            |paths: &[&str], verbs: &[&str]| json!({"verbs": verbs, "nonResourceURLs": paths});
        let mut resources = Vec::new();
        let mut paths = vec![path(&PUBLIC, &["get"])];
        if user.is_in(group::MASTERS) {
            resources.push(resource(&["*"], &["*"], &["*"]));
            paths.insert(0, path(&["*"], &["*"]));
        }
        if user.is_in(group::AUTHENTICATED) {
            for (group, plural) in REVIEWS {
                resources.push(resource(&[group], &[plural], &["create"]));
            }
            let discovery = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
            paths.push(path(&discovery, &["get"]));
        }
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }
}

/// What everybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|open| path == *open || path.strip_suffix('/') == Some(open))
}

fn is_discovery(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    matches!(first, "api" | "apis" | "openapi")
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn may(user: &User, method: &str, path: &str) -> bool {
        let method: Method = method.parse().unwrap();
        Masters.authorize(user, &Ask::of(&method, path, ""), None) == Decision::Allow
    }

    #[test]
    fn strangers_see_health_and_version_and_nothing_else() {
        let nobody = User::anonymous();
        for path in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
            assert!(may(&nobody, "GET", path), "{path}");
            assert!(!may(&nobody, "POST", path), "{path}");
        }
        for path in ["/", "/api", "/apis", "/openapi/v3", "/healthz/../api", "/api/v1/pods", "/%zz"]
        {
            assert!(!may(&nobody, "GET", path), "{path}");
        }
    }

    #[test]
    fn the_known_may_discover_and_ask_about_themselves() {
        let bob = User::authenticated("bob", ["devs"]);
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert!(may(&bob, "GET", "/apis") && may(&bob, "GET", "/openapi/v3/api/v1"));
        assert!(may(&bob, "POST", review) && !may(&bob, "GET", review));
        assert!(!may(&bob, "GET", "/api/v1/namespaces/default/pods"));
        let admin = User::authenticated("admin", [group::MASTERS]);
        assert!(may(&admin, "DELETE", "/api/v1/namespaces/default/pods"));
    }
}
