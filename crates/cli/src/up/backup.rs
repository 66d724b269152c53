//! `flagship backup`: everything a fleet keeps, in one file, while it runs or while it does not.
//!
//! A fleet that runs has its store to itself, so it is asked to make the copy, in its data folder;
//! the command fetches it there. `flagship_store::durable` makes it, and looks at all of it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use flagship_store::durable::{self, Durable};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::folder::{self, Folder};

/// Copy everything that a fleet of `flagship up` keeps to a file, also while it runs
#[derive(Args, Clone, Debug)]
pub struct Backup {
    /// The file that is made
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where everything is kept
    #[arg(long, default_value = ".flagship", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// The kubeconfig of the fleet that runs there; the one in the data folder by default
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The keys that everything kept is encrypted with
    #[arg(long, value_name = "FILE")]
    encryption_key_file: Option<PathBuf>,
}

impl Backup {
    /// Makes the copy, and says what is in it.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        ensure!(
            std::fs::symlink_metadata(&self.file).is_err(),
            "{} is there already; choose another file",
            self.file.display()
        );
        let keys = super::read_keys(self.encryption_key_file.as_deref())?;
        let (objects, clusters) = match folder::is_running(&self.data_dir)? {
            true => {
                let made = self.ask().await?;
                let copy =
                    made["file"].as_str().and_then(|name| folder::copy_in(&self.data_dir, name));
                let copy = copy.context("the fleet did not say where the copy is")?;
                let fetched = durable::restore(&copy, &self.file, &keys);
                drop(flagship_files::remove_if_there(&copy));
                fetched?;
                (
                    made["objects"].as_u64().unwrap_or_default(),
                    made["clusters"].as_u64().unwrap_or_default(),
                )
            }
            false => {
                let folder = Folder::take_existing(&self.data_dir)?;
                let made = durable::copy_closed(&folder.data(), &self.file, &keys)?;
                (made.objects, made.revisions.len() as u64)
            }
        };
        writeln!(out, "{}: {objects} object(s) of {clusters} cluster(s)", self.file.display())?;
        writeln!(out, "all of it was read again; `flagship restore` puts it in place")?;
        Ok(0)
    }

    /// Has the fleet that runs make a copy.
    async fn ask(&self) -> anyhow::Result<Value> {
        let path = self.kubeconfig.clone();
        let path = path.unwrap_or_else(|| folder::kubeconfig_in(&self.data_dir));
        let refused = || {
            format!(
                "the fleet that runs in {} cannot be asked (--kubeconfig names its kubeconfig, now {})",
                self.data_dir.display(),
                path.display()
            )
        };
        let file = Kubeconfig::read_from(&path).with_context(refused)?;
        let options = KubeConfigOptions { context: Some("hub".into()), ..Default::default() };
        let config = Config::from_custom_kubeconfig(file, &options).await.with_context(refused)?;
        let client = kube::Client::try_from(config).with_context(refused)?;
        let request = http::Request::post("/backup").body(Vec::new())?;
        let said = client.request_text(request).await.with_context(refused)?;
        serde_json::from_str(&said).with_context(refused)
    }
}

/// What a fleet does when it is asked for a copy.
pub fn on_request(kept: Durable, folder: &Folder) -> flagship_edge::Backup {
    let copies = folder.copies();
    Arc::new(move || {
        let to = copies.next();
        let made = kept.backup(&to).map_err(|why| why.to_string())?;
        let name = to.file_name().and_then(|name| name.to_str());
        Ok(json!({"file": name, "objects": made.objects, "clusters": made.revisions.len()})
            .to_string())
    })
}
