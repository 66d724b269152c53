//! Who says what about approvals: admission writes the sender's name on approvals and runs, and
//! lets nobody approve a request under a policy by writing its status.
//!
//! On an embedded server this is asked in the process, elsewhere by webhooks. What gets past it,
//! because a hub runs without webhooks, does not count where it is used (`update_run::counted`).

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::approval_decision::{ApprovalSpec, Person};
use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::approval_request::APPROVED;
use flagship_api::condition_type::update_run::FOLLOWS_POLICIES;
use flagship_api::decode::decode_value;
use flagship_api::keys::own;
use flagship_api::reason::update_run::approval::{ACCEPTED, COUNTED, STAMPED};
use flagship_api::rollout_policy::RolloutPolicy;
use flagship_api::staged_update::{ClusterStagedUpdateRun, StagedUpdateRun};
use serde_json::{Map, Value, json};

use super::records::Writer;
use super::registration::{Webhook, judge_of};
use super::{Answer, OWN, Operation, PLACING, Request};
use crate::policy::approvals::Terms;
use crate::update_run::{Run, counted};

/// What of a request concerns approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// What a person said.
    Word,
    /// A request, or its status.
    Request,
    /// A run.
    Run,
    /// The status of a run.
    RunStatus,
}

/// The kinds that concern approvals.
pub const KINDS: [&str; 6] = [
    "ClusterApproval",
    "Approval",
    "ClusterApprovalRequest",
    "ApprovalRequest",
    "ClusterStagedUpdateRun",
    "StagedUpdateRun",
];

/// What a write is about, if it concerns approvals.
pub fn subject(request: &Request<'_>) -> Option<Subject> {
    match (request.group(), request.kind.kind.as_str(), request.subresource) {
        (OWN, "ClusterApproval" | "Approval", "") => Some(Subject::Word),
        (PLACING, "ClusterApprovalRequest" | "ApprovalRequest", _) => Some(Subject::Request),
        (PLACING, "ClusterStagedUpdateRun" | "StagedUpdateRun", "") => Some(Subject::Run),
        (PLACING, "ClusterStagedUpdateRun" | "StagedUpdateRun", "status") => {
            Some(Subject::RunStatus)
        }
        _ => None,
    }
}

/// The run that a request for approval is about, by name.
pub fn run_of<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.object["spec"]["parentStageRollout"].as_str()
}

/// A run as an API server sends it, in whichever scope.
pub fn run_in(object: &Value, namespace: &str) -> Option<Run> {
    if namespace.is_empty() {
        let run: ClusterStagedUpdateRun = decode_value(object).ok()?;
        return Some(Run::read(&run.metadata, &run.spec, &run.status.unwrap_or_default()));
    }
    let run: StagedUpdateRun = decode_value(object).ok()?;
    Some(Run::read(&run.metadata, &run.spec, &run.status.unwrap_or_default()))
}

/// The webhook that judges a write, by whose name it is refused.
pub fn webhook(request: &Request<'_>) -> Option<&'static Webhook> {
    judge_of(request)
}

/// Whether policies want to know who is behind a run.
pub fn want_authors<'a>(policies: impl IntoIterator<Item = &'a RolloutPolicy>) -> bool {
    policies.into_iter().any(|policy| {
        policy.spec.approvals.as_ref().is_some_and(|rules| rules.not_author == Some(true))
    })
}

/// Writes on an approval who sends it, and whose it is: it goes with its request.
pub fn sign(request: &Request<'_>, person: &Person) -> Option<Value> {
    if request.operation != Operation::Create {
        return None;
    }
    let mut signed = request.object.clone();
    signed["spec"]["by"] = serde_json::to_value(person).ok()?;
    let kind = format!("{}Request", request.kind.kind);
    signed["metadata"]["ownerReferences"] = json!([{
        "apiVersion": format!("{PLACING}/v1beta1"), "kind": kind,
        "name": signed["spec"]["request"], "uid": signed["spec"]["requestUID"],
    }]);
    Some(signed)
}

/// Writes on a run who created and who started it, over whatever its sender wrote there, and
/// leaves the policies that it follows as the hub has written them.
pub fn note_authors(request: &Request<'_>, person: &Person, wanted: bool) -> Value {
    let mut noted = request.object.clone();
    let old = |key: &str| request.old.map(|old| old["metadata"]["annotations"][key].clone());
    let state = |object: &Value| object["spec"]["state"].as_str().unwrap_or_default().to_owned();
    let known = match request.operation {
        Operation::Create => wanted.then(|| json!(person.user)),
        _ => old(own::CREATED_BY).filter(|by| !by.is_null()),
    };
    let mut started: Vec<String> = old(own::STARTED_BY)
        .and_then(|text| serde_json::from_str(text.as_str()?).ok())
        .unwrap_or_default();
    let starts = request.old.is_some_and(|old| state(old) != "Run" && state(&noted) == "Run");
    if starts && (wanted || known.is_some()) && !started.contains(&person.user) {
        started.push(person.user.clone());
    }
    let started = (!started.is_empty()).then(|| json!(json!(started).to_string()));
    put(&mut noted, own::CREATED_BY, known);
    put(&mut noted, own::STARTED_BY, started);
    if request.operation == Operation::Update {
        put(&mut noted, own::ADOPTED_POLICIES, old(own::ADOPTED_POLICIES).filter(|v| !v.is_null()));
    }
    noted
}

/// Sets an annotation, or takes it away; an object without annotations stays without.
fn put(object: &mut Value, key: &str, value: Option<Value>) {
    match (value, object["metadata"]["annotations"].as_object_mut()) {
        (Some(value), Some(all)) => {
            all.insert(key.to_owned(), value);
        }
        (Some(value), None) => {
            let all = Map::from_iter([(key.to_owned(), value)]);
            object["metadata"]["annotations"] = Value::Object(all);
        }
        (None, Some(all)) => {
            all.remove(key);
            if all.is_empty() {
                object["metadata"].as_object_mut().map(|meta| meta.remove("annotations"));
            }
        }
        (None, None) => {}
    }
}

/// Writes into the status of a request who approves it there, where the policy lets one person
/// do so who says nothing more than yes. `kubectl fleet approve` writes the status.
pub fn stamp_status(request: &Request<'_>, run: &Run, person: &Person) -> Option<Value> {
    let (spec, terms) = under_policy(request, run)?;
    if !terms.one_word_is_enough() || !newly_approved(request) {
        return None;
    }
    let mut stamped = request.object.clone();
    let conditions = stamped["status"]["conditions"].as_array_mut()?;
    let said = conditions.iter_mut().find(|said| said["type"] == APPROVED)?;
    let permits: Vec<String> = run
        .adopted
        .iter()
        .flat_map(|adopted| adopted.approving_groups(&spec.target_stage))
        .filter(|group| person.groups.contains(group))
        .collect();
    said["reason"] = json!(STAMPED);
    said["message"] = json!(counted::stamp(person, &permits));
    Some(stamped)
}

/// Judges a write that concerns approvals; `None` if it may pass. `run` is the run that a
/// request is about, or the run itself as it is.
pub fn judge(
    request: &Request<'_>,
    subject: Subject,
    run: Option<&Run>,
    person: &Person,
    writer: Writer,
) -> Option<Answer> {
    if writer == Writer::Hub {
        return None;
    }
    match subject {
        Subject::Word => word(request, person, writer),
        Subject::Request => asking(request, run?, person),
        Subject::Run => None,
        Subject::RunStatus => {
            let run = run?;
            // Whoever has taken the policies from the run has not taken it from them.
            let told = run.status.conditions.of_type(FOLLOWS_POLICIES).is_some();
            let policed = told || run.adopted.as_ref().is_some_and(|one| !one.is_empty());
            policed.then(|| {
                Answer::Denied(format!(
                    "the status of {} {} cannot be written: it follows a rollout policy, so only the hub says how far it is",
                    request.kind.kind, request.name
                ))
            })
        }
    }
}

fn word(request: &Request<'_>, person: &Person, writer: Writer) -> Option<Answer> {
    let (kind, name) = (&request.kind.kind, request.name);
    let spec: Result<ApprovalSpec, _> = serde_json::from_value(request.object["spec"].clone());
    let by = spec.ok().and_then(|spec| spec.by);
    match request.operation {
        Operation::Create if person.user.is_empty() => Some(Answer::Denied(format!(
            "{kind} {name} cannot be created: nobody knows who sends it"
        ))),
        Operation::Create if by.as_ref() != Some(person) => Some(Answer::Denied(format!(
            "{kind} {name} cannot be created in the name of {}: it is sent by {}; leave spec.by out, it is filled in",
            by.map_or_else(|| "nobody".to_owned(), |by| by.user),
            person.user
        ))),
        Operation::Create => None,
        Operation::Update => {
            let kept = |part: &str| {
                request.old.map(|old| old.pointer(part)) == Some(request.object.pointer(part))
            };
            (!kept("/spec") || !kept("/metadata/ownerReferences")).then(|| {
                Answer::Denied(format!(
                    "{kind} {name} cannot be changed: what somebody has said stays as it is; delete it, or create another one, the last one counts"
                ))
            })
        }
        Operation::Delete => {
            let own = by.is_some_and(|by| by.user == person.user);
            (!own && writer != Writer::Administrator).then(|| {
                Answer::Denied(format!(
                    "{kind} {name} cannot be deleted by {}: only who said it may take it back, or an administrator (group system:masters)",
                    person.user
                ))
            })
        }
    }
}

fn asking(request: &Request<'_>, run: &Run, person: &Person) -> Option<Answer> {
    let (spec, terms) = under_policy(request, run)?;
    let old = request.old?;
    if request.operation != Operation::Update {
        return None;
    }
    if request.subresource.is_empty() {
        let kept = [own::UPDATE_RUN_UID, own::PLAN_HASH].iter().all(|key| {
            old["metadata"]["annotations"][key] == request.object["metadata"]["annotations"][key]
        });
        return (!kept).then(|| {
            Answer::Denied(format!(
                "{} {} cannot be changed: which run and plan it is about is the hub's word",
                request.kind.kind, request.name
            ))
        });
    }
    if conditions(old) == conditions(request.object) {
        return None;
    }
    let refused = |why: &str| {
        let stage = &spec.target_stage;
        let command = match request.namespace {
            "" => format!("flagship approve {} {stage}", run.name),
            namespace => format!("flagship approve -n {namespace} {} {stage}", run.name),
        };
        Some(Answer::Denied(format!(
            "{why}; {} {} is under rollout policy {}, which asks for {}: {command}",
            request.kind.kind,
            request.name,
            terms.policies(),
            terms.wanted()
        )))
    };
    let stamped =
        conditions(request.object).of_type(APPROVED).is_some_and(|said| said.reason == STAMPED);
    if !terms.one_word_is_enough() || !newly_approved(request) || !stamped {
        return refused("its status cannot be written");
    }
    match terms.may_not(person, &run.authors) {
        None => None,
        Some(why) => refused(&why),
    }
}

/// What a request is about and what its approvals need, where a policy of the run says.
fn under_policy<'r>(
    request: &Request<'_>,
    run: &'r Run,
) -> Option<(ApprovalRequestSpec, Terms<'r>)> {
    let spec: ApprovalRequestSpec = serde_json::from_value(request.object["spec"].clone()).ok()?;
    let adopted = run.adopted.as_ref()?;
    let stage = run.status.stages_status.iter().find(|one| one.stage_name == spec.target_stage)?;
    let terms = adopted.approvals(&stage.stage_name)?;
    Some((spec, terms))
}

/// Whether a write to the status of a request looks like that of the hub: for webhooks, which
/// do not know the hub by its name. What only looks like it counts for nothing.
pub fn looks_like_the_hub(request: &Request<'_>) -> bool {
    let told = conditions(request.object);
    told.iter().all(|said| said.reason == COUNTED || said.reason == ACCEPTED)
}

fn newly_approved(request: &Request<'_>) -> bool {
    let says = |object: &Value| {
        conditions(object).of_type(APPROVED).is_some_and(|said| said.status == "True")
    };
    request.subresource == "status" && says(request.object) && !request.old.is_some_and(says)
}

fn conditions(object: &Value) -> Vec<Condition> {
    let status: Option<ApprovalRequestStatus> =
        serde_json::from_value(object["status"].clone()).ok();
    status.unwrap_or_default().conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::selection::Kind;

    fn person(user: &str) -> Person {
        Person { user: user.to_owned(), ..Person::default() }
    }

    fn asked<'a>(
        operation: Operation,
        kind: &'a Kind,
        object: &'a Value,
        old: Option<&'a Value>,
    ) -> Request<'a> {
        Request { operation, kind, subresource: "", namespace: "", name: "x", object, old }
    }

    #[test]
    fn who_is_behind_a_run_is_what_the_server_knows() {
        let kind = Kind::new(PLACING, "v1beta1", "ClusterStagedUpdateRun");
        let noted = |object: &Value, key: &str| object["metadata"]["annotations"][key].clone();
        let forged = json!({"metadata": {"annotations": {own::CREATED_BY: "zoe",
            own::STARTED_BY: "[\"zoe\"]"}}, "spec": {"state": "Initialize"}});
        let create = asked(Operation::Create, &kind, &forged, None);
        let made = note_authors(&create, &person("carol"), true);
        assert_eq!(made["metadata"]["annotations"], json!({own::CREATED_BY: "carol"}));
        let unasked = note_authors(&create, &person("carol"), false);
        assert_eq!(unasked["metadata"], json!({}), "nobody asks, and nothing forged stays");
        // Whoever lets it go on is added, and nobody is taken away.
        let mut runs = made.clone();
        runs["spec"]["state"] = json!("Run");
        runs["metadata"]["annotations"][own::CREATED_BY] = json!("zoe");
        let update = asked(Operation::Update, &kind, &runs, Some(&made));
        let runs = note_authors(&update, &person("bob"), false);
        assert_eq!(noted(&runs, own::CREATED_BY), "carol");
        assert_eq!(noted(&runs, own::STARTED_BY), r#"["bob"]"#);
        let mut follows = runs.clone();
        follows["metadata"]["annotations"][own::ADOPTED_POLICIES] = json!("{}");
        let without = asked(Operation::Update, &kind, &runs, Some(&follows));
        let kept = note_authors(&without, &person("carol"), true);
        assert_eq!(noted(&kept, own::ADOPTED_POLICIES), "{}", "policies cannot be taken away");
    }

    #[test]
    fn a_word_is_its_senders_and_stays_as_it_is() {
        use Operation::{Create, Delete, Update};
        let kind = Kind::new(OWN, "v1alpha1", "ClusterApproval");
        let said = json!({"metadata": {}, "spec": {"request": "r", "requestUID": "u",
            "planHash": "h", "decision": "Approve", "by": {"user": "zoe"}}});
        let signed = sign(&asked(Create, &kind, &said, None), &person("alice")).unwrap();
        assert_eq!(signed["spec"]["by"], json!({"user": "alice"}));
        let owner = &signed["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["uid"]),
            (&json!("ClusterApprovalRequest"), &json!("u"))
        );
        let mut other = signed.clone();
        other["spec"]["decision"] = json!("Reject");
        let mut owned = signed.clone();
        owned["metadata"]["ownerReferences"] = json!([]);
        let (hub, root, any) = (Writer::Hub, Writer::Administrator, Writer::Other);
        let table = [
            (Create, &signed, None, "alice", any, ""),
            (Create, &signed, None, "eve", any, "in the name of alice"),
            (Create, &said, None, "alice", any, "in the name of zoe"),
            (Create, &signed, None, "eve", root, "in the name of alice"),
            (Update, &other, Some(&signed), "alice", any, "stays as it is"),
            (Update, &owned, Some(&signed), "eve", any, "stays as it is"),
            (Update, &signed, Some(&signed), "eve", any, ""),
            (Delete, &signed, Some(&signed), "eve", any, "only who said it"),
            (Delete, &signed, Some(&signed), "alice", any, ""),
            (Delete, &signed, Some(&signed), "eve", root, ""),
            (Delete, &signed, Some(&signed), "", hub, ""),
        ];
        for (operation, object, old, who, writer, told) in table {
            let request = asked(operation, &kind, object, old);
            let answer = judge(&request, Subject::Word, None, &person(who), writer);
            let says = answer.as_ref().map_or("", |answer| answer.message());
            assert_eq!(says.is_empty(), told.is_empty(), "{operation:?} by {who}: {says}");
            assert!(says.contains(told), "{operation:?} by {who}: {says}");
        }
    }
}
