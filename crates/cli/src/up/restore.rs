//! `flagship restore`: a copy in the place of a damaged store, or what can be read of it.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use flagship_store::durable;

use super::folder::Folder;

/// Put a copy of the store in its place, or save what can be read of a damaged one
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// A copy that `flagship backup` made, or one of data.redb from while no fleet ran
    #[arg(value_name = "FILE", required_unless_present = "salvage")]
    file: Option<PathBuf>,
    /// Write what can be read of the store to a new file, and list what cannot
    #[arg(long, conflicts_with = "file")]
    salvage: bool,
    /// Where that file is written; in the data folder by default
    #[arg(long, value_name = "FILE", requires = "salvage")]
    to: Option<PathBuf>,
    /// Where everything is kept
    #[arg(long, default_value = ".flagship", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// The keys that everything kept is encrypted with
    #[arg(long, value_name = "FILE")]
    encryption_key_file: Option<PathBuf>,
}

impl Restore {
    /// Restores or salvages; refused while a fleet runs in the folder.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = match &self.file {
            // A copy may begin a new folder, as on another machine.
            Some(copy) if copy.is_file() => Folder::take(&self.data_dir)?,
            _ => Folder::take_existing(&self.data_dir)?,
        };
        let keys = super::read_keys(self.encryption_key_file.as_deref())?;
        let store = folder.data();
        if let Some(copy) = &self.file {
            let aside = durable::restore(copy, &store, &keys)?;
            writeln!(out, "{} is a copy of {} now", store.display(), copy.display())?;
            if let Some(aside) = aside {
                writeln!(out, "what was there before is {}", aside.display())?;
            }
            return Ok(());
        }
        let to = self.to.unwrap_or_else(|| store.with_extension("salvaged"));
        if to.exists() {
            bail!("{} is there already; choose another file with --to", to.display());
        }
        let saved = durable::salvage(&store, &to, &keys)
            .with_context(|| format!("nothing was written to {}", to.display()))?;
        writeln!(out, "saved {} object(s) to {}", saved.saved, to.display())?;
        for one in &saved.doubtful {
            writeln!(out, "may be an older version, or may have been deleted: {one}")?;
        }
        for one in &saved.lost {
            writeln!(out, "cannot be read: {one}")?;
        }
        writeln!(out, "`flagship restore {}` puts it in place", to.display())?;
        Ok(())
    }
}
