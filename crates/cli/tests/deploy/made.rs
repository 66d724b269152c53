//! Files of `deploy` that are made: the definitions from the API, the kustomize bases from the
//! charts. `UPDATE_EXPECT=1` makes them again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect_file;
use flagship_api::crd;
use serde_json::Value;

use super::helm::{Chart, HUB, MEMBER};
use super::{root, say};

/// Kinds that stand on members; all others stand on the hub.
const ON_MEMBERS: &str = "AppliedWork";

/// Makes exactly these files of a folder, or finds them as they are.
fn hold(folder: &Path, files: &BTreeMap<String, String>) {
    let there = std::fs::read_dir(folder).map(|entries| {
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    });
    let there: Vec<String> = there.unwrap_or_default();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(folder).unwrap();
        let stray = there.iter().filter(|name| !files.contains_key(*name));
        stray.for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());
    } else {
        let mut there = there;
        there.sort();
        assert_eq!(there, files.keys().cloned().collect::<Vec<_>>(), "{}", folder.display());
    }
    for (name, text) in files {
        expect_file![folder.join(name)].assert_eq(text);
    }
}

fn kustomization(resources: &[String]) -> String {
    let mut text = "# Made from the code; see crates/cli/tests/deploy/made.rs.\n\
                    apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
        .to_owned();
    resources.iter().for_each(|resource| text.push_str(&format!("  - {resource}\n")));
    text
}

#[test]
fn the_charts_have_the_definitions_of_the_api() {
    for (chart, on_members) in [(HUB, false), (MEMBER, true)] {
        let belongs =
            |definition: &Value| (definition["spec"]["names"]["kind"] == ON_MEMBERS) == on_members;
        let files = crd::all().into_iter().filter(belongs).map(file_of).collect();
        hold_definitions(&chart.folder().join("files/crds"), files);
    }
    let of_policies = crd::policies().into_iter().map(file_of).collect();
    hold_definitions(&HUB.folder().join("files/policies"), of_policies);
}

/// A definition and the file it is in.
fn file_of(definition: Value) -> (String, String) {
    let name = definition["metadata"]["name"].as_str().unwrap();
    (format!("{name}.yaml"), serde_saphyr::to_string(&definition).unwrap())
}

fn hold_definitions(folder: &Path, mut files: BTreeMap<String, String>) {
    let names: Vec<String> = files.keys().cloned().collect();
    files.insert("kustomization.yaml".to_owned(), kustomization(&names));
    hold(folder, &files);
}

/// What the base of a chart is rendered with.
fn base_values(chart: Chart) -> &'static str {
    match chart.name {
        // An overlay says where the hub is, and who this member is.
        "member-agent" => {
            "{crds: {install: false}, config: {hubURL: 'https://hub.example.com:6443', hubCA: ''}}"
        }
        _ => "crds: {install: false}",
    }
}

fn base(chart: Chart) -> PathBuf {
    root().join("deploy/kustomize").join(chart.name)
}

#[test]
fn the_kustomize_bases_are_what_the_charts_render() {
    for chart in [HUB, MEMBER] {
        let Some(rendered) = chart.template(&[base_values(chart)]) else { return };
        let mut text = format!(
            "# Rendered from deploy/charts/{}; see crates/cli/tests/deploy/made.rs.\n",
            chart.name
        );
        for mut object in rendered.unwrap().0 {
            without_helm(&mut object);
            text.push_str("---\n");
            text.push_str(&serde_saphyr::to_string(&object).unwrap());
        }
        let folders = if chart.name == HUB.name { &["crds", "policies"][..] } else { &["crds"] };
        let folder = |name: &&str| format!("../../charts/{}/files/{name}", chart.name);
        let mut resources: Vec<String> = folders.iter().map(folder).collect();
        resources.push("agent.yaml".to_owned());
        let files = BTreeMap::from([
            ("agent.yaml".to_owned(), text),
            ("kustomization.yaml".to_owned(), kustomization(&resources)),
        ]);
        hold(&base(chart), &files);
    }
}

/// Nobody manages the objects of a base by helm.
fn without_helm(object: &mut Value) {
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.remove("helm.sh/chart");
        labels.remove("app.kubernetes.io/managed-by");
    }
}

#[test]
fn kubectl_builds_the_kustomize_bases() {
    let of_hub = crd::all().len() - 1 + crd::policies().len();
    for (chart, definitions) in [(HUB, of_hub), (MEMBER, 1)] {
        let built = Command::new("kubectl").arg("kustomize").arg(base(chart)).output();
        let Ok(built) = built else {
            return say("charts: the kustomize bases are not built, for there is no kubectl");
        };
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(built.status.success(), "{said}");
        let text = String::from_utf8(built.stdout).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!(of("CustomResourceDefinition"), definitions);
        assert_eq!((of("Deployment"), of("ServiceAccount"), of("ClusterRole")), (1, 1, 1));
    }
}

/// A right as the page on security writes it.
fn written(rule: &Value) -> String {
    let all = |field: &str| -> Vec<String> {
        let words = rule[field].as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let code = |words: Vec<String>| -> String {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    let verbs = all("verbs").join(", ");
    if !rule["nonResourceURLs"].is_null() {
        return format!("`{verbs}` at {}", code(all("nonResourceURLs")));
    }
    let (groups, resources, names) = (all("apiGroups"), all("resources"), all("resourceNames"));
    if groups == ["*"] && resources == ["*"] {
        return format!("`{verbs}` everything");
    }
    let groups = groups.iter().map(|group| if group.is_empty() { "core" } else { group });
    let groups = groups.collect::<Vec<_>>().join(", ");
    let called = if names.is_empty() { String::new() } else { format!(" called {}", code(names)) };
    format!("`{verbs}` {} of {groups}{called}", code(resources))
}

/// The page on security has a row for every right that the charts give, and a reason in each.
#[test]
fn every_right_of_the_charts_has_a_reason() {
    let page = std::fs::read_to_string(root().join("docs/operations/security.md")).unwrap();
    for (chart, title) in [(HUB, "## The hub agent"), (MEMBER, "## A member agent")] {
        let base_text = std::fs::read_to_string(base(chart).join("agent.yaml")).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&base_text).unwrap();
        let mut given = Vec::new();
        for object in objects.iter().filter(|object| object["rules"].is_array()) {
            let place = match object["metadata"]["namespace"].as_str() {
                Some(namespace) => format!("in `{namespace}`"),
                None => "everywhere".to_owned(),
            };
            let rules = object["rules"].as_array().unwrap();
            given.extend(rules.iter().map(|rule| format!("| {} | {place} |", written(rule))));
        }
        let section = page.split(title).nth(1).unwrap().split("\n## ").next().unwrap();
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let told = rows.iter().map(|row| {
            let (right, why) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
            assert!(!why.trim().is_empty(), "{row}: why?");
            format!("{right} |")
        });
        let told: Vec<String> = told.collect();
        assert_eq!(told, given, "docs/operations/security.md, {title}");
    }
}
