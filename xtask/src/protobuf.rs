//! Derives `crates/kinds/data/protobuf.json.gz`, and objects to hold it against.
//!
//! The source are the Go types of Kubernetes' API, asked by the small program in
//! `xtask/protobuf`: field numbers stand in their tags, and only the types know which
//! zeros their JSON leaves out. The output depends on nothing but the versions in that
//! program's `go.mod`.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::builtin_schemas::SERVED;

/// Writes the table and the cases, and says how large they are.
pub fn run(out: &mut dyn Write) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch = std::env::temp_dir().join(format!("xtask-protobuf-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    for file in ["go.mod", "main.go", "cases.go"] {
        std::fs::copy(root.join("protobuf").join(file), scratch.join(file))
            .with_context(|| format!("copying {file}"))?;
    }
    go(&scratch, &["mod".to_owned(), "tidy".to_owned()])?;
    for (mode, path) in [
        ("table", "../crates/kinds/data/protobuf.json.gz"),
        ("cases", "../crates/kinds/tests/golden/protobuf.jsonl.gz"),
    ] {
        let served = SERVED.iter().map(|(group, version)| match *group {
            "" => (*version).to_owned(),
            group => format!("{group}/{version}"),
        });
        let words = ["run", ".", mode].map(str::to_owned).into_iter().chain(served);
        let plain = go(&scratch, &words.collect::<Vec<_>>())?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&plain)?;
        let packed = packed.finish()?;
        std::fs::write(root.join(path), &packed).with_context(|| format!("writing {path}"))?;
        writeln!(out, "{mode}: {} bytes, {} compressed", plain.len(), packed.len())?;
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

fn go(folder: &Path, words: &[String]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("go")
        .args(words)
        .current_dir(folder)
        .output()
        .context("running go: is it installed?")?;
    if !output.status.success() {
        bail!("go {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}
