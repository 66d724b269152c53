//! ClusterProfile: the fleet's members as other tools want to read them.
//!
//! The kind belongs to the multicluster special interest group, not to the
//! fleet; the hub writes one for each member that has joined.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::cel::immutable;
use crate::crd::shape;
use crate::kinds::{Version, kind};
use crate::null::or_default;
use crate::raw_json::RawJson;

/// Which cluster this is, and who looks after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// Name of the cluster for people to read.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub display_name: String,

    /// Who looks after the cluster and this profile.
    #[schemars(extend("x-kubernetes-validations" = immutable("ClusterManager is immutable")))]
    pub cluster_manager: ClusterManager,
}

/// Who looks after a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterManager {
    /// Name of the system that looks after the cluster.
    pub name: String,
}

/// What is known about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileStatus {
    /// Whether the cluster's control plane is healthy, among others.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::condition_list")]
    pub conditions: Vec<Condition>,

    /// Versions of what runs in the cluster.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "ClusterVersion::is_empty"
    )]
    pub version: ClusterVersion,

    /// Facts about the cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,

    /// Ways to reach the cluster; the older name of accessProviders.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub credential_providers: Vec<AccessProvider>,

    /// Ways to reach the cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub access_providers: Vec<AccessProvider>,
}

/// Versions of what runs in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterVersion {
    /// Version of Kubernetes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
}

impl ClusterVersion {
    fn is_empty(&self) -> bool {
        self.kubernetes.is_empty()
    }
}

/// One fact about a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Property {
    /// Name of the fact.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Its value, as text.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,

    /// When it was last seen to be so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub last_observed_time: Option<Time>,
}

/// One way to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessProvider {
    /// Name of the kind of credentials to use.
    pub name: String,

    /// Where the cluster is and how to trust it, as in a kubeconfig file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterEndpoint>,
}

/// A cluster entry of a kubeconfig file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterEndpoint {
    /// Address of the API server.
    pub server: String,

    /// Host name to check the server's certificate against, if not the one in the address.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tls_server_name: String,

    /// Whether to trust any certificate.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,

    /// File with the certificates to trust.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub certificate_authority: String,

    /// The certificates to trust, in PEM form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::bytes")]
    pub certificate_authority_data: Option<ByteString>,

    /// Address of the proxy to go through.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub proxy_url: String,

    /// Whether to ask for uncompressed answers.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub disable_compression: bool,

    /// What clients of other kinds need to know.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<EndpointExtension>,
}

/// Something for clients of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointExtension {
    /// Name of the extension.
    pub name: String,

    /// Its content, in a form of its own.
    #[schemars(schema_with = "shape::any_object")]
    pub extension: RawJson,
}

kind! {
    /// A cluster as other tools want to read it: its health, version, facts and address.
    pub struct ClusterProfile {
        /// Which cluster this is, and who looks after it.
        spec: required ClusterProfileSpec,
        /// What is known about it.
        status: optional ClusterProfileStatus,
    }
    group: multicluster, version: "v1alpha1", scope: Namespaced,
    plural: "clusterprofiles", short: [], status_subresource: true,
    versions: [Version::named("v1alpha1")],
    rules: &[],
}
