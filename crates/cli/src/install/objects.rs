//! What is applied: the bases that the charts render, with what differs from fleet to fleet.

use flagship_api::crd;
use flagship_api::names::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

const HUB_BASE: &str = include_str!("../../../../deploy/kustomize/hub-agent/agent.yaml");
const MEMBER_BASE: &str = include_str!("../../../../deploy/kustomize/member-agent/agent.yaml");

/// Kinds whose definitions stand on members; all others stand on the hub.
const ON_MEMBERS: &str = "AppliedWork";

/// The Secret on a member that holds the token for the hub.
pub const TOKEN_SECRET: &str = "hub-access";

/// How a member's agent reaches its hub.
pub struct HubAccess<'a> {
    /// The name of the MemberCluster.
    pub member: &'a str,
    /// The hub's URL, as the member reaches it.
    pub url: &'a str,
    /// Its certificate authority, PEM in base64.
    pub authority: Option<&'a str>,
    /// Whether to trust whoever answers.
    pub insecure: bool,
    /// The image of the agent.
    pub image: &'a str,
}

/// The namespace everything of the fleet stands in.
pub fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
}

/// The definitions of a hub, or those of a member.
pub fn definitions(of_member: bool) -> Vec<Value> {
    let belongs =
        |definition: &Value| (definition["spec"]["names"]["kind"] == ON_MEMBERS) == of_member;
    crd::all().into_iter().filter(belongs).collect()
}

/// The definitions of rollout policies, which a hub works without.
pub fn policies() -> Vec<Value> {
    crd::policies()
}

/// The agent of a hub, and its rights.
pub fn hub_agent(image: &str, webhooks: bool) -> Vec<Value> {
    let mut objects = read(HUB_BASE);
    for container in containers(&mut objects) {
        container["image"] = json!(image);
        set_flag(container, "--enable-webhook", webhooks);
    }
    if !webhooks {
        objects.retain(|object| object["kind"] != "Service");
    }
    objects
}

/// The agent of a member, and its rights.
pub fn member_agent(access: &HubAccess<'_>) -> Vec<Value> {
    let mut objects = read(MEMBER_BASE);
    for container in containers(&mut objects) {
        container["image"] = json!(access.image);
        let mut hub = vec![json!({"name": "HUB_SERVER_URL", "value": access.url})];
        let authority = access.authority.filter(|_| !access.insecure);
        hub.extend(authority.map(|pem| json!({"name": "HUB_CERTIFICATE_AUTHORITY", "value": pem})));
        if container["name"] == "refresh-token" {
            container["env"] = json!(hub);
            container["args"] = json!([
                "secret",
                format!("--name={TOKEN_SECRET}"),
                format!("--namespace={SYSTEM_NAMESPACE}"),
                "--renew",
                format!("--tls-insecure={}", access.insecure),
                "--v=2",
            ]);
            continue;
        }
        set_flag(container, "--tls-insecure", access.insecure);
        let Some(environment) = container["env"].as_array_mut() else { continue };
        environment.retain(|variable| variable["name"] != "HUB_SERVER_URL");
        for variable in environment.iter_mut() {
            if variable["name"] == "MEMBER_CLUSTER_NAME" {
                variable["value"] = json!(access.member);
            }
        }
        environment.extend(hub);
    }
    objects
}

/// The Secret with the token of a member.
pub fn token_secret(token: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": TOKEN_SECRET, "namespace": SYSTEM_NAMESPACE},
        "type": "Opaque", "stringData": {"token": token}})
}

/// The service account of a member on the hub.
pub fn account_name(member: &str) -> String {
    format!("{member}-hub-cluster-access")
}

/// Who a member is on the hub: its account, which may renew its own token, and nothing else.
/// What it may do as a member, the hub gives it when it joins.
pub fn identity(member: &str) -> Vec<Value> {
    let account = account_name(member);
    let meta = |name: &str| json!({"name": name, "namespace": SYSTEM_NAMESPACE});
    let (role, group) = (format!("{account}-token"), "rbac.authorization.k8s.io");
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(&account)}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": meta(&role),
            "rules": [{"apiGroups": [""], "resources": ["serviceaccounts/token"],
                "resourceNames": [account], "verbs": ["create"]}]}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": meta(&role),
            "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account,
                "namespace": SYSTEM_NAMESPACE}]}),
    ]
}

/// The member as the hub knows it.
pub fn member_cluster(member: &str, labels: &[(String, String)]) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": member, "labels": labels},
        "spec": {"identity": {"kind": "ServiceAccount", "name": account_name(member),
            "namespace": SYSTEM_NAMESPACE}}})
}

fn read(base: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(base).unwrap_or_default();
    objects.into_iter().filter(|object| !object.is_null()).collect()
}

fn containers(objects: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    let deployments = objects.iter_mut().filter(|object| object["kind"] == "Deployment");
    deployments
        .filter_map(|object| object["spec"]["template"]["spec"]["containers"].as_array_mut())
        .flatten()
}

fn set_flag(container: &mut Value, flag: &str, value: bool) {
    for argument in container["args"].as_array_mut().into_iter().flatten() {
        let name = argument.as_str().and_then(|argument| argument.split('=').next());
        if name == Some(flag) {
            *argument = json!(format!("{flag}={value}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(objects: &[Value]) -> &Value {
        objects.iter().find(|object| object["kind"] == "Deployment").unwrap()
    }

    #[test]
    fn a_members_agent_knows_its_hub() {
        let access = HubAccess {
            member: "east",
            url: "https://hub.example:6443",
            authority: Some("Y2E="),
            insecure: false,
            image: "flagship:test",
        };
        let objects = member_agent(&access);
        let pod = &deployment(&objects)["spec"]["template"]["spec"];
        let [agent, sidecar] = [&pod["containers"][0], &pod["containers"][1]];
        let variable = |of: &Value, name: &str| {
            let all: Vec<Value> = of["env"].as_array().unwrap().clone();
            let found: Vec<Value> = all.into_iter().filter(|v| v["name"] == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0]["value"].clone()
        };
        assert_eq!(variable(agent, "MEMBER_CLUSTER_NAME"), "east");
        for container in [agent, sidecar] {
            assert_eq!(variable(container, "HUB_SERVER_URL"), "https://hub.example:6443");
            assert_eq!(variable(container, "HUB_CERTIFICATE_AUTHORITY"), "Y2E=");
            assert_eq!(container["image"], "flagship:test");
        }
        assert!(agent["args"].as_array().unwrap().contains(&json!("--tls-insecure=false")));
        assert!(sidecar["args"].as_array().unwrap().contains(&json!("--renew")));
        let unchecked = member_agent(&HubAccess { insecure: true, ..access });
        let text = deployment(&unchecked).to_string();
        assert!(text.contains("--tls-insecure=true") && !text.contains("CERTIFICATE_AUTHORITY"));
    }

    #[test]
    fn a_hub_without_webhooks_has_no_service_for_them() {
        let kinds = |webhooks| {
            let objects = hub_agent("flagship:test", webhooks);
            let flag = json!(format!("--enable-webhook={webhooks}"));
            let pod = &deployment(&objects)["spec"]["template"]["spec"];
            assert!(pod["containers"][0]["args"].as_array().unwrap().contains(&flag));
            objects.iter().filter(|object| object["kind"] == "Service").count()
        };
        assert_eq!((kinds(true), kinds(false)), (1, 0));
    }

    #[test]
    fn definitions_stand_on_the_hub_or_on_members() {
        assert_eq!(definitions(true).len(), 1);
        assert_eq!(definitions(true).len() + definitions(false).len(), crd::all().len());
    }
}
