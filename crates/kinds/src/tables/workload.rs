//! What runs pods: Deployments, sets, jobs and what scales them.

use flagship_base::machinery::time;
use serde_json::{Value, json};

use super::object::Object;
use super::{AGE, Column, NAME, Printer, human};
use crate::Kind;

const CONTAINERS: Column = ("Containers", "string", 1);
const IMAGES: Column = ("Images", "string", 1);
const SELECTOR: Column = ("Selector", "string", 1);
/// Where most workloads have their containers.
const TEMPLATE: &str = "/spec/template/spec/containers";

const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        ("Ready", "string", 0),
        ("Up-to-date", "string", 0),
        ("Available", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object| {
        let [names, images] = object.containers(TEMPLATE);
        vec![
            object.name(),
            json!(ready(object)),
            object.count("/status/updatedReplicas"),
            object.count("/status/availableReplicas"),
            object.age(),
            names,
            images,
            object.selector("/spec/selector"),
        ]
    },
};

const STATEFUL_SET: Printer = Printer {
    columns: &[NAME, ("Ready", "string", 0), AGE, CONTAINERS, IMAGES],
    cells: |object| {
        let [names, images] = object.containers(TEMPLATE);
        vec![object.name(), json!(ready(object)), object.age(), names, images]
    },
};

const REPLICA_SET: Printer = Printer {
    columns: &[
        NAME,
        ("Desired", "integer", 0),
        ("Current", "integer", 0),
        ("Ready", "integer", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object| {
        let [names, images] = object.containers(TEMPLATE);
        vec![
            object.name(),
            object.count("/spec/replicas"),
            object.count("/status/replicas"),
            object.count("/status/readyReplicas"),
            object.age(),
            names,
            images,
            object.selector("/spec/selector"),
        ]
    },
};

const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        ("Desired", "integer", 0),
        ("Current", "integer", 0),
        ("Ready", "integer", 0),
        ("Up-to-date", "integer", 0),
        ("Available", "integer", 0),
        ("Node Selector", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object| {
        let [names, images] = object.containers(TEMPLATE);
        vec![
            object.name(),
            object.count("/status/desiredNumberScheduled"),
            object.count("/status/currentNumberScheduled"),
            object.count("/status/numberReady"),
            object.count("/status/updatedNumberScheduled"),
            object.count("/status/numberAvailable"),
            object.selector("/spec/template/spec/nodeSelector"),
            object.age(),
            names,
            images,
            object.selector("/spec/selector"),
        ]
    },
};

const JOB: Printer = Printer {
    columns: &[
        NAME,
        ("Status", "string", 0),
        ("Completions", "string", 0),
        ("Duration", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object| {
        let [names, images] = object.containers(TEMPLATE);
        vec![
            object.name(),
            json!(job_status(object)),
            json!(completions(object)),
            json!(job_duration(object)),
            object.age(),
            names,
            images,
            object.selector("/spec/selector"),
        ]
    },
};

const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        ("Schedule", "string", 0),
        ("Timezone", "string", 0),
        ("Suspend", "boolean", 0),
        ("Active", "integer", 0),
        ("Last Schedule", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object| {
        let [names, images] = object.containers("/spec/jobTemplate/spec/template/spec/containers");
        let suspend = match object.at("/spec/suspend").as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let last = match object.text("/status/lastScheduleTime") {
            "" => "<none>".to_owned(),
            _ => object.since("/status/lastScheduleTime"),
        };
        vec![
            object.name(),
            json!(object.text("/spec/schedule")),
            object.text_or("/spec/timeZone", "<none>"),
            json!(suspend),
            object.len("/status/active"),
            json!(last),
            object.age(),
            names,
            images,
            object.selector("/spec/jobTemplate/spec/selector"),
        ]
    },
};

const POD_TEMPLATE: Printer = Printer {
    columns: &[
        NAME,
        ("Containers", "string", 0),
        ("Images", "string", 0),
        ("Pod Labels", "string", 0),
    ],
    cells: |object| {
        let [names, images] = object.containers("/template/spec/containers");
        vec![object.name(), names, images, object.selector("/template/metadata/labels")]
    },
};

const CONTROLLER_REVISION: Printer = Printer {
    columns: &[NAME, ("Controller", "string", 0), ("Revision", "string", 0), AGE],
    cells: |object| {
        let owners = object.list("/metadata/ownerReferences");
        let controller = owners.iter().find(|owner| owner["controller"] == true).map(|owner| {
            let text = |key: &str| owner[key].as_str().unwrap_or_default();
            let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
            let kind =
                flagship_base::machinery::gvk::qualified(&text("kind").to_lowercase(), group);
            format!("{kind}/{}", text("name"))
        });
        let controller = controller.unwrap_or_else(|| "<none>".to_owned());
        vec![object.name(), json!(controller), object.count("/revision"), object.age()]
    },
};

const AUTOSCALER: Printer = Printer {
    columns: &[
        NAME,
        ("Reference", "string", 0),
        ("Targets", "string", 0),
        ("MinPods", "string", 0),
        ("MaxPods", "string", 0),
        ("Replicas", "string", 0),
        AGE,
    ],
    cells: |object| {
        let target = "/spec/scaleTargetRef";
        let text = |key: &str| object.text(&format!("{target}/{key}"));
        let least = match object.at("/spec/minReplicas").as_i64() {
            Some(least) => least.to_string(),
            None => "<unset>".to_owned(),
        };
        vec![
            object.name(),
            json!(format!("{}/{}", text("kind"), text("name"))),
            json!(targets(object)),
            json!(least),
            object.count("/spec/maxReplicas"),
            object.count("/status/currentReplicas"),
            object.age(),
        ]
    },
};

pub(super) fn printer(kind: Kind) -> Option<&'static Printer> {
    Some(match kind {
        Kind::Deployment => &DEPLOYMENT,
        Kind::StatefulSet => &STATEFUL_SET,
        Kind::ReplicaSet | Kind::ReplicationController => &REPLICA_SET,
        Kind::DaemonSet => &DAEMON_SET,
        Kind::Job => &JOB,
        Kind::CronJob => &CRON_JOB,
        Kind::PodTemplate => &POD_TEMPLATE,
        Kind::ControllerRevision => &CONTROLLER_REVISION,
        Kind::HorizontalPodAutoscaler => &AUTOSCALER,
        _ => return None,
    })
}

/// `ready/desired`.
fn ready(object: &Object<'_>) -> String {
    format!("{}/{}", object.number("/status/readyReplicas"), object.number("/spec/replicas"))
}

fn job_status(job: &Object<'_>) -> &'static str {
    let is = |kind: &str| job.is_true(kind);
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job.is_deleting() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Object<'_>) -> String {
    let done = job.number("/status/succeeded");
    match (job.at("/spec/completions").as_i64(), job.number("/spec/parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, several @ 2..) => format!("{done}/1 of {several}"),
        (None, _) => format!("{done}/1"),
    }
}

fn job_duration(job: &Object<'_>) -> String {
    let moment = |pointer: &str| time::parse(job.text(pointer));
    let Some(began) = moment("/status/startTime") else { return String::new() };
    let ended = moment("/status/completionTime").unwrap_or(job.now);
    human(ended.duration_since(began))
}

/// What an autoscaler measures: now and wanted, two of them at most.
fn targets(object: &Object<'_>) -> String {
    let metrics = object.list("/spec/metrics");
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let now = object.list("/status/currentMetrics");
    let shown: Vec<String> =
        metrics.iter().enumerate().map(|(i, metric)| target(metric, now.get(i))).collect();
    let text = shown[..shown.len().min(2)].join(", ");
    match shown.len().saturating_sub(2) {
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let (key, named) = match metric["type"].as_str().unwrap_or_default() {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = &metric[key]["target"];
    let current = status.map_or(&Value::Null, |status| &status[key]["current"]);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let percent = |value: &Value| value.as_i64().map(|share| format!("{share}%"));
    let or = |found: Option<String>, absent: &str| found.unwrap_or_else(|| absent.to_owned());
    let average = text(&wanted["averageValue"]);
    if named {
        let name = metric[key]["name"].as_str().unwrap_or_default();
        let (now, wanted) = match average {
            Some(wanted) => (text(&current["averageValue"]), wanted),
            None => {
                let share = percent(&wanted["averageUtilization"]);
                (percent(&current["averageUtilization"]), or(share, "<auto>"))
            }
        };
        return format!("{name}: {}/{wanted}", or(now, "<unknown>"));
    }
    match average {
        Some(wanted) => {
            let kind = if key == "pods" { "" } else { " (avg)" };
            format!("{}/{wanted}{kind}", or(text(&current["averageValue"]), "<unknown>"))
        }
        None => {
            let now = or(text(&current["value"]), "<unknown>");
            format!("{now}/{}", or(text(&wanted["value"]), "0"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::object::shown;

    #[test]
    fn deployments_show_what_is_ready_of_what_is_wanted() {
        let web = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}]},
                "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2"}]}},
            },
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        });
        assert_eq!(
            shown(&DEPLOYMENT, &web),
            "web | 2/3 | 3 | 1 | 60m | a,b | i:1,i:2 | app=web,tier in (a,b)"
        );
        assert_eq!(shown(&STATEFUL_SET, &web), "web | 2/3 | 60m | a,b | i:1,i:2");
    }

    #[test]
    fn jobs_show_how_far_they_are() {
        let job = |spec: Value, status: Value| {
            let value = json!({"metadata": {"name": "j"}, "spec": spec, "status": status});
            shown(&JOB, &value)
        };
        let began = "2026-01-01T00:00:00Z";
        assert_eq!(
            job(json!({"completions": 3}), json!({"succeeded": 1, "startTime": began})),
            "j | Running | 1/3 | 60m | <unknown> |  |  | <none>"
        );
        let done = json!({
            "succeeded": 1, "startTime": began, "completionTime": "2026-01-01T00:00:42Z",
            "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}],
        });
        assert_eq!(
            job(json!({"parallelism": 2}), done),
            "j | Complete | 1/1 of 2 | 42s | <unknown> |  |  | <none>"
        );
        let paused = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
        assert_eq!(job(json!({}), paused), "j | Suspended | 0/1 |  | <unknown> |  |  | <none>");
    }

    #[test]
    fn autoscalers_show_now_and_wanted() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let value = json!({
            "metadata": {"name": "h"},
            "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [
                cpu,
                {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                {"type": "Object", "object": {"target": {"value": "3"}}},
            ]},
            "status": {"currentReplicas": 2, "currentMetrics": [{"resource": {"current": {"averageUtilization": 12}}}]},
        });
        assert_eq!(
            shown(&AUTOSCALER, &value),
            "h | Deployment/web | cpu: 12%/80%, <unknown>/10 + 1 more... | <unset> | 5 | 2 | <unknown>"
        );
    }
}
