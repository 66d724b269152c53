//! Which hub a command talks to, and how it reaches members.
//!
//! Without flags: `$KUBECONFIG`, then `.flagship/kubeconfig` here or in a folder above,
//! then kubectl's own file; the context called `hub` if there is one, else the current.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flagship_api::names::ObjectKey;
use flagship_explain::order::{natural, some_of};
use flagship_runtime::client::{Client, ClientError};
use kube::config::Kubeconfig;
use serde_json::Value;

use super::scoped_kind::resource;

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
    /// There is none.
    None,
    /// Clients that a story made.
    #[cfg(test)]
    Clients(std::collections::BTreeMap<String, Client>),
}

/// No hub could be talked to: nothing is known of what was asked about. It has an exit code of
/// its own.
#[derive(Debug)]
pub struct NoHub(String);

impl fmt::Display for NoHub {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NoHub {}

fn no_hub(why: String) -> anyhow::Error {
    anyhow::Error::new(NoHub(why))
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
                let (path, why) = (path.display(), innermost(error));
                no_hub(format!("cannot read the kubeconfig {path}: {why}"))
            })?,
            None => Kubeconfig::read().map_err(|error| {
                no_hub(format!(
                    "no fleet was found: start one with `flagship up`, or name a hub with --kubeconfig ({})",
                    innermost(error)
                ))
            })?,
        };
        let contexts: Vec<String> = file.contexts.iter().map(|named| named.name.clone()).collect();
        let hub = contexts.iter().any(|name| name == HUB).then(|| HUB.to_owned());
        if let Some(unknown) = self.context.as_ref().filter(|name| !contexts.contains(name)) {
            let known = some_of(&in_order(&contexts), NAMED);
            return Err(no_hub(format!("there is no context {unknown}; there are: {known}")));
        }
        let context = self.context.clone().or(hub).or(file.current_context.clone());
        let client = Client::from_kubeconfig(path.as_deref(), context.as_deref())
            .await
            .map_err(|error| no_hub(format!("cannot connect to the hub: {}", innermost(error))))?
            .named("flagship");
        answers(&client, context.as_deref(), &contexts).await?;
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

/// Contexts that an error names.
const NAMED: usize = 10;

/// The order people count in.
fn in_order(contexts: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = contexts.iter().map(String::as_str).collect();
    names.sort_by(|a, b| natural(a, b));
    names
}

/// Whether a hub is there, asked once so that every command says it in the same words.
async fn answers(
    client: &Client,
    context: Option<&str>,
    contexts: &[String],
) -> anyhow::Result<()> {
    // Any name does: what counts is whether the server knows the kind.
    let anything = ObjectKey::cluster("hub");
    let members = client.of_type::<Value>(resource("MemberCluster"));
    match members.find(&anything).await {
        Err(error @ ClientError::Unreachable { .. }) => Err(no_hub(format!(
            "the hub does not answer; if it is an embedded fleet, start it with `flagship up` ({})",
            innermost(error)
        ))),
        Err(ClientError::NotServed { .. }) => {
            let context = context.unwrap_or("the current context");
            let others: Vec<String> =
                contexts.iter().filter(|name| *name != context).cloned().collect();
            let others = match others.as_slice() {
                [] => String::new(),
                some => format!("; other contexts: {}", some_of(&in_order(some), NAMED)),
            };
            Err(no_hub(format!(
                "{context} is no hub: it does not serve MemberClusters. Name the hub with --context{others}"
            )))
        }
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
    /// A hub without a way to its members.
    pub fn alone(client: Client) -> Self {
        Self { client, members: Members::None }
    }

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
            Members::None => {
                Err("the hub's own console does not reach members; `flagship console` does with your kubeconfig".to_owned())
            }
            #[cfg(test)]
            Members::Clients(clients) => clients.get(name).cloned().ok_or_else(unknown),
        }
    }

    /// Whether there is a way to a member.
    pub fn knows(&self, name: &str) -> bool {
        match &self.members {
            Members::Contexts { names, .. } => names.iter().any(|context| context == name),
            Members::None => false,
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

    #[tokio::test]
    async fn an_unknown_context_lists_the_known_ones() {
        let file = std::env::temp_dir().join(format!("flagship-contexts-{}", std::process::id()));
        let named = ["member10", "hub", "member2"]
            .map(|name| format!("- {{name: {name}, context: {{cluster: c, user: u}}}}\n"));
        std::fs::write(
            &file,
            format!("apiVersion: v1\nkind: Config\ncontexts:\n{}", named.concat()),
        )
        .unwrap();
        let connect =
            Connect { kubeconfig: Some(file.clone()), context: Some("nowhere".to_owned()) };
        let error = connect.hub().await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "there is no context nowhere; there are: hub, member2, member10"
        );
        assert!(error.is::<NoHub>());
        std::fs::remove_file(&file).unwrap();
    }

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
