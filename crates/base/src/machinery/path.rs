//! The path grammar: what a URL path asks for.
//!
//! `/api/<version>/…` is the core group, `/apis/<group>/<version>/…` all others;
//! below that stand `[namespaces/<ns>/]<resource>[/<name>[/<subresource>]]`.
//! `namespaces` itself is the odd one: `/namespaces/x/status` is a subresource,
//! `/namespaces/x/pods` a resource inside.

use super::query::decode;

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/<version>` or `/apis/<group>/<version>`.
    Resources {
        /// Empty for the core group.
        group: String,
        /// The version.
        version: String,
    },
    /// A collection, an object or a subresource.
    Object(ObjectPath),
    /// The old way to watch: `/api/v1/watch/…`, a collection or an object.
    Watch(ObjectPath),
    /// Anything else, without its slashes at the ends: `version`, `readyz/ping`.
    Other(String),
}

/// The path of a collection, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectPath {
    /// Empty for the core group.
    pub group: String,
    /// The version asked for.
    pub version: String,
    /// Set when the path names a namespace.
    pub namespace: Option<String>,
    /// The plural.
    pub resource: String,
    /// Absent for collections.
    pub name: Option<String>,
    /// Such as `status`.
    pub subresource: Option<String>,
}

/// Why a path asks for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPath {
    /// A broken escape or bytes that are not UTF-8: 400.
    Undecodable,
    /// Well-formed, but nothing can ever stand there: 404.
    Nowhere,
}

/// Reads a path, still percent-encoded. It is decoded before it is cut, as in Kubernetes: an
/// encoded slash is a slash. Whoever asks what a path means must ask here, so that rights are
/// never checked for something else than what is done.
pub fn parse(path: &str) -> Result<Target, BadPath> {
    let path = decode(path).ok_or(BadPath::Undecodable)?;
    let trimmed = path.strip_prefix('/').unwrap_or(&path);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    let words: Vec<&str> = match trimmed {
        "" => Vec::new(),
        _ => trimmed.split('/').collect(),
    };
    if words.iter().any(|word| matches!(*word, "" | "." | "..") || word.contains('\0')) {
        return Err(BadPath::Nowhere);
    }
    match words.as_slice() {
        ["api"] => Ok(Target::CoreVersions),
        ["apis"] => Ok(Target::Groups),
        ["apis", group] => Ok(Target::Group((*group).to_owned())),
        ["api", version] => Ok(resources("", version)),
        ["apis", group, version] => Ok(resources(group, version)),
        ["api", version, rest @ ..] => below("", version, rest),
        ["apis", group, version, rest @ ..] => below(group, version, rest),
        other => Ok(Target::Other(other.join("/"))),
    }
}

fn resources(group: &str, version: &str) -> Target {
    Target::Resources { group: group.to_owned(), version: version.to_owned() }
}

fn below(group: &str, version: &str, rest: &[&str]) -> Result<Target, BadPath> {
    match rest {
        ["watch", rest @ ..] if !rest.is_empty() => {
            let at = object(group, version, rest)?;
            // What lies below an object cannot be watched.
            if at.subresource.is_some() { Err(BadPath::Nowhere) } else { Ok(Target::Watch(at)) }
        }
        rest => object(group, version, rest).map(Target::Object),
    }
}

fn object(group: &str, version: &str, rest: &[&str]) -> Result<ObjectPath, BadPath> {
    let (namespace, rest) = match rest {
        // The namespace object and its own subresources.
        ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => {
            (None, rest)
        }
        ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    let own = |text: &&str| Some((*text).to_owned());
    let (resource, name, subresource) = match rest {
        [resource] => (resource, None, None),
        [resource, name] => (resource, own(name), None),
        [resource, name, subresource] => (resource, own(name), own(subresource)),
        // What comes after is for whoever is behind the proxy.
        [resource @ ("pods" | "services" | "nodes"), name, proxy @ "proxy", ..]
            if group.is_empty() =>
        {
            (resource, own(name), own(proxy))
        }
        _ => return Err(BadPath::Nowhere),
    };
    Ok(ObjectPath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        resource: (*resource).to_owned(),
        name,
        subresource,
    })
}

/// What the path of an object's `proxy` asks of whoever is behind it, with a slash in front;
/// `None` when it asks for nothing.
pub fn beyond_proxy(path: &str, namespaced: bool) -> Option<String> {
    // api, version, namespaces, its name, resource, name, proxy.
    let before = if namespaced { 7 } else { 5 };
    let path = decode(path)?;
    let rest = path.trim_start_matches('/').splitn(before + 1, '/').nth(before)?;
    Some(format!("/{rest}"))
}

/// Takes `/clusters/<name>` off the front: the name and the path that remains.
pub fn split_cluster(path: &str) -> Option<(String, &str)> {
    let rest = path.strip_prefix("/clusters/")?;
    let (name, rest) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    Some((decode(name).filter(|name| !name.is_empty())?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `group/version namespace resource name subresource`, dashes for what is absent.
    fn line(path: &str) -> String {
        match parse(path) {
            Ok(Target::Object(o) | Target::Watch(o)) => {
                let watch = matches!(parse(path), Ok(Target::Watch(_)));
                let watch = if watch { "watch " } else { "" };
                let or = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".into());
                format!(
                    "{watch}{}/{} {} {} {} {}",
                    o.group,
                    o.version,
                    or(&o.namespace),
                    o.resource,
                    or(&o.name),
                    or(&o.subresource)
                )
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_are_understood() {
        let table = [
            ("/api", "Ok(CoreVersions)"),
            ("/apis/", "Ok(Groups)"),
            ("/apis/apps", "Ok(Group(\"apps\"))"),
            ("/api/v1", "Ok(Resources { group: \"\", version: \"v1\" })"),
            ("/apis/apps/v1", "Ok(Resources { group: \"apps\", version: \"v1\" })"),
            ("/api/v1/pods", "/v1 - pods - -"),
            ("/api/v1/nodes/n1/status", "/v1 - nodes n1 status"),
            ("/api/v1/namespaces", "/v1 - namespaces - -"),
            ("/api/v1/namespaces/x", "/v1 - namespaces x -"),
            ("/api/v1/namespaces/x/finalize", "/v1 - namespaces x finalize"),
            ("/api/v1/namespaces/x/status", "/v1 - namespaces x status"),
            ("/api/v1/namespaces/x/pods", "/v1 x pods - -"),
            ("/api/v1/namespaces/x/pods/p/eviction", "/v1 x pods p eviction"),
            ("/apis/apps/v1/namespaces/x/deployments/d/scale", "apps/v1 x deployments d scale"),
            ("/api/v1/namespaces/x/configmaps/a%3Ab", "/v1 x configmaps a:b -"),
            ("/api%2Fv1/pods", "/v1 - pods - -"),
            ("/api/v1/namespaces/x%2Fpods", "/v1 x pods - -"),
            ("/api/v1/namespaces/x/serviceaccounts%2Fa%2Ftoken", "/v1 x serviceaccounts a token"),
            ("/api/v1/namespaces/x/configmaps/a%2Fb", "/v1 x configmaps a b"),
            ("/api/v1/watch/pods", "watch /v1 - pods - -"),
            ("/api/v1/watch/namespaces", "watch /v1 - namespaces - -"),
            ("/api/v1/watch/namespaces/x", "watch /v1 - namespaces x -"),
            ("/apis/apps/v1/watch/namespaces/x/deployments/d", "watch apps/v1 x deployments d -"),
            ("/version", "Ok(Other(\"version\"))"),
            ("/readyz/ping", "Ok(Other(\"readyz/ping\"))"),
            ("/", "Ok(Other(\"\"))"),
        ];
        for (path, want) in table {
            assert_eq!(line(path), want, "{path}");
        }
    }

    #[test]
    fn odd_paths_lead_nowhere() {
        for path in [
            "/api/v1//pods",
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces/x/configmaps/%2e%2e",
            "/api/v1/namespaces/x/configmaps/a%2F..%2Fb",
            "/api/v1/namespaces/x%2F/configmaps",
            "/api/v1/namespaces/x/pods/p/exec/deeper",
            "/apis/example.com/v1/namespaces/x/pods/p/proxy/deeper",
            "/api/v1/watch/namespaces/x/pods/p/log",
            "/api/v1/namespaces/x/configmaps/a%00",
        ] {
            assert_eq!(parse(path), Err(BadPath::Nowhere), "{path}");
        }
        for path in ["/api/v1/pods/%ff", "/api/v1/pods/%4", "/%zz"] {
            assert_eq!(parse(path), Err(BadPath::Undecodable), "{path}");
        }
    }

    #[test]
    fn what_is_beyond_a_proxy_is_told_apart() {
        let asked = |path: &str, namespaced| {
            assert_eq!(line(path).rsplit(' ').next(), Some("proxy"), "{path}");
            beyond_proxy(path, namespaced)
        };
        let pod = "/api/v1/namespaces/proxy/pods/proxy/proxy";
        assert_eq!(asked(pod, true), None);
        assert_eq!(asked(&format!("{pod}/"), true).as_deref(), Some("/"));
        assert_eq!(asked(&format!("{pod}/a%20b/c/"), true).as_deref(), Some("/a b/c/"));
        assert_eq!(asked("/api/v1/nodes/n/proxy/metrics", false).as_deref(), Some("/metrics"));
    }

    #[test]
    fn a_cluster_prefix_is_taken_off() {
        assert_eq!(split_cluster("/clusters/m1/api/v1"), Some(("m1".into(), "/api/v1")));
        assert_eq!(split_cluster("/clusters/m1"), Some(("m1".into(), "/")));
        assert_eq!(split_cluster("/clusters//api"), None);
        assert_eq!(split_cluster("/api/v1"), None);
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "(/[a-z.%0-9]{0,6}){0,8}") {
            if let Ok(target) = parse(&path) {
                let _: Target = target;
            }
        }
    }
}
