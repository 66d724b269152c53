//! How simulated pods behave, and the annotations that script it.
//!
//! Without a script a pod starts after a moment, becomes ready and runs until it
//! is deleted; a pod of a Job, and any whose `restartPolicy` is not `Always`, runs for a moment
//! and succeeds. Images tagged `doesnotexist` cannot be pulled. These annotations on a pod (usually set through the template of its Deployment or Job) change that:
//!
//! | annotation `workloads.flagship.dev/…` | value | effect |
//! |---|---|---|
//! | `ready-after` | duration | runs, but is ready only this long after its start |
//! | `never-ready` | `"true"` | runs and never becomes ready |
//! | `run-for` | duration | containers end this long after they start |
//! | `exit-code` | number | with which code they end; implies `run-for: 1s` |
//! | `termination-message` | text | what a container that ends leaves in its state, such as the end of its log |
//! | `crash-loop` | `"true"` | ends with code 1 (or `exit-code`) after `run-for`, is restarted with growing back-off, is never ready |
//! | `image-missing` | `"true"` | no image of the pod can be pulled |
//! | `stop-after` | duration | takes this long to stop when deleted, within its grace period |
//!
//! Durations are written as Go writes them: `30s`, `1m30s`, `500ms`; a bare number
//! is seconds. What cannot be read is ignored.

use flagship_base::duration::GoDuration;
use jiff::SignedDuration;
use serde_json::Value;

use crate::config::WorkloadConfig;
use crate::object::Fields;

/// What every annotation of this crate starts with.
pub const PREFIX: &str = "workloads.flagship.dev/";

/// What one pod will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// From the pod's start to its containers' start.
    pub starts: SignedDuration,
    /// From a container's start until it is ready; `None` for never.
    pub ready: Option<SignedDuration>,
    /// How long a container runs, and the code it ends with; `None` for ever.
    pub ends: Option<(SignedDuration, i64)>,
    /// What a container that ends leaves behind.
    pub message: Option<String>,
    /// No image can be pulled, whatever the configuration says.
    pub image_missing: bool,
    /// How long it takes to stop.
    pub stops: SignedDuration,
}

impl Script {
    /// Reads a pod's annotations over the configured defaults.
    pub fn of(pod: &Value, config: &WorkloadConfig) -> Self {
        let text = |key: &str| pod.annotation(&format!("{PREFIX}{key}"));
        let flag = |key: &str| text(key) == Some("true");
        let span = |key: &str| text(key).and_then(duration);
        let crash = flag("crash-loop");
        let code: Option<i64> = text("exit-code").and_then(|c| c.trim().parse().ok());
        let is_job = pod
            .list("/metadata/ownerReferences")
            .iter()
            .any(|o| o.is_true("/controller") && o.text("/kind") == "Job");
        // Such a pod is there to finish something: a test of a chart, a migration.
        let finishes = is_job || ["Never", "OnFailure"].contains(&pod.text("/spec/restartPolicy"));
        let ready_after = span("ready-after").unwrap_or(config.ready_after);
        let starts = ready_after.min(config.start_after);
        let ready = (!crash && !flag("never-ready")).then(|| ready_after - starts);
        let run_for = span("run-for");
        let ends = if crash {
            Some((run_for.unwrap_or(SECOND), code.unwrap_or(1)))
        } else if run_for.is_some() || code.is_some() {
            Some((run_for.unwrap_or(SECOND), code.unwrap_or(0)))
        } else {
            finishes.then_some((config.job_runs_for, 0))
        };
        Self {
            starts,
            ready,
            ends,
            message: text("termination-message").map(str::to_owned),
            image_missing: flag("image-missing"),
            stops: span("stop-after").unwrap_or(config.stop_after),
        }
    }
}

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Reads `1h2m3s`, `500ms` or a bare number of seconds.
pub fn duration(text: &str) -> Option<SignedDuration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(SignedDuration::from_secs(i64::from(seconds)));
    }
    let read = text.parse::<GoDuration>().ok()?.as_signed_duration();
    (!read.is_negative()).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_read_as_go_writes_them() {
        let printed = |seconds| GoDuration::from_secs(seconds).to_string();
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("2h", Some(7_200_000)),
            ("45", Some(45_000)),
            ("", None),
            ("s", None),
            ("1x", None),
            ("-1s", None),
            ("99999999999s", None),
        ] {
            assert_eq!(duration(text).map(|d| d.as_millis()), millis, "{text}");
        }
        assert_eq!(printed(10), "10s");
        assert_eq!(printed(80), "1m20s");
        assert_eq!(printed(300), "5m0s");
    }

    #[test]
    fn scripts_are_read_over_the_defaults() {
        let config = WorkloadConfig::default();
        let pod = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let plain = Script::of(&pod(json!({})), &config);
        assert_eq!(
            (plain.starts, plain.ready, plain.ends),
            (SECOND, Some(SignedDuration::ZERO), None)
        );
        let slow = Script::of(&pod(json!({"workloads.flagship.dev/ready-after": "30s"})), &config);
        assert_eq!(slow.ready, Some(SignedDuration::from_secs(29)));
        let crash = Script::of(&pod(json!({"workloads.flagship.dev/crash-loop": "true"})), &config);
        assert_eq!((crash.ready, crash.ends), (None, Some((SECOND, 1))));
        let done = Script::of(&pod(json!({"workloads.flagship.dev/run-for": "10s"})), &config);
        assert_eq!(done.ends, Some((SignedDuration::from_secs(10), 0)));
        for (policy, ends) in [("Always", false), ("Never", true), ("OnFailure", true)] {
            let pod = json!({"metadata": {}, "spec": {"restartPolicy": policy}});
            assert_eq!(Script::of(&pod, &config).ends.is_some(), ends, "{policy}");
        }
    }

    #[test]
    fn every_annotation_and_image_that_fails_is_on_the_page_for_people() {
        let page = include_str!("../../../docs/simulated-pods.md");
        let (code, _) = include_str!("behaviour.rs").split_once("#[cfg(test)]").unwrap();
        let reads =
            ["flag(\"", "span(\"", "text(\""].iter().flat_map(|call| code.split(*call).skip(1));
        let names = reads.filter_map(|rest| Some(rest.split_once('"')?.0));
        let names: Vec<&str> = names.filter(|name| !name.starts_with('/')).collect();
        assert_eq!(names.len(), 8, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("| `{PREFIX}{name}` |")), "{name} is not on the page");
        }
        for image in WorkloadConfig::default().missing_images {
            let tag = image.trim_start_matches("*:");
            assert!(page.contains(&format!("tag the image `{tag}`")), "{tag} is not on the page");
        }
        let readme = include_str!("../../../README.md");
        assert!(readme.contains("simulated") && readme.contains("(docs/simulated-pods.md)"));
    }
}
