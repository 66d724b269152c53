//! The hub's admission webhooks, inside the process: an embedded hub refuses and fills in
//! what KubeFleet's does.
//!
//! The answers are those of `flagship_rules::admission`, and refusals read as if a webhook
//! had spoken. Guard rails, where an operator wants them, are asked first: they judge who
//! sends, whatever is sent. What an answer depends on is read from the cluster's own store, so that
//! nothing is asked over the wire and nothing can be unreachable.

mod approvals;

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::cluster::MemberCluster;
use flagship_api::decode::decode_value;
use flagship_api::kinds::Scope;
use flagship_api::names::member_namespace;
use flagship_api::placement::ClusterResourcePlacement;
use flagship_apiserver::registry::Registry;
use flagship_apiserver::rest::{Admission, ClusterHandle, Mutation, Review};
use flagship_base::machinery::status::ApiError;
use flagship_base::machinery::user::group;
use flagship_hub::admission::{Answer, Options, Request, ReviewContext, exported, service_exports};
use flagship_rules::admission::guard_rails::{self, GuardRail, Sender, guard_rails};
use flagship_rules::admission::records::{Writer, record};
use flagship_rules::admission::{self, Need, Neighbour, Operation};
use flagship_rules::placement::Placement;
use flagship_rules::placement::selection::Kind;
use flagship_runtime::client::ResourceType;
use flagship_runtime::effects::Kind as Kinded;
use flagship_store::{ObjectKey, Scope as Within, Store, Stored};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Admission of an embedded hub.
#[derive(Debug)]
pub struct HubAdmission {
    options: Options,
    guarding: Option<Guarding>,
}

/// What guard rails are asked with.
#[derive(Debug)]
struct Guarding {
    rails: Vec<GuardRail>,
    options: guard_rails::Options,
}

impl HubAdmission {
    /// Judges every write to the hub from now on.
    pub fn install(hub: &ClusterHandle, options: &flagship_hub::Options) {
        let guarding = options.guard_rails.clone();
        let guarding = guarding.map(|options| Guarding { rails: guard_rails(), options });
        hub.install_admission("fleet", Arc::new(Self { options: options.admission(), guarding }));
    }
}

impl Admission for HubAdmission {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        let (group, _) = group_version(review.api_version);
        if group == POLICY_GROUP && review.kind == "Freeze" && review.operation != "delete" {
            let (old, sender) = (review.old, review.caller.name.to_string());
            flagship_rules::policy::freeze::stamp(review.object, old, &sender);
        }
        approvals::complete(review);
        let Some(kind) = concerned(review) else { return Ok(()) };
        let request = request(&*review, &kind, &*review.object);
        let completed = request.as_ref().and_then(admission::complete);
        if let Some(completed) = completed {
            *review.object = completed;
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        if let Some(guarding) = &self.guarding {
            guarding.judge(review)?;
        }
        if group_version(review.api_version).0 == POLICY_GROUP {
            judge_record(review)?;
        }
        approvals::judge(review)?;
        let Some(kind) = concerned(review) else { return Ok(()) };
        let Some(request) = request(review, &kind, review.object) else { return Ok(()) };
        let context = look(review.store, review.registry, &request, self.options);
        let answer = match admission::review(&request, &context, self.options) {
            None | Some(Answer::Allowed(_)) => return Ok(()),
            Some(answer) => answer,
        };
        let says = match admission::judge_of(&request) {
            Some(webhook) => webhook.refusal(answer.message()),
            None => answer.message().to_owned(),
        };
        Err(refused(&answer, says))
    }
}

/// The API group of rollout policies, freezes and records.
const POLICY_GROUP: &str = flagship_api::keys::group::POLICY;

/// Keeps records of runs from everybody who comes from the network.
fn judge_record(review: &Review<'_>) -> Result<(), ApiError> {
    let (group, version) = group_version(review.api_version);
    let kind = Kind::new(group, version, review.kind);
    let Some(request) = request(review, &kind, review.object) else { return Ok(()) };
    match record(&request, writer(review)) {
        None => Ok(()),
        Some(answer) => Err(refused(&answer, answer.message().to_owned())),
    }
}

/// Who writes: whoever comes from the network is in one of two groups, impersonated or not.
fn writer<O>(review: &Review<'_, O>) -> Writer {
    let is_in = |group: &str| review.caller.groups.iter().any(|one| &**one == group);
    match is_in(group::AUTHENTICATED) || is_in(group::UNAUTHENTICATED) {
        false => Writer::Hub,
        true if is_in(group::MASTERS) => Writer::Administrator,
        true => Writer::Other,
    }
}

fn refused(answer: &Answer, says: String) -> ApiError {
    let reason = if answer.code() == 403 { "Forbidden" } else { "" };
    ApiError::new(answer.code(), reason, says)
}

impl Guarding {
    fn judge(&self, review: &Review<'_>) -> Result<(), ApiError> {
        let (group, version) = group_version(review.api_version);
        let kind = Kind::new(group, version, review.kind);
        let Some(request) = request(review, &kind, review.object) else { return Ok(()) };
        let Some(rail) = self.rails.iter().find(|rail| covers(rail, review, &request)) else {
            return Ok(());
        };
        let groups: Vec<&str> = review.caller.groups.iter().map(|group| &**group).collect();
        let sender = Sender { name: &review.caller.name, groups: &groups, sent_kind: &kind };
        let member: Option<MemberCluster> = guard_rails::member_of(&request).and_then(|name| {
            let members = table(&ResourceType::of::<MemberCluster>());
            let stored = review.store.get(&members, &ObjectKey::new("", name))?;
            read(&stored)
        });
        let identity = member.as_ref().map(|member| member.spec.identity.name.as_str());
        match guard_rails::judge(&request, &sender, identity, &self.options) {
            Answer::Allowed(_) => Ok(()),
            answer => Err(refused(&answer, rail.refusal(answer.message()))),
        }
    }
}

/// Whether a webhook of the guard rails would be shown the write, whatever version of its kind
/// it is sent in.
fn covers(rail: &GuardRail, review: &Review<'_>, request: &Request<'_>) -> bool {
    let Some(served) = review.registry.by_resource(review.resource) else { return false };
    let plural = match request.subresource {
        "" => served.plural.to_string(),
        sub => format!("{}/{sub}", served.plural),
    };
    let labels = (!request.namespace.is_empty()).then(|| {
        let space = review.store.get("namespaces", &ObjectKey::new("", request.namespace));
        let space: Option<Value> = space.and_then(|space| read(&space));
        let labels = space.map(|mut space| space["metadata"]["labels"].take());
        labels.and_then(|labels| serde_json::from_value(labels).ok()).unwrap_or_default()
    });
    let group = &request.kind.group;
    served.versions.iter().any(|version| {
        rail.covers(request.operation, (group, &version.gv.version, &plural), labels.as_ref())
    })
}

fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The kind under review, if anybody might have a word on it.
fn concerned<O>(review: &Review<'_, O>) -> Option<Kind> {
    if !review.subresource.is_empty() {
        return None;
    }
    let (group, version) = group_version(review.api_version);
    // Without its options: what an operator turned off is told apart by the rules.
    let mut all = admission::webhooks(Options::default());
    all.any(|webhook| webhook.group == group && webhook.kind == review.kind)
        .then(|| Kind::new(group, version, review.kind))
}

fn request<'a, O>(
    review: &'a Review<'_, O>,
    kind: &'a Kind,
    object: &'a Value,
) -> Option<Request<'a>> {
    let operation = match review.operation {
        "create" => Operation::Create,
        "update" => Operation::Update,
        "delete" => Operation::Delete,
        _ => return None,
    };
    Some(Request {
        operation,
        kind,
        subresource: review.subresource,
        namespace: review.namespace,
        name: review.name,
        object,
        old: review.old,
    })
}

/// Reads what the answer may depend on, and nothing else.
fn look(
    store: &Store,
    registry: &Registry,
    request: &Request<'_>,
    options: Options,
) -> ReviewContext {
    let mut context = ReviewContext::default();
    match admission::needs(request, options) {
        Need::Nothing => {}
        Need::Kinds => context.kinds = Some(Arc::new(selected(registry, request.object))),
        Need::Placement(name) => context.placement = placement(store, name),
        Need::ClusterOverrides => {
            context.overrides = neighbours(store, Within::All, Neighbour::of_cluster_override);
        }
        Need::Overrides(namespace) => {
            let beside = Within::Namespace(namespace);
            context.overrides = neighbours(store, beside, Neighbour::of_override);
        }
        Need::Exports(member) => context.exports = Some(Ok(exports(store, member))),
    }
    context
}

/// The kinds that a placement selects from, as far as they are served.
fn selected(registry: &Registry, placement: &Value) -> BTreeMap<Kind, Scope> {
    let terms = placement["spec"]["resourceSelectors"].as_array();
    let served = registry.all();
    let known = terms.into_iter().flatten().filter_map(|term| {
        let [group, version, kind] =
            ["group", "version", "kind"].map(|field| term[field].as_str().unwrap_or_default());
        let found = served
            .iter()
            .find(|served| &*served.kind == kind && served.served(group, version).is_some())?;
        let scope = if found.namespaced { Scope::Namespaced } else { Scope::Cluster };
        Some((Kind::new(group, version, kind), scope))
    });
    known.collect()
}

fn placement(store: &Store, name: &str) -> Option<Placement> {
    let key = ObjectKey::new("", name);
    let stored = store.get(&table(&ResourceType::of::<ClusterResourcePlacement>()), &key)?;
    let found: ClusterResourcePlacement = read(&stored)?;
    let status = found.status.clone().unwrap_or_default();
    Some(Placement::read(&found.metadata, &found.spec, &status))
}

/// The overrides that there are. One that cannot be read counts, too.
fn neighbours<K: Kinded>(
    store: &Store,
    which: Within<'_>,
    seen: impl Fn(&K) -> Neighbour,
) -> Vec<Neighbour> {
    let listed = store.list(&table(&ResourceType::of::<K>()), which).items;
    listed.iter().map(|stored| read(stored).as_ref().map(&seen).unwrap_or_default()).collect()
}

fn exports(store: &Store, member: &str) -> Vec<String> {
    let space = member_namespace(member);
    let listed = store.list(&table(&service_exports()), Within::Namespace(&space)).items;
    let read = listed.iter().filter_map(|stored| read::<Value>(stored));
    let staying = read.filter(|export| export["metadata"]["deletionTimestamp"].is_null());
    staying.map(|export| exported(&export)).collect()
}

/// Where the store keeps objects of the type.
fn table(of: &ResourceType) -> String {
    format!("{}.{}", of.plural, of.group)
}

fn read<K: DeserializeOwned>(stored: &Stored) -> Option<K> {
    decode_value(&serde_json::from_slice(&stored.json).ok()?).ok()
}
