//! One rule of a role: what it allows, and what of another rule it covers.
//!
//! The wording of [`Rule`]'s `Display` is Kubernetes': it is what people see when they
//! hand out more than they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

use crate::auth::RequestAttributes;

/// Stands for all of them, wherever it stands.
const ALL: &str = "*";
/// A rule that grants more single things than this is told as it stands.
const MAX_PARTS: usize = 4096;

/// A `PolicyRule`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Groups; the core group is empty text.
    pub api_groups: Vec<Box<str>>,
    /// Resources, `pods/log` for a path below, `*/scale` for that of all.
    pub resources: Vec<Box<str>>,
    /// Paths without resources; a `*` at the end takes all below.
    pub urls: Vec<Box<str>>,
    /// Names it is limited to; all when empty.
    pub names: Vec<Box<str>>,
    /// Verbs.
    pub verbs: Vec<Box<str>>,
}

impl Rule {
    /// From JSON. What is not text is passed over.
    pub fn read(value: &Value) -> Self {
        let list = |key: &str| {
            let texts = value[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(Box::from).collect()
        };
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            urls: list("nonResourceURLs"),
            names: list("resourceNames"),
            verbs: list("verbs"),
        }
    }

    /// The rules of a role, whatever its shape.
    pub fn list(role: &Value) -> Vec<Self> {
        role["rules"].as_array().into_iter().flatten().map(Self::read).collect()
    }

    /// Everything there is.
    pub fn everything() -> [Self; 2] {
        let all = || vec![ALL.into()];
        [
            Self { api_groups: all(), resources: all(), verbs: all(), ..Self::default() },
            Self { urls: all(), verbs: all(), ..Self::default() },
        ]
    }

    /// Whether it allows what is asked.
    pub fn allows(&self, ask: &RequestAttributes) -> bool {
        match ask {
            RequestAttributes::Path { verb, path } => {
                has_or_all(&self.verbs, verb) && self.urls.iter().any(|url| takes_in(url, path))
            }
            RequestAttributes::Resource { verb, at } => {
                let named = || {
                    let name = at.name.as_deref().unwrap_or_default();
                    self.names.is_empty() || has(&self.names, name)
                };
                has_or_all(&self.verbs, verb)
                    && has_or_all(&self.api_groups, &at.group)
                    && reaches(&self.resources, &at.resource, at.subresource.as_deref())
                    && named()
            }
        }
    }

    /// Whether whoever holds this rule holds all of `part`.
    fn covers(&self, part: &Self) -> bool {
        let all = |mine: &[Box<str>], theirs: &[Box<str>]| {
            has(mine, ALL) || theirs.iter().all(|text| has(mine, text))
        };
        let resources = part.resources.iter().all(|wanted| {
            let (resource, sub) = match wanted.split_once('/') {
                Some((resource, sub)) => (resource, Some(sub)),
                None => (&**wanted, None),
            };
            reaches(&self.resources, resource, sub)
        });
        let named = self.names.is_empty()
            || (!part.names.is_empty() && part.names.iter().all(|name| has(&self.names, name)));
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && resources
            && named
            && part.urls.iter().all(|wanted| self.urls.iter().any(|url| takes_in(url, wanted)))
    }

    /// How many single things it grants.
    fn weight(&self) -> usize {
        let things = [&self.api_groups, &self.resources].into_iter().map(|list| list.len());
        let things = things.fold(self.names.len().max(1), usize::saturating_mul);
        things.saturating_add(self.urls.len()).saturating_mul(self.verbs.len())
    }

    /// The rule as many that grant one thing each.
    fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let one = |text: &str| vec![Box::from(text)];
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        api_groups: one(group),
                        resources: one(resource),
                        verbs: one(verb),
                        ..Self::default()
                    };
                    match self.names.is_empty() {
                        true => parts.push(part),
                        false => parts.extend(
                            self.names.iter().map(|name| Self { names: one(name), ..part.clone() }),
                        ),
                    }
                }
            }
        }
        for url in &self.urls {
            for verb in &self.verbs {
                parts.push(Self { urls: one(url), verbs: one(verb), ..Self::default() });
            }
        }
        parts
    }

    /// As a review shows it.
    pub fn to_value(&self) -> Value {
        let lists = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(
            filled.map(|(key, list)| (key.to_owned(), json!(list))).collect::<Map<_, _>>(),
        )
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let shown: Vec<String> =
            shown.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// What of `wanted` is not in `held`, a line each, verbs on one thing together. Empty when
/// all is.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> BTreeSet<String> {
    // By what the verbs are on.
    let mut lacking: BTreeMap<Rule, Vec<Box<str>>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    let mut left = MAX_PARTS;
    for rule in wanted {
        if held.iter().any(|known| known.covers(rule)) {
            continue;
        }
        let Some(rest) = left.checked_sub(rule.weight()) else {
            lines.insert(rule.to_string());
            continue;
        };
        left = rest;
        for part in rule.parts() {
            if held.iter().any(|known| known.covers(&part)) {
                continue;
            }
            if part.urls.is_empty() {
                let verbs = lacking.entry(Rule { verbs: Vec::new(), ..part.clone() }).or_default();
                verbs.extend(
                    part.verbs.into_iter().filter(|verb| !verbs.contains(verb)).collect::<Vec<_>>(),
                );
            } else {
                lines.insert(part.to_string());
            }
        }
    }
    lines.extend(lacking.into_iter().map(|(rule, verbs)| Rule { verbs, ..rule }.to_string()));
    lines
}

/// A list as Go prints one: `["a" "b"]`.
pub fn quoted(list: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = list.iter().map(|text| format!("{:?}", text.as_ref())).collect();
    format!("[{}]", shown.join(" "))
}

fn has(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|known| **known == *text)
}

fn has_or_all(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|known| **known == *ALL || **known == *text)
}

fn reaches(rules: &[Box<str>], resource: &str, sub: Option<&str>) -> bool {
    let sub = sub.filter(|sub| !sub.is_empty());
    rules.iter().any(|rule| match (rule.split_once('/'), sub) {
        _ if **rule == *ALL => true,
        (None, None) => **rule == *resource,
        (Some((known, below)), Some(sub)) => below == sub && (known == resource || known == ALL),
        (None, Some(_)) | (Some(_), None) => false,
    })
}

fn takes_in(rule: &str, url: &str) -> bool {
    rule == ALL
        || rule == url
        || (rule.ends_with('*') && url.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &str, resources: &str, names: &str, verbs: &str) -> Rule {
        let list = |text: &str| match text {
            "-" => Vec::new(),
            text => text.split(',').map(Box::from).collect(),
        };
        Rule {
            api_groups: list(groups),
            resources: list(resources),
            names: list(names),
            verbs: list(verbs),
            ..Rule::default()
        }
    }

    fn asks(verb: &str, path: &str) -> RequestAttributes {
        let mut ask = RequestAttributes::of("GET", path, "");
        let (RequestAttributes::Resource { verb: had, .. }
        | RequestAttributes::Path { verb: had, .. }) = &mut ask;
        verb.clone_into(had);
        ask
    }

    #[test]
    fn a_rule_allows_what_it_names_and_wildcards_all_else() {
        let pod = "/api/v1/namespaces/n/pods/p";
        let log = "/api/v1/namespaces/n/pods/p/log";
        let scale = "/apis/apps/v1/namespaces/n/deployments/d/scale";
        let table = [
            (rule("", "pods", "-", "get,list"), "get", pod, true),
            (rule("", "pods", "-", "list"), "get", pod, false),
            (rule("apps", "pods", "-", "*"), "get", pod, false),
            (rule("*", "*", "-", "*"), "anything", log, true),
            (rule("", "pods", "-", "get"), "get", log, false),
            (rule("", "pods/log", "-", "get"), "get", log, true),
            (rule("", "pods/log", "-", "get"), "get", pod, false),
            (rule("", "*/log", "-", "get"), "get", log, true),
            (rule("apps", "*/scale", "-", "*"), "update", scale, true),
            (rule("apps", "pods/*", "-", "*"), "update", scale, false),
            (rule("", "pods", "p", "get"), "get", pod, true),
            (rule("", "pods", "q", "get"), "get", pod, false),
            (rule("", "pods", "p", "list"), "list", "/api/v1/namespaces/n/pods", false),
        ];
        for (rule, verb, path, want) in table {
            assert_eq!(rule.allows(&asks(verb, path)), want, "{rule} {verb} {path}");
        }
    }

    #[test]
    fn paths_end_in_a_star_or_are_meant_exactly() {
        let url = |url: &str| Rule {
            urls: vec![url.into()],
            verbs: vec!["get".into()],
            ..Rule::default()
        };
        let table = [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("*", "/anything", true),
        ];
        for (rule, path, want) in table {
            let ask = RequestAttributes::Path { verb: "get".to_owned(), path: path.to_owned() };
            assert_eq!(url(rule).allows(&ask), want, "{rule} {path}");
        }
    }

    #[test]
    fn what_is_missing_is_told_by_thing_with_its_verbs() {
        let held = [rule("", "configmaps", "-", "get"), rule("", "secrets", "a", "get")];
        let wanted =
            [rule(",apps", "pods,configmaps", "-", "get,list"), rule("", "secrets", "a,b", "get")];
        let lines: Vec<String> = missing(&held, &wanted).into_iter().collect();
        assert_eq!(
            lines,
            [
                r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["list"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
                r#"{APIGroups:["apps"], Resources:["configmaps"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}"#,
            ]
        );
        assert!(missing(&Rule::everything(), &wanted).is_empty());
        assert!(
            !missing(&[rule("", "secrets", "a", "get")], &[rule("", "secrets", "-", "get")])
                .is_empty()
        );
        assert!(
            missing(&[rule("", "*/log", "-", "get")], &[rule("", "pods/log", "-", "get")])
                .is_empty()
        );
        assert!(!missing(&[rule("", "pods", "-", "get")], &Rule::everything()).is_empty());
    }

    #[test]
    fn a_rule_of_a_million_things_is_not_taken_apart() {
        let many =
            |letter: char| (0..100).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(",");
        let huge = rule(&many('g'), &many('r'), "-", &many('v'));
        assert_eq!(missing(&[], std::slice::from_ref(&huge)).len(), 1);
        assert!(missing(&Rule::everything(), &[huge]).is_empty());
    }
}
