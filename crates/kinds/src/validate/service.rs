//! Service, Endpoints and EndpointSlice.

use std::collections::BTreeSet;

use flagship_base::machinery::status::FieldError;
use flagship_base::names;
use serde_json::json;

use super::super::json::Field;
use super::container::PROTOCOLS;
use super::rules::{
    any_of, ip, named, one_of, port_name, port_number, port_number_or_name, required_name, unique,
};
use super::{Findings, meta};

pub(super) fn service(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let kind = spec.get("type");
    let addresses = spec.get("clusterIPs");
    let headless = addresses.items().next().is_some_and(|ip| ip.text() == "None")
        || spec.get("clusterIP").text() == "None";
    let ports = spec.get("ports");
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        out.push(ports.required(""));
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if headless => {
            let says = format!("may not be set to 'None' for {} services", kind.text());
            let path = format!("{}[0]", addresses.path());
            out.push(FieldError::invalid(path, json!("None"), says));
        }
        "ExternalName" => external_name(&spec, out),
        _ => one_of(&kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], out),
    }
    service_ports(&ports, kind.text(), out);
    meta::labels(&spec.get("selector"), out);
    affinity(&spec, out);
    if kind.text() != "ExternalName" && !headless {
        addresses.items().for_each(|address| ip(&address, out));
        let (first, one) = (addresses.items().next(), spec.get("clusterIP"));
        if first.is_some_and(|first| first.text() != one.text()) && !one.text().is_empty() {
            let says = "first value in `clusterIPs` must match `clusterIP`";
            out.push(addresses.invalid(says));
        }
    }
    spec.get("externalIPs").items().for_each(|address| ip(&address, out));
    traffic(&spec, kind.text(), out);
}

fn external_name(spec: &Field<'_>, out: &mut Findings) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let field = spec.get(key);
        if !field.is_empty() {
            out.push(field.forbidden("may not be set for ExternalName services"));
        }
    }
    let name = spec.get("externalName");
    match name.text().trim_end_matches('.') {
        "" => out.push(name.required("")),
        text => {
            let complaints = names::dns1123_subdomain(text);
            out.extend(complaints.into_iter().map(|says| name.invalid(says)));
        }
    }
}

fn service_ports(ports: &Field<'_>, kind: &str, out: &mut Findings) {
    let several = ports.len() > 1;
    let mut seen = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if several || !name.text().is_empty() {
            required_name(&name, names::dns1123_label, out);
        }
        port_number(&port.get("port"), out);
        let protocol = port.get("protocol");
        one_of(&protocol, &PROTOCOLS, out);
        port_number_or_name(&port.get("targetPort"), out);
        let app = port.get("appProtocol");
        if !app.text().is_empty() {
            named(&app, names::qualified_name, out);
        }
        let number = port.get("port").int().unwrap_or(0);
        if !seen.insert((protocol.text(), number)) {
            let shown = json!({"protocol": protocol.text(), "port": number});
            out.push(FieldError::duplicate(port.path(), shown));
        }
        let node = port.get("nodePort");
        let number = node.int().unwrap_or(0);
        if number == 0 {
            continue;
        }
        if kind == "ClusterIP" {
            out.push(node.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
        if !nodes.insert((protocol.text(), number)) {
            out.push(node.duplicate());
        }
    }
    unique(ports.items().map(|port| port.get("name")), out);
}

fn affinity(spec: &Field<'_>, out: &mut Findings) {
    one_of(&spec.get("sessionAffinity"), &["ClientIP", "None"], out);
    let config = spec.get("sessionAffinityConfig");
    match spec.get("sessionAffinity").text() {
        "ClientIP" if !config.is_set() => {
            out.push(config.required("when session affinity type is ClientIP"));
        }
        "None" if config.is_set() => {
            out.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
    let timeout = config.get("clientIP").get("timeoutSeconds");
    if timeout.int().is_some_and(|seconds| !(1..=86400).contains(&seconds)) {
        out.push(timeout.invalid("must be greater than 0 and less than 86400"));
    }
}

fn traffic(spec: &Field<'_>, kind: &str, out: &mut Findings) {
    let outside = spec.get("externalTrafficPolicy");
    let reachable = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.get("externalIPs").is_empty());
    if !outside.is_empty() && !reachable {
        out.push(outside.invalid("may only be set for externally-accessible services"));
    } else if !outside.is_empty() {
        any_of(&outside, &["Cluster", "Local"], out);
    }
    let health = spec.get("healthCheckNodePort");
    if health.int().unwrap_or(0) != 0 && !(kind == "LoadBalancer" && outside.text() == "Local") {
        let says =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        out.push(health.invalid(says));
    }
    any_of(&spec.get("internalTrafficPolicy"), &["Cluster", "Local"], out);
    if kind != "LoadBalancer" {
        let only = "may only be used when `type` is 'LoadBalancer'";
        for (key, shown) in [
            ("loadBalancerSourceRanges", "LoadBalancerSourceRanges"),
            ("allocateLoadBalancerNodePorts", "allocateLoadBalancerNodePorts"),
            ("loadBalancerClass", "loadBalancerClass"),
        ] {
            let field = spec.get(key).reported_at(&spec.get(shown));
            if !field.is_empty() {
                out.push(field.forbidden(only));
            }
        }
    }
}

/// Addresses never change; only a change of type lets go of them.
pub(super) fn service_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("spec"), old.get("spec"));
    let external = |spec: &Field<'_>| spec.get("type").text() == "ExternalName";
    if external(&new) || external(&old) {
        return;
    }
    let first = |spec: &Field<'_>| {
        let listed = spec.get("clusterIPs").items().next().map(|ip| ip.text().to_owned());
        listed.unwrap_or_else(|| spec.get("clusterIP").text().to_owned())
    };
    let held = first(&old);
    if !held.is_empty() && first(&new) != held {
        let addresses = new.get("clusterIPs");
        let path = format!("{}[0]", addresses.path());
        let shown = addresses.value().clone();
        out.push(FieldError::invalid(path, shown, "may not change once set"));
    }
}

pub(super) fn endpoints(object: &Field<'_>, out: &mut Findings) {
    for subset in object.get("subsets").items() {
        let (ready, waiting) = (subset.get("addresses"), subset.get("notReadyAddresses"));
        if ready.is_empty() && waiting.is_empty() {
            out.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in ready.items().chain(waiting.items()) {
            ip(&address.get("ip"), out);
        }
        let several = subset.get("ports").len() > 1;
        for port in subset.get("ports").items() {
            let name = port.get("name");
            if several || !name.text().is_empty() {
                required_name(&name, names::dns1123_label, out);
            }
            port_number(&port.get("port"), out);
            one_of(&port.get("protocol"), &PROTOCOLS, out);
        }
    }
}

pub(super) fn endpoint_slice(object: &Field<'_>, out: &mut Findings) {
    let kind = object.get("addressType");
    one_of(&kind, &["FQDN", "IPv4", "IPv6"], out);
    let endpoints = object.get("endpoints");
    if endpoints.len() > 1000 {
        out.push(endpoints.too_many(1000));
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.get("addresses");
        if addresses.is_empty() {
            out.push(addresses.required("must contain at least 1 address"));
        } else if addresses.len() > 100 {
            out.push(addresses.too_many(100));
        }
        for address in addresses.items() {
            match kind.text() {
                "IPv4" if address.text().parse::<std::net::Ipv4Addr>().is_err() => {
                    out.push(address.invalid("must be an IPv4 address"));
                }
                "IPv6" if address.text().parse::<std::net::Ipv6Addr>().is_err() => {
                    out.push(address.invalid("must be an IPv6 address"));
                }
                _ => {}
            }
        }
    }
    for port in object.get("ports").items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            named(&name, port_name, out);
        }
        one_of(&port.get("protocol"), &PROTOCOLS, out);
    }
    unique_names(&object.get("ports"), out);
}

/// In a slice the empty name counts as a name.
fn unique_names(ports: &Field<'_>, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !seen.insert(name.value().to_string()) {
            out.push(name.duplicate());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::addresses::ServiceRanges;
    use super::super::super::catalog::Kind;
    use super::super::super::{default_object, prepare_create};
    use super::super::tests::{on_create, on_update};
    use super::*;
    use serde_json::Value;

    fn service(spec: Value) -> Value {
        let mut object = json!({"metadata": {"name": "web", "namespace": "n"}, "spec": spec});
        default_object(Kind::Service, &mut object);
        prepare_create(Kind::Service, &mut object, &mut ServiceRanges::default()).unwrap();
        object
    }

    /// Nothing is timed: where every port is held against every other, this takes minutes.
    #[test]
    fn fifty_thousand_ports_are_judged_one_by_one() {
        let port = |n: usize| json!({"name": format!("p{n}"), "port": n % 65_535 + 1, "protocol": "TCP", "targetPort": 1});
        let mut ports: Vec<Value> = (0..50_000).map(port).collect();
        ports.push(ports[0].clone());
        let object = json!({"metadata": {"name": "web", "namespace": "n"}, "spec": {
            "type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "None", "ports": ports,
        }});
        let found = on_create(Kind::Service, &object);
        assert!(
            found.contains("spec.ports[50000]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}"),
            "{found}"
        );
        assert!(found.contains("spec.ports[50000].name: Duplicate value: \"p0\""), "{found}");
    }

    fn said(spec: Value) -> String {
        on_create(Kind::Service, &service(spec))
    }

    #[test]
    fn good_services_pass() {
        assert_eq!(said(json!({"ports": [{"port": 80}]})), "");
        assert_eq!(said(json!({"clusterIP": "None"})), "");
        assert_eq!(said(json!({"type": "LoadBalancer", "ports": [{"port": 80}]})), "");
        assert_eq!(said(json!({"type": "ExternalName", "externalName": "a.example."})), "");
    }

    #[test]
    fn ports_are_there_named_and_distinct() {
        assert_eq!(said(json!({})), "spec.ports: Required value");
        assert_eq!(
            said(json!({"ports": [{"port": 80}, {"port": 80}]})),
            "spec.ports[0].name: Required value\nspec.ports[1].name: Required value\n\
             spec.ports[1]: Duplicate value: {\"port\":80,\"protocol\":\"TCP\"}"
        );
        assert_eq!(
            said(json!({"ports": [{"port": 0, "targetPort": "Web"}]})),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive\n\
             spec.ports[0].targetPort: Invalid value: \"Web\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        );
        assert_eq!(
            said(json!({"ports": [{"port": 80, "nodePort": 30000}]})),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"
        );
    }

    #[test]
    fn types_have_their_own_rules() {
        assert_eq!(
            said(json!({"type": "Mesh", "ports": [{"port": 80}]})),
            "spec.type: Unsupported value: \"Mesh\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\""
        );
        assert_eq!(
            said(json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]})),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"
        );
        assert_eq!(said(json!({"type": "ExternalName"})), "spec.externalName: Required value");
    }

    #[test]
    fn an_address_never_changes() {
        let old = service(json!({"ports": [{"port": 80}]}));
        let mut new = old.clone();
        new["spec"]["clusterIP"] = json!("10.96.9.9");
        new["spec"]["clusterIPs"] = json!(["10.96.9.9"]);
        assert_eq!(
            on_update(Kind::Service, &new, &old),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.9.9\"]: may not change once set"
        );
    }
}
