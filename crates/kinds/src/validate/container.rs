//! Containers: names, images, ports, environment, mounts, probes and resources.

use std::collections::BTreeSet;

use flagship_base::names;
use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::super::json::Field;
use super::Findings;
use super::rules::{
    POSITIVE, amount, any_of, config_key, named, not_negative, one_of, port_name, port_number,
    port_number_or_name, required, required_name, unique,
};

pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Which list a container stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Init,
    Main,
}

/// Both lists of containers of a pod's specification.
pub(super) fn containers(spec: &Field<'_>, volumes: &BTreeSet<&str>, out: &mut Findings) {
    let grace = spec.get("terminationGracePeriodSeconds").int();
    let main = spec.get("containers");
    if main.is_empty() {
        out.push(main.required(""));
    }
    for item in main.items() {
        container(&item, Role::Main, volumes, grace, out);
    }
    host_ports(&main, out);
    let init = spec.get("initContainers");
    for item in init.items() {
        container(&item, Role::Init, volumes, grace, out);
    }
    let all = main.items().chain(init.items()).map(|item| item.get("name"));
    unique(all, out);
}

/// Containers of a pod, as opposed to a template, name their images exactly.
pub(super) fn trimmed_images(spec: &Field<'_>, out: &mut Findings) {
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).items() {
            let image = container.get("image");
            if image.text().trim() != image.text() {
                out.push(image.invalid("must not have leading or trailing whitespace"));
            }
        }
    }
}

/// On the host's network a port is the host's port. Templates may leave it open.
pub(super) fn host_network_ports(spec: &Field<'_>, in_pod: bool, out: &mut Findings) {
    if !spec.get("hostNetwork").is_true() {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            let (taken, inner) = (host.int().unwrap_or(0), port.get("containerPort").int());
            if (in_pod || taken != 0) && taken != inner.unwrap_or(0) {
                let says = "must match `containerPort` when `hostNetwork` is true";
                out.push(host.invalid_as(taken, says));
            }
        }
    }
}

fn container(
    container: &Field<'_>,
    role: Role,
    volumes: &BTreeSet<&str>,
    grace: Option<i64>,
    out: &mut Findings,
) {
    required_name(&container.get("name"), names::dns1123_label, out);
    required(&container.get("image"), out);
    any_of(&container.get("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"], out);
    any_of(&container.get("imagePullPolicy"), &["Always", "IfNotPresent", "Never"], out);
    ports(&container.get("ports"), out);
    environment(container, out);
    mounts(&container.get("volumeMounts"), volumes, out);
    let restart = container.get("restartPolicy");
    let sidecar = role == Role::Init && restart.text() == "Always";
    match role {
        Role::Main if restart.is_set() => {
            out.push(restart.forbidden("may not be set for non-init containers"));
        }
        Role::Init => any_of(&restart, &["Always"], out),
        Role::Main => {}
    }
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let field = container.get(key);
        if !field.is_set() {
            continue;
        }
        if role == Role::Init && !sidecar {
            let says = "may not be set for init containers without restartPolicy=Always";
            out.push(field.forbidden(says));
        } else if key == "lifecycle" {
            lifecycle(&field, grace, out);
        } else {
            probe(&field, key, out);
        }
    }
    resources(&container.get("resources"), out);
    security(&container.get("securityContext"), out);
}

fn ports(ports: &Field<'_>, out: &mut Findings) {
    for port in ports.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            named(&name, port_name, out);
        }
        let number = port.get("containerPort");
        if number.int().unwrap_or(0) == 0 {
            out.push(number.required(""));
        } else {
            port_number(&number, out);
        }
        let host = port.get("hostPort");
        if host.int().unwrap_or(0) != 0 {
            port_number(&host, out);
        }
        one_of(&port.get("protocol"), &PROTOCOLS, out);
    }
    unique(ports.items().map(|port| port.get("name")), out);
}

/// Two containers of a pod cannot share a port of the host.
fn host_ports(containers: &Field<'_>, out: &mut Findings) {
    let mut taken = BTreeSet::new();
    for container in containers.items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            let number = host.int().unwrap_or(0);
            if number == 0 {
                continue;
            }
            let (protocol, ip) = (port.get("protocol").text(), port.get("hostIP").text());
            let key = format!("{protocol}/{ip}/{number}");
            if !taken.insert(key.clone()) {
                out.push(flagship_base::machinery::status::FieldError::duplicate(
                    host.path(),
                    key.into(),
                ));
            }
        }
    }
}

fn environment(container: &Field<'_>, out: &mut Findings) {
    for variable in container.get("env").items() {
        let name = variable.get("name");
        if name.text().is_empty() {
            out.push(name.required(""));
        } else {
            named(&name, variable_name, out);
        }
        let source = variable.get("valueFrom");
        if source.is_set() {
            variable_source(&source, !variable.get("value").text().is_empty(), out);
        }
    }
    // Kubernetes names the list here, not the entry.
    let sources = container.get("envFrom");
    for source in sources.items() {
        let prefix = source.get("prefix");
        if !prefix.text().is_empty() {
            named(&prefix, variable_name, out);
        }
        let found: Vec<Field<'_>> = ["configMapRef", "secretRef"]
            .into_iter()
            .map(|key| source.get(key))
            .filter(Field::is_set)
            .collect();
        match found.as_slice() {
            [] => {
                let says = "must specify one of: `configMapRef` or `secretRef`";
                out.push(sources.invalid_as("", says));
            }
            [only] => required_name(&only.get("name"), names::dns1123_subdomain, out),
            _ => {
                let says = "may not have more than one field specified at a time";
                out.push(sources.invalid_as("", says));
            }
        }
    }
}

fn variable_name(name: &str) -> Vec<String> {
    let fits = |b: u8| b.is_ascii_graphic() || b == b' ';
    if name.bytes().all(|b| fits(b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

fn variable_source(source: &Field<'_>, valued: bool, out: &mut Findings) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    for key in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.get(key);
        if reference.is_set() {
            let name = reference.get("name");
            let complaints = names::dns1123_subdomain(name.text());
            out.extend(complaints.into_iter().map(|says| name.invalid_as(name.text(), says)));
            required_name(&reference.get("key"), config_key, out);
        }
    }
    let field = source.get("fieldRef");
    if field.is_set() {
        required(&field.get("fieldPath"), out);
    }
    let resource = source.get("resourceFieldRef");
    if resource.is_set() {
        required(&resource.get("resource"), out);
    }
    let count = SOURCES.iter().filter(|key| source.get(key).is_set()).count();
    let says = match (count, valued) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, false) => return,
        (_, false) => "may not have more than one field specified at a time",
    };
    out.push(source.invalid_as("", says));
}

fn mounts(mounts: &Field<'_>, volumes: &BTreeSet<&str>, out: &mut Findings) {
    let mut paths = BTreeSet::new();
    for mount in mounts.items() {
        let name = mount.get("name");
        if name.text().is_empty() {
            out.push(name.required(""));
        }
        if !volumes.contains(name.text()) {
            out.push(name.not_found());
        }
        let path = mount.get("mountPath");
        if path.text().is_empty() {
            out.push(path.required(""));
        }
        if !paths.insert(path.text()) {
            out.push(path.invalid("must be unique"));
        }
        let (sub, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
        if !sub.text().is_empty() && !expression.text().is_empty() {
            out.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
        }
        for (inner, key) in [(sub, "subPath"), (expression, "subPathExpr")] {
            if !inner.text().is_empty() {
                super::volume::inner_path(&inner.reported_at(&mounts.get(key)), out);
            }
        }
    }
}

fn probe(probe: &Field<'_>, key: &str, out: &mut Findings) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, out);
    for number in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        not_negative(&probe.get(number), out);
    }
    let threshold = probe.get("successThreshold");
    if key != "readinessProbe" && threshold.int().is_some_and(|number| number != 1) {
        out.push(threshold.invalid("must be 1"));
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.is_set() {
        if key == "readinessProbe" {
            out.push(grace.invalid("must not be set for readinessProbes"));
        } else if grace.int().is_some_and(|seconds| seconds <= 0) {
            out.push(grace.invalid(POSITIVE));
        }
    }
}

fn lifecycle(lifecycle: &Field<'_>, grace: Option<i64>, out: &mut Findings) {
    for key in ["postStart", "preStop"] {
        let field = lifecycle.get(key);
        if field.is_set() {
            handler(&field, &["exec", "httpGet", "tcpSocket", "sleep"], grace, out);
        }
    }
}

/// Exactly one way to ask, and that one complete.
fn handler(handler: &Field<'_>, kinds: &[&'static str], grace: Option<i64>, out: &mut Findings) {
    let mut count = 0;
    for kind in kinds {
        let field = handler.get(kind);
        if !field.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            out.push(field.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        match *kind {
            "exec" => required(&field.get("command"), out),
            "httpGet" => {
                required(&field.get("path"), out);
                port_number_or_name(&field.get("port"), out);
                one_of(&field.get("scheme"), &["HTTP", "HTTPS"], out);
            }
            "tcpSocket" => port_number_or_name(&field.get("port"), out),
            "grpc" => port_number(&field.get("port"), out),
            _ => {
                let seconds = field.get("seconds").int().unwrap_or(0);
                let grace = grace.unwrap_or(30);
                if !(0..=grace).contains(&seconds) {
                    let says = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    out.push(field.invalid_as(seconds, says));
                }
            }
        }
    }
    if count == 0 {
        out.push(handler.required("must specify a handler type"));
    }
}

/// Requests and limits: known names, good amounts, requests within limits.
pub(super) fn resources(resources: &Field<'_>, out: &mut Findings) {
    let limits = resources.get("limits");
    for (name, field) in limits.entries() {
        resource(name, &field, out);
    }
    let requests = resources.get("requests");
    for (name, field) in requests.entries() {
        let request = resource(name, &field, out);
        let limit = limits.value().get(name).and_then(Value::as_str);
        let limit = limit.and_then(|text| Quantity::bounded(text).ok());
        let (Some(request), limit) = (request, limit) else { continue };
        let extended = name.contains('/') || name.starts_with("hugepages-");
        match limit {
            None if extended => {
                out.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            None => {}
            Some(limit) if extended && request != limit => {
                let says = format!("must be equal to {name} limit of {limit}");
                out.push(requests.invalid_as(request.to_string(), says));
            }
            Some(limit) if request > limit => {
                let says = format!("must be less than or equal to {name} limit of {limit}");
                out.push(requests.invalid_as(request.to_string(), says));
            }
            Some(_) => {}
        }
    }
}

fn resource(name: &str, field: &Field<'_>, out: &mut Findings) -> Option<Quantity> {
    for says in names::qualified_name(name) {
        out.push(field.invalid_as(name, says));
    }
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    let extended = name.contains('/');
    if !standard && !extended && !name.starts_with("hugepages-") {
        if !is_standard(name) {
            out.push(field.invalid_as(name, "must be a standard resource type or fully qualified"));
        }
        out.push(field.invalid_as(name, "must be a standard resource for containers"));
    }
    let found = amount(field, out)?;
    if extended && !found.is_whole() {
        out.push(field.invalid("must be an integer"));
    }
    Some(found)
}

/// Names that mean something to quotas, though not to containers.
pub(super) fn is_standard(name: &str) -> bool {
    let counted = [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let (list, plain) = name.split_once('.').unwrap_or(("", name));
    let sized = matches!(plain, "cpu" | "memory" | "ephemeral-storage" | "storage")
        || plain.starts_with("hugepages-");
    counted.contains(&name) || (sized && matches!(list, "" | "requests" | "limits"))
}

fn security(context: &Field<'_>, out: &mut Findings) {
    for key in ["runAsUser", "runAsGroup"] {
        let id = context.get(key);
        if id.int().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            out.push(id.invalid("must be between 0 and 2147483647, inclusive"));
        }
    }
    let held = context.get("allowPrivilegeEscalation").value() == &Value::Bool(false);
    if held && context.get("privileged").is_true() {
        let says = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        out.push(context.invalid(says));
    }
}
