//! `kubectl fleet`: KubeFleet's plugin, with its flags, words and exit codes.
//!
//! The binary answers as the plugin when it is called `kubectl-fleet`, and as
//! `flagship fleet` otherwise. Everything is said on standard error with the time in front;
//! a failure is 1, a drain that a budget blocks is none. Our own commands, which find the
//! hub by themselves and say what comes next, are in `commands`.

mod approve;
mod cordon;
mod drain;
mod line;
mod log;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{CommandFactory, FromArgMatches};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use jiff::SignedDuration;

use crate::commands::{Connect, wait_for};
use crate::version;
pub use line::Fleet;
use line::{Plugin, Verb};
use log::Log;

const NAME: &str = "kubectl-fleet";

/// Whether the binary was called as the plugin.
pub fn is_called(arguments: &[OsString]) -> bool {
    let called = arguments.first().map(Path::new).and_then(Path::file_stem);
    called.is_some_and(|called| called == NAME)
}

/// Answers as the plugin; hands out the exit code.
pub fn answer(
    arguments: Vec<OsString>,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> anyhow::Result<u8> {
    let read = Plugin::command().try_get_matches_from(arguments);
    match read.and_then(|matches| Plugin::from_arg_matches(&matches)) {
        Ok(plugin) => plugin.fleet.run(out, err),
        Err(error) if error.exit_code() == 0 => {
            write!(out, "{error}")?;
            Ok(0)
        }
        Err(error) => {
            let env = Env::system();
            Ok(failed(&mut Log::new(err, &env), "", &line::in_their_words(&error)))
        }
    }
}

impl Fleet {
    /// Carries the command out; failures are said here, and are the exit code.
    pub fn run(self, out: &mut dyn Write, err: &mut (dyn Write + Send)) -> anyhow::Result<u8> {
        let Some(verb) = self.command else {
            write!(out, "{}", Plugin::command().render_long_help())?;
            return Ok(0);
        };
        if let Verb::Version = verb {
            writeln!(out, "{NAME} {} ({})", version::VERSION, version::COMMIT)?;
            return Ok(0);
        }
        let env = Env::system();
        let mut log = Log::new(err, &env);
        let name = verb.name();
        match wait_for(act(verb, &env, &mut log)) {
            Ok(()) => Ok(0),
            Err(error) => Ok(failed(&mut log, name, &format!("{error:#}"))),
        }
    }
}

/// First the error, then how it is meant to be used, then the error again.
fn failed(log: &mut Log<'_>, verb: &str, error: &str) -> u8 {
    log.print(format!("Error: {error}"));
    log.print(line::usage(verb));
    log.say(format!("Error executing command: {error}"));
    1
}

async fn act(verb: Verb, env: &Env, log: &mut Log<'_>) -> anyhow::Result<()> {
    verb.check()?;
    let common = verb.common().context("version needs no hub")?;
    let hub = Connect::to(common.context()).hub().await;
    let hub = hub.map_err(|error| anyhow!("failed to create hub cluster client: {error:#}"))?;
    let until = Deadline::after(env, common.timeout()?);
    tell(&verb, &hub.client, env, &until, log).await
}

/// Carries a checked command out on a hub, within its time.
async fn tell(
    verb: &Verb,
    hub: &Client,
    env: &Env,
    until: &Deadline,
    log: &mut Log<'_>,
) -> anyhow::Result<()> {
    match verb {
        Verb::Approve(what) => until.hold(approve::approve(what, hub, env, log)).await,
        Verb::Draincluster(target) => {
            until.hold(drain::drain(target.cluster(), hub, env, until, log)).await
        }
        Verb::Uncordoncluster(target) => {
            let cluster = target.cluster();
            let done = until.hold(cordon::uncordon(hub, env, cluster)).await;
            done.map_err(|error| anyhow!("failed to uncordon cluster {cluster}: {error:#}"))?;
            log.say(format!("uncordoned member cluster {cluster}"));
            Ok(())
        }
        Verb::Version => Ok(()),
    }
}

/// The moment at which a command gives up.
struct Deadline {
    env: Env,
    at: jiff::Timestamp,
}

/// What Go says when time is up.
const TIME_IS_UP: &str = "context deadline exceeded";

impl Deadline {
    fn after(env: &Env, span: Duration) -> Self {
        let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
        let at = env.now().checked_add(span).unwrap_or(jiff::Timestamp::MAX);
        Self { env: env.clone(), at }
    }

    /// Works until it is done or time is up.
    async fn hold<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let left = self.at.duration_since(self.env.now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        match tokio::time::timeout(left, work).await {
            Ok(done) => done,
            Err(_) => bail!(TIME_IS_UP),
        }
    }
}
