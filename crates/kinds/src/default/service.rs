//! Defaults of Service, Endpoints, EndpointSlice, IngressClass and NetworkPolicy.

use serde_json::{Value, json};

use super::super::json::{Fill, Object, is_empty};
use super::fill_text;

pub(super) fn service(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    fill_text(spec, "sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            if let Some(config) = spec.child_or_new("sessionAffinityConfig")
                && let Some(client) = config.child_or_new("clientIP")
            {
                client.fill("timeoutSeconds", 10800);
            }
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    for port in spec.children("ports") {
        fill_text(port, "protocol", "TCP");
        let open = port.get("targetPort").is_none_or(|p| is_empty(p) || p.as_i64() == Some(0));
        if open && let Some(number) = port.get("port").cloned() {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = spec.text("type").to_owned();
    let reachable = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && spec.get("externalIPs").is_some_and(|ips| !is_empty(ips)));
    if reachable {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        spec.fill("internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        spec.fill("allocateLoadBalancerNodePorts", true);
        let balancer = object.child("status").and_then(|status| status.child("loadBalancer"));
        if let Some(balancer) = balancer {
            for ingress in balancer.children("ingress") {
                if !ingress.text("ip").is_empty() {
                    ingress.fill("ipMode", "VIP");
                }
            }
        }
    }
}

pub(super) fn endpoints(object: &mut Object) {
    for subset in object.children("subsets") {
        subset.children("ports").for_each(|port| fill_text(port, "protocol", "TCP"));
    }
}

pub(super) fn endpoint_slice(object: &mut Object) {
    for port in object.children("ports") {
        port.fill("name", "");
        port.fill("protocol", "TCP");
    }
}

pub(super) fn ingress_class(object: &mut Object) {
    if let Some(parameters) = object.child("spec").and_then(|spec| spec.child("parameters")) {
        parameters.fill("scope", "Cluster");
    }
}

pub(super) fn network_policy(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("podSelector", Object::new());
    if spec.get("policyTypes").is_none_or(is_empty) {
        let egress = spec.get("egress").is_some_and(|rules| !is_empty(rules));
        let types: Value = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
    for direction in ["ingress", "egress"] {
        for rule in spec.children(direction) {
            rule.children("ports").for_each(|port| port.fill("protocol", "TCP"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(spec: Value) -> Value {
        let mut object = json!({"spec": spec});
        service(object.as_object_mut().unwrap());
        object["spec"].take()
    }

    #[test]
    fn a_small_service_is_a_cluster_ip_with_equal_target_port() {
        assert_eq!(
            defaulted(json!({"ports": [{"port": 80}]})),
            json!({
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            })
        );
    }

    #[test]
    fn a_load_balancer_allocates_node_ports_and_spreads() {
        let spec = defaulted(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}));
        assert_eq!(spec["allocateLoadBalancerNodePorts"], true);
        assert_eq!(spec["externalTrafficPolicy"], "Cluster");
        assert_eq!(spec["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
    }

    #[test]
    fn an_external_name_has_no_traffic_policy() {
        let spec = defaulted(json!({"type": "ExternalName", "externalName": "a.example"}));
        assert_eq!(
            spec,
            json!({"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"})
        );
    }

    #[test]
    fn a_network_policy_with_egress_rules_covers_both_directions() {
        let mut object =
            json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}});
        network_policy(object.as_object_mut().unwrap());
        assert_eq!(object["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(object["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    }
}
