//! How pods are reached: Services, Ingresses, endpoints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::object::{Object, joined};
use super::{AGE, NAME, Printer};
use crate::Kind;

const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        ("Type", "string", 0),
        ("Cluster-IP", "string", 0),
        ("External-IP", "string", 0),
        ("Port(s)", "string", 0),
        AGE,
        ("Selector", "string", 1),
    ],
    cells: |object| {
        vec![
            object.name(),
            json!(object.text("/spec/type")),
            object.text_or("/spec/clusterIPs/0", "<none>"),
            json!(external(object)),
            json!(ports(object)),
            object.age(),
            object.selector("/spec/selector"),
        ]
    },
};

const INGRESS: Printer = Printer {
    columns: &[
        NAME,
        ("Class", "string", 0),
        ("Hosts", "string", 0),
        ("Address", "string", 0),
        ("Ports", "string", 0),
        AGE,
    ],
    cells: |object| {
        let tls = !object.list("/spec/tls").is_empty();
        vec![
            object.name(),
            object.text_or("/spec/ingressClassName", "<none>"),
            json!(hosts(object)),
            json!(balancer(object)),
            json!(if tls { "80, 443" } else { "80" }),
            object.age(),
        ]
    },
};

const INGRESS_CLASS: Printer = Printer {
    columns: &[NAME, ("Controller", "string", 0), ("Parameters", "string", 0), AGE],
    cells: |object| {
        let text = |key: &str| object.text(&format!("/spec/parameters/{key}"));
        let parameters = match object.at("/spec/parameters").is_object() {
            false => "<none>".to_owned(),
            true => {
                let kind = flagship_base::machinery::gvk::qualified(text("kind"), text("apiGroup"));
                format!("{kind}/{}", text("name"))
            }
        };
        let controller = json!(object.text("/spec/controller"));
        vec![object.name(), controller, json!(parameters), object.age()]
    },
};

const ENDPOINTS: Printer = Printer {
    columns: &[NAME, ("Endpoints", "string", 0), AGE],
    cells: |object| vec![object.name(), json!(endpoints(object)), object.age()],
};

const ENDPOINT_SLICE: Printer = Printer {
    columns: &[
        NAME,
        ("AddressType", "string", 0),
        ("Ports", "string", 0),
        ("Endpoints", "string", 0),
        AGE,
    ],
    cells: |object| {
        let ports = object.list("/ports").iter().map(|port| match port["port"].as_i64() {
            Some(number) => number.to_string(),
            None => port["name"].as_str().unwrap_or("*").to_owned(),
        });
        let addresses = object.list("/endpoints").iter();
        let addresses = addresses.flat_map(|e| e["addresses"].as_array().into_iter().flatten());
        let addresses = addresses.map(|address| address.as_str().unwrap_or_default().to_owned());
        let or_unset = |texts: Vec<String>| match joined(&texts, 3) {
            text if text.is_empty() => json!("<unset>"),
            text => json!(text),
        };
        vec![
            object.name(),
            json!(object.text("/addressType")),
            or_unset(ports.collect()),
            or_unset(addresses.collect()),
            object.age(),
        ]
    },
};

const NETWORK_POLICY: Printer = Printer {
    columns: &[NAME, ("Pod-Selector", "string", 0), AGE],
    cells: |object| vec![object.name(), object.selector("/spec/podSelector"), object.age()],
};

pub(super) fn printer(kind: Kind) -> Option<&'static Printer> {
    Some(match kind {
        Kind::Service => &SERVICE,
        Kind::Ingress => &INGRESS,
        Kind::IngressClass => &INGRESS_CLASS,
        Kind::Endpoints => &ENDPOINTS,
        Kind::EndpointSlice => &ENDPOINT_SLICE,
        Kind::NetworkPolicy => &NETWORK_POLICY,
        _ => return None,
    })
}

/// Addresses of the load balancer, sorted.
fn balancer(object: &Object<'_>) -> String {
    let entries = object.list("/status/loadBalancer/ingress").iter();
    let addresses: BTreeSet<&str> = entries
        .filter_map(|entry| {
            let text = |key: &str| entry[key].as_str().filter(|text| !text.is_empty());
            text("ip").or_else(|| text("hostname"))
        })
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn external(service: &Object<'_>) -> String {
    let own: Vec<&str> =
        service.list("/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match service.text("/spec/type") {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own.join(","),
        "LoadBalancer" => {
            let balancer = balancer(service);
            let all: Vec<&str> =
                [balancer.as_str()].into_iter().filter(|b| !b.is_empty()).chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(service: &Object<'_>) -> String {
    let each = service.list("/spec/ports").iter().map(|port| {
        let number = |key: &str| port[key].as_i64().unwrap_or_default();
        let protocol = port["protocol"].as_str().unwrap_or_default();
        match number("nodePort") {
            1.. => format!("{}:{}/{protocol}", number("port"), number("nodePort")),
            _ => format!("{}/{protocol}", number("port")),
        }
    });
    match each.collect::<Vec<_>>().join(",") {
        text if text.is_empty() => "<none>".to_owned(),
        text => text,
    }
}

/// The first three hosts, and how many rules are left, as Kubernetes counts them.
fn hosts(ingress: &Object<'_>) -> String {
    let rules = ingress.list("/spec/rules");
    let (mut shown, mut more) = (Vec::new(), false);
    for rule in rules {
        more |= shown.len() == 3;
        if let Some(host) = rule["host"].as_str().filter(|host| !host.is_empty() && !more) {
            shown.push(host);
        }
    }
    match (shown.as_slice(), more) {
        ([], _) => "*".to_owned(),
        (shown, false) => shown.join(","),
        (shown, true) => format!("{} + {} more...", shown.join(","), rules.len() - 3),
    }
}

fn endpoints(object: &Object<'_>) -> String {
    let subsets = object.list("/subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let list = |key: &str| subset[key].as_array().map_or(&[][..], Vec::as_slice);
        let addresses = || list("addresses").iter().filter_map(|address| address["ip"].as_str());
        if list("ports").is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in list("ports") {
            let port = port["port"].as_i64().unwrap_or_default();
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    joined(&all, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::object::shown;

    #[test]
    fn services_show_where_they_are_reached() {
        let service = |spec: Value, status: Value| {
            shown(&SERVICE, &json!({"metadata": {"name": "s"}, "spec": spec, "status": status}))
        };
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
        assert_eq!(
            service(
                json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": ports, "selector": {"b": "2", "a": "1"}}),
                json!({})
            ),
            "s | ClusterIP | 10.0.0.1 | <none> | 80/TCP,53:30053/UDP | <unknown> | a=1,b=2"
        );
        let balanced = json!({"loadBalancer": {"ingress": [{"hostname": "z"}, {"ip": "1.2.3.4"}]}});
        assert_eq!(
            service(
                json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "externalIPs": ["9.9.9.9"]}),
                balanced
            ),
            "s | LoadBalancer | 10.0.0.1 | 1.2.3.4,z,9.9.9.9 | <none> | <unknown> | <none>"
        );
        assert_eq!(
            service(json!({"type": "LoadBalancer"}), json!({})),
            "s | LoadBalancer | <none> | <pending> | <none> | <unknown> | <none>"
        );
        assert_eq!(
            service(json!({"type": "ExternalName", "externalName": "a.b"}), json!({})),
            "s | ExternalName | <none> | a.b | <none> | <unknown> | <none>"
        );
    }

    #[test]
    fn ingresses_and_endpoints_are_cut_after_three() {
        let rules: Vec<Value> = ["a", "b", "c", "d", "e"].map(|host| json!({"host": host})).into();
        let ingress = json!({"metadata": {"name": "i"}, "spec": {"rules": rules, "tls": [{}], "ingressClassName": "x"}});
        assert_eq!(shown(&INGRESS, &ingress), "i | x | a,b,c + 2 more... |  | 80, 443 | <unknown>");
        let ips: Vec<Value> = (1..=4).map(|n| json!({"ip": format!("10.0.0.{n}")})).collect();
        let value = json!({"metadata": {"name": "e"}, "subsets": [{"addresses": ips, "ports": [{"port": 80}]}]});
        assert_eq!(
            shown(&ENDPOINTS, &value),
            "e | 10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more... | <unknown>"
        );
        let slice = json!({"metadata": {"name": "e"}, "addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}]});
        assert_eq!(shown(&ENDPOINT_SLICE, &slice), "e | IPv4 | 80,x,* | <unset> | <unknown>");
    }
}
