//! `flagship console`: the page in a browser, with the credentials of a kubeconfig.
//!
//! It listens on loopback only and lets in whoever has the key of the link. What the page
//! shows is made in `flagship_console`; what its verbs do is done by the commands, in `verbs`.

mod verbs;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use flagship_console::{Commands, Guard, Key};
use flagship_files as files;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::connect::{Connect, Hub};
use crate::agent;
use crate::agent::connections::{answer_all, serve_each};
use verbs::Verbs;

/// Open the console: runs, clusters and placements in a browser
#[derive(Args)]
pub struct Console {
    /// The port; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Print the link and do not open a browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Console {
    /// Serves the page until told to stop.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        agent::block_on(self.work(out))
    }

    async fn work(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let hub = self.connect.hub().await?;
        let served = serve(hub, listen(self.port).await?, new_key()?)?;
        writeln!(out, "console  {}", served.link)?;
        writeln!(out, "It acts with your kubeconfig's credentials. Ctrl-C ends it.")?;
        out.flush()?;
        if !self.no_open {
            open(&served.link);
        }
        agent::told_to_stop().await;
        Ok(())
    }
}

/// A console that is served until this is dropped.
pub struct Served {
    /// The link that opens it.
    pub link: String,
    _serving: JoinSet<()>,
}

/// Listens on a port of this machine that nobody else reaches.
pub async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("the console cannot listen on port {port}"))
}

/// A key that ends with the process.
pub fn new_key() -> anyhow::Result<Key> {
    Key::random().map_err(|why| anyhow!("no key for the console can be made: {why}"))
}

/// The key of this file; a new one is made and kept if there is none.
pub fn kept_key(path: &Path) -> anyhow::Result<Key> {
    let kept = files::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(key) = kept.and_then(|text| Key::read(&text)) {
        return Ok(key);
    }
    let key = new_key()?;
    files::replace(path, format!("{}\n", key.as_str()).as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(key)
}

/// The console of a hub, for whoever the guard lets in.
pub(super) fn shown(hub: Hub, guard: Guard, env: &Env) -> flagship_console::Console {
    let client = hub.client.clone();
    let verbs = Arc::new(Verbs::new(hub, env));
    flagship_console::Console::new(guard, client, verbs, env)
}

/// The commands of one of several callers, on a hub whose members cannot be reached.
pub fn commands_of(client: Client, env: &Env) -> Arc<dyn Commands> {
    Arc::new(Verbs::new(Hub::alone(client), env))
}

/// Serves the console of a hub.
pub fn serve(hub: Hub, listener: TcpListener, key: Key) -> anyhow::Result<Served> {
    let port = listener.local_addr().context("the console's port is not known")?.port();
    let link = format!("http://127.0.0.1:{port}/?key={}", key.as_str());
    let console = Arc::new(shown(hub, Guard::loopback(key, port), &Env::system()));
    let mut serving = JoinSet::new();
    serving.spawn(serve_each(listener, move |socket| {
        let console = console.clone();
        async move {
            // A change is a small write, and is to be seen at once.
            if let Err(error) = socket.set_nodelay(true) {
                tracing::debug!(%error, "a console connection stays as it is");
            }
            answer_all(socket, |request| console.answer(request)).await;
        }
    }));
    Ok(Served { link, _serving: serving })
}

/// Opens the link in whatever the desktop calls a browser; the link was printed anyhow.
fn open(link: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started =
        Command::new(opener).arg(link).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        tracing::debug!(%error, "no browser was opened");
    }
}
