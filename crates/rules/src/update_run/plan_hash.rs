//! The hash of a plan: what `flagship plan` prints, exactly which plan `flagship run --plan`
//! starts, and what the record of the run keeps.
//!
//! It has four parts, so that who started a plan that no longer holds is told which part of
//! it has changed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use flagship_api::hash;
use flagship_api::rollout_record::RecordedStage;
use flagship_api::staged_update::UpdateStrategySpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use serde::Serialize;
use serde_json::{Value, json};

use super::observed::Observed;
use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::placement::resource_snapshots::hash_of;

/// What a plan was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanHash {
    /// Of everything, long enough that a tenant finds no other content with the same.
    whole: String,
    /// A few digits of each part, which only say what changed.
    parts: [String; PARTS.len()],
}

/// What the parts of a hash stand for, in their order.
const PARTS: [&str; 4] =
    ["the content", "the clusters or their stages", "the strategy or a policy", "overrides"];
const WHOLE_DIGITS: usize = 32;
const PART_DIGITS: usize = 4;

/// What a plan is made from, as far as its hash tells.
#[derive(Clone, Debug)]
pub struct Hashed<'a> {
    /// The hash that a snapshot of the content has; nothing if the content cannot be read.
    pub content: Option<&'a str>,
    /// Stages with their clusters, that which removes last.
    pub stages: Vec<(&'a str, Vec<&'a str>)>,
    /// The strategy.
    pub strategy: Option<&'a UpdateStrategySpec>,
    /// What policies say.
    pub policies: &'a [String],
    /// Overrides by name, with the hash of what they say.
    pub overrides: BTreeMap<String, String>,
}

/// The name of the stage that removes, for people.
pub const REMOVES: &str = "remove";

impl PlanHash {
    /// The hash of a plan.
    pub fn of(plan: &Hashed<'_>) -> Self {
        let parts = [
            json!(plan.content),
            json!(plan.stages),
            json!((plan.strategy, plan.policies)),
            json!(plan.overrides),
        ];
        let digits = |value: &Value, count| hash::of_text(&value.to_string())[..count].to_owned();
        let whole = digits(&Value::from(parts.to_vec()), WHOLE_DIGITS);
        Self { whole, parts: parts.map(|part| digits(&part, PART_DIGITS)) }
    }

    /// What has changed since a plan with that hash was shown.
    pub fn changed_since(&self, shown: &Self) -> Vec<&'static str> {
        if self.whole == shown.whole {
            return Vec::new();
        }
        let parts = self.parts.iter().zip(&shown.parts).zip(PARTS);
        let changed: Vec<_> =
            parts.filter(|((now, then), _)| now != then).map(|(_, what)| what).collect();
        if changed.is_empty() { vec!["the plan"] } else { changed }
    }
}

impl fmt::Display for PlanHash {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "{}.{}", self.whole, self.parts.concat())
    }
}

impl Serialize for PlanHash {
    fn serialize<S: serde::Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        into.collect_str(self)
    }
}

impl FromStr for PlanHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |part: &str, digits| {
            part.len() == digits
                && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        match text.split_once('.') {
            Some((whole, parts))
                if fits(whole, WHOLE_DIGITS) && fits(parts, PARTS.len() * PART_DIGITS) =>
            {
                let part = |index| parts[index * PART_DIGITS..][..PART_DIGITS].to_owned();
                Ok(Self { whole: whole.to_owned(), parts: [0, 1, 2, 3].map(part) })
            }
            _ => Err("`flagship plan` prints the hash: 32 digits, a dot, 16 digits".to_owned()),
        }
    }
}

/// The overrides that could concern a placement, by kind and name, from their latest snapshots.
pub fn overrides(
    wide: &[ClusterOverride],
    narrow: &[NamespacedOverride],
    namespace: Option<&str>,
) -> BTreeMap<String, String> {
    // A snapshot is named after its override, with a number behind.
    let of = |snapshot: &str| snapshot.rsplit_once('-').map_or("", |(name, _)| name).to_owned();
    let wide = wide.iter().map(|one| {
        let name = format!("ClusterResourceOverride {}", of(&one.name));
        (name, hash::of(&one.spec).unwrap_or_default())
    });
    let narrow = narrow.iter().filter(|one| namespace.is_none_or(|it| it == one.key.namespace));
    let narrow = narrow.map(|one| {
        let name = format!("ResourceOverride {}/{}", one.key.namespace, of(&one.key.name));
        (name, hash::of(&one.spec).unwrap_or_default())
    });
    wide.chain(narrow).collect()
}

/// The hash of the plan that a pass makes of a run; nothing once the run is initialized, since
/// what it was made from is not read any more.
pub fn planned<'a>(
    seen: &Observed,
    status: &UpdateRunStatus,
    stages: &'a [RecordedStage],
    removes: &'a [String],
    policies: &[String],
) -> Option<PlanHash> {
    if seen.run.is_initialized() {
        return None;
    }
    let index = Some(status.resource_snapshot_index_used.as_str());
    let mut group = seen.resource_snapshots.iter().filter(|one| one.index.as_deref() == index);
    let taken = || hash_of(seen.selection.as_ref()?.as_ref().ok()?).ok();
    let content = group.find_map(|one| one.hash.clone()).or_else(taken);
    let names = |clusters: &'a [String]| clusters.iter().map(String::as_str).collect();
    let mut all: Vec<(&str, Vec<&str>)> =
        stages.iter().map(|stage| (stage.name.as_str(), names(&stage.clusters))).collect();
    if !removes.is_empty() {
        all.push((REMOVES, names(removes)));
    }
    Some(PlanHash::of(&Hashed {
        content: content.as_deref(),
        stages: all,
        strategy: seen.strategy.as_ref(),
        policies,
        overrides: overrides(
            &seen.cluster_overrides,
            &seen.overrides,
            seen.run.namespace.as_deref(),
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_says_which_part_of_the_plan_has_changed() {
        let hash = |content: Option<&str>, overrides: &[(&str, &str)]| {
            let overrides = overrides.iter().map(|(name, hash)| ((*name).into(), (*hash).into()));
            PlanHash::of(&Hashed {
                content,
                stages: Vec::new(),
                strategy: None,
                policies: &[],
                overrides: overrides.collect(),
            })
        };
        let before = hash(None, &[]);
        assert_eq!(before.to_string().parse::<PlanHash>().unwrap(), before);
        let edited = hash(Some("c0ffee"), &[]);
        assert_eq!(edited.changed_since(&before), ["the content"]);
        let other = hash(None, &[("ClusterResourceOverride fast", "1")]);
        assert_eq!(other.changed_since(&edited), ["the content", "overrides"]);
        assert_eq!(before.changed_since(&before), Vec::<&str>::new());
        for bad in
            ["", "abc", "0123456789abcdef", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.0000000000000000"]
        {
            assert!(bad.parse::<PlanHash>().is_err(), "{bad}");
        }
    }
}
