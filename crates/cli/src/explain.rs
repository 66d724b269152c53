//! `flagship explain CODE`: the page of a cause, from the binary itself.

use std::io::Write;

use clap::Args;
use flagship_explain::why::Cause;

/// Print the page of a cause that `flagship why` named; without a code, list them all
#[derive(Args)]
pub struct Explain {
    /// A code such as IMAGE_NAME_INVALID, in any case
    code: Option<String>,
}

macro_rules! pages {
    ($($code:literal),+ $(,)?) => {
        /// Every page by its code.
        const PAGES: &[(&str, &str)] = &[$(
            ($code, include_str!(concat!("../../../docs/reasons/", $code, ".md"))),
        )+];
    };
}

pages! {
    "DONE",
    "IN_PROGRESS",
    "HUB_SILENT",
    "NOT_FOUND",
    "OBJECT_UNREADABLE",
    "NOT_STARTED",
    "STOPPED",
    "STOPPING",
    "APPROVAL_MISSING",
    "APPROVAL_STALE",
    "TIMED_WAIT",
    "FROZEN",
    "WINDOW_CLOSED",
    "CHECKING",
    "CHECK_FAILED",
    "BUDGET_SPENT",
    "QUARANTINED",
    "OVERTAKEN",
    "POLICIES_CHANGED",
    "POLICIES_DISAGREE",
    "PREEMPTED",
    "SUPERSEDED",
    "PLACEMENT_MISSING",
    "PLACEMENT_NOT_EXTERNAL",
    "PLACEMENT_NOT_SCHEDULED",
    "RUN_MISSING",
    "MIXED_VERSIONS",
    "STRATEGY_MISSING",
    "STRATEGY_INVALID",
    "SNAPSHOT_MISSING",
    "CLUSTER_IN_TWO_STAGES",
    "CLUSTER_IN_NO_STAGE",
    "CLUSTERS_CHANGED",
    "SELECTION_INVALID",
    "RUN_FAILED",
    "CLUSTER_NOT_JOINED",
    "HEARTBEAT_STALE",
    "CLUSTER_LEAVING",
    "NOTHING_PLACED",
    "CLUSTER_CORDONED",
    "OVERRIDE_INVALID",
    "WORK_NOT_SYNCED",
    "NOT_REPORTED",
    "ROLLOUT_HELD_BACK",
    "WEBHOOK_DENIED",
    "FIELD_IMMUTABLE",
    "KIND_MISSING",
    "NAMESPACE_MISSING",
    "OWNERSHIP_CONFLICT",
    "DRIFTED",
    "MEMBER_FORBIDDEN",
    "MANIFEST_INVALID",
    "APPLY_FAILED",
    "QUOTA_EXCEEDED",
    "IMAGE_NAME_INVALID",
    "IMAGE_NOT_FOUND",
    "IMAGE_PULL_DENIED",
    "IMAGE_PULL_FAILED",
    "CRASH_LOOP",
    "CONTAINER_CONFIG",
    "POD_UNSCHEDULABLE",
    "POD_CREATION_FAILED",
    "POD_NOT_READY",
    "OBJECT_NOT_READY",
}

impl Explain {
    /// Writes the page or the list.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(code) = self.code else {
            let width = Cause::ALL.iter().map(|cause| cause.code().len()).max().unwrap_or(0);
            for cause in Cause::ALL {
                writeln!(out, "{:<width$}  {}", cause.code(), cause.title())?;
            }
            return Ok(());
        };
        let Some(cause) = Cause::read(&code) else {
            anyhow::bail!("no cause is called {code:?}; `flagship explain` lists them all");
        };
        out.write_all(page(cause).as_bytes())?;
        Ok(())
    }
}

fn page(cause: Cause) -> &'static str {
    let found = PAGES.iter().find(|(code, _)| *code == cause.code());
    found.map(|(_, text)| *text).expect("a test holds that every cause has its page")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_page_and_every_page_its_cause() {
        let codes: Vec<&str> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        let pages: Vec<&str> = PAGES.iter().map(|(code, _)| *code).collect();
        assert_eq!(pages, codes);
        for (code, text) in PAGES {
            assert!(text.starts_with(&format!("# {code}\n")), "{code}");
            for part in ["## What it means", "## How it shows", "## What to do"] {
                assert!(text.contains(part), "{code} lacks {part:?}");
            }
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reasons");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        for file in files.filter(|name| name != "README.md") {
            let name = file.into_string().unwrap();
            assert!(codes.contains(&name.trim_end_matches(".md")), "{name} explains nothing");
        }
    }

    #[test]
    fn an_unknown_code_is_refused() {
        let refusal = Explain { code: Some("X".into()) }.run(&mut Vec::new()).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "no cause is called \"X\"; `flagship explain` lists them all"
        );
    }
}
