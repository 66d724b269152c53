//! `flagship notify test`: asks the hub to send one message through a channel, and tells
//! whether it arrived.
//!
//! The hub sends it, not this command: what is tried is its way to the receiver, its Secrets
//! and what it may call.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use flagship_api::keys::own;
use flagship_api::names::ObjectKey;
use flagship_api::notification_channel::NotificationChannel;
use flagship_runtime::client::{ClientError, Selection};
use flagship_runtime::env::Env;
use serde_json::json;

use super::connect::{Connect, Hub};
use super::steer::LOOK;

/// Notifications: try a channel out
#[derive(Args)]
pub struct Notify {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Test(Test),
}

/// Send one message through a channel; fails with 5 if the receiver does not take it
#[derive(Args)]
struct Test {
    /// The NotificationChannel
    channel: String,
    /// How long the hub may take
    #[arg(long, default_value = "30s", value_parser = crate::agent::duration)]
    timeout: Duration,
    #[command(flatten)]
    connect: Connect,
}

/// The receiver did not take the message.
const NOT_TAKEN: u8 = 5;
/// Nobody has sent it yet.
const WAITS: u8 = 4;

impl Notify {
    /// Asks, and waits for the answer.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let What::Test(test) = &self.what;
        let hub = test.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let What::Test(Test { channel, timeout, .. }) = self.what;
        let channels = hub.client.of::<NotificationChannel>();
        let key = ObjectKey::cluster(&channel);
        let found = match channels.find(&key).await {
            Err(ClientError::NotServed { .. }) => bail!(
                "the hub has no notification channels yet; install them: flagship crds --policies | kubectl --context hub apply --server-side -f -"
            ),
            found => found?,
        };
        if found.is_none() {
            let all = channels.list(&Selection::all()).await?.items;
            let names: Vec<String> = all.into_iter().filter_map(|it| it.metadata.name).collect();
            match names.is_empty() {
                true => bail!("there is no notification channel {channel}, and no other"),
                false => bail!(
                    "there is no notification channel {channel}; there are: {}",
                    names.join(", ")
                ),
            }
        }
        let id = env.now().to_string();
        let ask = json!({"metadata": {"annotations": {own::TEST_NOTIFICATION: id}}});
        channels.patch_anyway(&key, ask).await.context("cannot ask for a test message")?;
        let patience = env.now().saturating_add(timeout)?;
        loop {
            let status = channels.get(&key).await?.status.unwrap_or_default();
            if let Some(test) = status.test.filter(|test| test.id == id) {
                return match test.error {
                    None => {
                        writeln!(out, "{channel} works: the receiver has taken a test message")?;
                        Ok(0)
                    }
                    Some(why) => {
                        writeln!(out, "{channel} does not work: {why}")?;
                        Ok(NOT_TAKEN)
                    }
                };
            }
            if env.now() >= patience {
                writeln!(
                    out,
                    "the hub has not sent the message yet; see whether it runs:  flagship doctor"
                )?;
                return Ok(WAITS);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
