//! `flagship crds`: the API as CustomResourceDefinitions, ready for
//! `kubectl apply --server-side -f -`.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;

use clap::Args;
use flagship_api::{crd, kinds};
use serde_json::Value;

/// Print the API as CustomResourceDefinitions, in YAML
#[derive(Args)]
pub struct Crds {
    /// Only this one: a kind, plural, short name or plural.group, in any case
    kind: Option<String>,
    /// The kinds of rollout policies, which a hub works without, instead of KubeFleet's API
    #[arg(long, conflicts_with = "kind")]
    policies: bool,
}

impl Crds {
    /// Writes one definition or all of them.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let definitions = match self.kind {
            None if self.policies => crd::policies(),
            None => crd::all(),
            Some(name) => vec![crd::of(&name).ok_or_else(|| UnknownKind::new(name))?],
        };
        for definition in &definitions {
            write_document(definition, out)?;
        }
        Ok(())
    }
}

fn write_document(document: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "---")?;
    out.write_all(serde_saphyr::to_string(document)?.as_bytes())?;
    Ok(())
}

/// A name no kind answers to.
#[derive(Debug)]
pub struct UnknownKind {
    name: String,
    near: Vec<String>,
}

impl UnknownKind {
    fn new(name: String) -> Self {
        let near = near_names(&name);
        Self { name, near }
    }
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kind is called {:?}", self.name)?;
        match self.near.as_slice() {
            [] => write!(f, "; `flagship crds` prints them all"),
            near => write!(f, "; did you mean {}?", near.join(", ")),
        }
    }
}

impl std::error::Error for UnknownKind {}

/// The kinds whose names are nearest, best first, three at most.
fn near_names(name: &str) -> Vec<String> {
    let name: String = name.to_lowercase().chars().take(LONGEST_NAME).collect();
    if name.len() < 2 {
        return Vec::new();
    }
    let mut found = BTreeSet::new();
    for info in kinds::all().iter().chain(kinds::policies()) {
        let names = info.short_names.iter().copied().chain([info.plural]);
        let nearest = names
            .map(|known| typos(&name, known))
            .chain([typos(&name, &info.singular())])
            .min()
            .unwrap_or(usize::MAX);
        // Two letters wrong in a short word leave nothing to recognise it by.
        if nearest <= name.len() / 4 {
            found.insert((nearest, info.kind));
        } else if name.len() > 3 && info.singular().contains(&name) {
            found.insert((name.len(), info.kind));
        }
    }
    found.into_iter().take(3).map(|(_, kind)| kind.to_owned()).collect()
}

const LONGEST_NAME: usize = 80;

/// How many letters must be added, removed or changed to get from one to the other.
fn typos(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..to.len() {
            let changed = diagonal + usize::from(letter != to[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn printed(kind: Option<&str>) -> anyhow::Result<String> {
        let mut out = Vec::new();
        Crds { kind: kind.map(str::to_owned), policies: false }.run(&mut out)?;
        Ok(String::from_utf8(out)?)
    }

    fn refusal(kind: &str) -> String {
        printed(Some(kind)).unwrap_err().to_string()
    }

    #[test]
    fn the_documents_read_back_as_they_were() {
        let text = printed(None).unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, crd::all());
    }

    #[test]
    fn rollout_policies_are_printed_apart_and_found_by_their_short_names() {
        let mut out = Vec::new();
        Crds { kind: None, policies: true }.run(&mut out).unwrap();
        let read: Vec<Value> =
            serde_saphyr::from_multiple(std::str::from_utf8(&out).unwrap()).unwrap();
        let names: Vec<&Value> = read.iter().map(|crd| &crd["metadata"]["name"]).collect();
        let expected = [
            "approvals.flagship.dev",
            "clusterapprovals.flagship.dev",
            "clusterrolloutrecords.flagship.dev",
            "freezes.flagship.dev",
            "notificationchannels.flagship.dev",
            "rolloutpolicies.flagship.dev",
            "rolloutrecords.flagship.dev",
        ];
        assert_eq!(names, expected);
        assert!(crd::all().iter().all(|crd| crd["spec"]["group"] != "flagship.dev"));
        assert!(printed(Some("rpol")).unwrap().contains("name: rolloutpolicies.flagship.dev"));
        assert!(refusal("rolloutpolicy2").contains("did you mean RolloutPolicy?"));
    }

    #[test]
    fn a_short_name_prints_that_kind_alone() {
        let text = printed(Some("CRPDB")).unwrap();
        expect![[r#"
            ---
            apiVersion: apiextensions.k8s.io/v1
            kind: CustomResourceDefinition
            metadata:
              name: clusterresourceplacementdisruptionbudgets.placement.kubernetes-fleet.io
        "#]]
        .assert_eq(&text.split_inclusive('\n').take(5).collect::<String>());
        assert_eq!(text.matches("\n---").count(), 0);
    }

    #[test]
    fn an_unknown_kind_is_refused_with_what_may_have_been_meant() {
        let refusals = ["clusterstagedupdaterunz", "ClusterResourcePlacment", "csurs", "updaterun"]
            .map(refusal)
            .join("\n");
        expect![[r#"
            no kind is called "clusterstagedupdaterunz"; did you mean ClusterStagedUpdateRun?
            no kind is called "ClusterResourcePlacment"; did you mean ClusterResourcePlacement?
            no kind is called "csurs"; did you mean ClusterStagedUpdateRun, ClusterStagedUpdateStrategy?
            no kind is called "updaterun"; did you mean ClusterStagedUpdateRun, StagedUpdateRun?"#]].assert_eq(&refusals);
        assert_eq!(refusal("pods"), "no kind is called \"pods\"; `flagship crds` prints them all");
        assert_eq!(refusal("?"), "no kind is called \"?\"; `flagship crds` prints them all");
    }

    #[test]
    fn distance_counts_letters() {
        for (from, to, distance) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(typos(from, to), distance, "{from} {to}");
        }
    }
}
