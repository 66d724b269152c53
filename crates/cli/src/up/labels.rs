//! Labels of members: what was asked for, or environments to play with.

use std::collections::BTreeMap;

/// Labels by member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    given: BTreeMap<String, BTreeMap<String, String>>,
}

/// Reads `member1=environment=staging`.
pub fn read_label(text: &str) -> Result<(String, String, String), String> {
    let mut parts = text.splitn(3, '=');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(member), Some(key), Some(value)) if !member.is_empty() && !key.is_empty() => {
            Ok((member.to_owned(), key.to_owned(), value.to_owned()))
        }
        _ => Err("want MEMBER=KEY=VALUE, such as member1=environment=staging".to_owned()),
    }
}

impl Labels {
    /// The labels of a command line.
    pub fn given(labels: &[(String, String, String)]) -> Self {
        let mut given: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (member, key, value) in labels {
            given.entry(member.clone()).or_default().insert(key.clone(), value.clone());
        }
        Self { given }
    }

    /// The labels of a member. Without any on the command line, members get the
    /// environments that the first walk through the documentation uses.
    pub fn all_of(&self, member: &str) -> BTreeMap<String, String> {
        if self.given.is_empty() {
            let environment = match member {
                "member1" => "canary",
                "member2" => "staging",
                _ => "production",
            };
            return BTreeMap::from([("environment".to_owned(), environment.to_owned())]);
        }
        self.given.get(member).cloned().unwrap_or_default()
    }

    /// The same on one line.
    pub fn of(&self, member: &str) -> String {
        let pairs: Vec<String> =
            self.all_of(member).iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_and_kept_by_member() {
        let read = |text: &str| read_label(text).unwrap();
        let labels = Labels::given(&[read("member1=a=b"), read("member1=c=d=e")]);
        assert_eq!(labels.of("member1"), "a=b,c=d=e");
        assert_eq!(labels.of("member2"), "");
        assert!(read_label("member1").is_err());
        assert!(read_label("=a=b").is_err());
    }

    #[test]
    fn without_labels_members_have_environments() {
        let labels = Labels::default();
        assert_eq!(labels.of("member2"), "environment=staging");
        assert_eq!(labels.of("member17"), "environment=production");
    }
}
