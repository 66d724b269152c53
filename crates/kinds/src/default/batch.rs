//! Defaults of Job and CronJob.

use super::super::json::{Fill, Object};
use super::workload::{inherit_labels, template_labels};
use super::{fill_text, pod};

pub(super) fn job(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    // Unset parallelism and completions mean one pod; unset completions alone mean
    // a work queue, so they stay unset.
    if !spec.has("parallelism") {
        spec.fill("completions", 1);
    }
    spec.fill("parallelism", 1);
    let retries = if spec.has("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    spec.fill("backoffLimit", retries);
    spec.fill("completionMode", "NonIndexed");
    spec.fill("suspend", false);
    spec.fill("manualSelector", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.fill("podReplacementPolicy", replacement);
    nested(spec);
    let labels = template_labels(spec);
    inherit_labels(object, labels);
}

pub(super) fn cron_job(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    fill_text(spec, "concurrencyPolicy", "Allow");
    spec.fill("suspend", false);
    spec.fill("successfulJobsHistoryLimit", 3);
    spec.fill("failedJobsHistoryLimit", 1);
    let Some(template) = spec.child_or_new("jobTemplate") else { return };
    template.child_or_new("metadata");
    // The job's own defaults are written when the job is made, not here.
    if let Some(job) = template.child_or_new("spec") {
        nested(job);
    }
}

fn nested(job: &mut Object) {
    if let Some(policy) = job.child("podFailurePolicy") {
        for rule in policy.children("rules") {
            rule.children("onPodConditions").for_each(|on| fill_text(on, "status", "True"));
        }
    }
    pod::template_in(job, "template");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn defaulted(spec: Value) -> Value {
        let mut object = json!({"spec": spec});
        job(object.as_object_mut().unwrap());
        object
    }

    #[test]
    fn a_plain_job_runs_one_pod_with_six_retries() {
        let spec = &defaulted(json!({}))["spec"];
        assert_eq!(spec["completions"], 1);
        assert_eq!(spec["parallelism"], 1);
        assert_eq!(spec["backoffLimit"], 6);
        assert_eq!(spec["completionMode"], "NonIndexed");
        assert_eq!(spec["suspend"], false);
        assert_eq!(spec["podReplacementPolicy"], "TerminatingOrFailed");
    }

    #[test]
    fn a_work_queue_keeps_its_completions_open() {
        let object = defaulted(json!({"parallelism": 3}));
        assert!(object["spec"].get("completions").is_none());
    }

    #[test]
    fn a_job_takes_the_labels_of_its_template() {
        let object = defaulted(json!({"template": {"metadata": {"labels": {"a": "b"}}}}));
        assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
    }

    #[test]
    fn a_cron_job_leaves_the_jobs_own_defaults_alone() {
        let mut object = json!({"spec": {"schedule": "* * * * *"}});
        cron_job(object.as_object_mut().unwrap());
        let spec = &object["spec"];
        assert_eq!(spec["concurrencyPolicy"], "Allow");
        assert_eq!(spec["failedJobsHistoryLimit"], 1);
        assert!(spec["jobTemplate"]["spec"].get("backoffLimit").is_none());
        assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    }
}
