//! Chooses how a prepared manifest is written, and makes the body.
//!
//! What is not there is created. What is there gets a three-way merge, or a server-side apply
//! if the strategy says so or the object has no room to remember what was applied. The write
//! is sent on every pass, also when it changes nothing.

use flagship_api::apply_strategy::{ApplyStrategyType, WhenToApply};
use flagship_api::error_class::ErrorClass;
use flagship_api::keys::{annotation, field_manager};
use flagship_api::names::ObjectKey;
use flagship_patch::{builtin, three_way};
use serde_json::{Value, json};

use super::outcome::Verdict;
use super::owners::metadata_mut;
use super::prepare::{check_owners, prepared, remember};
use super::step::{ManifestContext, Refusal, RefusalKind, Step};

/// One write, under the field manager of the applier.
#[derive(Clone, PartialEq)]
pub enum Operation {
    /// Create the object.
    Create {
        /// The object.
        body: Value,
    },
    /// Patch the object. A `resourceVersion` inside is the version it must still have.
    Patch {
        /// How to patch it.
        style: PatchStyle,
        /// The patch.
        body: Value,
    },
    /// Apply the object server-side. A `resourceVersion` inside is the version it must still have.
    Apply {
        /// The object.
        body: Value,
        /// Whether to win conflicts.
        force: bool,
    },
}

/// The two ways to merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchStyle {
    /// `application/strategic-merge-patch+json`, for kinds Kubernetes brings with it.
    Strategic,
    /// `application/merge-patch+json`, for all others.
    Merge,
}

/// A request to write.
pub struct Write<'a> {
    /// What to write.
    pub operation: Operation,
    case: ManifestContext<'a>,
}

/// Begins to write the manifest of this case.
pub(super) fn start(case: ManifestContext<'_>) -> Step<'_> {
    match operation(&case) {
        Ok(operation) => Step::Write(Write { operation, case }),
        Err(why) => failed(case, &why),
    }
}

impl<'a> Write<'a> {
    /// The object as it was stored.
    pub fn answer(self, result: Result<Value, Refusal>) -> Step<'a> {
        let Self { operation, case } = self;
        let refusal = match result {
            Ok(object) => return case.written(object),
            Err(refusal) => refusal,
        };
        match operation {
            Operation::Create { .. } => {
                let why = ErrorClass::ApiServer.message(refusal.message);
                failed(case, &format!("failed to create manifest object: {why}"))
            }
            Operation::Patch { .. } => {
                let why = ErrorClass::ApiServer.message(refusal.message);
                failed(case, &format!("failed to patch the manifest object: {why}"))
            }
            // Only we ourselves are in the way: what we created or patched earlier.
            Operation::Apply { body, force: false } if is_with_ourselves(&refusal) => {
                Step::Write(Write { operation: Operation::Apply { body, force: true }, case })
            }
            Operation::Apply { .. } => {
                let why = format!(
                    "failed to apply the manifest object: an error is returned by the API server: {}",
                    refusal.message
                );
                failed(case, &why)
            }
        }
    }
}

fn failed<'a>(case: ManifestContext<'a>, why: &str) -> Step<'a> {
    case.failed(Verdict::ApplyFailed, format!("failed to apply the manifest: {why}"))
}

fn operation(case: &ManifestContext<'_>) -> Result<Operation, String> {
    let ManifestContext { manifest, terms, live, .. } = case;
    let live = live.as_ref();
    let mut body = prepared(&manifest.object, &terms.owner)?;
    check_owners(&manifest.object, live, terms)
        .map_err(|why| format!("failed to validate owner references: {why}"))?;
    let merges = match terms.strategy {
        ApplyStrategyType::ClientSideApply => remember(&mut body)?,
        ApplyStrategyType::ServerSideApply => false,
        ApplyStrategyType::ReportDiff => {
            return Err("unexpected apply strategy ReportDiff is found".to_owned());
        }
    };
    let Some(live) = live else { return Ok(Operation::Create { body }) };
    let mut operation = if merges {
        let (style, body) = three_way_merge(&body, live)
            .map_err(|why| format!("failed to create three-way merge patch: {why}"))?;
        Operation::Patch { style, body }
    } else {
        let configured = terms.strategy == ApplyStrategyType::ServerSideApply && terms.force;
        Operation::Apply { body, force: configured || only_we_manage(live) }
    };
    if terms.when_to_apply == WhenToApply::IfNotDrifted {
        lock(&mut operation, live, case)?;
    }
    Ok(operation)
}

/// Binds the write to the version that was looked at.
fn lock(operation: &mut Operation, live: &Value, case: &ManifestContext<'_>) -> Result<(), String> {
    let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    let Some(version) = version.filter(|version| !version.is_empty()) else {
        let of = &case.manifest.identifier;
        let kind = case.manifest.kind().map(|kind| kind.to_string()).unwrap_or_default();
        let name = ObjectKey::new(Some(&of.namespace), &of.name);
        return Err(format!(
            "failed to enable optimistic lock: resource version is empty on the object \
             {kind}/{name} from the member cluster"
        ));
    };
    let (Operation::Create { body }
    | Operation::Patch { body, .. }
    | Operation::Apply { body, .. }) = operation;
    if let Some(metadata) = metadata_mut(body) {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    Ok(())
}

/// The patch that leads from what is there to what is wished, given what was applied last.
fn three_way_merge(wished: &Value, live: &Value) -> Result<(PatchStyle, Value), String> {
    let original = last_applied(live)?;
    // Owners are the business of taking over: a merge patch would put out all others.
    let (wished, original) = (without_owners(wished), without_owners(&original));
    let word = |field: &str| live.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(shape) = builtin(group, version, kind) {
        let patch = three_way::strategic(&original, &wished, live, Some(shape));
        return patch.map(|patch| (PatchStyle::Strategic, patch)).map_err(|why| why.to_string());
    }
    let patch = three_way::merge(&original, &wished, live).map_err(|why| why.to_string())?;
    let changed = ["/apiVersion", "/kind", "/metadata/name"].iter();
    match changed.copied().find(|field| patch.pointer(field).is_some()) {
        Some(field) => Err(format!("precondition failed: {field} must not change")),
        None => Ok((PatchStyle::Merge, patch)),
    }
}

/// What the object remembers to have been applied as; nothing if it does not.
fn last_applied(live: &Value) -> Result<Value, String> {
    let annotations = live.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text =
        annotations.and_then(|all| all.get(annotation::LAST_APPLIED)).and_then(Value::as_str);
    match text {
        None | Some("") => Ok(json!({})),
        // Only the place is told, never the text.
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("the last-applied configuration is not JSON: {error}")),
    }
}

fn without_owners(object: &Value) -> Value {
    let mut copy = object.clone();
    if let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("ownerReferences");
    }
    copy
}

/// Names of ours among field managers.
const OURS: [&str; 2] = [field_manager::WORK_APPLIER, field_manager::BEFORE_FIRST_APPLY];

/// Whether nobody else has ever written to the object.
fn only_we_manage(live: &Value) -> bool {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().all(|entry| {
        entry.get("manager").and_then(Value::as_str).is_some_and(|name| OURS.contains(&name))
    })
}

/// Whether every manager that a conflict names is ours. A text that leaves some of the
/// conflicts out says nothing about the rest.
fn is_with_ourselves(refusal: &Refusal) -> bool {
    if refusal.kind != RefusalKind::Conflict {
        return false;
    }
    let told = refusal.message.strip_prefix("Apply failed with ").unwrap_or_default();
    let listed = match told.split(' ').next().and_then(|count| count.parse::<usize>().ok()) {
        Some(1) => true,
        Some(count) => told.lines().filter(|line| line.starts_with("- ")).count() == count,
        None => false,
    };
    let is_ours = |rest: &str| {
        OURS.iter().any(|name| rest.strip_prefix(name).is_some_and(|after| after.starts_with('"')))
    };
    let after = |said: &'static str| told.split(said).skip(1);
    let mut named = after("conflict with \"").chain(after("conflicts with \"")).peekable();
    listed && named.peek().is_some() && named.all(is_ours)
}
