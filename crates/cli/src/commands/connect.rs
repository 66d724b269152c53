//! Which hub a command talks to, and how it reaches members.
//!
//! Without flags: `$KUBECONFIG`, then `.flagship/kubeconfig` here or in a folder above,
//! then kubectl's own file; the context called `hub` if there is one, else the current.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::{Client, ClientError};
use k8s_openapi::api::core::v1::Namespace;
use kube::config::Kubeconfig;

/// Where the hub is
#[derive(Args, Clone, Debug, Default)]
pub struct Connect {
    /// The kubeconfig; $KUBECONFIG, .flagship/kubeconfig or kubectl's own by default
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The hub's context; the one called hub, or the current one, by default
    #[arg(long, global = true)]
    context: Option<String>,
}

/// A connection to the hub, and the way to its members.
pub struct Hub {
    /// The hub.
    pub client: Client,
    members: Members,
}

/// The way to the members.
enum Members {
    /// Contexts of a kubeconfig, or of kubectl's own.
    Contexts { path: Option<PathBuf>, names: Vec<String> },
    /// Clients that a story made.
    #[cfg(test)]
    Clients(std::collections::BTreeMap<String, Client>),
}

const OWN: &str = ".flagship/kubeconfig";
const HUB: &str = "hub";

impl Connect {
    /// The hub of a context of the usual kubeconfig.
    pub fn to(context: &str) -> Self {
        Self { kubeconfig: None, context: Some(context.to_owned()) }
    }

    /// The hub of a kubeconfig that was just written.
    pub fn at(kubeconfig: &Path, context: &str) -> Self {
        Self { kubeconfig: Some(kubeconfig.to_owned()), context: Some(context.to_owned()) }
    }

    /// Connects to the hub.
    pub async fn hub(&self) -> anyhow::Result<Hub> {
        let path = self.path()?;
        let file = match &path {
            Some(path) => Kubeconfig::read_from(path).map_err(|error| {
                anyhow!("cannot read the kubeconfig {}: {}", path.display(), innermost(error))
            })?,
            None => Kubeconfig::read().map_err(|error| {
                anyhow!(
                    "no fleet was found: start one with `flagship up`, or name a hub with --kubeconfig ({})",
                    innermost(error)
                )
            })?,
        };
        let contexts: Vec<String> = file.contexts.iter().map(|named| named.name.clone()).collect();
        let hub = contexts.iter().any(|name| name == HUB).then(|| HUB.to_owned());
        let context = self.context.clone().or(hub);
        let client = Client::from_kubeconfig(path.as_deref(), context.as_deref())
            .await
            .context("cannot connect to the hub")?
            .named("flagship");
        answers(&client).await?;
        Ok(Hub { client, members: Members::Contexts { path, names: contexts } })
    }

    fn path(&self) -> anyhow::Result<Option<PathBuf>> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Some(path.clone()));
        }
        // Several files joined by a separator are kubectl's business, and kube's.
        if let Some(named) = std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty()) {
            let mut paths = std::env::split_paths(&named);
            return Ok(match (paths.next(), paths.next()) {
                (Some(only), None) => Some(only),
                _ => None,
            });
        }
        let here = std::env::current_dir().context("cannot tell which folder this is")?;
        Ok(nearest(&here))
    }
}

/// Whether anybody is there, asked once so that every command says it in the same words.
async fn answers(client: &Client) -> anyhow::Result<()> {
    let anything = ObjectKey::cluster("kube-system");
    match client.of::<Namespace>().find(&anything).await {
        Err(error @ ClientError::Unreachable { .. }) => bail!(
            "the hub does not answer; if it is an embedded fleet, start it with `flagship up` ({})",
            innermost(error)
        ),
        // Whatever else it says, it is there.
        _ => Ok(()),
    }
}

/// The last words of an error: the ones in front repeat them.
fn innermost(error: impl Into<anyhow::Error>) -> String {
    error.into().root_cause().to_string()
}

/// `.flagship/kubeconfig` in this folder or the nearest above.
fn nearest(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|folder| folder.join(OWN)).find(|path| path.is_file())
}

impl Hub {
    /// A member, by the context that has its name.
    pub async fn member(&self, name: &str) -> Result<Client, String> {
        let unknown = || format!("the kubeconfig has no context {name}");
        match &self.members {
            Members::Contexts { path, names } => {
                if !names.iter().any(|context| context == name) {
                    return Err(unknown());
                }
                Client::from_kubeconfig(path.as_deref(), Some(name))
                    .await
                    .map(|client| client.named("flagship"))
                    .map_err(|error| error.to_string())
            }
            #[cfg(test)]
            Members::Clients(clients) => clients.get(name).cloned().ok_or_else(unknown),
        }
    }

    /// Whether there is a way to a member.
    pub fn knows(&self, name: &str) -> bool {
        match &self.members {
            Members::Contexts { names, .. } => names.iter().any(|context| context == name),
            #[cfg(test)]
            Members::Clients(clients) => clients.contains_key(name),
        }
    }

    /// A hub and members that are clients already.
    #[cfg(test)]
    pub fn of(client: Client, members: std::collections::BTreeMap<String, Client>) -> Self {
        Self { client, members: Members::Clients(members) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_fleet_is_found_from_a_folder_below() {
        let root = std::env::temp_dir().join(format!("flagship-connect-{}", std::process::id()));
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(root.join(".flagship")).unwrap();
        std::fs::write(root.join(OWN), "").unwrap();
        assert_eq!(nearest(&deep), Some(root.join(OWN)));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
