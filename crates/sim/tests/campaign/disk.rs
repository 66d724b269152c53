//! The embedded store on a disk that fails, in small; `flagship sim --disk` tells more seeds.

use std::path::PathBuf;

use flagship_sim::campaign::DiskReport;

/// A folder of its own for each seed.
struct Folder(PathBuf);

impl Folder {
    fn new(of: &str, seed: u64) -> Self {
        let name = format!("flagship-disk-{of}-{seed}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("it is ours");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[tokio::test]
async fn what_a_store_acknowledged_survives_a_disk_that_fails() {
    let mut report = DiskReport::default();
    for seed in 0..12 {
        report.tell(seed, &Folder::new("whole", seed).0).await;
    }
    assert!(report.broken.is_empty(), "{}", report.text());
    // That it was asked at all.
    let seen = report.seen;
    assert!(report.cuts > 0 && report.kills > 0 && report.refused > 0, "{}", report.text());
    assert!(seen.torn > 0 && seen.lost > 0 && seen.lies > 0, "{}", report.text());
}

// The laws can say no: a store that does not know how far it was acknowledged serves an older
// file as if it were whole.
#[tokio::test]
async fn a_store_that_forgets_what_it_acknowledged_is_found() {
    let mut report = DiskReport { forgetful: true, ..DiskReport::default() };
    for seed in 0..100 {
        report.tell(seed, &Folder::new("forgetful", seed).0).await;
        if !report.broken.is_empty() {
            return;
        }
    }
    panic!("not within 100 seeds: {}", report.text());
}
