//! What every attack needs: a server, a citizen beside the attackers, and a look at memory.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::citizen::Citizen;
use crate::process::served::{Bounds, NOW, PEAK, Served};
use crate::process::wire::{Door, Wire};

/// A server that can be attacked.
pub struct Walls {
    pub served: Served,
    pub wire: Wire,
    folder: PathBuf,
    name: &'static str,
}

/// The whole force of an attack, or the part of it that a plain `cargo test` has time for.
pub fn force(part: usize, whole: usize) -> usize {
    match std::env::var("FLAGSHIP_SIEGE").as_deref() {
        Ok("full") => whole,
        _ => part,
    }
}

impl Walls {
    pub fn raise(name: &'static str, bounds: Bounds) -> Self {
        let folder =
            std::env::temp_dir().join(format!("flagship-siege-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let arguments = ["--exact", "the_server_under_siege", "--ignored", "--nocapture"];
        let served = Served::start(&folder, &arguments, bounds);
        let wire = served.wire();
        Self { served, wire, folder, name }
    }

    /// What the attack came to, and by how many KiB the server grew at most meanwhile. The
    /// citizen works from before its beginning until after its end, on a thread of their own:
    /// how busy the attackers are is not the server's doing.
    pub async fn under<T>(&self, attack: impl Future<Output = T>) -> (T, usize) {
        let over = Arc::new(AtomicBool::new(false));
        let (settled, is_settled) = oneshot::channel();
        let working = std::thread::spawn({
            let (door, over) = (self.wire.admin("citizen"), over.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            move || runtime.unwrap().block_on(live(door, settled, &over))
        });
        // What the server makes once is no attacker's doing.
        is_settled.await.expect("the citizen settles in peace");
        self.served.forget_peak();
        let before = self.served.memory(NOW);
        let came = attack.await;
        over.store(true, Ordering::Relaxed);
        let worked = tokio::task::spawn_blocking(|| working.join()).await.unwrap();
        let (days, slowest) = worked.expect("the citizen was served");
        let grown = self.served.memory(PEAK).saturating_sub(before);
        let slowest = slowest.as_millis();
        println!(
            "{}: the server grew by {grown} KiB from {before} KiB; the citizen worked {days} \
             times, at most {slowest} ms each",
            self.name
        );
        (came, grown)
    }
}

/// The life of a citizen until the attack is over: how many days of it, and the longest.
async fn live(door: Door, settled: oneshot::Sender<()>, over: &AtomicBool) -> (usize, Duration) {
    let mut citizen = Citizen::settle(door).await;
    for _ in 0..3 {
        citizen.work().await;
    }
    settled.send(()).unwrap();
    citizen.slowest = Duration::ZERO;
    let mut days = 0;
    while !over.load(Ordering::Relaxed) || days == 0 {
        citizen.work().await;
        days += 1;
    }
    (days, citizen.slowest)
}

impl Drop for Walls {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
