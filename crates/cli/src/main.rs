//! The `flagship` binary: reads the command line, runs one command, says how it
//! went by exit code.
//!
//! Exit codes are in [`EXIT_CODES`], which every help shows. Commands are one file each and
//! write to `out`, so that their tests are strings.

mod agent;
mod apiserver;
mod bench;
mod commands;
mod complete;
mod crds;
mod explain;
mod install;
mod kubectl_fleet;
mod printable;
mod sim;
mod up;
mod version;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use commands::wait_for;
use printable::Printable;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use flagship_explain::printable::printable;
use flagship_runtime::client::ClientError;
use mimalloc::MiMalloc;

/// A hub makes and drops small strings all day. The system's allocator takes longer for
/// each the more there are (docs/decisions/0011).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What exit codes mean, in every command.
const EXIT_CODES: &str = "\
Exit codes:
  0  done; for questions: what was asked about is done or healthy
  1  the command could not be carried out
  2  the command line cannot be meant
  3  what was asked about is stuck
  4  it waits, or is under way
  5  it failed or would fail; doctor: something is to be fixed
  6  no hub could be talked to";

/// No hub could be talked to.
const NO_HUB: u8 = 6;

/// A fleet control plane for Kubernetes
#[derive(Parser)]
#[command(name = "flagship", version = version::SHORT.as_str(), disable_help_subcommand = true)]
#[command(long_version = version::LONG.as_str())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(Box<up::Up>),
    #[command(name = "apiserver")]
    ApiServer(Box<apiserver::ApiServer>),
    Down(up::Down),
    Reset(up::Reset),
    RotateKeys(up::RotateKeys),
    Backup(up::Backup),
    Restore(up::Restore),
    Status(commands::Status),
    Watch(commands::Watch),
    Why(commands::Why),
    Explain(explain::Explain),
    Plan(commands::Plan),
    Simulate(commands::Simulate),
    Run(commands::Run),
    Approve(commands::Approve),
    Reject(commands::Reject),
    Inbox(commands::Inbox),
    Stop(commands::Stop),
    Resume(commands::Resume),
    Rollback(commands::Rollback),
    Skip(commands::Skip),
    Retry(commands::Retry),
    Freeze(commands::Freeze),
    Unfreeze(commands::Unfreeze),
    Quarantine(commands::Quarantine),
    Notify(commands::Notify),
    History(commands::History),
    Report(commands::Report),
    Replay(commands::Replay),
    Audit(commands::Audit),
    Clusters(commands::Clusters),
    Doctor(commands::Doctor),
    Console(commands::Console),
    SupportBundle(commands::SupportBundle),
    Install(install::Install),
    Uninstall(install::Uninstall),
    Join(install::Join),
    Leave(install::Leave),
    Migrate(install::Migrate),
    Sim(sim::Sim),
    Bench(Box<bench::Bench>),
    Crds(crds::Crds),
    Fleet(kubectl_fleet::Fleet),
    Completions(complete::Completions),
    Man(complete::Man),
    Hub(Box<agent::Hub>),
    Member(Box<agent::Member>),
    RefreshToken(Box<agent::RefreshToken>),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut out = Printable::new(io::BufWriter::new(io::stdout()), commands::colours());
    let mut complaints = Printable::new(io::stderr(), false);
    if kubectl_fleet::is_called(&arguments) {
        let answered = kubectl_fleet::answer(arguments, &mut out, &mut complaints);
        return end(answered, &mut out);
    }
    let result = match read(arguments).command {
        Command::Up(command) => command.run(&mut out).map(|()| 0),
        Command::ApiServer(command) => command.run(&mut out).map(|()| 0),
        Command::Down(command) => command.run(&mut out).map(|()| 0),
        Command::Reset(command) => command.run(&mut out).map(|()| 0),
        Command::RotateKeys(command) => command.run(&mut out).map(|()| 0),
        Command::Backup(command) => wait_for(command.run(&mut out)),
        Command::Restore(command) => command.run(&mut out).map(|()| 0),
        Command::Status(command) => wait_for(command.run(&mut out)),
        // It draws over what it drew before, and looks after its text itself.
        Command::Watch(command) => wait_for(command.run(&mut io::stdout())),
        Command::Why(command) => wait_for(command.run(&mut out)),
        Command::Explain(command) => command.run(&mut out).map(|()| 0),
        Command::Plan(command) => wait_for(command.run(&mut out)),
        Command::Simulate(command) => wait_for(command.run(&mut out)),
        Command::Run(command) => wait_for(command.run(&mut out)),
        Command::Approve(command) => wait_for(command.run(&mut out, &mut complaints)),
        Command::Reject(command) => wait_for(command.run(&mut out)),
        Command::Inbox(command) => wait_for(command.run(&mut out)),
        Command::Stop(command) => wait_for(command.run(&mut out)),
        Command::Resume(command) => wait_for(command.run(&mut out)),
        Command::Rollback(command) => wait_for(command.run(&mut out)),
        Command::Skip(command) => wait_for(command.run(&mut out)),
        Command::Retry(command) => wait_for(command.run(&mut out)),
        Command::Freeze(command) => wait_for(command.run(&mut out)),
        Command::Unfreeze(command) => wait_for(command.run(&mut out)),
        Command::Quarantine(command) => wait_for(command.run(&mut out)),
        Command::Notify(command) => wait_for(command.run(&mut out)),
        Command::History(command) => wait_for(command.run(&mut out)),
        Command::Report(command) => wait_for(command.run(&mut out)),
        Command::Replay(command) => wait_for(command.run(&mut out)),
        Command::Audit(command) => wait_for(command.run(&mut out)),
        Command::Clusters(command) => wait_for(command.run(&mut out)),
        Command::Doctor(command) => wait_for(command.run(&mut out)),
        Command::Console(command) => command.run(&mut out).map(|()| 0),
        Command::SupportBundle(command) => wait_for(command.run(&mut out)),
        Command::Install(command) => wait_for(command.run(&mut out)),
        Command::Uninstall(command) => wait_for(command.run(&mut out)),
        Command::Join(command) => wait_for(command.run(&mut out)),
        Command::Migrate(command) => wait_for(command.run(&mut out)),
        Command::Leave(command) => wait_for(command.run(&mut out)),
        Command::Sim(command) => command.run(),
        Command::Bench(command) => wait_for(command.run(&mut out)),
        Command::Crds(command) => command.run(&mut out).map(|()| 0),
        Command::Completions(command) => command.run(command_line(), &mut out).map(|()| 0),
        Command::Man(command) => command.run(command_line(), &mut out).map(|()| 0),
        Command::Fleet(command) => command.run(&mut out, &mut complaints),
        Command::Hub(command) => command.run().map(|()| 0),
        Command::Member(command) => command.run().map(|()| 0),
        Command::RefreshToken(command) => command.run().map(|()| 0),
    };
    end(result, &mut out)
}

/// Says how it went.
fn end(result: anyhow::Result<u8>, out: &mut dyn Write) -> ExitCode {
    match result.and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Ok(code) => ExitCode::from(code),
        // The reader has seen enough: `flagship crds | head` is no failure.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to say it to if these fail too.
            drop(out.flush());
            let told = format!("error: {error:#}");
            drop(writeln!(io::stderr(), "{}", printable(&told, false)));
            if error.is::<crds::UnknownKind>() {
                ExitCode::from(2)
            } else if is_no_hub(&error) {
                ExitCode::from(NO_HUB)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Whether nobody answered, at the beginning or in the middle.
fn is_no_hub(error: &anyhow::Error) -> bool {
    let away = |cause: &ClientError| matches!(cause, ClientError::Unreachable { .. });
    error.is::<commands::NoHub>() || error.downcast_ref::<ClientError>().is_some_and(away)
}

/// The whole command line; every help ends with the exit codes.
fn command_line() -> clap::Command {
    fn told(command: clap::Command) -> clap::Command {
        command.after_help(EXIT_CODES).mut_subcommands(told)
    }
    // KubeFleet's plugin has codes of its own.
    Cli::command().after_help(EXIT_CODES).mut_subcommands(|below| match below.get_name() {
        "fleet" => below,
        _ => told(below),
    })
}

/// Reads the command line; the agents take theirs the way KubeFleet's do.
fn read(mut arguments: Vec<OsString>) -> Cli {
    let mut command = command_line();
    for name in AGENTS {
        command = command.mut_subcommand(name, agent::as_go_reads);
    }
    for name in ["up", "apiserver"] {
        command = command.mut_subcommand(name, |it| it.mut_args(agent::as_switch));
    }
    if arguments.get(1).is_some_and(|name| AGENTS.iter().any(|agent| name == agent)) {
        arguments = agent::with_two_dashes(arguments);
    }
    let matches = command.get_matches_from(arguments);
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

const AGENTS: [&str; 3] = ["hub", "member", "refresh-token"];

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use flagship_explain::why::State;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command_line().debug_assert();
    }

    #[test]
    fn every_help_lists_the_exit_codes_and_none_means_two_things() {
        for mut command in command_line().get_subcommands().cloned() {
            let help = command.render_help().to_string();
            let listed = help.contains("6  no hub could be talked to");
            assert_eq!(listed, command.get_name() != "fleet", "{}", command.get_name());
        }
        let answers = [State::Done, State::Stuck, State::Waiting, State::Failed];
        assert_eq!(answers.map(State::exit_code), [0, 3, 4, 5]);
        let away = anyhow::Error::new(ClientError::Unreachable {
            object: "x".to_owned(),
            source: "no".into(),
        });
        assert!(is_no_hub(&away.context("while reading")));
    }
}
