//! Ingress, IngressClass and NetworkPolicy.

use std::net::IpAddr;

use flagship_base::machinery::status::FieldError;
use flagship_base::names;
use serde_json::Value;

use super::super::json::Field;
use super::Findings;
use super::container::PROTOCOLS;
use super::rules::{
    any_of, immutable, named, port_name, port_number, port_number_or_name, required_name, selector,
};

pub(super) fn ingress(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let (rules, fallback) = (spec.get("rules"), spec.get("defaultBackend"));
    if rules.is_empty() && !fallback.is_set() {
        let says = "either `defaultBackend` or `rules` must be specified";
        out.push(spec.invalid_as(rules.value().clone(), says));
    }
    if fallback.is_set() {
        backend(&fallback, out);
    }
    for rule in rules.items() {
        let name = rule.get("host");
        if !name.text().is_empty() {
            if name.text().parse::<IpAddr>().is_ok() {
                out.push(name.invalid("must be a DNS name, not an IP address"));
            }
            host(&name, out);
        }
        let http = rule.get("http");
        if http.is_set() {
            let paths = http.get("paths");
            if paths.is_empty() {
                out.push(paths.required(""));
            }
            paths.items().for_each(|path| http_path(&path, out));
        }
    }
    for tls in spec.get("tls").items() {
        tls.get("hosts").items().for_each(|name| host(&name, out));
    }
    let class = spec.get("ingressClassName");
    if class.is_set() {
        named(&class, names::dns1123_subdomain, out);
    }
}

/// On create, the older annotation and the field exclude each other.
pub(super) fn ingress_class_choice(object: &Field<'_>, out: &mut Findings) {
    const OLD: &str = "kubernetes.io/ingress.class";
    let noted = object.get("metadata").get("annotations").value().get(OLD).cloned();
    if let Some(value) = noted
        && object.get("spec").get("ingressClassName").is_set()
    {
        let path = format!("metadata.annotations[{OLD}]");
        let says = "can not be set when the class field is also set";
        out.push(FieldError::invalid(path, value, says));
    }
}

fn host(name: &Field<'_>, out: &mut Findings) {
    match name.text().strip_prefix("*.") {
        Some(rest) => {
            if !names::dns1123_subdomain(rest).is_empty() {
                out.push(name.invalid("a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"));
            }
        }
        None => named(name, names::dns1123_subdomain, out),
    }
}

fn http_path(entry: &Field<'_>, out: &mut Findings) {
    let (path, kind) = (entry.get("path"), entry.get("pathType"));
    let text = path.text();
    match kind.text() {
        "" => out.push(kind.required("pathType must be specified")),
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                out.push(path.invalid_as(text, "must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    out.push(path.invalid(format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    out.push(path.invalid(format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                out.push(path.invalid("must be an absolute path"));
            }
        }
        _ => out.push(kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    backend(&entry.get("backend"), out);
}

fn backend(backend: &Field<'_>, out: &mut Findings) {
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => {
            out.push(backend.invalid_as("", "cannot set both resource and service backends"));
        }
        (false, false) => {
            out.push(backend.invalid_as("", "resource or service backend is required"));
        }
        (false, true) => {}
        (true, false) => {
            required_name(&service.get("name"), names::dns1035_label, out);
            let port = service.get("port");
            let (name, number) = (port.get("name"), port.get("number"));
            match (!name.text().is_empty(), number.int().unwrap_or(0) != 0) {
                (true, true) => {
                    out.push(backend.invalid_as("", "cannot set both port name & port number"));
                }
                (false, false) => {
                    out.push(backend.required("port name or number is required"));
                }
                (true, false) => named(&name, port_name, out),
                (false, true) => port_number(&number, out),
            }
        }
    }
}

pub(super) fn ingress_class(object: &Field<'_>, out: &mut Findings) {
    let controller = object.get("spec").get("controller");
    if controller.text().len() > 250 {
        out.push(controller.too_long(250));
    }
    match controller.text().split_once('/') {
        _ if controller.text().is_empty() => out.push(controller.required("")),
        Some((domain, path)) if !path.is_empty() => {
            let complaints = names::dns1123_subdomain(domain);
            out.extend(complaints.into_iter().map(|says| controller.invalid_as(domain, says)));
        }
        _ => {
            let says = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            out.push(controller.invalid(says));
        }
    }
}

pub(super) fn ingress_class_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    immutable(&new.get("spec").get("controller"), &old.get("spec").get("controller"), out);
}

pub(super) fn network_policy(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    selector(&spec.get("podSelector"), out);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(direction).items() {
            rule.get("ports").items().for_each(|port| policy_port(&port, out));
            rule.get(peers).items().for_each(|peer| policy_peer(&peer, out));
        }
    }
    let types = spec.get("policyTypes");
    if types.len() > 2 {
        out.push(types.invalid("may not specify more than two policyTypes"));
    } else {
        types.items().for_each(|kind| any_of(&kind, &["Egress", "Ingress"], out));
    }
}

fn policy_port(port: &Field<'_>, out: &mut Findings) {
    any_of(&port.get("protocol"), &PROTOCOLS, out);
    let (start, end) = (port.get("port"), port.get("endPort"));
    if start.is_set() {
        port_number_or_name(&start, out);
        if let (Value::Number(_), Some(last)) = (start.value(), end.int()) {
            if start.int().is_some_and(|first| last < first) {
                out.push(end.invalid("must be greater than or equal to `port`"));
            }
            port_number(&end, out);
        } else if end.is_set() {
            out.push(end.invalid("may not be specified when `port` is non-numeric"));
        }
    } else if end.is_set() {
        out.push(end.invalid("may not be specified when `port` is not specified"));
    }
}

fn policy_peer(peer: &Field<'_>, out: &mut Findings) {
    let (pods, spaces) = (peer.get("podSelector"), peer.get("namespaceSelector"));
    let block = peer.get("ipBlock");
    selector(&pods, out);
    selector(&spaces, out);
    match (block.is_set(), pods.is_set() || spaces.is_set()) {
        (false, false) => out.push(peer.required("must specify a peer")),
        (true, true) => {
            out.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
        (true, false) => ip_block(&block, out),
        (false, true) => {}
    }
}

fn ip_block(block: &Field<'_>, out: &mut Findings) {
    let cidr = block.get("cidr");
    let Some(outer) = network(cidr.text()) else {
        if cidr.text().is_empty() {
            out.push(cidr.required(""));
        } else {
            out.push(cidr.invalid(CIDR));
        }
        return;
    };
    for except in block.get("except").items() {
        match network(except.text()) {
            None => out.push(except.invalid(CIDR)),
            Some(inner) if !is_strictly_within(inner, outer) => {
                out.push(except.invalid("must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
}

const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An address, as bits aligned to the left of 128, and the length of its prefix.
fn network(text: &str) -> Option<(bool, u128, u32)> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(v4) if length <= 32 => Some((true, u128::from(v4.to_bits()) << 96, length)),
        IpAddr::V6(v6) if length <= 128 => Some((false, v6.to_bits(), length)),
        _ => None,
    }
}

fn is_strictly_within(inner: (bool, u128, u32), outer: (bool, u128, u32)) -> bool {
    let same_prefix = outer.2 == 0 || (inner.1 ^ outer.1) >> (128 - outer.2) == 0;
    inner.0 == outer.0 && inner.2 > outer.2 && same_prefix
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::super::default_object;
    use super::super::tests::{on_create, on_update};
    use super::*;
    use serde_json::json;

    fn said(kind: Kind, spec: Value) -> String {
        let mut object = json!({"metadata": {"name": "x", "namespace": "n"}, "spec": spec});
        if !kind.info().namespaced {
            object["metadata"] = json!({"name": "x"});
        }
        default_object(kind, &mut object);
        on_create(kind, &object)
    }

    #[test]
    fn an_ingress_needs_somewhere_to_go() {
        assert_eq!(
            said(Kind::Ingress, json!({})),
            "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"
        );
        let path = |path: Value| {
            said(
                Kind::Ingress,
                json!({"rules": [{"host": "a.example", "http": {"paths": [path]}}]}),
            )
        };
        let service = json!({"service": {"name": "web", "port": {"number": 80}}});
        assert_eq!(path(json!({"path": "/", "pathType": "Prefix", "backend": service})), "");
        assert_eq!(
            path(json!({"path": "a//b", "backend": service, "pathType": "Exact"})),
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must be an absolute path\n\
             spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must not contain '//'"
        );
        assert_eq!(
            path(json!({"path": "/", "backend": {"service": {"name": "web"}}})),
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified\n\
             spec.rules[0].http.paths[0].backend: Required value: port name or number is required"
        );
        assert_eq!(
            said(Kind::Ingress, json!({"rules": [{"host": "1.2.3.4"}]})),
            "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"
        );
    }

    #[test]
    fn a_network_policy_names_peers_and_ports() {
        let from = |peer: Value| {
            said(Kind::NetworkPolicy, json!({"podSelector": {}, "ingress": [{"from": [peer]}]}))
        };
        assert_eq!(from(json!({})), "spec.ingress[0].from[0]: Required value: must specify a peer");
        assert_eq!(
            from(
                json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16"]}})
            ),
            "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`"
        );
        assert_eq!(
            said(
                Kind::NetworkPolicy,
                json!({"egress": [{"ports": [{"port": 90, "endPort": 80}, {"endPort": 1}]}]})
            ),
            "spec.egress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`\n\
             spec.egress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is not specified"
        );
    }

    #[test]
    fn a_class_keeps_its_controller() {
        assert_eq!(said(Kind::IngressClass, json!({"controller": "example.com/a"})), "");
        assert_eq!(
            said(Kind::IngressClass, json!({"controller": "a"})),
            "spec.controller: Invalid value: \"a\": must be a domain-prefixed path (such as \"acme.io/foo\")"
        );
        let class = |controller: &str| json!({"metadata": {"name": "x"}, "spec": {"controller": controller}});
        assert_eq!(
            on_update(Kind::IngressClass, &class("a.b/c"), &class("a.b/d")),
            "spec.controller: Invalid value: \"a.b/c\": field is immutable"
        );
    }
}
