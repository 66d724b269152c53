//! Job and CronJob.

use flagship_base::machinery::status::FieldError;
use flagship_base::names;
use serde_json::{Value, json};

use super::super::json::{Field, Fill, at};
use super::rules::{IMMUTABLE, any_of, immutable, not_negative, one_of, selector, selects};
use super::{Findings, pod};

const INDEXED_PODS_MAX: i64 = 100_000;

pub(super) fn job(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    job_spec(&spec, out);
    let wanted = spec.get("selector");
    if wanted.is_set() {
        selector(&wanted, out);
        pod::selected(&wanted, &spec.get("template"), out);
    } else {
        out.push(wanted.required(""));
    }
}

/// What only holds while a job is new: its identity is what the server generated.
pub(super) fn job_create(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    generated(object, &spec, out);
    let (name, count) = (object.get("metadata").get("name"), spec.get("completions"));
    if spec.get("completionMode").text() == "Indexed"
        && let Some(count) = count.int().filter(|count| *count > 0)
    {
        // Pods are named after the job and their index, and that is their host name.
        let last = format!("{}-{}", name.text(), count - 1);
        if !names::dns1123_label(&last).is_empty() {
            let says = format!("will not able to create pod with invalid DNS label: {last}");
            out.push(name.invalid(says));
        }
    }
}

fn generated(object: &Field<'_>, spec: &Field<'_>, out: &mut Findings) {
    let wanted = spec.get("selector");
    if spec.get("manualSelector").is_true() || !wanted.is_set() {
        return;
    }
    let metadata = object.get("metadata");
    let (uid, name) = (metadata.get("uid").text(), metadata.get("name").text());
    if uid.is_empty() {
        out.push(metadata.get("uid").required(""));
    }
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let labels = spec.get("template").get("metadata").get("labels");
    for (key, value) in expected {
        let says = format!("must be '{value}'");
        let path = format!("{}[{key}]", labels.path());
        match labels.value().get(key) {
            None => out.push(FieldError::required(path, says)),
            Some(found) if found != value => {
                out.push(FieldError::invalid(path, labels.value().clone(), says));
            }
            Some(_) => {}
        }
    }
    let labels: serde_json::Map<String, Value> =
        expected.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    if !selects(wanted.value(), &labels.into()) {
        out.push(wanted.invalid("`selector` not auto-generated"));
    }
}

fn job_spec(spec: &Field<'_>, out: &mut Findings) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(&spec.get(key), out);
    }
    let mode = spec.get("completionMode");
    any_of(&mode, &["NonIndexed", "Indexed"], out);
    let indexed = mode.text() == "Indexed";
    if indexed {
        let completions = spec.get("completions");
        if !completions.is_set() {
            out.push(completions.required("when completion mode is Indexed"));
        }
        let parallelism = spec.get("parallelism");
        if parallelism.int().is_some_and(|pods| pods > INDEXED_PODS_MAX) {
            let says = "must be less than or equal to 100000 when completion mode is Indexed";
            out.push(parallelism.invalid(says));
        }
    }
    if !indexed {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            if spec.get(key).is_set() {
                out.push(spec.get(key).invalid("requires indexed completion mode"));
            }
        }
    }
    let replacement: &[&str] = if spec.get("podFailurePolicy").is_set() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    any_of(&spec.get("podReplacementPolicy"), replacement, out);
    let template = spec.get("template");
    pod::template(&template, out);
    let restart = template.get("spec").get("restartPolicy");
    match restart.text() {
        "" | "Always" => out.push(restart.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" | "Never" => {}
        _ => out.push(restart.not_supported(&["OnFailure", "Never"])),
    }
    if spec.get("podFailurePolicy").is_set() && restart.text() == "OnFailure" {
        let says = "only \"Never\" is supported when podFailurePolicy is specified";
        out.push(restart.invalid(says));
    }
}

pub(super) fn job_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let status = old.get("status");
    let (new, old) = (new.get("spec"), old.get("spec"));
    completions_change(&new, &old, out);
    for key in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        immutable(&new.get(key), &old.get(key), out);
    }
    // Where a job waits to start, something else may still decide where it runs.
    let movable = old.get("suspend").is_true() && !status.get("startTime").is_set();
    let template = new.get("template");
    let frozen = |template: &Field<'_>| {
        let mut copy = template.value().clone();
        if movable && let Some(map) = copy.as_object_mut() {
            if let Some(metadata) = map.child("metadata") {
                metadata.remove("labels");
                metadata.remove("annotations");
            }
            if let Some(spec) = map.child("spec") {
                for key in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
                    spec.remove(key);
                }
            }
        }
        copy
    };
    if frozen(&template) != frozen(&old.get("template")) {
        out.push(template.invalid(IMMUTABLE));
    }
}

/// Completions stay, except where an indexed job grows or shrinks as a whole.
fn completions_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (now, before) = (new.get("completions"), old.get("completions"));
    if now.value() == before.value() {
        return;
    }
    if new.get("completionMode").text() != "Indexed" {
        immutable(&now, &before, out);
    } else if now.value() != new.get("parallelism").value()
        || before.value() != old.get("parallelism").value()
    {
        out.push(now.invalid("can only be modified in tandem with parallelism"));
    }
}

/// What only holds while a cron job is new.
pub(super) fn cron_job_create(object: &Field<'_>, out: &mut Findings) {
    let name = object.get("metadata").get("name");
    if name.text().len() > 52 {
        // Eleven characters are added to name the jobs.
        out.push(name.invalid("must be no more than 52 characters"));
    }
}

pub(super) fn cron_job(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let schedule = spec.get("schedule");
    match schedule.text() {
        "" => out.push(schedule.required("")),
        text if text.contains("TZ") => {
            let says = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            out.push(schedule.invalid(says));
        }
        text => {
            if let Err(says) = flagship_base::cron::check(text) {
                out.push(schedule.invalid(says));
            }
        }
    }
    let zone = spec.get("timeZone");
    if zone.is_set() && !is_zone_name(zone.text()) {
        let says = format!("unknown time zone {}", zone.text());
        out.push(zone.invalid(says));
    }
    not_negative(&spec.get("startingDeadlineSeconds"), out);
    not_negative(&spec.get("successfulJobsHistoryLimit"), out);
    not_negative(&spec.get("failedJobsHistoryLimit"), out);
    one_of(&spec.get("concurrencyPolicy"), &["Allow", "Forbid", "Replace"], out);
    let template = spec.get("jobTemplate").get("spec");
    job_spec(&template, out);
    if template.get("selector").is_set() {
        out.push(template.get("selector").invalid("`selector` will be auto-generated"));
    }
    if at(template.value(), &["manualSelector"]) == &json!(true) {
        out.push(template.get("manualSelector").not_supported(&["nil", "false"]));
    }
}

/// Whether a text looks like `Area/City` or `UTC`. The list of zones is not kept here.
fn is_zone_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+');
    !name.is_empty()
        && !name.eq_ignore_ascii_case("local")
        && name.bytes().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::super::super::addresses::ServiceRanges;
    use super::super::super::catalog::Kind;
    use super::super::super::{default_object, prepare_create};
    use super::super::tests::{on_create, on_update};
    use super::*;

    fn job(extra: &Value) -> Value {
        let mut object = json!({
            "metadata": {"name": "j", "namespace": "n", "uid": "u"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}},
        });
        for (key, value) in extra.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        default_object(Kind::Job, &mut object);
        prepare_create(Kind::Job, &mut object, &mut ServiceRanges::default()).unwrap();
        object
    }

    fn cron_job(extra: &Value) -> String {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]});
        let mut object = json!({
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
        });
        for (key, value) in extra.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        default_object(Kind::CronJob, &mut object);
        on_create(Kind::CronJob, &object)
    }

    #[test]
    fn a_job_restarts_on_failure_or_never() {
        assert_eq!(on_create(Kind::Job, &job(&json!({}))), "");
        let always = json!({"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}});
        assert_eq!(
            on_create(Kind::Job, &job(&always)),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""
        );
        assert_eq!(
            on_create(Kind::Job, &job(&json!({"completionMode": "Indexed", "parallelism": 2}))),
            "spec.completions: Required value: when completion mode is Indexed"
        );
    }

    #[test]
    fn a_job_makes_its_own_selector() {
        let said = on_create(Kind::Job, &job(&json!({"selector": {"matchLabels": {"a": "b"}}})));
        assert_eq!(
            said.lines().last(),
            Some(
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated"
            )
        );
    }

    #[test]
    fn a_job_that_runs_changes_only_how_fast() {
        let old = job(&json!({}));
        let mut new = old.clone();
        new["spec"]["parallelism"] = json!(3);
        new["spec"]["suspend"] = json!(true);
        assert_eq!(on_update(Kind::Job, &new, &old), "");
        new["spec"]["completions"] = json!(3);
        assert_eq!(
            on_update(Kind::Job, &new, &old),
            "spec.completions: Invalid value: 3: field is immutable"
        );
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        let said = on_update(Kind::Job, &new, &old);
        assert!(said.starts_with("spec.template: Invalid value: {"), "{said}");
        assert!(said.ends_with("}: field is immutable"), "{said}");
    }

    #[test]
    fn an_indexed_job_grows_as_a_whole() {
        let old = job(&json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}));
        let mut new = old.clone();
        new["spec"]["completions"] = json!(3);
        assert_eq!(
            on_update(Kind::Job, &new, &old),
            "spec.completions: Invalid value: 3: can only be modified in tandem with parallelism"
        );
        new["spec"]["parallelism"] = json!(3);
        assert_eq!(on_update(Kind::Job, &new, &old), "");
    }

    #[test]
    fn a_cron_job_has_a_schedule_that_can_be_read() {
        assert_eq!(cron_job(&json!({})), "");
        assert_eq!(
            cron_job(&json!({"schedule": "* * *"})),
            "spec.schedule: Invalid value: \"* * *\": expected exactly 5 fields, found 3: [* * *]"
        );
        assert_eq!(
            cron_job(&json!({"schedule": "TZ=UTC * * * * *"})),
            "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        );
        assert_eq!(
            cron_job(&json!({"concurrencyPolicy": "Maybe"})),
            "spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\""
        );
    }
}
