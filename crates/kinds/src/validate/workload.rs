//! Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController and their revisions.

use serde_json::{Value, json};

use super::super::json::{Field, is_empty};
use super::rules::{
    any_of, immutable, int_or_percent, is_zero, not_negative, selector, selects_nothing,
};
use super::{Findings, pod};

const FROZEN_SET: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(super) fn deployment(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    not_negative(&spec.get("replicas"), out);
    owned_template(&spec, "empty selector is invalid for deployment", out);
    pod::restarted_always(&spec.get("template"), "ReplicaSet", out);
    let strategy = spec.get("strategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "Recreate" if rolling.is_set() => {
            let says = "may not be specified when strategy `type` is 'Recreate'";
            out.push(rolling.forbidden(says));
        }
        "RollingUpdate" if !rolling.is_set() => {
            out.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            int_or_percent(&unavailable, true, out);
            int_or_percent(&surge, false, out);
            if is_zero(&unavailable) && is_zero(&surge) {
                out.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
            }
        }
        _ => any_of(&strategy.get("type"), &["Recreate", "RollingUpdate"], out),
    }
    not_negative(&spec.get("minReadySeconds"), out);
    not_negative(&spec.get("revisionHistoryLimit"), out);
    let deadline = spec.get("progressDeadlineSeconds");
    not_negative(&deadline, out);
    let ready = spec.get("minReadySeconds").int().unwrap_or(0);
    if deadline.int().is_some_and(|seconds| seconds <= ready) {
        out.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

pub(super) fn replica_set(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    not_negative(&spec.get("replicas"), out);
    not_negative(&spec.get("minReadySeconds"), out);
    owned_template(&spec, "empty selector is invalid for deployment", out);
    pod::restarted_always(&spec.get("template"), "ReplicaSet", out);
}

pub(super) fn daemon_set(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    owned_template(&spec, "empty selector is invalid for daemonset", out);
    pod::restarted_always(&spec.get("template"), "DaemonSet", out);
    not_negative(&spec.get("minReadySeconds"), out);
    let strategy = spec.get("updateStrategy");
    if strategy.get("type").text() == "RollingUpdate" {
        let rolling = strategy.get("rollingUpdate");
        let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
        int_or_percent(&unavailable, true, out);
        int_or_percent(&surge, true, out);
        match (is_zero(&unavailable), is_zero(&surge)) {
            (true, true) => {
                out.push(unavailable.required("cannot be 0 when maxSurge is 0"));
            }
            (false, false) => {
                out.push(surge.invalid("may not be set when maxUnavailable is non-zero"));
            }
            _ => {}
        }
    } else {
        any_of(&strategy.get("type"), &["RollingUpdate", "OnDelete"], out);
    }
    not_negative(&spec.get("revisionHistoryLimit"), out);
}

pub(super) fn stateful_set(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let policy = spec.get("podManagementPolicy");
    if !matches!(policy.text(), "OrderedReady" | "Parallel") {
        out.push(policy.invalid_as(policy.text(), "must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "OnDelete" if rolling.is_set() => {
            out.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            not_negative(&rolling.get("partition"), out);
            let unavailable = rolling.get("maxUnavailable");
            int_or_percent(&unavailable, true, out);
            if unavailable.is_set() && is_zero(&unavailable) {
                out.push(unavailable.invalid("cannot be 0"));
            }
        }
        _ => out.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
    for key in ["whenDeleted", "whenScaled"] {
        let when = spec.get("persistentVolumeClaimRetentionPolicy").get(key);
        any_of(&when, &["Retain", "Delete"], out);
    }
    not_negative(&spec.get("replicas"), out);
    not_negative(&spec.get("minReadySeconds"), out);
    not_negative(&spec.get("revisionHistoryLimit"), out);
    not_negative(&spec.get("ordinals").get("start"), out);
    let wanted = spec.get("selector");
    if has_selector(&wanted, "empty selector is invalid for statefulset", out) {
        pod::selected(&wanted, &spec.get("template"), out);
    }
    // The pod itself is left alone: its mounts may name claims, and a real server
    // only finds out when it makes the pods.
    pod::template_metadata(&spec.get("template"), out);
    let template = spec.get("template").get("spec");
    let restart = template.get("restartPolicy");
    if !restart.is_empty() && restart.text() != "Always" {
        out.push(restart.not_supported(&["Always"]));
    }
    if template.get("activeDeadlineSeconds").is_set() {
        let says = "activeDeadlineSeconds in StatefulSet is not Supported";
        out.push(template.get("activeDeadlineSeconds").forbidden(says));
    }
}

pub(super) fn stateful_set_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let (new, old) = (new.get("spec"), old.get("spec"));
    let frozen = |spec: &Value| {
        let mut copy = spec.clone();
        if let Some(map) = copy.as_object_mut() {
            map.retain(|key, value| !FREE.contains(&key.as_str()) && !is_empty(value));
        }
        copy
    };
    if frozen(new.value()) != frozen(old.value()) {
        out.push(new.forbidden(FROZEN_SET));
    }
}

pub(super) fn replication_controller(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    not_negative(&spec.get("replicas"), out);
    not_negative(&spec.get("minReadySeconds"), out);
    let wanted = spec.get("selector");
    if wanted.is_empty() {
        out.push(wanted.required(""));
    }
    let template = spec.get("template");
    if !template.is_set() {
        out.push(template.required(""));
        return;
    }
    pod::selected(&Field::root(&json!({"matchLabels": wanted.value()})), &template, out);
    pod::template(&template, out);
    pod::restarted_always(&template, "ReplicationController", out);
}

pub(super) fn selector_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    immutable(&new.get("spec").get("selector"), &old.get("spec").get("selector"), out);
}

pub(super) fn revision(object: &Field<'_>, out: &mut Findings) {
    let data = object.get("data");
    if !data.is_set() {
        out.push(data.required("data is mandatory"));
    }
    not_negative(&object.get("revision"), out);
}

/// A selector that selects, and a template it selects.
fn owned_template(spec: &Field<'_>, empty: &str, out: &mut Findings) {
    let wanted = spec.get("selector");
    let template = spec.get("template");
    if has_selector(&wanted, empty, out) {
        pod::selected(&wanted, &template, out);
    } else if !wanted.is_set() && template.is_set() {
        // A selector that is missing picks nothing, the template's pods included.
        let labels = template.get("metadata").get("labels");
        let shown = labels.value().clone();
        out.push(labels.invalid_as(shown, "`selector` does not match template `labels`"));
    }
    if template.is_set() {
        pod::template(&template, out);
    } else {
        out.push(template.required(""));
    }
}

fn has_selector(wanted: &Field<'_>, empty: &str, out: &mut Findings) -> bool {
    if !wanted.is_set() {
        out.push(wanted.required(""));
        return false;
    }
    selector(wanted, out);
    if selects_nothing(wanted) {
        out.push(wanted.invalid(empty));
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::super::default_object;
    use super::super::tests::{on_create, on_update};
    use super::*;

    fn workload(kind: Kind, extra: &Value) -> Value {
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "n"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
                },
            },
        });
        for (key, value) in extra.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        default_object(kind, &mut object);
        object
    }

    fn said(kind: Kind, extra: &Value) -> String {
        on_create(kind, &workload(kind, extra))
    }

    #[test]
    fn good_workloads_pass() {
        for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::DaemonSet] {
            assert_eq!(said(kind, &json!({})), "", "{kind:?}");
        }
        assert_eq!(said(Kind::ReplicationController, &json!({"selector": {"app": "web"}})), "");
    }

    #[test]
    fn a_deployment_selects_its_own_pods() {
        assert_eq!(
            said(Kind::Deployment, &json!({"selector": {"matchLabels": {"app": "other"}}})),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
        );
        assert_eq!(
            said(Kind::Deployment, &json!({"selector": {}})),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment"
        );
        assert_eq!(
            said(Kind::Deployment, &json!({"selector": null})),
            "spec.selector: Required value\nspec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
        );
        assert_eq!(
            said(Kind::Deployment, &json!({"replicas": -1})),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
    }

    #[test]
    fn a_selector_never_changes() {
        for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::DaemonSet] {
            let old = workload(kind, &json!({}));
            let mut new = old.clone();
            new["spec"]["selector"] = json!({"matchLabels": {"app": "api"}});
            new["spec"]["template"]["metadata"]["labels"] = json!({"app": "api"});
            assert_eq!(
                on_update(kind, &new, &old),
                "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"api\"}}: field is immutable",
                "{kind:?}"
            );
        }
    }

    #[test]
    fn strategies_leave_something_running() {
        let strategy = |rolling: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
        assert_eq!(
            said(Kind::Deployment, &strategy(json!({"maxSurge": 0, "maxUnavailable": "0%"}))),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"
        );
        assert_eq!(
            said(Kind::Deployment, &json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}})),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
        );
        assert_eq!(
            said(Kind::Deployment, &json!({"strategy": {"type": "Blue"}})),
            "spec.strategy.type: Unsupported value: \"Blue\": supported values: \"Recreate\", \"RollingUpdate\""
        );
        assert_eq!(
            said(Kind::DaemonSet, &json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}})),
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
        );
    }

    #[test]
    fn long_running_pods_restart_always() {
        let template = json!({"template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}});
        for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::DaemonSet] {
            assert_eq!(
                said(kind, &template),
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""
            );
        }
    }

    #[test]
    fn a_stateful_set_changes_little() {
        let old = workload(Kind::StatefulSet, &json!({"serviceName": "a"}));
        let mut new = old.clone();
        new["spec"]["replicas"] = json!(3);
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        assert_eq!(on_update(Kind::StatefulSet, &new, &old), "");
        new["spec"]["serviceName"] = json!("b");
        assert_eq!(
            on_update(Kind::StatefulSet, &new, &old),
            format!("spec: Forbidden: {FROZEN_SET}")
        );
    }
}
