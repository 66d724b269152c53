//! The console that a hub serves for a team: over TLS, to people who show a token of their own.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ArgAction::Set;
use clap::Args;
use flagship_console::{Team, TeamConsole};
use flagship_edge::Authority;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connections::{answer_all, serve_each};
use super::endpoints;
use super::spelling::Complaints;
use super::tls::{Shown, Tls};
use crate::commands::console::commands_of;

/// Connections at a time; an ingress needs few, and every page one or two.
const MOST_CONNECTIONS: usize = 1024;

/// Flags of the console.
#[derive(Args, Clone, Debug)]
pub struct TeamConsoleFlags {
    /// Where the console is served over TLS, such as :8444; 0 turns it off
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    console_bind_address: String,
    /// The names under which people open the console, between commas
    #[arg(long, default_value = "", value_name = "NAMES")]
    console_hosts: String,
    /// Let people act on the console as their roles allow; without it, it only shows
    #[arg(long, default_value_t = false, action = Set)]
    console_verbs: bool,
    /// A folder with tls.crt and tls.key for the console; without it a certificate is made at
    /// every start
    #[arg(long, value_name = "FOLDER")]
    console_certificate_folder: Option<PathBuf>,
}

impl TeamConsoleFlags {
    fn hosts(&self) -> Vec<String> {
        let names = self.console_hosts.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    fn is_off(&self) -> bool {
        ["", "0"].contains(&self.console_bind_address.as_str())
    }

    /// A console without names would answer to any, and so to a site that resolves to it.
    pub fn check(&self, complaints: &mut Complaints) {
        complaints.unless(self.is_off() || !self.hosts().is_empty(), || {
            "--console-bind-address needs --console-hosts, the names under which people open it"
                .into()
        });
    }

    /// Serves the console until the set is dropped, if it is wanted.
    pub async fn serve(&self, client: &Client, env: &Env) -> anyhow::Result<JoinSet<()>> {
        let mut serving = JoinSet::new();
        let listener = endpoints::listen("console-bind-address", &self.console_bind_address);
        let Some(listener) = listener.await? else { return Ok(serving) };
        let tls = match &self.console_certificate_folder {
            Some(folder) => Tls::kept_in(folder, "--console-certificate-folder")?,
            None => {
                let names: Vec<String> =
                    self.hosts().iter().map(|host| without_port(host).to_owned()).collect();
                let shown = Authority::create(env.now())?.server(&names, env.now())?;
                Tls::of(&Shown::new(&shown)?)?
            }
        };
        let made = env.clone();
        let team = Team {
            hosts: self.hosts(),
            verbs: self.console_verbs,
            commands: Box::new(move |client| commands_of(client, &made)),
        };
        let client = client.named("flagship-console");
        let console = Arc::new(TeamConsole::new(client, team, env));
        let (address, verbs) = (&self.console_bind_address, self.console_verbs);
        tracing::info!(address, verbs, "the console is served");
        serving.spawn(serve(listener, tls, console));
        Ok(serving)
    }
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

async fn serve(listener: TcpListener, tls: Tls, console: Arc<TeamConsole>) {
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let serve = |socket: tokio::net::TcpStream| {
        let (tls, console, slots) = (tls.clone(), console.clone(), slots.clone());
        async move {
            let Ok(_slot) = slots.try_acquire_owned() else {
                return tracing::warn!("the console has too many connections; one is refused");
            };
            // A change is a small write, and is to be seen at once.
            if let Err(error) = socket.set_nodelay(true) {
                tracing::debug!(%error, "a console connection stays as it is");
            }
            let Some(stream) = tls.accept(socket).await else { return };
            answer_all(stream, |request| console.answer(request)).await;
        }
    };
    serve_each(listener, serve).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(line: &str) -> Option<String> {
        let flags: TeamConsoleFlags = super::super::read(line).unwrap();
        let mut complaints = Complaints::default();
        flags.check(&mut complaints);
        complaints.settle().err().map(|error| error.to_string())
    }

    #[test]
    fn a_console_must_know_its_names() {
        let refused = complaint("--console-bind-address=:8444").unwrap();
        assert!(refused.contains("--console-bind-address needs --console-hosts"), "{refused}");
        assert_eq!(complaint("--console-bind-address=:8444 --console-hosts=a.example"), None);
        assert_eq!(complaint(""), None);
        assert_eq!(complaint("--console-bind-address=0 --console-verbs"), None);
        let flags: TeamConsoleFlags =
            super::super::read("--console-hosts=a.example,,b:8444").unwrap();
        assert_eq!(flags.hosts(), ["a.example", "b:8444"]);
        assert_eq!(without_port("b:8444"), "b");
    }
}
