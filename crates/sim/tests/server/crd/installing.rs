//! All definitions are taken, served and listed as the facts about KubeFleet say.

use kube::Client;
use kube::api::GroupVersionKind;
use kube::discovery::{Discovery, Scope};
use serde_json::{Value, json};

use crate::crd::fleet::{DEFINITIONS, Fleet, Kind};

/// What the facts say of one kind, apart from its fields.
struct Facts {
    lines: Vec<String>,
}

impl Facts {
    fn of(kind: &Kind) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/tests/facts");
        let name = format!("{}.{}", kind.plural(), kind.group());
        let text = std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap();
        Self { lines: text.lines().map(str::to_owned).collect() }
    }

    /// The rest of the lines that begin with a word.
    fn said(&self, word: &str) -> Vec<&str> {
        let lines = self.lines.iter();
        lines.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
    }

    /// The words after one.
    fn words(&self, word: &str) -> Vec<&str> {
        self.said(word)[0].split_whitespace().collect()
    }

    /// The value of `key=value` in a line.
    fn value<'a>(line: &'a str, key: &str) -> &'a str {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).unwrap()
    }

    /// Name of every served version, and whether it has a status of its own.
    fn versions(&self) -> Vec<(&str, bool)> {
        let lines = self.said("version").into_iter();
        let served = lines.filter(|line| Self::value(line, "served") == "True");
        let named = |line: &str| line.split(' ').next().unwrap_or_default().len();
        served.map(|line| (&line[..named(line)], line.ends_with("subresources=status"))).collect()
    }
}

#[tokio::test]
async fn every_definition_is_accepted_and_established() {
    let fleet = Fleet::new().await;
    assert_eq!(fleet.kinds.len(), 28);
    assert_eq!(fleet.server.compiled_kinds(), 28);
    for kind in fleet.kinds.iter() {
        let name = format!("{}.{}", kind.plural(), kind.group());
        let found = fleet.get(&format!("{DEFINITIONS}/{name}")).await.ok(200);
        let conditions: Vec<String> = found["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| format!("{}={} {}", c["type"], c["status"], c["reason"]).replace('"', ""))
            .collect();
        assert_eq!(
            conditions,
            ["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"],
            "{name}"
        );
        assert_eq!(found["status"]["acceptedNames"], kind.crd["spec"]["names"], "{name}");
        assert_eq!(found["status"]["storedVersions"], json!([kind.storage().name()]), "{name}");
        assert_eq!(found["spec"], kind.crd["spec"], "{name} is stored as it was sent");
    }
}

#[tokio::test]
async fn installing_again_changes_and_warns_of_nothing() {
    let fleet = Fleet::new().await;
    for kind in fleet.kinds.iter() {
        let path = format!("{DEFINITIONS}/{}.{}", kind.plural(), kind.group());
        let before = fleet.get(&path).await.ok(200);
        let mut again = kind.crd.clone();
        again["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        again["metadata"]["finalizers"] = before["metadata"]["finalizers"].clone();
        let reply = fleet.send("PUT", &path, &again).await;
        assert_eq!(reply.warnings, [""; 0], "{}", kind.name());
        let after = reply.ok(200);
        assert_eq!(after["status"], before["status"]);
        assert_eq!(after["metadata"]["generation"], 1);
    }
}

#[tokio::test]
async fn discovery_says_what_the_facts_say() {
    let fleet = Fleet::new().await;
    for kind in fleet.kinds.iter() {
        let facts = Facts::of(kind);
        let kind_line = facts.said("kind")[0];
        let is_namespaced = Facts::value(kind_line, "scope") == "Namespaced";
        let plural = Facts::value(kind_line, "plural");
        let mut wanted = json!({
            "name": plural,
            "singularName": Facts::value(kind_line, "singular"),
            "kind": kind.name(),
            "namespaced": is_namespaced,
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        });
        for (key, word) in [("shortNames", "short"), ("categories", "categories")] {
            if !facts.words(word).is_empty() {
                wanted[key] = json!(facts.words(word));
            }
        }
        for (version, has_status) in facts.versions() {
            let path = format!("/apis/{}/{version}", kind.group());
            let list = fleet.get(&path).await.ok(200);
            let find = |name: &str| {
                let entries = list["resources"].as_array().unwrap();
                entries.iter().find(|entry| entry["name"] == name).cloned()
            };
            let mut found = find(plural).unwrap();
            for key in ["shortNames", "categories"] {
                if let Some(Value::Array(words)) = found.get_mut(key) {
                    words.sort_by_key(ToString::to_string);
                }
            }
            assert_eq!(found, wanted, "{path}");
            let status = has_status.then(|| {
                json!({
                    "name": format!("{plural}/status"), "singularName": "", "kind": kind.name(),
                    "namespaced": is_namespaced, "verbs": ["get", "patch", "update"],
                })
            });
            assert_eq!(find(&format!("{plural}/status")), status, "{path} {plural}");
        }
    }
}

#[tokio::test]
async fn every_served_version_is_reachable() {
    let fleet = Fleet::new().await;
    for kind in fleet.kinds.iter() {
        let facts = Facts::of(kind);
        let versions: Vec<_> = kind.versions().map(|v| (v.name(), v.has_status())).collect();
        assert_eq!(versions.len(), facts.versions().len(), "{}", kind.name());
        for (name, has_status) in facts.versions() {
            let version = kind.versions().find(|version| version.name() == name).unwrap();
            let list = fleet.get(&format!("{}?limit=1", version.path())).await.ok(200);
            let list_kind = Facts::value(facts.said("kind")[0], "list");
            assert_eq!(list["kind"], list_kind);
            assert_eq!(list["apiVersion"], version.api_version());
            let object = crate::crd::samples::along(version.schema(), &[]);
            let made = fleet.create(version, object).await.ok(201);
            let path = format!("{}/{}", version.path(), made["metadata"]["name"].as_str().unwrap());
            assert_eq!(fleet.get(&path).await.ok(200), made);
            let code = if has_status { 200 } else { 404 };
            assert_eq!(fleet.get(&format!("{path}/status")).await.code, code, "{path}");
            fleet.send("DELETE", &path, &Value::Null).await.ok(200);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_discovers_every_kind() {
    let fleet = Fleet::new().await;
    let client = || Client::new(fleet.cluster.clone(), "default");
    let plain = Discovery::new(client()).run().await.unwrap();
    let merged = Discovery::new(client()).run_aggregated().await.unwrap();
    for (discovery, version) in [&plain, &merged]
        .into_iter()
        .flat_map(|d| fleet.kinds.iter().flat_map(|kind| kind.versions()).map(move |v| (d, v)))
    {
        let kind = version.kind;
        let gvk = GroupVersionKind::gvk(kind.group(), version.name(), kind.name());
        let (resource, can) = discovery.resolve_gvk(&gvk).unwrap();
        assert_eq!(resource.plural, kind.plural());
        assert_eq!(can.scope == Scope::Namespaced, kind.is_namespaced());
        let statuses = can.subresources.iter().filter(|(r, _)| r.plural.ends_with("status"));
        assert_eq!(statuses.count(), usize::from(version.has_status()), "{}", version.label());
    }
    for (name, version) in [
        ("placement.kubernetes-fleet.io", "v1"),
        ("cluster.kubernetes-fleet.io", "v1"),
        ("multicluster.x-k8s.io", "v1alpha1"),
    ] {
        let group = plain.groups().find(|group| group.name() == name).unwrap();
        assert_eq!(group.preferred_version_or_latest(), version, "{name}");
    }
}
