//! Defaults of pods and pod templates.
//!
//! A template gets everything a pod gets except what only makes sense for a pod that
//! is about to run: requests from limits, service links and host ports.

use serde_json::{Value, json};

use super::super::json::{Fill, Object};
use super::{canonical, fill_number, fill_text, requirements, resource_list, storage};

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A pod itself.
pub(super) fn pod(pod: &mut Object) {
    let Some(spec) = pod.child_or_new("spec") else { return };
    pod_spec(spec);
    for list in ["initContainers", "containers"] {
        spec.children(list).for_each(requests_from_limits);
    }
    pod_requests_from_limits(spec);
    spec.fill("enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["initContainers", "containers"] {
            spec.children(list).for_each(host_ports);
        }
    }
}

/// The pod template under this key.
pub(super) fn template_in(owner: &mut Object, key: &str) {
    let Some(template) = owner.child_or_new(key) else { return };
    template.child_or_new("metadata");
    if let Some(spec) = template.child_or_new("spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Object) {
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill_text(spec, "restartPolicy", "Always");
    fill_text(spec, "schedulerName", "default-scheduler");
    spec.fill("securityContext", Object::new());
    spec.fill("terminationGracePeriodSeconds", 30);
    // The older name of the account is kept equal to the newer one.
    let account = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount").to_owned(),
        newer => newer.to_owned(),
    };
    if !account.is_empty() {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    }
    for list in CONTAINER_LISTS {
        spec.children(list).for_each(container);
    }
    spec.children("volumes").for_each(volume);
    if let Some(resources) = spec.child("resources") {
        requirements(resources);
    }
    resource_list(spec, "overhead");
}

fn container(container: &mut Object) {
    let policy = pull_policy(container.text("image"));
    fill_text(container, "imagePullPolicy", policy);
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    if let Some(resources) = container.child_or_new("resources") {
        requirements(resources);
    }
    container.children("ports").for_each(|port| fill_text(port, "protocol", "TCP"));
    for env in container.children("env") {
        if let Some(source) = env.child("valueFrom") {
            downward_refs(source);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.child(name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = container.child("lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.child(name) {
                http_get(handler);
            }
        }
    }
}

/// `Always` for the tag `latest`, said or implied, as a registry may move it.
fn pull_policy(image: &str) -> &'static str {
    if image.is_empty() {
        return "IfNotPresent";
    }
    // A colon before the last slash belongs to the registry's port.
    let last = image.rsplit('/').next().unwrap_or(image);
    let (name, digest) = match last.split_once('@') {
        Some((name, _)) => (name, true),
        None => (last, false),
    };
    match name.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest => "IfNotPresent",
        None => "Always",
    }
}

fn probe(probe: &mut Object) {
    fill_number(probe, "timeoutSeconds", 1);
    fill_number(probe, "periodSeconds", 10);
    fill_number(probe, "successThreshold", 1);
    fill_number(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = probe.child("grpc") {
        grpc.fill("service", "");
    }
}

fn http_get(handler: &mut Object) {
    if let Some(get) = handler.child("httpGet") {
        fill_text(get, "path", "/");
        fill_text(get, "scheme", "HTTP");
    }
}

/// `fieldRef` and `resourceFieldRef`, wherever they stand.
fn downward_refs(source: &mut Object) {
    if let Some(reference) = source.child("fieldRef") {
        fill_text(reference, "apiVersion", "v1");
    }
    if let Some(reference) = source.child("resourceFieldRef") {
        reference.fill("divisor", "0");
        if let Some(divisor) = reference.get_mut("divisor") {
            canonical(divisor);
        }
    }
}

fn volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(limit) = volume.child("emptyDir").and_then(|dir| dir.get_mut("sizeLimit")) {
        canonical(limit);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.child(source) {
            source.fill("defaultMode", 0o644);
        }
    }
    if let Some(downward) = volume.child("downwardAPI") {
        downward.children("items").for_each(downward_refs);
    }
    if let Some(projected) = volume.child("projected") {
        for source in projected.children("sources") {
            if let Some(downward) = source.child("downwardAPI") {
                downward.children("items").for_each(downward_refs);
            }
            if let Some(token) = source.child("serviceAccountToken") {
                token.fill("expirationSeconds", 3600);
            }
        }
    }
    if let Some(image) = volume.child("image") {
        let policy = pull_policy(image.text("reference"));
        fill_text(image, "pullPolicy", policy);
    }
    if let Some(claim) = volume.child("ephemeral").and_then(|e| e.child("volumeClaimTemplate"))
        && let Some(spec) = claim.child("spec")
    {
        storage::claim_spec(spec);
    }
    storage::volume_source(volume);
}

fn requests_from_limits(container: &mut Object) {
    let Some(resources) = container.child("resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = resources.child_or_new("requests") else { return };
    for (name, limit) in limits {
        requests.fill(&name, limit);
    }
}

/// Pod-level limits of a resource that no container asks for become the request.
fn pod_requests_from_limits(spec: &mut Object) {
    let asked: Vec<String> = ["initContainers", "containers"]
        .into_iter()
        .filter_map(|list| spec.get(list).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("resources")?.get("requests")?.as_object())
        .flat_map(|requests| requests.keys().cloned())
        .collect();
    let Some(resources) = spec.child("resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    for (name, limit) in limits {
        if !asked.contains(&name)
            && let Some(requests) = resources.child_or_new("requests")
        {
            requests.fill(&name, limit);
        }
    }
}

fn host_ports(container: &mut Object) {
    for port in container.children("ports") {
        if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            fill_number(port, "hostPort", number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_policy_follows_the_tag() {
        let table = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry:5000/nginx", "Always"),
            ("registry:5000/team/nginx:1", "IfNotPresent"),
            ("nginx@sha256:00", "IfNotPresent"),
            ("nginx:latest@sha256:00", "Always"),
            ("", "IfNotPresent"),
        ];
        for (image, policy) in table {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn a_small_pod_gets_everything_a_real_server_writes() {
        let mut object = json!({"spec": {
            "containers": [{
                "name": "web", "image": "nginx:1.27",
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "readinessProbe": {"grpc": {"port": 9}, "timeoutSeconds": 0},
            }],
            "volumes": [{"name": "scratch"}, {"name": "conf", "configMap": {"name": "c"}}],
        }});
        pod(object.as_object_mut().unwrap());
        assert_eq!(
            object,
            json!({"spec": {
                "containers": [{
                    "name": "web", "image": "nginx:1.27", "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "resources": {
                        "limits": {"cpu": "1", "memory": "1Gi"},
                        "requests": {"cpu": "500m", "memory": "1Gi"},
                    },
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                    "livenessProbe": {
                        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                    },
                    "readinessProbe": {
                        "grpc": {"port": 9, "service": ""},
                        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                    },
                }],
                "volumes": [
                    {"name": "scratch", "emptyDir": {}},
                    {"name": "conf", "configMap": {"name": "c", "defaultMode": 420}},
                ],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30, "enableServiceLinks": true,
            }})
        );
    }

    #[test]
    fn a_host_network_pod_opens_its_ports_on_the_host() {
        let mut object = json!({"spec": {"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}});
        pod(object.as_object_mut().unwrap());
        assert_eq!(object["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    }

    #[test]
    fn a_template_keeps_its_requests() {
        let mut object = json!({"template": {"spec": {"containers": [
            {"name": "a", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}
        ]}}});
        template_in(object.as_object_mut().unwrap(), "template");
        let spec = &object["template"]["spec"];
        assert_eq!(spec["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
        assert!(spec.get("enableServiceLinks").is_none());
    }
}
