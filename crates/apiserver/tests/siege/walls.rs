//! What every attack needs: a server, a citizen beside the attackers, and a look at memory.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join;

use crate::citizen::Citizen;
use crate::process::served::{Bounds, NOW, PEAK, Served};
use crate::process::wire::Wire;

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
    /// citizen works from before its beginning until after its end.
    pub async fn under<T>(&self, attack: impl Future<Output = T>) -> (T, usize) {
        let mut citizen = Citizen::settle(&self.wire).await;
        // What the server makes once is no attacker's doing.
        for _ in 0..3 {
            citizen.work().await;
        }
        self.served.forget_peak();
        let before = self.served.memory(NOW);
        let over = AtomicBool::new(false);
        let attacking = async {
            let came = attack.await;
            over.store(true, Ordering::Relaxed);
            came
        };
        let working = async {
            let mut days = 0;
            while !over.load(Ordering::Relaxed) || days == 0 {
                citizen.work().await;
                days += 1;
            }
            days
        };
        let (came, days) = join(attacking, working).await;
        let grown = self.served.memory(PEAK).saturating_sub(before);
        let slowest = citizen.slowest.as_millis();
        println!(
            "{}: the server grew by {grown} KiB from {before} KiB; the citizen worked {days} \
             times, at most {slowest} ms each",
            self.name
        );
        (came, grown)
    }
}

impl Drop for Walls {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
