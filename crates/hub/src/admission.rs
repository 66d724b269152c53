//! Answers admission requests: `flagship_rules::admission`, with what it has to know read
//! from the server.
//!
//! Needs no mirror and no lease, so that every replica of a hub may answer. A webhook
//! server turns reviews into [`Request`]s; an embedded server reads its own store into
//! [`ReviewContext`] and asks the rules itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::approval_decision::Person;
use flagship_api::cluster::MemberCluster;
use flagship_api::keys::own;
use flagship_api::kinds::Scope;
use flagship_api::names::{ObjectKey, member_namespace};
use flagship_api::placement::ClusterResourcePlacement;
use flagship_api::rollout_policy::RolloutPolicy;
use flagship_api::staged_update::{ClusterStagedUpdateRun, StagedUpdateRun};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::admission::approvals::{self, Subject};
use flagship_rules::admission::guard_rails::{self, Sender};
use flagship_rules::admission::records::Writer;
use flagship_rules::admission::{self, Context, Need, Neighbour};
use flagship_rules::placement::Placement;
use flagship_rules::placement::selection::Kind;
use flagship_rules::update_run::Run;
use flagship_runtime::client::{Client, ClientError, ResourceType, Selection};
use flagship_runtime::dynamic::discover;
use flagship_runtime::effects::Kind as Kinded;
use kube_core::DynamicObject;
use serde_json::Value;
use tokio::time::Instant;

use crate::placement::no_matches;

pub use flagship_rules::admission::{Answer, Options, Request};

/// How long an answer of discovery is believed.
const FRESH: Duration = Duration::from_secs(30);

/// How soon discovery is asked again for a kind that it did not know.
const RECENT: Duration = Duration::from_secs(1);

/// Answers admission requests about one hub. Clones share what was discovered.
#[derive(Clone)]
pub struct Admission {
    client: Client,
    options: Options,
    kinds: Arc<Mutex<Option<Discovery>>>,
}

#[derive(Clone)]
struct Discovery {
    at: Instant,
    kinds: Arc<BTreeMap<Kind, Scope>>,
}

/// What was read for one request: whatever it [needs](Need).
#[derive(Default)]
pub struct ReviewContext {
    /// The kinds that are served, if the server said.
    pub kinds: Option<Arc<BTreeMap<Kind, Scope>>>,
    /// The placement that the request is about.
    pub placement: Option<Placement>,
    /// What the member exports.
    pub exports: Option<Result<Vec<String>, String>>,
    /// The overrides beside the one that is asked for.
    pub overrides: Vec<Neighbour>,
}

impl Admission {
    /// Reads with this client.
    pub fn new(client: &Client, options: Options) -> Self {
        Self { client: client.clone(), options, kinds: Arc::default() }
    }

    /// Judges a request; `None` if nobody has a word on it.
    pub async fn review(&self, request: &Request<'_>) -> Option<Answer> {
        let context = match self.look(request).await {
            Ok(context) => context,
            Err(error) => return Some(Answer::Failed(format!("please retry: {error}"))),
        };
        admission::review(request, &context, self.options)
    }

    /// Judges a request by who sends it.
    pub async fn guard(
        &self,
        request: &Request<'_>,
        sender: &Sender<'_>,
        options: &guard_rails::Options,
    ) -> Answer {
        let member = match guard_rails::member_of(request) {
            Some(name) => {
                let members = self.client.of::<MemberCluster>();
                members.find(&ObjectKey::cluster(name)).await.unwrap_or_else(|error| {
                    // The rules let pass what belongs to nobody they know.
                    tracing::warn!(%error, member = name, "whose namespace it is cannot be read");
                    None
                })
            }
            None => None,
        };
        let identity = member.as_ref().map(|member| member.spec.identity.name.as_str());
        guard_rails::judge(request, sender, identity, options)
    }

    /// The object with what admission writes about its sender; nothing if there is nothing. Where
    /// nobody knows the hub by its name, its own annotations may be those of others.
    pub async fn sign(
        &self,
        request: &Request<'_>,
        person: &Person,
        knows_hub: bool,
    ) -> Option<Value> {
        match approvals::subject(request)? {
            Subject::Word => approvals::sign(request, person),
            Subject::Run => {
                let listed = self.client.of::<RolloutPolicy>().list(&Selection::all()).await;
                // Whoever is not noted counts as unknown where somebody asks.
                let policies = listed.map_or_else(|_| Vec::new(), |listed| listed.items);
                let wanted = approvals::want_authors(&policies);
                let mut kept = approvals::note_authors(request, person, wanted);
                let adopted = &request.object["metadata"]["annotations"][own::ADOPTED_POLICIES];
                if !knows_hub && !adopted.is_null() {
                    kept["metadata"]["annotations"][own::ADOPTED_POLICIES] = adopted.clone();
                }
                Some(kept)
            }
            Subject::Request if request.subresource == "status" => {
                let run = self.asking_run(request).await.ok()??;
                approvals::stamp_status(request, &run, person)
            }
            Subject::Request | Subject::RunStatus => None,
        }
    }

    /// Judges by who sends it a write that concerns approvals; `None` if it does not.
    pub async fn vouch(
        &self,
        request: &Request<'_>,
        person: &Person,
        hub: Option<&str>,
    ) -> Option<Answer> {
        let subject = approvals::subject(request)?;
        let run = match subject {
            Subject::Request => match self.asking_run(request).await {
                Ok(run) => run,
                Err(error) => return Some(Answer::Failed(format!("please retry: {error}"))),
            },
            Subject::RunStatus => {
                request.old.and_then(|old| approvals::run_in(old, request.namespace))
            }
            _ => None,
        };
        let groups: Vec<&str> = person.groups.iter().map(String::as_str).collect();
        let writer = match hub {
            None if subject == Subject::Request && approvals::looks_like_the_hub(request) => {
                Writer::Hub
            }
            hub => Writer::of(&person.user, &groups, hub.unwrap_or("system:nobody")),
        };
        let refused = approvals::judge(request, subject, run.as_ref(), person, writer);
        Some(refused.unwrap_or_else(|| Answer::Allowed(String::new())))
    }

    /// The run that asks for an approval.
    async fn asking_run(&self, request: &Request<'_>) -> Result<Option<Run>, ClientError> {
        let Some(name) = approvals::run_of(request) else { return Ok(None) };
        let read = |metadata: &_, spec: &_, status: Option<UpdateRunStatus>| {
            Run::read(metadata, spec, &status.unwrap_or_default())
        };
        if request.namespace.is_empty() {
            let key = ObjectKey::cluster(name);
            let found = self.client.of::<ClusterStagedUpdateRun>().find(&key).await?;
            return Ok(found.map(|run| read(&run.metadata, &run.spec, run.status)));
        }
        let key = ObjectKey::namespaced(request.namespace, name);
        let found = self.client.of::<StagedUpdateRun>().find(&key).await?;
        Ok(found.map(|run| read(&run.metadata, &run.spec, run.status)))
    }

    /// The object with everything filled in that its sender left out, if anything was.
    pub fn complete(&self, request: &Request<'_>) -> Option<Value> {
        admission::complete(request)
    }

    /// Reads what the answer may depend on, and nothing else.
    async fn look(&self, request: &Request<'_>) -> Result<ReviewContext, ClientError> {
        let mut context = ReviewContext::default();
        match admission::needs(request, self.options) {
            Need::Nothing => {}
            Need::Kinds => context.kinds = self.kinds(request.object).await,
            Need::Placement(name) => context.placement = self.placement(name).await?,
            Need::ClusterOverrides => {
                let read = Neighbour::of_cluster_override;
                context.overrides = self.neighbours(Selection::all(), read).await?;
            }
            Need::Overrides(namespace) => {
                let beside = Selection::namespace(namespace);
                context.overrides = self.neighbours(beside, Neighbour::of_override).await?;
            }
            Need::Exports(member) => {
                context.exports = Some(self.exports(member).await.map_err(|e| e.to_string()));
            }
        }
        Ok(context)
    }

    /// The kinds of the server, looked for again if the placement names one that is not
    /// among them. `None` if the server does not say.
    async fn kinds(&self, placement: &Value) -> Option<Arc<BTreeMap<Kind, Scope>>> {
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            let age = known.at.elapsed();
            if age < RECENT || age < FRESH && names_only(placement, &known.kinds) {
                return Some(known.kinds);
            }
        }
        let found = discover(&self.client).await;
        if found.blind || !found.is_sure_about("") {
            return None;
        }
        let kinds = found.types.into_values().map(|served| {
            let of = &served.resource;
            (Kind::new(&of.group, &of.version, &of.kind), served.scope)
        });
        let kinds: Arc<BTreeMap<_, _>> = Arc::new(kinds.collect());
        let fresh = Discovery { at: Instant::now(), kinds: kinds.clone() };
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        Some(kinds)
    }

    async fn placement(&self, name: &str) -> Result<Option<Placement>, ClientError> {
        if name.is_empty() {
            return Ok(None);
        }
        let placements = self.client.of::<ClusterResourcePlacement>();
        match placements.get(&ObjectKey::cluster(name)).await {
            Ok(found) => {
                let status = found.status.clone().unwrap_or_default();
                Ok(Some(Placement::read(&found.metadata, &found.spec, &status)))
            }
            Err(ClientError::NotFound { .. } | ClientError::NotServed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The overrides that there are. One that cannot be read counts, too.
    async fn neighbours<K: Kinded>(
        &self,
        which: Selection,
        read: impl Fn(&K) -> Neighbour,
    ) -> Result<Vec<Neighbour>, ClientError> {
        let listed = self.client.of::<K>().list(&which).await?;
        let unreadable = listed.malformed.iter().map(|_| Neighbour::default());
        Ok(listed.items.iter().map(read).chain(unreadable).collect())
    }

    async fn exports(&self, member: &str) -> Result<Vec<String>, ClientError> {
        let space = Selection::namespace(&member_namespace(member));
        let exports = self.client.of_type::<DynamicObject>(service_exports());
        let listed = match exports.list(&space).await {
            Err(ClientError::NotServed { .. }) => return Ok(Vec::new()),
            listed => listed?,
        };
        let staying = listed.items.iter().filter(|o| o.metadata.deletion_timestamp.is_none());
        Ok(staying.map(|export| exported(&export.data)).collect())
    }
}

/// What networking agents leave of a service that a member exports.
pub fn service_exports() -> ResourceType {
    ResourceType {
        group: "networking.fleet.azure.com".to_owned(),
        version: "v1alpha1".to_owned(),
        plural: "internalserviceexports".to_owned(),
        kind: "InternalServiceExport".to_owned(),
    }
}

/// The service behind one of them, as `namespace/name`.
pub fn exported(export: &Value) -> String {
    let name = &export["spec"]["serviceReference"]["namespacedName"];
    name.as_str().unwrap_or_default().to_owned()
}

/// Whether the placement selects kinds that are known and no others.
fn names_only(placement: &Value, known: &BTreeMap<Kind, Scope>) -> bool {
    let terms = placement["spec"]["resourceSelectors"].as_array();
    terms.into_iter().flatten().all(|term| {
        let [group, version, kind] =
            ["group", "version", "kind"].map(|field| term[field].as_str().unwrap_or_default());
        known.contains_key(&Kind::new(group, version, kind))
    })
}

impl Context for ReviewContext {
    fn scope_of(&self, kind: &Kind) -> Option<Result<Option<Scope>, String>> {
        let kinds = self.kinds.as_ref()?;
        Some(kinds.get(kind).map(|scope| Some(*scope)).ok_or_else(|| no_matches(kind)))
    }

    fn placement(&self, name: &str) -> Option<Placement> {
        self.placement.clone().filter(|placement| placement.name == name)
    }

    fn exports(&self, _: &str) -> Result<Vec<String>, String> {
        self.exports.clone().unwrap_or_else(|| Ok(Vec::new()))
    }

    fn overrides(&self) -> Vec<Neighbour> {
        self.overrides.clone()
    }
}
