//! Addresses, address families and node ports of services.
//!
//! The embedded clusters have one address family, IPv4.

use std::collections::BTreeMap;

use flagship_base::machinery::status::FieldError;
use serde_json::{Value, json};

use super::super::addresses::Addresses;
use super::super::json::{Fill, Object, at, is_empty};

/// Gives the service what it still lacks. `old` is the stored one on update, whose
/// addresses and ports count as its own.
pub(super) fn allocate(
    object: &mut Object,
    old: Option<&Value>,
    addresses: &mut dyn Addresses,
) -> Result<(), FieldError> {
    let Some(spec) = object.child("spec") else { return Ok(()) };
    let old = old.map_or(&Value::Null, |old| at(old, &["spec"]));
    if takes_ip(spec.text("type")) {
        cluster_ip(spec, old, addresses)?;
    }
    if takes_ports(spec) {
        node_ports(spec, old, addresses)?;
    }
    let checked = spec.text("type") == "LoadBalancer"
        && spec.text("externalTrafficPolicy") == "Local"
        && number(spec.get("healthCheckNodePort")) == 0;
    if checked {
        let port = addresses.take_port().ok_or_else(|| no_port("spec.healthCheckNodePort"))?;
        spec.insert("healthCheckNodePort".to_owned(), port.into());
    }
    Ok(())
}

fn takes_ip(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn takes_ports(spec: &Object) -> bool {
    match spec.text("type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or(0)
}

fn cluster_ip(
    spec: &mut Object,
    old: &Value,
    addresses: &mut dyn Addresses,
) -> Result<(), FieldError> {
    families(spec)?;
    let wanted = spec.text("clusterIP").to_owned();
    let held = at(old, &["clusterIP"]).as_str().unwrap_or_default();
    match wanted.as_str() {
        "None" => {}
        "" => {
            let ip = addresses.take_ip().ok_or_else(|| {
                let detail = "failed to allocate a serviceIP: range is full";
                FieldError::invalid("spec.clusterIPs", json!([]), detail)
            })?;
            spec.insert("clusterIP".to_owned(), ip.clone().into());
            spec.insert("clusterIPs".to_owned(), json!([ip]));
        }
        same if same == held => {}
        ip if ip.parse::<std::net::IpAddr>().is_ok() => {
            addresses.claim_ip(ip).map_err(|why| {
                let detail = format!("failed to allocate IP {ip}: {why}");
                FieldError::invalid("spec.clusterIPs", json!([ip]), detail)
            })?;
        }
        // Not an address at all: validation says so.
        _ => {}
    }
    let first = spec.text("clusterIP").to_owned();
    spec.fill("clusterIPs", json!([first]));
    Ok(())
}

fn families(spec: &mut Object) -> Result<(), FieldError> {
    spec.fill("ipFamilies", json!(["IPv4"]));
    spec.fill("ipFamilyPolicy", "SingleStack");
    if spec.text("ipFamilyPolicy") == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        let value = json!("RequireDualStack");
        return Err(FieldError::invalid("spec.ipFamilyPolicy", value, detail));
    }
    let listed = spec.get("ipFamilies").and_then(Value::as_array);
    for (index, family) in listed.into_iter().flatten().enumerate() {
        if family == "IPv6" {
            let path = format!("spec.ipFamilies[{index}]");
            return Err(FieldError::invalid(
                path,
                family.clone(),
                "not configured on this cluster",
            ));
        }
    }
    Ok(())
}

fn node_ports(
    spec: &mut Object,
    old: &Value,
    addresses: &mut dyn Addresses,
) -> Result<(), FieldError> {
    let old_ports = at(old, &["ports"]).as_array();
    let held: Vec<u64> =
        old_ports.into_iter().flatten().map(|port| number(port.get("nodePort"))).collect();
    // One number may serve several protocols of the same service.
    let mut mine: BTreeMap<u64, String> = BTreeMap::new();
    for (index, port) in spec.children("ports").enumerate() {
        let path = || format!("spec.ports[{index}].nodePort");
        let protocol = port.text("protocol").to_owned();
        match number(port.get("nodePort")) {
            0 => {
                let free = addresses.take_port().ok_or_else(|| no_port(&path()))?;
                port.insert("nodePort".to_owned(), free.into());
            }
            wanted => {
                let shared = mine.get(&wanted).is_some_and(|other| *other != protocol);
                if let Ok(narrow) = u16::try_from(wanted)
                    && !held.contains(&wanted)
                    && !shared
                {
                    addresses
                        .claim_port(narrow)
                        .map_err(|why| FieldError::invalid(path(), json!(wanted), why))?;
                }
                mine.insert(wanted, protocol);
            }
        }
    }
    Ok(())
}

fn no_port(path: &str) -> FieldError {
    FieldError::invalid(path, json!(0), "failed to allocate a nodePort: range is full")
}

/// An update that does not mention what was allocated keeps it, and one that changes
/// the type lets go of what the new type cannot have.
pub(super) fn keep_allocated(object: &mut Object, old: &Value) {
    let old = at(old, &["spec"]);
    let Some(spec) = object.child("spec") else { return };
    let old_kind = at(old, &["type"]).as_str().unwrap_or_default();
    let kind = spec.text("type").to_owned();
    if takes_ip(old_kind) && takes_ip(&kind) {
        keep_ip(spec, old);
    } else if takes_ip(old_kind) && kind == "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            release(spec, old, key);
        }
    }
    keep_ports(spec, old, old_kind);
    if old_kind == "LoadBalancer" && kind != "LoadBalancer" {
        release(spec, old, "allocateLoadBalancerNodePorts");
        release(spec, old, "loadBalancerClass");
    }
    let checked = |kind: &str, policy: &str| kind == "LoadBalancer" && policy == "Local";
    let was = checked(old_kind, at(old, &["externalTrafficPolicy"]).as_str().unwrap_or_default());
    let is = checked(&kind, spec.text("externalTrafficPolicy"));
    if was && is && number(spec.get("healthCheckNodePort")) == 0 {
        if let Some(port) = old.get("healthCheckNodePort") {
            spec.insert("healthCheckNodePort".to_owned(), port.clone());
        }
    } else if was && !is {
        release(spec, old, "healthCheckNodePort");
    }
    let reachable = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || spec.get("externalIPs").is_some_and(|ips| !is_empty(ips));
    if !reachable {
        release(spec, old, "externalTrafficPolicy");
    }
}

fn keep_ip(spec: &mut Object, old: &Value) {
    let held = at(old, &["clusterIP"]);
    let unchanged_list = spec.get("clusterIPs") == old.get("clusterIPs");
    match spec.text("clusterIP") {
        "" => drop(spec.insert("clusterIP".to_owned(), held.clone())),
        // Older clients change the one address and leave the list as they found it.
        ip if Some(ip) != held.as_str() && unchanged_list => {
            let list = json!([ip]);
            spec.insert("clusterIPs".to_owned(), list);
        }
        _ => {}
    }
    if spec.get("clusterIP") == Some(held) {
        for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(key).is_none_or(is_empty)
                && let Some(value) = old.get(key)
            {
                spec.insert(key.to_owned(), value.clone());
            }
        }
    }
    spec.retain(|_, value| !value.is_null());
}

fn keep_ports(spec: &mut Object, old: &Value, old_kind: &str) {
    let had = matches!(old_kind, "NodePort" | "LoadBalancer");
    let has = takes_ports(spec);
    if !had {
        return;
    }
    let old_ports: Vec<&Value> = at(old, &["ports"]).as_array().into_iter().flatten().collect();
    if has {
        for port in spec.children("ports") {
            if number(port.get("nodePort")) == 0 {
                let twin = old_ports.iter().find(|twin| {
                    twin.get("port") == port.get("port")
                        && twin.get("protocol") == port.get("protocol")
                });
                if let Some(held) = twin.and_then(|twin| twin.get("nodePort")) {
                    port.insert("nodePort".to_owned(), held.clone());
                }
            }
        }
    } else if spec.text("type") != "LoadBalancer" {
        let held: Vec<&Value> = old_ports.iter().filter_map(|port| port.get("nodePort")).collect();
        for port in spec.children("ports") {
            if port.get("nodePort").is_some_and(|number| held.contains(&number)) {
                port.remove("nodePort");
            }
        }
    }
}

/// Drops a field that was carried over unchanged from the old object.
fn release(spec: &mut Object, old: &Value, key: &str) {
    if spec.get(key) == old.get(key) {
        spec.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::addresses::ServiceRanges;
    use super::super::super::catalog::Kind;
    use super::super::{prepare_create, prepare_update};
    use super::*;

    fn created(spec: Value) -> Value {
        let mut object = json!({"metadata": {"name": "web"}, "spec": spec});
        prepare_create(Kind::Service, &mut object, &mut ServiceRanges::default()).unwrap();
        object
    }

    #[test]
    fn a_service_gets_an_address_and_keeps_it() {
        let old = created(json!({"type": "ClusterIP"}));
        assert_eq!(
            old["spec"],
            json!({
                "type": "ClusterIP", "clusterIP": "10.96.1.0", "clusterIPs": ["10.96.1.0"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            })
        );
        let mut new = json!({"metadata": {"name": "web"}, "spec": {"type": "ClusterIP"}});
        let mut ranges = ServiceRanges::default();
        ranges.observe(&old);
        prepare_update(Kind::Service, &mut new, &old, &mut ranges).unwrap();
        assert_eq!(new["spec"], old["spec"]);
    }

    #[test]
    fn a_headless_service_has_none() {
        let service = created(json!({"type": "ClusterIP", "clusterIP": "None"}));
        assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
    }

    #[test]
    fn node_ports_are_given_and_kept_by_port_and_protocol() {
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP", "nodePort": 30081}]);
        let old = created(json!({"type": "NodePort", "ports": ports}));
        assert_eq!(old["spec"]["ports"][0]["nodePort"], 30086);
        assert_eq!(old["spec"]["ports"][1]["nodePort"], 30081);
        let mut new =
            json!({"spec": {"type": "NodePort", "ports": [{"port": 81, "protocol": "TCP"}]}});
        prepare_update(Kind::Service, &mut new, &old, &mut ServiceRanges::default()).unwrap();
        assert_eq!(new["spec"]["ports"][0]["nodePort"], 30081);
        let mut back = old.clone();
        back["spec"]["type"] = json!("ClusterIP");
        prepare_update(Kind::Service, &mut back, &old, &mut ServiceRanges::default()).unwrap();
        assert!(back["spec"]["ports"][0].get("nodePort").is_none());
        assert_eq!(back["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    }

    #[test]
    fn an_address_that_is_taken_is_refused_in_kubernetes_words() {
        let mut ranges = ServiceRanges::default();
        ranges.observe(&json!({"spec": {"clusterIP": "10.96.0.10"}}));
        let mut dns = json!({"metadata": {"name": "dns"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10"}});
        let error = prepare_create(Kind::Service, &mut dns, &mut ranges).unwrap_err();
        assert_eq!(
            error.message,
            "Service \"dns\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: \
             failed to allocate IP 10.96.0.10: provided IP is already allocated"
        );
    }
}
