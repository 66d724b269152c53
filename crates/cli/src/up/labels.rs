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

    /// Refuses labels of members that the fleet does not have.
    pub fn must_be_of(&self, members: &[String]) -> anyhow::Result<()> {
        let strangers: Vec<&str> =
            self.given.keys().filter(|name| !members.contains(name)).map(String::as_str).collect();
        if strangers.is_empty() {
            return Ok(());
        }
        let known = match members {
            [] => "none".to_owned(),
            [only] => only.clone(),
            [first, .., last] => format!("{first} to {last}"),
        };
        anyhow::bail!("--labels names {}; the members are {known}", strangers.join(", "))
    }

    /// The labels of a new member: those of the command line, and the environment that the
    /// first walk through the documentation uses unless the command line sets another.
    pub fn all_of(&self, member: &str) -> BTreeMap<String, String> {
        let environment = match member {
            "member1" => "canary",
            "member2" => "staging",
            _ => "production",
        };
        let mut labels = BTreeMap::from([("environment".to_owned(), environment.to_owned())]);
        labels.extend(self.given.get(member).cloned().unwrap_or_default());
        labels
    }

    /// The command that gives a member what the command line asked for, if the member was
    /// registered before and has something else: what stands on the hub is never overwritten.
    pub fn not_taken(&self, member: &str, has: &BTreeMap<String, String>) -> Option<String> {
        let wanted = self.given.get(member)?;
        let differing: Vec<String> = wanted
            .iter()
            .filter(|(key, value)| has.get(*key) != Some(value))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let pairs = differing.join(" ");
        let command =
            format!("kubectl --context hub label membercluster {member} --overwrite {pairs}");
        (!differing.is_empty()).then_some(command)
    }
}

/// Labels on one line, as kubectl shows them.
pub fn on_one_line(labels: &BTreeMap<String, String>) -> String {
    flagship_explain::clusters::own_labels(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(texts: &[&str]) -> Labels {
        Labels::given(&texts.iter().map(|text| read_label(text).unwrap()).collect::<Vec<_>>())
    }

    fn of(labels: &Labels, member: &str) -> String {
        on_one_line(&labels.all_of(member))
    }

    #[test]
    fn a_partial_labels_flag_keeps_the_others_defaults() {
        let labels = given(&["member1=a=b", "member1=c=d=e", "member2=environment=test"]);
        assert_eq!(of(&labels, "member1"), "a=b,c=d=e,environment=canary");
        assert_eq!(of(&labels, "member2"), "environment=test");
        assert_eq!(of(&labels, "member3"), "environment=production");
        assert!(read_label("member1").is_err());
        assert!(read_label("=a=b").is_err());
    }

    #[test]
    fn without_labels_members_have_environments() {
        let labels = Labels::default();
        assert_eq!(of(&labels, "member2"), "environment=staging");
        assert_eq!(of(&labels, "member17"), "environment=production");
    }

    #[test]
    fn labels_of_members_that_do_not_exist_are_an_error() {
        let members = ["member1".to_owned(), "member2".to_owned(), "member3".to_owned()];
        assert!(given(&["member1=a=b"]).must_be_of(&members).is_ok());
        let refused = given(&["member7=a=b", "memberone=a=b"]).must_be_of(&members);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "--labels names member7, memberone; the members are member1 to member3"
        );
    }

    #[test]
    fn labels_that_a_known_member_does_not_get_come_as_a_command() {
        let labels = given(&["member1=environment=test", "member1=team=a"]);
        let has = BTreeMap::from([
            ("environment".to_owned(), "mine".to_owned()),
            ("team".to_owned(), "a".to_owned()),
        ]);
        assert_eq!(
            labels.not_taken("member1", &has).as_deref(),
            Some("kubectl --context hub label membercluster member1 --overwrite environment=test")
        );
        assert_eq!(labels.not_taken("member2", &has), None);
        assert_eq!(labels.not_taken("member1", &labels.all_of("member1")), None);
    }
}
