//! Sessions with one cluster, replayed.

use std::path::PathBuf;

use flagship_sim::normal::normal;

use super::session::Session;
use super::transcript::{Script, kubectl};

/// Runs a story and compares.
pub async fn replay(name: &str) {
    let Some(kubectl) = kubectl(name) else { return };
    let mut script = Script::open(&format!("stories/{name}.txt"));
    let session = Session::start(name, kubectl).await;
    // Commands block; the server's tasks need their threads.
    let (session, script) = tokio::task::spawn_blocking(move || {
        let mut session = session;
        for step in script.steps() {
            let printed = normal(&session.shell.run(&step.line, &step.input));
            script.compare(&step, &printed);
        }
        (session, script)
    })
    .await
    .unwrap();
    session.end().await;
    script.close();
}

/// Every file in a folder is one of these.
pub fn all_told(folder: &str, told: &[&str]) {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients/kubectl").join(folder);
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap().path())).collect();
    files.sort();
    let mut told = told.to_vec();
    told.sort_unstable();
    assert_eq!(files, told);
}
