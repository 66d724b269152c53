//! Real helm, and what it renders.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

use super::{root, say};

static HELM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let asked = Command::new(root().join("scripts/helm")).arg("--cached").output().unwrap();
    if asked.status.success() {
        return Some(PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim()));
    }
    let why = String::from_utf8_lossy(&asked.stderr);
    say(&format!("charts: not rendered, for there is no helm ({})", why.trim()));
    None
});

/// A chart of ours.
#[derive(Clone, Copy)]
pub struct Chart {
    /// Its name, and its folder's.
    pub name: &'static str,
    /// Values without which it cannot be rendered.
    pub needs: &'static str,
}

pub const HUB: Chart = Chart { name: "hub-agent", needs: "crds: {install: false}" };
pub const MEMBER: Chart = Chart {
    name: "member-agent",
    needs: "{crds: {install: false}, config: {hubURL: 'https://hub.example:6443', hubCA: Y2E=}}",
};

/// What came out of a chart.
pub struct Rendered(pub Vec<Value>);

impl Chart {
    /// Renders it with these values on top of those it needs; `None` without helm.
    pub fn render(self, values: &str) -> Option<Result<Rendered, String>> {
        self.template(&[self.needs, values])
    }

    /// Renders it with these values, later ones before earlier ones.
    pub fn template(self, values: &[&str]) -> Option<Result<Rendered, String>> {
        let helm = HELM.as_ref()?;
        let mut command = Command::new(helm);
        command.args(["template", self.name, "--namespace", "fleet-system"]);
        command.arg(self.folder());
        let mut kept = Vec::new();
        for text in values {
            let file = scratch_file();
            std::fs::write(&file, text).unwrap();
            command.arg("--values").arg(&file);
            kept.push(file);
        }
        let answer = command.output().unwrap();
        kept.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        Some(read(&answer))
    }

    /// Says what helm thinks of it; `None` without helm.
    pub fn lint(self) -> Option<Output> {
        let helm = HELM.as_ref()?;
        Some(Command::new(helm).arg("lint").arg("--strict").arg(self.folder()).output().unwrap())
    }

    pub fn folder(self) -> PathBuf {
        root().join("deploy/charts").join(self.name)
    }
}

fn scratch_file() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("flagship-values-{}-{number}.yaml", std::process::id()))
}

fn read(answer: &Output) -> Result<Rendered, String> {
    if !answer.status.success() {
        return Err(String::from_utf8_lossy(&answer.stderr).into_owned());
    }
    let text = String::from_utf8(answer.stdout.clone()).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    Ok(Rendered(documents.into_iter().filter(|document| !document.is_null()).collect()))
}

impl Rendered {
    /// Everything that stands in it, one line a scalar: `Kind/name path = value`. Lists of
    /// named things go by name, and lists of words have no order.
    pub fn lines(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for object in &self.0 {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            flatten(&format!("{kind}/{name}"), "", object, &mut lines);
        }
        lines
    }

    /// The containers of its pods, with the namespace they are in.
    pub fn containers(&self) -> Vec<(&str, &Value)> {
        let deployments = self.0.iter().filter(|object| object["kind"] == "Deployment");
        deployments
            .flat_map(|object| {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let all = object["spec"]["template"]["spec"]["containers"].as_array();
                all.into_iter().flatten().map(move |container| (namespace, container))
            })
            .collect()
    }
}

fn flatten(object: &str, path: &str, value: &Value, lines: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                flatten(object, &format!("{path}.{name}"), field, lines);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let name = item["name"].as_str().unwrap_or_default();
                // Rules have no names, and an order that means nothing.
                let whole = path.ends_with(".rules") || path.ends_with(".subjects");
                match item {
                    Value::Object(_) if whole => {
                        lines.insert(format!("{object} {path}[] = {item}"));
                    }
                    _ => flatten(object, &format!("{path}[{name}]"), item, lines),
                }
            }
        }
        scalar => {
            lines.insert(format!("{object} {path} = {scalar}"));
        }
    }
}
