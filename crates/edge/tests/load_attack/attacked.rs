//! What every attack needs: a server, a well-behaved client beside the attackers, and the
//! memory that the server uses.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::process::served::{Bounds, NOW, PEAK, Served};
use crate::process::wire::{Connector, Wire};
use crate::well_behaved::WellBehavedClient;

/// A server that can be attacked.
pub struct AttackedServer {
    pub served: Served,
    pub wire: Wire,
    folder: PathBuf,
    name: &'static str,
}

/// The whole force of an attack, or the part of it that a plain `cargo test` has time for.
pub fn force(part: usize, whole: usize) -> usize {
    match std::env::var("FLAGSHIP_LOAD_ATTACK").as_deref() {
        Ok("full") => whole,
        _ => part,
    }
}

impl AttackedServer {
    pub fn start(name: &'static str, bounds: Bounds) -> Self {
        let folder = std::env::temp_dir()
            .join(format!("flagship-load-attack-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let arguments = ["--exact", "the_server_under_attack", "--ignored", "--nocapture"];
        let served = Served::start(&folder, &arguments, bounds);
        let wire = served.wire();
        Self { served, wire, folder, name }
    }

    /// What the attack came to, and by how many KiB the server grew at most meanwhile. The
    /// client works from before its beginning until after its end, on a thread of its own:
    /// how busy the attackers are is not the server's doing.
    pub async fn under<T>(&self, attack: impl Future<Output = T>) -> (T, usize) {
        let over = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = oneshot::channel();
        let working = std::thread::spawn({
            let (connector, over) = (self.wire.admin("well-behaved"), over.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            move || runtime.unwrap().block_on(work_until(connector, ready, &over))
        });
        // What the server makes once is no attacker's doing.
        is_ready.await.expect("the well-behaved client connects before the attack");
        self.served.forget_peak();
        let before = self.served.memory(NOW);
        let came = attack.await;
        over.store(true, Ordering::Relaxed);
        let worked = tokio::task::spawn_blocking(|| working.join()).await.unwrap();
        let (rounds, slowest) = worked.expect("the well-behaved client was served");
        let grown = self.served.memory(PEAK).saturating_sub(before);
        let slowest = slowest.as_millis();
        println!(
            "{}: the server grew by {grown} KiB from {before} KiB; the well-behaved client worked {rounds} \
             times, at most {slowest} ms each",
            self.name
        );
        (came, grown)
    }
}

/// Lets a well-behaved client work until the attack is over: how many rounds, and the longest.
async fn work_until(
    connector: Connector,
    ready: oneshot::Sender<()>,
    over: &AtomicBool,
) -> (usize, Duration) {
    let mut client = WellBehavedClient::connect(connector).await;
    for _ in 0..3 {
        client.work().await;
    }
    ready.send(()).unwrap();
    client.slowest = Duration::ZERO;
    let mut rounds = 0;
    while !over.load(Ordering::Relaxed) || rounds == 0 {
        client.work().await;
        rounds += 1;
    }
    (rounds, client.slowest)
}

impl Drop for AttackedServer {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
