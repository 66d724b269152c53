//! Which members a fleet has, and how many nodes each.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use flagship_api::names::LONGEST_CLUSTER_WITH_NAMESPACE;
use flagship_base::names::dns1123_label;
use flagship_fleet::HUB;

/// Nodes of members, as the command line gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Of every member that is not named.
    each: u32,
    of: BTreeMap<String, u32>,
}

/// A value of `--nodes`: of all members, or of one.
pub type GivenNodes = (Option<String>, u32);

/// Reads `4` or `member3=4`.
pub fn read_nodes(text: &str) -> Result<GivenNodes, String> {
    let (member, count) = match text.split_once('=') {
        Some((member, count)) => (Some(member.to_owned()), count),
        None => (None, text),
    };
    match count.parse() {
        Ok(count @ 1..=1000) => Ok((member, count)),
        _ => Err("want a number from 1 to 1000, or MEMBER=NUMBER, such as member3=4".to_owned()),
    }
}

impl Nodes {
    /// The nodes of a command line; the last word on a member counts.
    pub fn given(given: &[GivenNodes], members: &[String]) -> anyhow::Result<Self> {
        let mut nodes = Self { each: 2, of: BTreeMap::new() };
        for (member, count) in given {
            match member {
                None => nodes.each = *count,
                Some(member) => {
                    let known = members.contains(member);
                    ensure!(known, "--nodes names {member}, which is no member of this fleet");
                    nodes.of.insert(member.clone(), *count);
                }
            }
        }
        Ok(nodes)
    }

    /// Nodes of a member.
    pub fn of(&self, member: &str) -> u32 {
        self.of.get(member).copied().unwrap_or(self.each)
    }

    /// Nodes of a member that is not named.
    pub fn each(&self) -> u32 {
        self.each
    }

    /// Nodes of the members that are named.
    pub fn named(&self) -> &BTreeMap<String, u32> {
        &self.of
    }
}

/// The names of members: those that were given, or `member1` and so on.
pub fn names(given: &[String], count: u16) -> anyhow::Result<Vec<String>> {
    if given.is_empty() {
        return Ok((1..=count).map(|number| format!("member{number}")).collect());
    }
    let mut seen = BTreeSet::new();
    for name in given {
        if let Some(complaint) = dns1123_label(name).first() {
            bail!("--member {name}: {complaint}");
        }
        ensure!(
            name.len() <= LONGEST_CLUSTER_WITH_NAMESPACE,
            "--member {name}: must be no more than {LONGEST_CLUSTER_WITH_NAMESPACE} characters, for its namespace is named after it"
        );
        ensure!(name != HUB, "--member {name}: the hub is called so");
        ensure!(seen.insert(name), "--member {name} is given twice");
    }
    Ok(given.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_given_for_all_members_or_for_one() {
        let members = names(&[], 3).unwrap();
        let given = |texts: &[&str]| {
            let read: Vec<GivenNodes> =
                texts.iter().map(|text| read_nodes(text).unwrap()).collect();
            Nodes::given(&read, &members)
        };
        let nodes = given(&["3", "member2=5"]).unwrap();
        assert_eq!(["member1", "member2"].map(|member| nodes.of(member)), [3, 5]);
        assert_eq!(given(&[]).unwrap().of("member1"), 2);
        let refused = given(&["member7=5"]).unwrap_err().to_string();
        assert_eq!(refused, "--nodes names member7, which is no member of this fleet");
        for text in ["", "0", "1001", "member1=", "member1=x"] {
            assert!(read_nodes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn members_are_called_as_asked() {
        assert_eq!(names(&[], 2).unwrap(), ["member1", "member2"]);
        let given = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            names(&texts, 3).map_err(|refused| refused.to_string())
        };
        assert_eq!(given(&["east", "west"]).unwrap(), ["east", "west"]);
        assert_eq!(given(&["east", "east"]).unwrap_err(), "--member east is given twice");
        assert_eq!(given(&["hub"]).unwrap_err(), "--member hub: the hub is called so");
        assert!(given(&["East"]).unwrap_err().starts_with("--member East: a lowercase RFC 1123"));
        assert!(given(&[&"a".repeat(51)]).unwrap_err().contains("no more than 50 characters"));
    }
}
