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
        let mut files = BTreeMap::new();
        for definition in crd::all() {
            if (definition["spec"]["names"]["kind"] == ON_MEMBERS) == on_members {
                let name = definition["metadata"]["name"].as_str().unwrap();
                files.insert(format!("{name}.yaml"), serde_saphyr::to_string(&definition).unwrap());
            }
        }
        let names: Vec<String> = files.keys().cloned().collect();
        files.insert("kustomization.yaml".to_owned(), kustomization(&names));
        hold(&chart.folder().join("files/crds"), &files);
    }
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
        let definitions = format!("../../charts/{}/files/crds", chart.name);
        let files = BTreeMap::from([
            ("agent.yaml".to_owned(), text),
            ("kustomization.yaml".to_owned(), kustomization(&[definitions, "agent.yaml".into()])),
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
    for (chart, definitions) in [(HUB, crd::all().len() - 1), (MEMBER, 1)] {
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
