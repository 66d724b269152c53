//! `flagship rotate-keys`: another key signs the tokens of service accounts.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use flagship_apiserver::auth::accounts;
use flagship_store::Limits;
use flagship_store::env::Env;

use super::folder::Folder;

/// Have a new key sign the tokens of service accounts
#[derive(Args, Clone, Debug)]
pub struct RotateKeys {
    /// Where everything is kept
    #[arg(long, default_value = ".flagship", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// Forget the keys that no longer sign: their tokens are good no more
    #[arg(long)]
    drop_old: bool,
    /// The keys that everything kept is encrypted with
    #[arg(long, value_name = "FILE")]
    encryption_key_file: Option<PathBuf>,
}

impl RotateKeys {
    /// Rotates the keys of every cluster, or drops those that were replaced.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = Folder::take_existing(&self.data_dir)?;
        if !folder.data().exists() {
            bail!("nothing is kept in {}", self.data_dir.display());
        }
        let kept = super::open_store(&folder.data(), self.encryption_key_file.as_deref())?;
        for cluster in kept.clusters()? {
            let store = kept.store(&cluster, Env::system(), Limits::default())?;
            let refused = |why| anyhow::anyhow!("the keys of {cluster} cannot be changed: {why}");
            if self.drop_old {
                match accounts::drop_replaced(&store).map_err(refused)? {
                    0 => writeln!(out, "{cluster}: no old keys")?,
                    count => writeln!(out, "{cluster}: dropped {count} old key(s)")?,
                }
            } else if accounts::rotate(&store).map_err(refused)? {
                writeln!(out, "{cluster}: a new key signs; tokens of the old one stay good")?;
            } else {
                writeln!(out, "{cluster}: no token was ever signed")?;
            }
        }
        kept.close().map_err(|why| anyhow::anyhow!("the keys cannot be stored: {why}"))?;
        if !self.drop_old {
            writeln!(out, "`flagship rotate-keys --drop-old` ends the tokens of the old keys")?;
        }
        Ok(())
    }
}
