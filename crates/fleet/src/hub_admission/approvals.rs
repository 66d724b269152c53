//! Who approves on an embedded hub: the server knows who sends, and writes it down.

use flagship_api::approval_decision::Person;
use flagship_api::rollout_policy::RolloutPolicy;
use flagship_api::staged_update::{ClusterStagedUpdateRun, StagedUpdateRun};
use flagship_apiserver::rest::{Mutation, Review};
use flagship_base::machinery::status::ApiError;
use flagship_rules::admission::approvals::{self, Subject};
use flagship_rules::admission::records::Writer;
use flagship_rules::placement::selection::Kind;
use flagship_rules::update_run::Run;
use flagship_runtime::client::ResourceType;
use flagship_store::{ObjectKey, Scope as Within, Store};

use super::{group_version, read, refused, request, table, writer};

/// Writes on approvals and runs who sends them.
pub fn complete(review: &mut Mutation<'_>) {
    if writer(review) == Writer::Hub || review.operation == "delete" {
        return;
    }
    let kind = kind(review);
    let person = person(review);
    let Some(request) = request(&*review, &kind, &*review.object) else { return };
    let completed = match approvals::subject(&request) {
        Some(Subject::Word) => approvals::sign(&request, &person),
        Some(Subject::Run) => {
            let listed =
                review.store.list(&table(&ResourceType::of::<RolloutPolicy>()), Within::All);
            let policies: Vec<RolloutPolicy> =
                listed.items.iter().filter_map(|one| read(one)).collect();
            Some(approvals::note_authors(&request, &person, approvals::want_authors(&policies)))
        }
        Some(Subject::Request) if request.subresource == "status" => {
            let run = approvals::run_of(&request)
                .and_then(|name| stored_run(review.store, review.namespace, name));
            run.and_then(|run| approvals::stamp_status(&request, &run, &person))
        }
        _ => None,
    };
    if let Some(completed) = completed {
        *review.object = completed;
    }
}

/// Refuses what would get past the people who must approve.
pub fn judge(review: &Review<'_>) -> Result<(), ApiError> {
    let kind = kind(review);
    let Some(request) = request(review, &kind, review.object) else { return Ok(()) };
    let Some(subject) = approvals::subject(&request) else { return Ok(()) };
    let run = match subject {
        Subject::Request => approvals::run_of(&request)
            .and_then(|name| stored_run(review.store, review.namespace, name)),
        Subject::RunStatus => stored_run(review.store, review.namespace, review.name),
        Subject::Word | Subject::Run => None,
    };
    let person = person(review);
    match approvals::judge(&request, subject, run.as_ref(), &person, writer(review)) {
        None => Ok(()),
        Some(answer) => {
            let webhook = approvals::webhook(&request);
            let says = webhook.map(|webhook| webhook.refusal(answer.message()));
            Err(refused(&answer, says.unwrap_or_else(|| answer.message().to_owned())))
        }
    }
}

fn kind<O>(review: &Review<'_, O>) -> Kind {
    let (group, version) = group_version(review.api_version);
    Kind::new(group, version, review.kind)
}

fn person<O>(review: &Review<'_, O>) -> Person {
    Person {
        user: review.caller.name.to_string(),
        uid: review.caller.uid.to_string(),
        groups: review.caller.groups.iter().map(ToString::to_string).collect(),
    }
}

fn stored_run(store: &Store, namespace: &str, name: &str) -> Option<Run> {
    let kind = match namespace {
        "" => ResourceType::of::<ClusterStagedUpdateRun>(),
        _ => ResourceType::of::<StagedUpdateRun>(),
    };
    let found = store.get(&table(&kind), &ObjectKey::new(namespace, name))?;
    approvals::run_in(&serde_json::from_slice(&found.json).ok()?, namespace)
}
