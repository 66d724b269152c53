//! The `flagship` binary.

use std::io::Write;

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for crd in flagship_api::crd::all() {
        writeln!(out, "---")?;
        write!(out, "{}", serde_saphyr::to_string(&crd)?)?;
    }
    Ok(())
}
