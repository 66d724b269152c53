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
