//! Which runs and stages a policy or freeze means.

use std::collections::BTreeMap;

use flagship_api::rollout_policy::Selects;
use flagship_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

/// Labels of what belongs to a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Of the strategy it follows.
    pub strategy: BTreeMap<String, String>,
    /// Of the placement it rolls out.
    pub placement: BTreeMap<String, String>,
    /// Of its namespace; `None` for a cluster-scoped run.
    pub namespace: Option<BTreeMap<String, String>>,
}

/// Whose labels must be read to tell which runs are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The strategy's.
    pub strategy: bool,
    /// The placement's.
    pub placement: bool,
    /// The namespace's.
    pub namespace: bool,
}

impl Wanted {
    /// What any of these selections asks for.
    pub fn by<'a>(all: impl IntoIterator<Item = &'a Selects>) -> Self {
        all.into_iter().fold(Self::default(), |wanted, selects| Self {
            strategy: wanted.strategy || selects.strategies.is_some(),
            placement: wanted.placement || selects.placements.is_some(),
            namespace: wanted.namespace || selects.namespaces.is_some(),
        })
    }
}

/// Whether a run with these labels is meant; an error names the selector that cannot be read.
pub fn selects(selects: &Selects, labels: &Labels) -> Result<bool, String> {
    let matches = |what: &str, wanted: &Option<LabelSelector>, found: Option<&BTreeMap<_, _>>| {
        let Some(wanted) = wanted else { return Ok::<bool, String>(true) };
        let selector = selector::read(Some(wanted))
            .map_err(|error| format!("selects.{what} cannot be read: {error}"))?;
        Ok(found.is_some_and(|found| selector.matches(found)))
    };
    Ok(matches("strategies", &selects.strategies, Some(&labels.strategy))?
        && matches("placements", &selects.placements, Some(&labels.placement))?
        && matches("namespaces", &selects.namespaces, labels.namespace.as_ref())?)
}

/// Whether a stage is meant; without names all are.
pub fn names_stage(selects: &Selects, stage: &str) -> bool {
    selects.stages.is_empty()
        || selects.stages.iter().any(|glob| fits(glob.as_bytes(), stage.as_bytes()))
}

/// Whether a text fits a pattern with `*` for any text and `?` for one character.
fn fits(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where the last `*` stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if at < glob.len() && (glob[at] == b'?' || glob[at] == text[from]) && glob[at] != b'*' {
            (at, from) = (at + 1, from + 1);
        } else if at < glob.len() && glob[at] == b'*' {
            star = Some((at, from));
            at += 1;
        } else if let Some((place, taken)) = star {
            star = Some((place, taken + 1));
            (at, from) = (place + 1, taken + 1);
        } else {
            return false;
        }
    }
    glob[at..].iter().all(|left| *left == b'*')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels(all: Value) -> Labels {
        let of = |what: &str| serde_json::from_value(all[what].clone()).unwrap_or_default();
        Labels {
            strategy: of("strategy"),
            placement: of("placement"),
            namespace: serde_json::from_value(all["namespace"].clone()).ok(),
        }
    }

    #[test]
    fn everything_that_is_set_must_match() {
        let prod = json!({"matchLabels": {"tier": "prod"}});
        let run = json!({"strategy": {"tier": "prod"}, "placement": {"team": "a"}});
        let spaced = json!({"strategy": {"tier": "prod"}, "namespace": {"tier": "prod"}});
        let table = [
            (json!({}), &run, true),
            (json!({"strategies": prod}), &run, true),
            (json!({"placements": prod}), &run, false),
            (json!({"strategies": prod, "placements": prod}), &run, false),
            (json!({"strategies": {}}), &json!({}), true),
            // A cluster-scoped run has no namespace, so no selector of namespaces means it.
            (json!({"namespaces": {}}), &run, false),
            (json!({"namespaces": prod}), &spaced, true),
        ];
        for (selection, run, meant) in table {
            let read: Selects = serde_json::from_value(selection.clone()).unwrap();
            assert_eq!(selects(&read, &labels(run.clone())), Ok(meant), "{selection} {run}");
        }
        let bad = json!({"strategies": {"matchExpressions": [{"key": "a", "operator": "Like"}]}});
        let bad: Selects = serde_json::from_value(bad).unwrap();
        let told = selects(&bad, &Labels::default()).unwrap_err();
        assert!(told.starts_with("selects.strategies cannot be read"), "{told}");
    }

    #[test]
    fn stages_are_named_with_stars_and_question_marks() {
        for (glob, stage, meant) in [
            ("prod", "prod", true),
            ("prod", "prod1", false),
            ("prod*", "prod", true),
            ("prod*", "prod17", true),
            ("*od", "prod", true),
            ("*o*d", "prod", true),
            ("p?od", "prod", true),
            ("p?od", "pod", false),
            ("*", "", true),
            ("**a", "baa", true),
            ("a*b*c", "axbxb", false),
        ] {
            let selects = Selects { stages: vec![glob.to_owned()], ..Selects::default() };
            assert_eq!(names_stage(&selects, stage), meant, "{glob} {stage}");
        }
        assert!(names_stage(&Selects::default(), "any"));
    }

    #[test]
    fn labels_are_read_only_where_somebody_asks_for_them() {
        let of = |value: Value| -> Selects { serde_json::from_value(value).unwrap() };
        assert_eq!(Wanted::by([]), Wanted::default());
        let some = [of(json!({"strategies": {}})), of(json!({"namespaces": {}}))];
        let wanted = Wanted { strategy: true, placement: false, namespace: true };
        assert_eq!(Wanted::by(&some), wanted);
    }
}
