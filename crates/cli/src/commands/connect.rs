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
    /// The context that was chosen; the current one if none was.
    context: Option<String>,
    members: Members,
}

/// The way to the members.
enum Members {
    /// Contexts of the kubeconfig.
    Contexts(Box<Kubeconfig>),
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

    /// Connects to the hub, and makes sure that it is one.
    pub async fn hub(&self) -> anyhow::Result<Hub> {
        let hub = self.unasked().await?;
        let refused = hub.asked_for_members().await.err();
        match refused.and_then(|refused| hub.is_none(&refused)) {
            Some(none) => Err(none),
            // Whatever else it says, it is there.
            None => Ok(hub),
        }
    }

    /// Lets a command that only reads begin at once: whether this is a hub at all is asked only
    /// if it failed.
    pub async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&Hub) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let hub = self.unasked().await?;
        let error = match work(&hub).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let none = match error.downcast_ref() {
            // Asking again would take as long again.
            Some(away @ ClientError::Unreachable { .. }) => hub.is_none(away),
            _ => hub.asked_for_members().await.err().and_then(|refused| hub.is_none(&refused)),
        };
        Err(none.unwrap_or(error))
    }

    async fn unasked(&self) -> anyhow::Result<Hub> {
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
        let has = |name: &str| file.contexts.iter().any(|named| named.name == name);
        if let Some(unknown) = self.context.as_ref().filter(|name| !has(name)) {
            let known = some_of(&in_order(&file, ""), NAMED);
            return Err(no_hub(format!("there is no context {unknown}; there are: {known}")));
        }
        let hub = has(HUB).then(|| HUB.to_owned());
        let context = self.context.clone().or(hub).or(file.current_context.clone());
        let client = Client::of_context(file.clone(), context.as_deref())
            .await
            .map_err(|error| no_hub(format!("cannot connect to the hub: {}", innermost(error))))?
            .named("flagship");
        Ok(Hub { client, context, members: Members::Contexts(Box::new(file)) })
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

/// The contexts but one, in the order people count in.
fn in_order<'a>(file: &'a Kubeconfig, but: &str) -> Vec<&'a str> {
    let names = file.contexts.iter().map(|named| named.name.as_str());
    let mut names: Vec<&str> = names.filter(|name| *name != but).collect();
    names.sort_by(|a, b| natural(a, b));
    names
}

/// The last words of an error: the ones in front repeat them.
fn innermost(error: impl Into<anyhow::Error>) -> String {
    error.into().root_cause().to_string()
}

fn root_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

/// `.flagship/kubeconfig` in this folder or the nearest above.
fn nearest(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|folder| folder.join(OWN)).find(|path| path.is_file())
}

impl Hub {
    /// A hub without a way to its members.
    pub fn alone(client: Client) -> Self {
        Self { client, context: None, members: Members::None }
    }

    /// Asks for something that only hubs serve; any name does.
    async fn asked_for_members(&self) -> Result<(), ClientError> {
        let members = self.client.of_type::<Value>(resource("MemberCluster"));
        members.find(&ObjectKey::cluster("hub")).await.map(drop)
    }

    /// That there is no hub, in the same words for every command, if an answer means that.
    fn is_none(&self, refused: &ClientError) -> Option<anyhow::Error> {
        let why = match refused {
            ClientError::Unreachable { .. } => format!(
                "the hub does not answer; if it is an embedded fleet, start it with `flagship up` ({})",
                root_cause(refused)
            ),
            ClientError::NotServed { .. } => {
                let context = self.context.as_deref().unwrap_or("the current context");
                let others = match &self.members {
                    Members::Contexts(file) => in_order(file, context),
                    _ => Vec::new(),
                };
                let others = match others.as_slice() {
                    [] => String::new(),
                    some => format!("; other contexts: {}", some_of(some, NAMED)),
                };
                format!(
                    "{context} is no hub: it does not serve MemberClusters. Name the hub with --context{others}"
                )
            }
            _ => return None,
        };
        Some(no_hub(why))
    }

    /// A member, by the context that has its name.
    pub async fn member(&self, name: &str) -> Result<Client, String> {
        let unknown = || format!("the kubeconfig has no context {name}");
        match &self.members {
            Members::Contexts(file) => {
                if !self.knows(name) {
                    return Err(unknown());
                }
                Client::of_context((**file).clone(), Some(name))
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
            Members::Contexts(file) => file.contexts.iter().any(|named| named.name == name),
            Members::None => false,
            #[cfg(test)]
            Members::Clients(clients) => clients.contains_key(name),
        }
    }

    /// A hub and members that are clients already.
    #[cfg(test)]
    pub fn of(client: Client, members: std::collections::BTreeMap<String, Client>) -> Self {
        Self { client, context: None, members: Members::Clients(members) }
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

    #[tokio::test]
    async fn a_context_that_is_no_hub_is_told_apart_from_one_that_does_not_answer() {
        use flagship_edge::{Authority, Config, Edge};
        let env = flagship_store::env::Env::system();
        let server = flagship_apiserver::rest::Server::new(env.clone());
        for name in ["hub", "member1", "member2"] {
            server.add_cluster(name);
        }
        let authority = Authority::create(env.clock.now()).unwrap();
        let edge = Edge::start(&server, &env, Config::local(0, authority)).await.unwrap();
        let file = std::env::temp_dir().join(format!("flagship-no-hub-{}", std::process::id()));
        edge.kubeconfig().unwrap().write(&file).unwrap();
        let told = async || {
            let error = Connect::at(&file, "member1").hub().await.err().unwrap();
            assert!(error.is::<NoHub>(), "{error:?}");
            error.to_string()
        };
        assert_eq!(
            told().await,
            "member1 is no hub: it does not serve MemberClusters. Name the hub with --context; other contexts: hub, member2"
        );
        edge.shutdown().await;
        let silent = told().await;
        assert!(
            silent.starts_with("the hub does not answer; if it is an embedded fleet"),
            "{silent}"
        );
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
