//! Stock `kubectl` against the embedded server, over TLS: transcripts that people have read.
//!
//! Each file in `stories/` is a session: `$` begins a command, `>` a line of its input, the
//! rest is what it printed. Every story has a server of its own, with the cluster `hub` and
//! the controllers of a real one beside it. `UPDATE_EXPECT=1` writes down what came instead.
//! Those in `guides/` and `policies/` are sessions with a whole fleet; the modules of these names
//! say what is there.
//!
//! The binary is `$KUBECTL`, or the one that `scripts/kubectl` built, or the one on the PATH.
//! Without any the stories are skipped, and say so.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod binary;
mod coverage;
mod guides;
mod policies;
mod session;
mod shell;
mod stories;
mod transcript;

macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                stories::replay(stringify!($name)).await;
            }
        )*

        #[test]
        fn every_story_is_told() {
            stories::all_told("stories", &[$(stringify!($name)),*]);
        }
    };
}

stories!(
    applying,
    asking,
    certificates,
    creating,
    custom_kinds,
    deleting,
    every_form,
    fleet_kinds,
    looking,
    patching,
    refused,
    rights,
    rolling_out,
    server_side,
    waiting,
);
