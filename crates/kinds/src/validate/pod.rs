//! Pods and pod templates: the specification as a whole, and what may change in it.

use std::collections::BTreeSet;

use flagship_base::names;
use serde_json::{Value, json};

use super::super::json::{Field, Fill, Object, is_empty};
use super::rules::{any_of, named, one_of, unique};
use super::{Findings, container, meta, scheduling, volume};

/// The words for a change that no rule allows.
const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Labels, annotations and specification of a template.
pub(super) fn template(template: &Field<'_>, out: &mut Findings) {
    template_metadata(template, out);
    let inner = template.get("spec");
    spec(&inner, out);
    container::host_network_ports(&inner, false, out);
}

/// Labels and annotations of a template, which Kubernetes reports beside `metadata`.
pub(super) fn template_metadata(template: &Field<'_>, out: &mut Findings) {
    let metadata = template.get("metadata");
    meta::labels(&metadata.get("labels").reported_at(&template.get("labels")), out);
    let annotations = metadata.get("annotations");
    meta::annotations(&annotations.reported_at(&template.get("annotations")), out);
}

/// The specification of a pod itself.
pub(super) fn pod(pod: &Field<'_>, out: &mut Findings) {
    let inner = pod.get("spec");
    spec(&inner, out);
    container::host_network_ports(&inner, true, out);
    container::trimmed_images(&inner, out);
}

/// What only holds while a pod is new.
pub(super) fn pod_create(pod: &Field<'_>, out: &mut Findings) {
    let spec = pod.get("spec");
    if !spec.get("nodeName").is_empty() && !spec.get("schedulingGates").is_empty() {
        let says = "cannot be set until all schedulingGates have been cleared";
        out.push(spec.get("nodeName").forbidden(says));
    }
}

/// The specification of a pod or of a template.
pub(super) fn spec(spec: &Field<'_>, out: &mut Findings) {
    let volumes = spec.get("volumes");
    volume::volumes(&volumes, out);
    let known: BTreeSet<&str> = volumes.items().map(|volume| volume.get("name").text()).collect();
    container::containers(spec, &known, out);
    one_of(&spec.get("restartPolicy"), &["Always", "OnFailure", "Never"], out);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(&spec.get("dnsPolicy"), &dns, out);
    dns_config(spec, out);
    meta::labels(&spec.get("nodeSelector"), out);
    for (key, rule) in [
        ("nodeName", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("serviceAccountName", names::dns1123_subdomain),
        ("priorityClassName", names::dns1123_subdomain),
        ("runtimeClassName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
        ("subdomain", names::dns1123_label),
    ] {
        let field = spec.get(key);
        if !field.text().is_empty() {
            named(&field, rule, out);
        }
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.int().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        out.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    for alias in spec.get("hostAliases").items() {
        super::rules::ip(&alias.get("ip"), out);
        alias.get("hostnames").items().for_each(|n| named(&n, names::dns1123_subdomain, out));
    }
    let gates = spec.get("schedulingGates");
    for gate in gates.items() {
        named(&gate.get("name").reported_at(&gate), names::qualified_name, out);
    }
    unique(gates.items().map(|gate| gate.get("name").reported_at(&gate)), out);
    any_of(&spec.get("preemptionPolicy"), &["PreemptLowerPriority", "Never"], out);
    scheduling::affinity(&spec.get("affinity"), out);
    scheduling::tolerations(&spec.get("tolerations"), out);
    scheduling::spreading(&spec.get("topologySpreadConstraints"), out);
    if spec.get("resources").is_set() {
        container::resources(&spec.get("resources"), out);
    }
}

fn dns_config(spec: &Field<'_>, out: &mut Findings) {
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").text() == "None" {
        if !config.is_set() {
            out.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
        } else if servers.is_empty() {
            let says = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            out.push(servers.required(says));
        }
    }
    if servers.len() > 3 {
        out.push(servers.invalid("must not have more than 3 nameservers"));
    }
    servers.items().for_each(|server| super::rules::ip(&server, out));
}

/// What may change in a pod: images, deadlines, and tolerations that are added.
pub(super) fn change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let before = out.len();
    for key in ["containers", "initContainers"] {
        if new.get(key).len() != old.get(key).len() {
            let says = format!("pod updates may not add or remove {key}");
            out.push(new.get(key).forbidden(says));
        }
    }
    deadline(&new.get("activeDeadlineSeconds"), &old.get("activeDeadlineSeconds"), out);
    let (now, then) = (new.get("tolerations"), old.get("tolerations"));
    let kept = then
        .items()
        .all(|held| now.items().any(|item| untimed(item.value()) == untimed(held.value())));
    if !kept {
        let says = "existing toleration can not be modified except its tolerationSeconds";
        out.push(now.forbidden(says));
    }
    let held = old.get("schedulingGates");
    for gate in new.get("schedulingGates").items() {
        let name = gate.get("name");
        if !held.items().any(|held| held.get("name").text() == name.text()) {
            let says = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            out.push(name.forbidden(says));
        }
    }
    if out.len() == before
        && frozen_part(new.value(), old.value()) != frozen_part(old.value(), new.value())
    {
        out.push(new.forbidden(FROZEN));
    }
}

fn deadline(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let Some(before) = old.int() else { return };
    match new.int() {
        None => {
            let says = "must not update from a positive integer to nil value";
            out.push(new.invalid_as(Value::Null, says));
        }
        Some(now) if now > before => {
            out.push(new.invalid("must be less than or equal to previous value"));
        }
        Some(_) => {}
    }
}

fn untimed(toleration: &Value) -> Value {
    let mut copy = toleration.clone();
    if let Some(map) = copy.as_object_mut() {
        map.remove("tolerationSeconds");
    }
    copy
}

/// The specification without what a pod may change. `other` is the one compared with:
/// a negative grace period may become 1, and scheduling gates may go.
fn frozen_part(spec: &Value, other: &Value) -> Value {
    let mut copy = spec.clone();
    let Some(map) = copy.as_object_mut() else { return copy };
    for key in ["activeDeadlineSeconds", "tolerations", "serviceAccount"] {
        map.remove(key);
    }
    let gates =
        |spec: &Value| spec.get("schedulingGates").and_then(Value::as_array).map_or(0, Vec::len);
    if gates(spec) + gates(other) > 0 {
        // While gated, a pod may still be told where to go.
        for key in ["schedulingGates", "nodeSelector", "affinity"] {
            map.remove(key);
        }
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    let ended = |a: Option<i64>, b: Option<i64>| a == Some(1) && b.is_some_and(|b| b < 0);
    if ended(grace(spec), grace(other)) || ended(grace(other), grace(spec)) {
        map.remove("terminationGracePeriodSeconds");
    }
    for list in ["containers", "initContainers"] {
        map.children(list).for_each(|container| drop(container.remove("image")));
    }
    // Ephemeral containers have a path of their own.
    map.remove("ephemeralContainers");
    map.retain(|_, value| !is_empty(value));
    copy
}

/// The template of an owner whose pods must always run again.
pub(super) fn restarted_always(template: &Field<'_>, owner: &str, out: &mut Findings) {
    let policy = template.get("spec").get("restartPolicy");
    if !policy.is_empty() && policy.text() != "Always" {
        out.push(policy.not_supported(&["Always"]));
    }
    let deadline = template.get("spec").get("activeDeadlineSeconds");
    if deadline.is_set() {
        out.push(deadline.forbidden(format!("activeDeadlineSeconds in {owner} is not Supported")));
    }
}

/// The selector of an owner picks the pods of its own template.
pub(super) fn selected(selector: &Field<'_>, template: &Field<'_>, out: &mut Findings) {
    let labels = template.get("metadata").get("labels");
    if !super::rules::selects(selector.value(), labels.value()) {
        let shown = if labels.is_set() { labels.value().clone() } else { json!(Object::new()) };
        out.push(labels.invalid_as(shown, "`selector` does not match template `labels`"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::super::default_object;
    use super::super::tests::{on_create, on_update};
    use super::*;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        default_object(Kind::Pod, &mut pod);
        pod
    }

    fn said(spec: Value) -> String {
        on_create(Kind::Pod, &pod(spec))
    }

    fn container(extra: &Value) -> String {
        let mut container = json!({"name": "c", "image": "i:1"});
        for (key, value) in extra.as_object().unwrap() {
            container[key] = value.clone();
        }
        said(json!({"containers": [container]}))
    }

    #[test]
    fn a_pod_needs_a_container_with_a_name_and_an_image() {
        assert_eq!(said(json!({})), "spec.containers: Required value");
        assert_eq!(
            said(json!({"containers": [{}]})),
            "spec.containers[0].name: Required value\nspec.containers[0].image: Required value"
        );
        assert_eq!(
            said(json!({"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]})),
            "spec.containers[1].name: Duplicate value: \"a\""
        );
        assert_eq!(said(json!({"containers": [{"name": "a", "image": "i"}]})), "");
    }

    #[test]
    fn ports_have_numbers_names_and_protocols() {
        assert_eq!(
            container(
                &json!({"ports": [{"containerPort": 0}, {"containerPort": 70000, "protocol": "ICMP"}]})
            ),
            "spec.containers[0].ports[0].containerPort: Required value\n\
             spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive\n\
             spec.containers[0].ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\""
        );
        assert_eq!(
            container(&json!({"ports": [{"name": "HTTP", "containerPort": 80}]})),
            "spec.containers[0].ports[0].name: Invalid value: \"HTTP\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)\n\
             spec.containers[0].ports[0].name: Invalid value: \"HTTP\": must contain at least one letter (a-z)"
        );
        assert_eq!(
            container(&json!({"ports": [
                {"name": "a", "containerPort": 80, "hostPort": 80}, {"name": "a", "containerPort": 81, "hostPort": 80},
            ]})),
            "spec.containers[0].ports[1].name: Duplicate value: \"a\"\n\
             spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""
        );
    }

    #[test]
    fn requests_stay_within_limits() {
        assert_eq!(
            container(&json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
        );
        assert_eq!(
            container(&json!({"resources": {"requests": {"cpus": "2"}}})),
            "spec.containers[0].resources.requests[cpus]: Invalid value: \"cpus\": must be a standard resource type or fully qualified\n\
             spec.containers[0].resources.requests[cpus]: Invalid value: \"cpus\": must be a standard resource for containers"
        );
        assert_eq!(
            container(&json!({"resources": {"limits": {"memory": "1Gb"}}})).lines().next(),
            Some(
                "spec.containers[0].resources.limits[memory]: Invalid value: \"1Gb\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        );
    }

    #[test]
    fn mounts_name_volumes_and_volumes_have_one_source() {
        assert_eq!(
            container(
                &json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]})
            ),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"\n\
             spec.containers[0].volumeMounts[1].name: Not found: \"v\"\n\
             spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"
        );
        let volumes = json!([
            {"name": "v", "emptyDir": {}, "hostPath": {"path": "/x/../y"}}, {"name": "v", "secret": {}},
        ]);
        assert_eq!(
            said(json!({"containers": [{"name": "a", "image": "i"}], "volumes": volumes})),
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type\n\
             spec.volumes[0].hostPath.path: Invalid value: \"/x/../y\": must not contain '..'\n\
             spec.volumes[1].secret.secretName: Required value\n\
             spec.volumes[1].name: Duplicate value: \"v\""
        );
    }

    #[test]
    fn probes_ask_in_exactly_one_way() {
        assert_eq!(
            container(
                &json!({"livenessProbe": {"successThreshold": 2, "httpGet": {"port": 0}, "exec": {"command": ["a"]}}})
            ),
            "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type\n\
             spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"
        );
        assert_eq!(
            container(&json!({"readinessProbe": {"timeoutSeconds": -1}})),
            "spec.containers[0].readinessProbe: Required value: must specify a handler type\n\
             spec.containers[0].readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0"
        );
    }

    #[test]
    fn environment_variables_are_named_and_have_one_source() {
        assert_eq!(
            container(
                &json!({"env": [{"name": "A=B"}, {"name": "C", "value": "x", "valueFrom": {}}], "envFrom": [{}]})
            ),
            "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='\n\
             spec.containers[0].env[1].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`\n\
             spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"
        );
    }

    #[test]
    fn init_containers_run_once_unless_they_are_sidecars() {
        let with = |init: Value| {
            said(json!({"containers": [{"name": "a", "image": "i"}], "initContainers": [init]}))
        };
        let probe = json!({"tcpSocket": {"port": 1}});
        assert_eq!(
            with(json!({"name": "b", "image": "i", "readinessProbe": probe})),
            "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"
        );
        assert_eq!(
            with(
                json!({"name": "b", "image": "i", "restartPolicy": "Always", "readinessProbe": probe})
            ),
            ""
        );
        assert_eq!(
            with(json!({"name": "a", "image": "i"})),
            "spec.initContainers[0].name: Duplicate value: \"a\""
        );
    }

    #[test]
    fn a_running_pod_changes_its_image_and_little_else() {
        let old = pod(
            json!({"containers": [{"name": "a", "image": "i:1"}], "tolerations": [{"key": "a", "operator": "Exists"}]}),
        );
        let mut new = old.clone();
        new["spec"]["containers"][0]["image"] = json!("i:2");
        new["spec"]["tolerations"] =
            json!([{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]);
        new["spec"]["activeDeadlineSeconds"] = json!(5);
        assert_eq!(on_update(Kind::Pod, &new, &old), "");
        new["spec"]["tolerations"] = json!([]);
        assert_eq!(
            on_update(Kind::Pod, &new, &old),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
        );
        let mut new = old.clone();
        new["spec"]["containers"][0]["command"] = json!(["sh"]);
        assert_eq!(on_update(Kind::Pod, &new, &old), format!("spec: Forbidden: {FROZEN}"));
        let mut new = old.clone();
        new["spec"]["containers"] =
            json!([{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1"}]);
        default_object(Kind::Pod, &mut new);
        assert_eq!(
            on_update(Kind::Pod, &new, &old),
            "spec.containers: Forbidden: pod updates may not add or remove containers"
        );
    }
}
