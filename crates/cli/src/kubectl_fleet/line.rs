//! The plugin's command line, and what it says of one that cannot be meant.
//!
//! Flags that must be there are optional to clap: which of them is missing is said in KubeFleet's
//! words, all of them at once, and only after the arguments were counted.

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};

/// Approve, drain and uncordon with the flags and words of KubeFleet's kubectl plugin
#[derive(Args, Debug)]
pub struct Fleet {
    #[command(subcommand)]
    pub(super) command: Option<Verb>,
}

/// KubeFleet's commands for a hub cluster
#[derive(Parser, Debug)]
#[command(name = super::NAME, disable_help_subcommand = true)]
pub(super) struct Plugin {
    #[command(flatten)]
    pub fleet: Fleet,
}

#[derive(Subcommand, Debug)]
pub(super) enum Verb {
    Approve(Approve),
    /// Drain a member cluster: cordon it, then evict every placement from it
    Draincluster(Target),
    /// Remove the cordon taint of a member cluster
    Uncordoncluster(Target),
    /// Print the version
    Version,
}

/// Approve a ClusterApprovalRequest (careq) or an ApprovalRequest (areq)
#[derive(Args, Debug)]
pub(super) struct Approve {
    /// clusterapprovalrequest, careq, approvalrequest or areq
    kind: Vec<String>,
    /// Name of the request
    #[arg(long)]
    name: Option<String>,
    /// Namespace of an approvalrequest
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
pub(super) struct Target {
    /// Name of the member cluster
    #[arg(long)]
    cluster_name: Option<String>,
    #[command(flatten)]
    common: Common,
    /// Ignored, as KubeFleet does
    #[arg(hide = true)]
    rest: Vec<String>,
}

#[derive(Args, Debug)]
pub(super) struct Common {
    /// Kubeconfig context of the hub cluster
    #[arg(long)]
    hub_cluster_context: Option<String>,
    /// How long the command may take
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: String,
}

/// A request to approve, checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// Name of the request.
    pub name: &'a str,
    /// Its namespace; none for a ClusterApprovalRequest.
    pub namespace: Option<&'a str>,
}

impl Verb {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Approve(_) => "approve",
            Self::Draincluster(_) => "draincluster",
            Self::Uncordoncluster(_) => "uncordoncluster",
            Self::Version => "version",
        }
    }

    pub fn common(&self) -> Option<&Common> {
        match self {
            Self::Approve(approve) => Some(&approve.common),
            Self::Draincluster(target) | Self::Uncordoncluster(target) => Some(&target.common),
            Self::Version => None,
        }
    }

    /// Refuses what cannot be meant before anybody is asked.
    pub fn check(&self) -> anyhow::Result<()> {
        let missing = |flags: &[(&str, &Option<String>)]| {
            let missing = flags.iter().filter(|(_, given)| given.is_none());
            let missing: Vec<String> = missing.map(|(flag, _)| format!("{flag:?}")).collect();
            if missing.is_empty() {
                return Ok(());
            }
            Err(anyhow!("required flag(s) {} not set", missing.join(", ")))
        };
        match self {
            Self::Approve(approve) => {
                let arguments = approve.kind.len();
                if arguments != 1 {
                    bail!("accepts 1 arg(s), received {arguments}");
                }
                let context = &approve.common.hub_cluster_context;
                missing(&[("hub-cluster-context", context), ("name", &approve.name)])?;
                approve.request()?;
            }
            Self::Draincluster(target) | Self::Uncordoncluster(target) => {
                let context = &target.common.hub_cluster_context;
                missing(&[
                    ("cluster-name", &target.cluster_name),
                    ("hub-cluster-context", context),
                ])?;
            }
            Self::Version => return Ok(()),
        }
        if let Some(common) = self.common() {
            common.timeout()?;
        }
        Ok(())
    }
}

impl Approve {
    /// What is to be approved.
    pub fn request(&self) -> anyhow::Result<Request<'_>> {
        let kind = self.kind.first().map_or("", String::as_str);
        let name = self.name.as_deref().unwrap_or_default();
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        if kind.is_empty() {
            bail!("resource kind is required");
        }
        if name.is_empty() {
            bail!("resource name is required");
        }
        match (kind.to_lowercase().as_str(), namespace) {
            ("clusterapprovalrequest" | "careq", Some(_)) => {
                bail!("clusterapprovalrequest is cluster-scoped and does not accept a namespace")
            }
            ("approvalrequest" | "areq", None) => {
                bail!("namespace is required for approvalrequest (use --namespace or -n flag)")
            }
            ("clusterapprovalrequest" | "careq" | "approvalrequest" | "areq", namespace) => {
                Ok(Request { name, namespace })
            }
            _ => bail!("unsupported resource kind {kind:?}"),
        }
    }
}

impl Target {
    /// The cluster, once it was checked that there is one.
    pub fn cluster(&self) -> &str {
        self.cluster_name.as_deref().unwrap_or_default()
    }
}

impl Common {
    pub fn context(&self) -> &str {
        self.hub_cluster_context.as_deref().unwrap_or_default()
    }

    pub fn timeout(&self) -> anyhow::Result<Duration> {
        let text = &self.timeout;
        crate::agent::duration(text)
            .map_err(|error| anyhow!("invalid argument {text:?} for \"--timeout\" flag: {error}"))
    }
}

/// How a command is meant to be used; the whole plugin if it is none of its commands.
pub(super) fn usage(verb: &str) -> String {
    let mut plugin = Plugin::command().bin_name(super::NAME);
    plugin.build();
    let help = match plugin.find_subcommand_mut(verb) {
        Some(command) => command.render_help(),
        None => plugin.render_help(),
    };
    help.to_string()
}

/// A command line that clap cannot read, as KubeFleet would say it.
pub(super) fn in_their_words(error: &clap::Error) -> String {
    let told = |kind| error.get(kind).map(ToString::to_string);
    match error.kind() {
        ErrorKind::UnknownArgument => match told(ContextKind::InvalidArg).as_deref() {
            Some(flag) if flag.starts_with("--") => format!("unknown flag: {flag}"),
            Some(flag) => {
                let letter = flag.trim_start_matches('-');
                format!("unknown shorthand flag: '{letter}' in {flag}")
            }
            None => "unknown flag".to_owned(),
        },
        ErrorKind::InvalidSubcommand => {
            let command = told(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("unknown command {command:?} for {:?}", super::NAME)
        }
        ErrorKind::InvalidValue => {
            let flag = told(ContextKind::InvalidArg).unwrap_or_default();
            let flag = flag.split([' ', ',']).next().unwrap_or_default().to_owned();
            format!("flag needs an argument: {flag}")
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}
