//! The cluster itself: namespaces, nodes, events, configuration, leases, quotas.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::object::Object;
use super::{AGE, NAME, Printer, human};
use crate::Kind;

const NAMESPACE: Printer = Printer {
    columns: &[NAME, ("Status", "string", 0), AGE],
    cells: |object| vec![object.name(), json!(object.text("/status/phase")), object.age()],
};

const NODE: Printer = Printer {
    columns: &[
        NAME,
        ("Status", "string", 0),
        ("Roles", "string", 0),
        AGE,
        ("Version", "string", 0),
        ("Internal-IP", "string", 1),
        ("External-IP", "string", 1),
        ("OS-Image", "string", 1),
        ("Kernel-Version", "string", 1),
        ("Container-Runtime", "string", 1),
    ],
    cells: |object| {
        let info = |key: &str| object.text_or(&format!("/status/nodeInfo/{key}"), "<unknown>");
        vec![
            object.name(),
            json!(node_status(object)),
            json!(node_roles(object)),
            object.age(),
            json!(object.text("/status/nodeInfo/kubeletVersion")),
            json!(node_address(object, "InternalIP")),
            json!(node_address(object, "ExternalIP")),
            info("osImage"),
            info("kernelVersion"),
            info("containerRuntimeVersion"),
        ]
    },
};

const EVENT: Printer = Printer {
    columns: &[
        ("Last Seen", "string", 0),
        ("Type", "string", 0),
        ("Reason", "string", 0),
        ("Object", "string", 0),
        ("Subobject", "string", 1),
        ("Source", "string", 1),
        ("Message", "string", 0),
        ("First Seen", "string", 1),
        ("Count", "string", 1),
        ("Name", "string", 1),
    ],
    cells: event,
};

const CONFIG_MAP: Printer = Printer {
    columns: &[NAME, ("Data", "string", 0), AGE],
    cells: |object| {
        let entries = |pointer: &str| object.len(pointer).as_u64().unwrap_or_default();
        vec![object.name(), json!(entries("/data") + entries("/binaryData")), object.age()]
    },
};

const SECRET: Printer = Printer {
    columns: &[NAME, ("Type", "string", 0), ("Data", "string", 0), AGE],
    cells: |object| {
        vec![object.name(), json!(object.text("/type")), object.len("/data"), object.age()]
    },
};

const SERVICE_ACCOUNT: Printer = Printer {
    columns: &[NAME, ("Secrets", "string", 0), AGE],
    cells: |object| vec![object.name(), object.len("/secrets"), object.age()],
};

const LEASE: Printer = Printer {
    columns: &[NAME, ("Holder", "string", 0), AGE],
    cells: |object| vec![object.name(), json!(object.text("/spec/holderIdentity")), object.age()],
};

const RESOURCE_QUOTA: Printer = Printer {
    columns: &[NAME, ("Request", "string", 0), ("Limit", "string", 0), AGE],
    cells: |object| {
        let [requests, limits] = quota(object);
        vec![object.name(), json!(requests), json!(limits), object.age()]
    },
};

const PRIORITY_CLASS: Printer = Printer {
    columns: &[
        NAME,
        ("Value", "integer", 0),
        ("Global-Default", "boolean", 0),
        AGE,
        ("PreemptionPolicy", "string", 0),
    ],
    cells: |object| {
        vec![
            object.name(),
            object.count("/value"),
            object.flag("/globalDefault", false),
            object.age(),
            json!(object.text("/preemptionPolicy")),
        ]
    },
};

const RUNTIME_CLASS: Printer = Printer {
    columns: &[NAME, ("Handler", "string", 0), AGE],
    cells: |object| vec![object.name(), json!(object.text("/handler")), object.age()],
};

const CERTIFICATE_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        AGE,
        ("SignerName", "string", 0),
        ("Requestor", "string", 0),
        ("RequestedDuration", "string", 0),
        ("Condition", "string", 0),
    ],
    cells: |object| {
        let life = match object.at("/spec/expirationSeconds").as_i64() {
            Some(seconds) => human(SignedDuration::from_secs(seconds)),
            None => "<none>".to_owned(),
        };
        let has = |kind: &str| object.condition(kind).is_some();
        let mut state = match (has("Denied"), has("Approved")) {
            (true, _) => "Denied",
            (false, true) => "Approved",
            (false, false) => "Pending",
        }
        .to_owned();
        if has("Failed") {
            state += ",Failed";
        }
        if !object.text("/status/certificate").is_empty() {
            state += ",Issued";
        }
        vec![
            object.name(),
            object.age(),
            object.text_or("/spec/signerName", "<none>"),
            json!(object.text("/spec/username")),
            json!(life),
            json!(state),
        ]
    },
};

const API_SERVICE: Printer = Printer {
    columns: &[NAME, ("Service", "string", 0), ("Available", "string", 0), AGE],
    cells: |object| {
        let text = |key: &str| object.text(&format!("/spec/service/{key}"));
        let service = match object.at("/spec/service").is_object() {
            true => format!("{}/{}", text("namespace"), text("name")),
            false => "Local".to_owned(),
        };
        let available = object.condition("Available").map_or("Unknown".to_owned(), |condition| {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            match text("status") {
                "True" => "True".to_owned(),
                status => format!("{status} ({})", text("reason")),
            }
        });
        vec![object.name(), json!(service), json!(available), object.age()]
    },
};

pub(super) fn printer(kind: Kind) -> Option<&'static Printer> {
    Some(match kind {
        Kind::Namespace => &NAMESPACE,
        Kind::CertificateSigningRequest => &CERTIFICATE_REQUEST,
        Kind::Node => &NODE,
        Kind::Event => &EVENT,
        Kind::ConfigMap => &CONFIG_MAP,
        Kind::Secret => &SECRET,
        Kind::ServiceAccount => &SERVICE_ACCOUNT,
        Kind::Lease => &LEASE,
        Kind::ResourceQuota => &RESOURCE_QUOTA,
        Kind::PriorityClass => &PRIORITY_CLASS,
        Kind::RuntimeClass => &RUNTIME_CLASS,
        Kind::ApiService => &API_SERVICE,
        _ => return None,
    })
}

fn node_status(node: &Object<'_>) -> String {
    let ready = match node.condition("Ready") {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = node.at("/spec/unschedulable") == true;
    format!("{ready}{}", if closed { ",SchedulingDisabled" } else { "" })
}

fn node_roles(node: &Object<'_>) -> String {
    let labels = node.at("/metadata/labels").as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    match roles.into_iter().collect::<Vec<_>>().join(",") {
        none if none.is_empty() => "<none>".to_owned(),
        roles => roles,
    }
}

fn node_address(node: &Object<'_>, kind: &str) -> String {
    let found = node.list("/status/addresses").iter().find(|address| address["type"] == *kind);
    found.and_then(|address| address["address"].as_str()).unwrap_or("<none>").to_owned()
}

fn event(object: &Object<'_>) -> Vec<Value> {
    let first = match object.text("/firstTimestamp") {
        "" => object.since("/eventTime"),
        _ => object.since("/firstTimestamp"),
    };
    let mut last = match object.text("/lastTimestamp") {
        "" => first.clone(),
        _ => object.since("/lastTimestamp"),
    };
    // An event that stands alone has no count.
    let mut count = object.number("/count").max(1);
    if object.at("/series").is_object() {
        last = object.since("/series/lastObservedTime");
        count = object.number("/series/count");
    }
    let kind = object.text("/involvedObject/kind").to_lowercase();
    let about = match object.text("/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |one: &str, other: &str| match object.text(one) {
        "" => object.text(other).to_owned(),
        text => text.to_owned(),
    };
    let mut source = either("/source/component", "/reportingComponent");
    let host = either("/source/host", "/reportingInstance");
    if !host.is_empty() {
        source = format!("{source}, {host}");
    }
    vec![
        json!(last),
        json!(object.text("/type")),
        json!(object.text("/reason")),
        json!(about),
        json!(object.text("/involvedObject/fieldPath")),
        json!(source),
        json!(object.text("/message").trim()),
        json!(first),
        json!(count),
        object.name(),
    ]
}

/// Used and allowed amounts: of requests and everything else, and of limits.
fn quota(object: &Object<'_>) -> [String; 2] {
    let mut columns = [Vec::new(), Vec::new()];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (resource, hard) in object.at("/status/hard").as_object().into_iter().flatten() {
        let used = match &object.at("/status/used")[resource] {
            Value::Null => "0".to_owned(),
            used => text(used),
        };
        let column = usize::from(resource.starts_with("limits."));
        columns[column].push(format!("{resource}: {used}/{}", text(hard)));
    }
    columns.map(|entries| entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::object::shown;

    #[test]
    fn nodes_show_readiness_roles_and_addresses() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "nodeInfo": {"kubeletVersion": "v1.34.0"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        });
        assert_eq!(
            shown(&NODE, &node),
            "n | NotReady,SchedulingDisabled | edge,worker | <unknown> | v1.34.0 | 10.0.0.1 | <none> | <unknown> | <unknown> | <unknown>"
        );
    }

    #[test]
    fn events_show_what_happened_to_whom() {
        let event = json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "Started", "message": " it began \n",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
            "source": {"component": "kubelet", "host": "n"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:59:00Z", "count": 3,
        });
        assert_eq!(
            shown(&EVENT, &event),
            "60s | Normal | Started | pod/p | spec.containers{a} | kubelet, n | it began | 60m | 3 | e"
        );
        let series = json!({
            "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "c",
            "series": {"count": 9, "lastObservedTime": "2026-01-01T00:30:00.000000Z"},
        });
        assert_eq!(shown(&EVENT, &series), "30m |  |  |  |  | c |  | 60m | 9 | e");
    }

    #[test]
    fn quotas_show_what_is_used_of_what_is_allowed() {
        let quota = json!({"metadata": {"name": "q"}, "status": {
            "hard": {"pods": "10", "limits.cpu": "2", "requests.cpu": "1"}, "used": {"pods": "3"},
        }});
        assert_eq!(
            shown(&RESOURCE_QUOTA, &quota),
            "q | pods: 3/10, requests.cpu: 0/1 | limits.cpu: 0/2 | <unknown>"
        );
    }
}
