//! What a request asks for besides its object: query parameters and delete options.

use flagship_base::machinery::fields;
use flagship_base::machinery::query::Query;
use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_base::selector;
use serde_json::{Value, json};

/// What to do about fields the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and say so in a `Warning` header.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Who owns what is written; the caller's user agent when absent.
    pub field_manager: Option<String>,
    /// Do everything but commit.
    pub dry_run: bool,
    /// What to do about unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Server-side apply takes over fields of others.
    pub force: bool,
}

impl WriteOptions {
    /// From a query; `kind` is the options kind named in errors.
    pub fn from_query(query: &Query, kind: &str) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.get("fieldValidation") {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let allowed = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", json!(other), &allowed));
                FieldValidation::Warn
            }
        };
        let manager = query.get("fieldManager").unwrap_or_default();
        if manager.len() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        if manager.chars().any(char::is_control) {
            let detail = "should not contain unprintable characters";
            errors.push(FieldError::invalid("fieldManager", json!(manager), detail));
        }
        let force = match query.get("force") {
            None | Some("" | "false" | "0") => false,
            Some(_) => true,
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", kind, "", &errors));
        }
        let field_manager = (!manager.is_empty()).then(|| manager.to_owned());
        Ok(Self { field_manager, dry_run, field_validation, force })
    }

    /// These options for a named manager.
    pub fn managed_by(manager: &str) -> Self {
        Self { field_manager: Some(manager.to_owned()), ..Self::default() }
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let mut dry = false;
    for value in values.filter(|value| !value.is_empty()) {
        if value == "All" {
            dry = true;
        } else {
            errors.push(FieldError::not_supported("dryRun", json!([value]), &["All"]));
        }
    }
    dry
}

/// What happens to the objects an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They lose their owner and stay.
    Orphan,
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
}

/// Options of delete and deletecollection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How long a graceful deletion may take; the kind's default when absent.
    pub grace_period_seconds: Option<i64>,
    /// What happens to dependents; the kind's default when absent.
    pub propagation: Option<Propagation>,
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must have this resourceVersion.
    pub resource_version: Option<String>,
    /// Do everything but commit.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// From the query and, when it has one, the body, which wins.
    pub fn read(query: &Query, body: Option<&Value>) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let mut options = Self {
            dry_run: dry_run(query.all("dryRun"), &mut errors),
            propagation: propagation(query.get("propagationPolicy"), &mut errors),
            ..Self::default()
        };
        if let Some(text) = query.get("gracePeriodSeconds").filter(|text| !text.is_empty()) {
            options.grace_period_seconds = Some(number(text)?);
        }
        match query.get("orphanDependents") {
            Some("true" | "1") => options.propagation = Some(Propagation::Orphan),
            Some("false" | "0") => options.propagation = Some(Propagation::Background),
            _ => {}
        }
        if let Some(body) = body.filter(|body| !body.is_null()) {
            options.take_body(body, &mut errors)?;
        }
        if options.grace_period_seconds.is_some_and(|seconds| seconds < 0) {
            // Kubernetes reads a negative period as "at once".
            options.grace_period_seconds = Some(0);
        }
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }

    fn take_body(&mut self, body: &Value, errors: &mut Vec<FieldError>) -> Result<(), ApiError> {
        if !body.is_object() || body.get("kind").is_some_and(|kind| kind != "DeleteOptions") {
            let says = "the object provided is unrecognized (must be of type DeleteOptions)";
            return Err(ApiError::bad_request(says));
        }
        if let Some(seconds) = body["gracePeriodSeconds"].as_i64() {
            self.grace_period_seconds = Some(seconds);
        }
        if let Some(policy) = propagation(body["propagationPolicy"].as_str(), errors) {
            self.propagation = Some(policy);
        }
        match body["orphanDependents"].as_bool() {
            Some(true) => self.propagation = Some(Propagation::Orphan),
            Some(false) => self.propagation = Some(Propagation::Background),
            None => {}
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.uid = text(&body["preconditions"]["uid"]);
        self.resource_version = text(&body["preconditions"]["resourceVersion"]);
        let values = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.dry_run |= dry_run(values, errors);
        Ok(())
    }
}

fn propagation(text: Option<&str>, errors: &mut Vec<FieldError>) -> Option<Propagation> {
    match text? {
        "" => None,
        "Orphan" => Some(Propagation::Orphan),
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        other => {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", json!(other), &allowed));
            None
        }
    }
}

fn number(text: &str) -> Result<i64, ApiError> {
    let says = || format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
    text.parse().map_err(|_| ApiError::bad_request(says()))
}

/// How a resourceVersion is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// That state or a later one.
    NotOlderThan,
    /// That very state.
    Exact,
}

/// Options of get, list, watch and deletecollection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Which labels.
    pub labels: selector::Selector,
    /// Which fields.
    pub fields: fields::Selector,
    /// Page size; 0 for everything.
    pub limit: usize,
    /// Where the page before ended.
    pub token: Option<String>,
    /// Absent: the latest.
    pub revision: Option<u64>,
    /// How `revision` is meant.
    pub matching: Option<Match>,
    /// Stream changes instead of listing.
    pub watch: bool,
    /// When a watch ends; at once if it is less than nothing.
    pub timeout_seconds: Option<i64>,
    /// The client understands bookmarks.
    pub bookmarks: bool,
    /// Begin a watch with the present state and mark its end.
    pub initial_events: Option<bool>,
}

/// Reads a resourceVersion parameter.
pub fn revision(text: Option<&str>) -> Result<Option<u64>, ApiError> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            let error = FieldError::invalid("resourceVersion", json!(text), detail);
            ApiError::bad_request(format!("invalid resource version: {error}"))
        }),
    }
}

impl ListOptions {
    /// From a query.
    pub fn from_query(query: &Query) -> Result<Self, ApiError> {
        let bad = |says: String| ApiError::bad_request(says);
        let mut errors = Vec::new();
        let matching = match query.get("resourceVersionMatch") {
            None | Some("") => None,
            Some("NotOlderThan") => Some(Match::NotOlderThan),
            Some("Exact") => Some(Match::Exact),
            Some(other) => {
                let allowed = ["Exact", "NotOlderThan", ""];
                let field = "resourceVersionMatch";
                errors.push(FieldError::not_supported(field, json!(other), &allowed));
                None
            }
        };
        let limit = match query.get("limit").filter(|text| !text.is_empty()) {
            None => 0,
            // As in Kubernetes, less than nothing is no limit.
            Some(text) => usize::try_from(number(text)?).unwrap_or(0),
        };
        let timeout_seconds = match query.get("timeoutSeconds").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(number(text)?),
        };
        let options = Self {
            labels: selector::Selector::parse(query.get("labelSelector").unwrap_or_default())
                // Kubernetes has no path to a key that stands in a query.
                .map_err(|why| bad(why.replace("key: Invalid", "<nil>: Invalid")))?,
            fields: fields::Selector::parse(query.get("fieldSelector").unwrap_or_default())
                .map_err(bad)?,
            limit,
            token: query.get("continue").filter(|t| !t.is_empty()).map(str::to_owned),
            revision: revision(query.get("resourceVersion")).map_err(|error| {
                match query.flag("watch") {
                    // A watch that cannot begin is the server's fault, in Kubernetes' eyes.
                    true => ApiError::new(
                        500,
                        "",
                        error.message.replace("invalid resource version: ", ""),
                    ),
                    false => error,
                }
            })?,
            matching,
            watch: query.flag("watch"),
            timeout_seconds,
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
        };
        options.check(&mut errors);
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors))
        }
    }

    /// The combinations Kubernetes forbids.
    fn check(&self, errors: &mut Vec<FieldError>) {
        let mut refuse = |field: &str, why: &str| errors.push(FieldError::forbidden(field, why));
        if self.watch {
            let required =
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            match (self.initial_events, self.matching) {
                (Some(_), None) => refuse("resourceVersionMatch", required),
                (Some(_), Some(Match::Exact)) => {
                    refuse("resourceVersionMatch", required);
                    let (field, allowed) = ("resourceVersionMatch", ["NotOlderThan"]);
                    errors.push(FieldError::not_supported(field, json!("Exact"), &allowed));
                }
                (None, Some(_)) => refuse(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                _ => {}
            }
            return;
        }
        if self.initial_events.is_some() {
            refuse("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        let Some(matching) = self.matching else {
            return;
        };
        if self.token.is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            refuse("resourceVersionMatch", why);
        } else if self.revision.is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            refuse("resourceVersionMatch", why);
        } else if matching == Match::Exact && self.revision == Some(0) {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            refuse("resourceVersionMatch", why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<ListOptions, (u16, String)> {
        let query = Query::parse(query).unwrap();
        ListOptions::from_query(&query).map_err(|e| (e.code, e.message))
    }

    #[test]
    fn list_parameters_that_contradict_each_other_are_refused() {
        let table = [
            ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                422,
                "forbidden for resourceVersion \"0\"",
            ),
            ("resourceVersionMatch=Odd&resourceVersion=1", 422, "Unsupported value: \"Odd\""),
            (
                "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
                422,
                "when continue is provided",
            ),
            ("watch=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
            ("sendInitialEvents=true", 422, "forbidden for list"),
            ("resourceVersion=abc", 400, "Invalid value: \"abc\""),
            ("limit=x", 400, "parsing \"x\": invalid syntax"),
            ("labelSelector=a%20b", 400, "unable to parse requirement"),
            ("fieldSelector=a", 400, "can't understand 'a'"),
        ];
        for (query, code, words) in table {
            let (got, message) = list(query).unwrap_err();
            assert_eq!(got, code, "{query}: {message}");
            assert!(message.contains(words), "{query}: {message}");
        }
    }

    #[test]
    fn delete_options_come_from_query_and_body() {
        let query =
            Query::parse("gracePeriodSeconds=5&propagationPolicy=Orphan&dryRun=All").unwrap();
        let options = DeleteOptions::read(&query, None).unwrap();
        assert_eq!(options.grace_period_seconds, Some(5));
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert!(options.dry_run);
        let body = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}});
        let options = DeleteOptions::read(&query, Some(&body)).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        assert_eq!(options.uid.as_deref(), Some("u"));
        let odd = json!({"propagationPolicy": "Sideways"});
        assert_eq!(DeleteOptions::read(&query, Some(&odd)).unwrap_err().code, 422);
        let other = json!({"kind": "Pod"});
        assert_eq!(DeleteOptions::read(&query, Some(&other)).unwrap_err().code, 400);
    }

    #[test]
    fn write_options_are_checked() {
        let read =
            |text: &str| WriteOptions::from_query(&Query::parse(text).unwrap(), "CreateOptions");
        assert!(read("dryRun=All&fieldManager=me&force=true").unwrap().dry_run);
        let error = read("dryRun=Some").unwrap_err();
        assert_eq!(
            error.message,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
        );
        assert_eq!(read("fieldValidation=Loud").unwrap_err().code, 422);
        assert_eq!(read(&format!("fieldManager={}", "x".repeat(129))).unwrap_err().code, 422);
    }
}
