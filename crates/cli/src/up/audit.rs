//! The flags of the audit log, spelled as those of kube-apiserver.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use flagship_edge::{Audit, AuditConfig};

/// Whether and how it is logged who did what.
#[derive(Args, Clone, Debug, Default)]
pub struct AuditLog {
    /// Log who did what to this file, as Kubernetes' audit log; off by default
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// What is logged, a Policy of audit.k8s.io/v1; the metadata of every request by default
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Megabytes of one file of the audit log before the next is begun
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    audit_log_maxsize: u64,
    /// How many older files of the audit log are kept
    #[arg(long, value_name = "FILES", default_value_t = 10)]
    audit_log_maxbackup: usize,
}

impl AuditLog {
    /// Opens the log, if one is wanted.
    pub fn open(&self) -> anyhow::Result<Option<Audit>> {
        let Some(path) = &self.audit_log_path else { return Ok(None) };
        let policy = match &self.audit_policy_file {
            Some(file) => Some(std::fs::read_to_string(file).with_context(|| {
                format!("cannot read {} (--audit-policy-file)", file.display())
            })?),
            None => None,
        };
        let opened = Audit::open(&AuditConfig {
            path,
            policy: policy.as_deref(),
            most_bytes: self.audit_log_maxsize << 20,
            backups: self.audit_log_maxbackup,
        });
        let named = || match &self.audit_policy_file {
            Some(file) => format!("{} with {}", path.display(), file.display()),
            None => path.display().to_string(),
        };
        opened.map(Some).with_context(|| format!("cannot log to {}", named()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flag_turns_it_on_and_nothing_is_logged_without_it() {
        let folder = std::env::temp_dir().join(format!("flagship-audit-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        let opened = |line: &str| {
            let line = line.replace("DIR", &folder.to_string_lossy());
            let read = crate::agent::read::<AuditLog>(&line).map_err(|why| why.to_string())?;
            read.open().map(|log| log.is_some()).map_err(|why| format!("{why:#}"))
        };
        assert_eq!(opened(""), Ok(false));
        assert_eq!(opened("--audit-log-path=DIR/audit.log"), Ok(true));
        assert!(folder.join("audit.log").exists());
        std::fs::write(folder.join("policy"), "kind: Pod").unwrap();
        for (line, says) in [
            ("--audit-policy-file=DIR/policy", "--audit-log-path"),
            ("--audit-log-path=DIR/b.log --audit-policy-file=DIR/none", "cannot read"),
            ("--audit-log-path=DIR/b.log --audit-policy-file=DIR/policy", "cannot be used"),
            ("--audit-log-path=DIR/b.log --audit-log-maxsize=0", "--audit-log-maxsize"),
        ] {
            let told = opened(line).unwrap_err();
            assert!(told.contains(says), "{line}: {told}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
