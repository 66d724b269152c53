//! Which objects a request is about, and the path that names them.

use flagship_api::names::ObjectKey;
use kube::core::ApiResource;

/// A resource as the server addresses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceType {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Name in paths, such as `deployments`.
    pub plural: String,
    /// Name in objects, such as `Deployment`.
    pub kind: String,
}

impl ResourceType {
    /// The resource of a type that knows its own.
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self {
        ApiResource::erase::<K>(&()).into()
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all objects, in one namespace or everywhere.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = root.to_owned();
        let places = namespace.map(|namespace| ["namespaces", namespace]);
        let parts = [self.group.as_str(), self.version.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .chain(places.into_iter().flatten())
            .chain([self.plural.as_str()]);
        for part in parts {
            path.push('/');
            path.push_str(&escaped(part));
        }
        path
    }

    /// The path of one object.
    pub(crate) fn object(&self, key: &ObjectKey) -> String {
        format!("{}/{}", self.collection(key.namespace.as_deref()), escaped(&key.name))
    }

    /// What errors call an object of this type.
    pub(crate) fn named(&self, key: &ObjectKey) -> String {
        format!("{} {key}", self.kind)
    }
}

impl From<ApiResource> for ResourceType {
    fn from(resource: ApiResource) -> Self {
        let ApiResource { group, version, plural, kind, .. } = resource;
        Self { group, version, plural, kind }
    }
}

impl std::fmt::Display for ResourceType {
    /// As `deployments.apps/v1`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group.as_str() {
            "" => write!(out, "{}/{}", self.plural, self.version),
            group => write!(out, "{}.{group}/{}", self.plural, self.version),
        }
    }
}

/// Which objects of a resource a list or watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One namespace; all if absent.
    pub namespace: Option<String>,
    /// Label selector in its text form; empty selects all.
    pub labels: String,
    /// Field selector in its text form; empty selects all.
    pub fields: String,
}

impl Selection {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Everything in one namespace.
    pub fn namespace(namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::default() }
    }

    /// Only objects with these labels; the text form of a selector.
    #[must_use]
    pub fn with_labels(self, labels: impl Into<String>) -> Self {
        Self { labels: labels.into(), ..self }
    }

    /// Only objects with these fields; the text form of a selector.
    #[must_use]
    pub fn with_fields(self, fields: impl Into<String>) -> Self {
        Self { fields: fields.into(), ..self }
    }
}

/// A query string in the making.
#[derive(Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn of(selection: &Selection) -> Self {
        Self::default()
            .with("labelSelector", &selection.labels)
            .with("fieldSelector", &selection.fields)
    }

    /// Adds a parameter, unless it is empty.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            self.0.push_str(&escaped(value));
        }
        self
    }

    pub(crate) fn on(self, path: String) -> String {
        path + &self.0
    }
}

/// Percent-encodes everything that is not plain in both paths and queries.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn paths_are_those_of_kubernetes() {
        let maps = ResourceType::of::<ConfigMap>();
        let deployments = ResourceType::of::<Deployment>();
        let web = ObjectKey::namespaced("app", "web");
        assert_eq!(maps.collection(None), "/api/v1/configmaps");
        assert_eq!(maps.object(&web), "/api/v1/namespaces/app/configmaps/web");
        assert_eq!(deployments.object(&web), "/apis/apps/v1/namespaces/app/deployments/web");
        assert_eq!(deployments.to_string(), "deployments.apps/v1");
        assert_eq!(maps.to_string(), "configmaps/v1");
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        let key = ObjectKey::cluster("../a?b=c/d");
        let path = ResourceType::of::<ConfigMap>().object(&key);
        assert_eq!(path, "/api/v1/configmaps/..%2Fa%3Fb%3Dc%2Fd");
    }

    #[test]
    fn queries_are_escaped_and_empty_parameters_left_out() {
        let selection = Selection::all().with_labels("a in (b,c)");
        let path = Query::of(&selection).with("watch", "1").on("/x".to_owned());
        assert_eq!(path, "/x?labelSelector=a%20in%20%28b%2Cc%29&watch=1");
    }
}
