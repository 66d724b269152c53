//! Flags as KubeFleet's deployment scripts write them, told to clap.
//!
//! Go's flag package takes one dash or two, and a boolean only as `--f` or `--f=true`.
//! Logging flags of another library are accepted whether or not they mean anything to us.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Arg;
use clap::builder::ValueParser;
use flagship_base::duration::GoDuration;
use flagship_runtime::env::Env;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use super::traces::{Collector, Export};

use crate::printable::Printable;

/// Gives every long flag its two dashes: `-add_dir_header` becomes `--add_dir_header`.
pub fn with_two_dashes(arguments: Vec<OsString>) -> Vec<OsString> {
    arguments
        .into_iter()
        .map(|argument| {
            let long = argument.to_str().and_then(|text| text.strip_prefix('-')).filter(|name| {
                let bare = name.split('=').next().unwrap_or_default();
                // `-v` is no short form of anything, but a flag like the others.
                let named = bare.len() > 1 || bare == "v";
                named && bare.starts_with(|letter: char| letter.is_ascii_lowercase())
            });
            match long {
                Some(name) => OsString::from(format!("--{name}")),
                None => argument,
            }
        })
        .collect()
}

/// Lets a boolean flag stand alone or take `=true` and `=false`, and nothing else.
pub fn as_switch(argument: Arg) -> Arg {
    let boolean = argument.get_value_parser().type_id() == ValueParser::bool().type_id();
    if boolean && argument.get_action().takes_values() {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    }
}

/// Reads a command line as Go's flag package does: booleans as switches, and of a flag that is
/// repeated the last one, as where a chart's `extraArgs` follow its own.
pub fn as_go_reads(command: clap::Command) -> clap::Command {
    command.args_override_self(true).mut_args(as_switch).mut_subcommands(as_go_reads)
}

/// Reads a duration as Go writes it: `15s`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let span: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
    // A negative duration reads as zero, which the range check then refuses by name.
    Ok(span.as_std())
}

/// Collects what is wrong with a command line, so that all of it is said at once.
#[derive(Default)]
pub struct Complaints(Vec<String>);

impl Complaints {
    /// A value that must lie within bounds.
    pub fn within<T: PartialOrd + Display>(
        &mut self,
        flag: &str,
        value: T,
        range: RangeInclusive<T>,
    ) {
        self.unless(range.contains(&value), || {
            format!("--{flag} must be from {} to {}, not {value}", range.start(), range.end())
        });
    }

    /// A duration that must lie within bounds.
    pub fn lasts(&mut self, flag: &str, value: Duration, range: RangeInclusive<Duration>) {
        self.unless(range.contains(&value), || {
            format!("--{flag} must be from {:?} to {:?}, not {value:?}", range.start(), range.end())
        });
    }

    /// A rate of requests: within bounds, or turned off by a negative number.
    pub fn rate(&mut self, flag: &str, value: f64, range: RangeInclusive<f64>, zero_is_off: bool) {
        let off = value < 0.0 || (zero_is_off && value == 0.0);
        self.unless(off || range.contains(&value), || {
            format!(
                "--{flag} must be from {} to {}, or negative for no limit, not {value}",
                range.start(),
                range.end()
            )
        });
    }

    /// Anything else.
    pub fn unless(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.0.push(complaint());
        }
    }

    /// Everything that was wrong, in one error.
    pub fn settle(self) -> anyhow::Result<()> {
        anyhow::ensure!(self.0.is_empty(), "invalid parameter: {}", self.0.join("; "));
        Ok(())
    }
}

/// Flags of KubeFleet's logging library: `--v` chooses how much is said, the others
/// are accepted for the charts that pass them.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Logging {
    /// How much to log: 4 and above says every decision
    #[arg(long, default_value_t = 0, value_name = "LEVEL")]
    v: u8,
    /// How a line of the log is written: for people, or one JSON object a line
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// Send a trace of every rollout to this OpenTelemetry collector (OTLP over HTTP), as
    /// http://collector:4318; without it none is made
    #[arg(long, value_name = "URL", value_parser = Collector::read)]
    otlp_endpoint: Option<Collector>,
    #[arg(long = "add_dir_header", hide = true, default_value_t = false, action = clap::ArgAction::Set)]
    add_dir_header: bool,
    #[arg(long = "log_file_max_size", hide = true)]
    log_file_max_size: Option<u64>,
    #[arg(long = "logtostderr", hide = true, default_value_t = true, action = clap::ArgAction::Set)]
    logtostderr: bool,
    #[arg(long = "alsologtostderr", hide = true, default_value_t = false, action = clap::ArgAction::Set)]
    alsologtostderr: bool,
    #[arg(long = "stderrthreshold", hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long = "vmodule", hide = true)]
    vmodule: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_file", hide = true)]
    log_file: Option<String>,
    #[arg(long = "log_backtrace_at", hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long = "one_output", hide = true, default_value_t = false, action = clap::ArgAction::Set)]
    one_output: bool,
    #[arg(long = "skip_headers", hide = true, default_value_t = false, action = clap::ArgAction::Set)]
    skip_headers: bool,
    #[arg(long = "skip_log_headers", hide = true, default_value_t = false, action = clap::ArgAction::Set)]
    skip_log_headers: bool,
}

impl Logging {
    /// Logs to standard error from here on, and traces as this service if that is wanted.
    pub fn begin(&self, service: &'static str) {
        let started = self
            .otlp_endpoint
            .clone()
            .map(|collector| Export::start(collector, service, Env::system()));
        let (export, failed) = match started.transpose() {
            Ok(export) => (export, None),
            Err(why) => (None, Some(why)),
        };
        // A second start in one process keeps the first one's log.
        drop(tracing::dispatcher::set_global_default(self.log(std::io::stderr, export)));
        if let Some(why) = failed {
            tracing::warn!(%why, "there will be no traces");
        }
    }

    fn log<W: std::io::Write + 'static>(
        &self,
        open: impl Fn() -> W + Send + Sync + 'static,
        export: Option<Export>,
    ) -> tracing::Dispatch {
        let level = if self.v >= 4 { tracing::Level::DEBUG } else { tracing::Level::INFO };
        if self.log_format != "json" {
            return tracing::Dispatch::new(log_to(open, level).with(export));
        }
        // JSON escapes by itself. Fields stand beside the message, and the pass that logs is
        // the `span`.
        let log = tracing_subscriber::fmt().json().flatten_event(true).with_span_list(false);
        let log = log.with_max_level(level).with_writer(open).with_target(false);
        tracing::Dispatch::new(log.finish().with(export))
    }
}

/// A log in plain text. What members and users wrote is in it, so it is escaped as everything
/// that commands print is.
fn log_to<W: std::io::Write>(
    open: impl Fn() -> W + Send + Sync + 'static,
    level: tracing::Level,
) -> impl tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(move || Printable::new(open(), false))
        .with_target(false)
        .finish()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn one_dash_is_as_good_as_two() {
        let given = ["-add_dir_header", "--v=2", "-leader-elect=true", "-v", "-5", "x", "-"];
        let read = with_two_dashes(given.map(OsString::from).to_vec());
        let expected = ["--add_dir_header", "--v=2", "--leader-elect=true", "--v", "-5", "x", "-"];
        assert_eq!(read, expected.map(OsString::from));
    }

    // checklist fleet 12.59
    #[test]
    fn every_flag_of_kubefleets_logging_is_taken() {
        #[derive(clap::Args, Debug)]
        struct Agent {
            #[command(flatten)]
            logging: Logging,
        }
        let read = |line: &str| super::super::read::<Agent>(line).map(|agent| agent.logging.v);
        for (line, level) in [
            ("-v=5", 5),
            ("-v 4", 4),
            ("--v=3", 3),
            (
                "-add_dir_header -alsologtostderr -logtostderr=false -one_output -skip_headers=true \
                 --skip_log_headers -log_dir=/tmp -log_file=/tmp/a -log_file_max_size=1800 \
                 -log_backtrace_at=a.go:1 -stderrthreshold=2 -vmodule=a=1",
                0,
            ),
        ] {
            assert_eq!(read(line).unwrap(), level, "{line}");
        }
        assert!(read("-x=5").is_err());
    }

    /// A file that the test reads afterwards.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_cannot_talk_to_the_terminal() {
        let kept = Kept::default();
        let open = kept.clone();
        let log = log_to(move || open.clone(), tracing::Level::INFO);
        tracing::subscriber::with_default(log, || {
            let said = "\u{1b}[2J\u{202e}nimda\u{9b}31m\r";
            tracing::warn!(said, why = %said, "a member says {said}");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("a member says"), "{text}");
        assert_eq!(text, flagship_explain::printable::printable(&text, false), "{text:?}");
    }

    #[test]
    fn a_log_for_machines_is_one_object_a_line() {
        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let logged = |format: &str, v| {
            let kept = Kept::default();
            let writer = kept.clone();
            let logging = Logging { log_format: format.into(), v, ..Logging::default() };
            tracing::dispatcher::with_default(&logging.log(move || writer.clone(), None), || {
                let _pass = tracing::info_span!("pass", controller = "runs", key = "a/b").entered();
                tracing::info!(cluster = "c1", "updating");
                tracing::debug!("a detail");
            });
            let text = kept.0.lock().unwrap().clone();
            String::from_utf8(text).unwrap()
        };
        let text = logged("json", 0);
        let mut line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(line["timestamp"].take().is_string(), "{text}");
        let pass = serde_json::json!({"name": "pass", "controller": "runs", "key": "a/b"});
        let expected = serde_json::json!({"timestamp": null, "level": "INFO",
            "message": "updating", "cluster": "c1", "span": pass});
        assert_eq!(line, expected);
        assert_eq!(logged("json", 5).lines().count(), 2);
        assert!(
            logged("text", 0).contains("INFO pass{controller=\"runs\""),
            "{}",
            logged("text", 0)
        );
    }

    #[test]
    fn all_complaints_are_said_at_once() {
        let mut complaints = Complaints::default();
        complaints.within("pprof-port", 0, 1..=65_535);
        complaints.within("fine", 5, 1..=10);
        complaints.lasts(
            "resync-period",
            Duration::from_secs(60),
            Duration::from_secs(3600)..=Duration::from_secs(43_200),
        );
        assert_eq!(
            complaints.settle().unwrap_err().to_string(),
            "invalid parameter: --pprof-port must be from 1 to 65535, not 0; \
             --resync-period must be from 3600s to 43200s, not 60s"
        );
    }
}
