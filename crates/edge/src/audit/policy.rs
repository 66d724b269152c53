//! What is worth a line in the audit log: Kubernetes' `Policy` of `audit.k8s.io/v1`.
//!
//! The first rule that matches a request says its level; what no rule matches is not logged.
//! Bodies that hold credentials are logged only by a rule that names their resource: a rule
//! for everything means the others.

use flagship_apiserver::auth::{RequestAttributes, User};
use flagship_base::machinery::path::ObjectPath;
use serde::Deserialize;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Level {
    /// Nothing.
    None,
    /// Who, what, when, and how it went.
    Metadata,
    /// The body of the request as well.
    Request,
    /// The body of the answer as well.
    RequestResponse,
}

/// When something is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Stage {
    /// The request has come.
    RequestReceived,
    /// The answer has begun; only of watches.
    ResponseStarted,
    /// The answer has ended.
    ResponseComplete,
    /// Nothing here panics; the name is known.
    Panic,
}

impl Level {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

impl Stage {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// A policy as its file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Policy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde_json::Value,
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What a policy says of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(super) level: Level,
    omitted: Vec<Stage>,
    pub(super) omit_managed_fields: bool,
}

impl Verdict {
    /// Whether this stage is logged.
    pub(super) fn logs(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omitted.contains(&stage)
    }
}

impl Policy {
    /// Who did what and how it went, of every request, once: what a log without a policy has.
    pub(crate) fn metadata() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            _metadata: serde_json::Value::Null,
            rules: vec![Rule {
                level: Level::Metadata,
                users: vec![],
                user_groups: vec![],
                verbs: vec![],
                resources: vec![],
                namespaces: vec![],
                non_resource_urls: vec![],
                omit_stages: vec![],
                omit_managed_fields: None,
            }],
            omit_stages: vec![Stage::RequestReceived],
            omit_managed_fields: false,
        }
    }

    /// Reads the text of a policy file.
    ///
    /// # Errors
    /// What is wrong with it, for the person who wrote it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let policy: Self = serde_saphyr::from_str(text).map_err(|why| {
            why.to_string().lines().next().unwrap_or("it cannot be read").to_owned()
        })?;
        if policy.api_version != "audit.k8s.io/v1" || policy.kind != "Policy" {
            return Err(format!(
                "it is {} {}, not a Policy of audit.k8s.io/v1",
                policy.kind, policy.api_version
            ));
        }
        if policy.rules.is_empty() {
            return Err("it has no rules, so nothing would be logged".to_owned());
        }
        for (at, rule) in policy.rules.iter().enumerate() {
            let of_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            if of_resources && !rule.non_resource_urls.is_empty() {
                return Err(format!(
                    "rules[{at}] names resources and nonResourceURLs: no request is for both"
                ));
            }
        }
        Ok(policy)
    }

    /// What to log of a request.
    pub(crate) fn verdict(&self, user: &User, ask: &RequestAttributes) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(user, ask)) else {
            return Verdict { level: Level::None, omitted: vec![], omit_managed_fields: false };
        };
        let mut level = rule.level;
        if let RequestAttributes::Resource { at, .. } = ask
            && holds_credentials(at)
            && !rule.names(at)
        {
            level = level.min(Level::Metadata);
        }
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages).copied().collect();
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        Verdict { level, omitted, omit_managed_fields }
    }
}

/// Whether bodies of a resource hold what proves who somebody is.
fn holds_credentials(at: &ObjectPath) -> bool {
    let is = |group: &str, resource: &str, sub: Option<&str>| {
        (at.group.as_str(), at.resource.as_str()) == (group, resource)
            && (sub.is_none() || at.subresource.as_deref() == sub)
    };
    is("", "secrets", None)
        || is("", "serviceaccounts", Some("token"))
        || is("authentication.k8s.io", "tokenreviews", None)
}

impl Rule {
    fn matches(&self, user: &User, ask: &RequestAttributes) -> bool {
        let named = |list: &[String], word: &str| list.is_empty() || list.iter().any(|w| w == word);
        let groups = &self.user_groups;
        let in_group = groups.is_empty() || groups.iter().any(|group| user.is_in(group));
        let (RequestAttributes::Resource { verb, .. } | RequestAttributes::Path { verb, .. }) = ask;
        if !named(&self.users, &user.name) || !in_group || !named(&self.verbs, verb) {
            return false;
        }
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        match ask {
            RequestAttributes::Resource { at, .. } if of_resources => {
                named(&self.namespaces, at.namespace.as_deref().unwrap_or_default())
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|resources| resources.matches(at)))
            }
            RequestAttributes::Path { path, .. } if !self.non_resource_urls.is_empty() => {
                self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => path == url,
                })
            }
            _ => !of_resources && self.non_resource_urls.is_empty(),
        }
    }

    /// Whether the rule names this very resource.
    fn names(&self, at: &ObjectPath) -> bool {
        let name = qualified(at);
        self.resources.iter().any(|one| {
            one.group == at.group
                && one.resources.iter().any(|text| *text == at.resource || *text == name)
        })
    }
}

impl Resources {
    fn matches(&self, at: &ObjectPath) -> bool {
        if self.group != at.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let name = at.name.as_deref().unwrap_or_default();
        let names = &self.resource_names;
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            return false;
        }
        let whole = qualified(at);
        self.resources.iter().any(|text| {
            let sub = at.subresource.as_deref();
            text == "*"
                || *text == whole
                || text.strip_suffix("/*").is_some_and(|of| of == at.resource && sub.is_some())
                || text.strip_prefix("*/").is_some_and(|of| Some(of) == sub)
        })
    }
}

/// `pods` or `pods/log`.
fn qualified(at: &ObjectPath) -> String {
    match &at.subresource {
        Some(sub) => format!("{}/{sub}", at.resource),
        None => at.resource.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(rules: &str, user: &str, method: &str, path: &str) -> Level {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}");
        let policy = Policy::read(&text).unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        policy
            .verdict(
                &User::authenticated(user, ["devs"]),
                &RequestAttributes::of(method, path, query),
            )
            .level
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = r#"
- {level: None, users: [robot], verbs: [watch]}
- {level: None, nonResourceURLs: [/healthz*, /version]}
- {level: Request, userGroups: [devs], namespaces: [prod], resources: [{group: "", resources: [pods, "services/*"]}]}
- {level: RequestResponse, resources: [{group: apps, resources: [deployments], resourceNames: [web]}, {group: batch}]}
- {level: Metadata, resources: [{group: "", resources: ["*/status"]}]}
"#;
        for (user, method, path, expected) in [
            ("robot", "GET", "/api/v1/pods?watch=true", Level::None),
            ("ann", "GET", "/healthz/ping", Level::None),
            ("ann", "GET", "/version", Level::None),
            ("ann", "GET", "/versions", Level::None),
            ("ann", "POST", "/api/v1/namespaces/prod/pods", Level::Request),
            ("ann", "POST", "/api/v1/namespaces/test/pods", Level::None),
            ("ann", "GET", "/api/v1/namespaces/prod/pods/a/log", Level::None),
            ("ann", "GET", "/api/v1/namespaces/prod/services/a/proxy", Level::Request),
            ("ann", "GET", "/api/v1/namespaces/prod/services/a", Level::None),
            ("ann", "PUT", "/apis/apps/v1/namespaces/a/deployments/web", Level::RequestResponse),
            ("ann", "PUT", "/apis/apps/v1/namespaces/a/deployments/db", Level::None),
            ("ann", "POST", "/apis/batch/v1/namespaces/a/jobs", Level::RequestResponse),
            ("ann", "PUT", "/api/v1/nodes/a/status", Level::Metadata),
            ("ann", "GET", "/api/v1/nodes/a", Level::None),
        ] {
            assert_eq!(level(rules, user, method, path), expected, "{user} {method} {path}");
        }
    }

    #[test]
    fn bodies_with_credentials_are_logged_only_where_they_are_named() {
        let secret = "/api/v1/namespaces/a/secrets/s";
        let token = "/api/v1/namespaces/a/serviceaccounts/s/token";
        let review = "/apis/authentication.k8s.io/v1/tokenreviews";
        for rule in [
            "- {level: RequestResponse}",
            r#"- {level: RequestResponse, resources: [{group: ""}, {group: authentication.k8s.io}]}"#,
            r#"- {level: Request, resources: [{group: "", resources: ["*"]}, {group: authentication.k8s.io, resources: ["*"]}]}"#,
        ] {
            for path in [secret, token, review] {
                assert_eq!(level(rule, "ann", "POST", path), Level::Metadata, "{rule} {path}");
            }
            let map = level(rule, "ann", "POST", "/api/v1/namespaces/a/configmaps");
            assert!(map > Level::Metadata);
        }
        let asks = r#"- {level: RequestResponse, resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}"#;
        for path in [secret, token] {
            assert_eq!(level(asks, "ann", "POST", path), Level::RequestResponse, "{path}");
        }
    }

    #[test]
    fn stages_are_left_out_by_the_policy_and_by_the_rule() {
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                    omitManagedFields: true\nrules:\n- {level: Metadata, omitStages: [ResponseStarted]}\n";
        let ask = RequestAttributes::of("GET", "/api/v1/pods", "");
        let verdict = Policy::read(text).unwrap().verdict(&User::anonymous(), &ask);
        let stages = [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete];
        assert_eq!(stages.map(|stage| verdict.logs(stage)), [false, false, true]);
        assert!(verdict.omit_managed_fields);
        let verdict = Policy::metadata().verdict(&User::anonymous(), &ask);
        assert_eq!((verdict.level, verdict.logs(Stage::RequestReceived)), (Level::Metadata, false));
    }

    #[test]
    fn a_policy_that_cannot_be_used_says_why() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, says) in [
            ("kind: Pod\napiVersion: v1\nrules: []\n".to_owned(), "it is Pod v1, not a Policy"),
            (format!("{head}rules: []\n"), "it has no rules"),
            (format!("{head}rules: [{{level: Everything}}]\n"), "Everything"),
            (format!("{head}rules: [{{level: None, user: [a]}}]\n"), "user"),
            (
                format!("{head}rules: [{{level: None, namespaces: [a], nonResourceURLs: [/x]}}]\n"),
                "rules[0] names resources and nonResourceURLs",
            ),
        ] {
            let refused = Policy::read(&text).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
