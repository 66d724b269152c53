//! A member cluster in memory, and a shell around the rules: reads, writes and loops.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use flagship_api::apply_strategy::ApplyStrategy;
use flagship_api::kinds::Scope;
use flagship_api::raw_json::RawJson;
use flagship_api::work::{
    AppliedWorkStatus, Work, WorkResourceIdentifier, WorkSpec, WorkloadTemplate,
};
use flagship_patch::{PatchError, builtin};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::apply::{
    ApplyOptions, GroupVersionKind, Look, Manifest, Mapping, Operation, Options, Outcome,
    PatchStyle, Refusal, RefusalKind, Removal, Report, RequeueBackOff, StatusWrite, Step, Timing,
    Unmapped, begin, complete, intent, map, read, reconsider, removal, report, types, waves,
};

/// What the shell does, as tests refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Find,
    FindWorks,
    DryRun,
    TakeOver,
    Create,
    Patch,
    Apply,
}

pub struct Fixture {
    pub now: Timestamp,
    pub work: Work,
    pub applied: AppliedWorkStatus,
    /// Objects on the member by `Kind name`.
    pub member: BTreeMap<String, Value>,
    /// Plural names of the kinds the member knows.
    pub kinds: BTreeMap<&'static str, &'static str>,
    /// Works on the hub.
    pub works: BTreeSet<String>,
    /// Answers that are refusals, each for one time.
    pub refusals: Vec<(Verb, Refusal)>,
    /// What was done on the member, in order.
    pub log: Vec<String>,
    pub options: Options,
    pub back_off: RequeueBackOff,
    pub wait: SignedDuration,
    /// Writes of the hub's status so far.
    pub reports: usize,
    /// Writes until the agent crashes.
    pub fuel: usize,
    revision: u64,
}

pub fn start() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}, "data": data})
}

pub fn deployment(image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "app"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]}}}})
}

pub fn custom(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "app"}, "spec": spec})
}

pub fn foreign_owner(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("{name}-uid")})
}

/// A reference to the AppliedWork of another Work.
pub fn applied_work(name: &str) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": name,
        "uid": format!("{name}-uid"), "blockOwnerDeletion": true})
}

impl Fixture {
    pub fn new(strategy: Value, manifests: &[Value]) -> Self {
        let mut fixture = Self {
            now: start(),
            work: Work {
                metadata: ObjectMeta {
                    name: Some("work".into()),
                    namespace: Some("fleet-member-m1".into()),
                    generation: Some(0),
                    ..ObjectMeta::default()
                },
                spec: WorkSpec::default(),
                status: None,
            },
            applied: AppliedWorkStatus::default(),
            member: BTreeMap::new(),
            kinds: BTreeMap::from([
                ("ConfigMap", "configmaps"),
                ("Secret", "secrets"),
                ("Namespace", "namespaces"),
                ("Deployment", "deployments"),
                ("Service", "services"),
                ("Job", "jobs"),
                ("Role", "roles"),
                ("RoleBinding", "rolebindings"),
                ("CustomResourceDefinition", "customresourcedefinitions"),
                ("Widget", "widgets"),
            ]),
            works: BTreeSet::from(["work".to_owned()]),
            refusals: Vec::new(),
            log: Vec::new(),
            options: Options::default(),
            back_off: RequeueBackOff::default(),
            wait: SignedDuration::ZERO,
            reports: 0,
            fuel: usize::MAX,
            revision: 0,
        };
        fixture.strategy(strategy);
        fixture.manifests(manifests);
        fixture
    }

    pub fn strategy(&mut self, strategy: Value) {
        let strategy: ApplyStrategy = serde_json::from_value(strategy).unwrap();
        self.work.spec.apply_strategy = Some(strategy);
        self.bump();
    }

    pub fn manifests(&mut self, manifests: &[Value]) {
        let manifests = manifests.iter().map(|one| RawJson::of(one).unwrap()).collect();
        self.work.spec.workload = WorkloadTemplate { manifests };
        self.bump();
    }

    fn bump(&mut self) {
        *self.work.metadata.generation.get_or_insert_default() += 1;
    }

    pub fn terms(&self) -> ApplyOptions {
        ApplyOptions::new(self.work.spec.apply_strategy.as_ref(), "work", "work-uid")
    }

    /// Puts an object on the member as somebody else would.
    pub fn exists(&mut self, object: Value) {
        self.store(object);
    }

    /// Edits an object on the member by merge patch, as somebody else would.
    pub fn edit(&mut self, name: &str, patch: &Value) {
        let object = flagship_patch::merge(&self.member[name], patch).unwrap();
        self.store(object);
    }

    pub fn live(&self, name: &str) -> &Value {
        self.member.get(name).unwrap_or_else(|| panic!("no {name} on the member"))
    }

    pub fn refuse(&mut self, verb: Verb, kind: RefusalKind, message: &str) {
        self.refusals.push((verb, Refusal::new(kind, message)));
    }

    /// Stores an object as an API server would: what is the same is not stored again.
    fn store(&mut self, mut object: Value) -> Value {
        let name = name_of(&object);
        let old = self.member.get(&name).cloned();
        let bare = |object: &Value| {
            let mut copy = object.clone();
            let metadata = copy["metadata"].as_object_mut().unwrap();
            for field in ["resourceVersion", "generation", "uid"] {
                metadata.remove(field);
            }
            copy
        };
        if let Some(old) = &old
            && bare(old) == bare(&object)
        {
            return old.clone();
        }
        self.revision += 1;
        let generation =
            old.as_ref().map_or(0, |old| old["metadata"]["generation"].as_i64().unwrap_or(0));
        let changed = old.as_ref().is_none_or(|old| old.get("spec") != object.get("spec"));
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("uid".into(), json!(format!("{name}-uid")));
        metadata.insert("resourceVersion".into(), json!(self.revision.to_string()));
        metadata.remove("generation");
        if object.get("spec").is_some() {
            object["metadata"]["generation"] = json!(generation + i64::from(changed));
        }
        self.member.insert(name, object.clone());
        object
    }

    /// One write; none if the agent crashes before it.
    fn burn(&mut self) -> Option<()> {
        self.fuel = self.fuel.checked_sub(1)?;
        Some(())
    }

    /// One pass over the Work, as the shell makes it.
    pub fn pass(&mut self) -> Vec<Outcome> {
        self.try_pass().expect("no crash was asked for")
    }

    /// A pass that may end in a crash.
    pub fn try_pass(&mut self) -> Option<Vec<Outcome>> {
        let terms = self.terms();
        let mut manifests = self.read();
        if let Some(intent) = intent(&self.work, &self.applied, &terms, &manifests, self.now) {
            for left in &intent.left_overs {
                self.remove(left, &terms)?;
            }
            self.burn()?;
            let status = self.work.status.get_or_insert_default();
            status.manifest_conditions = intent.manifest_conditions;
        }
        let mut processed = BTreeMap::new();
        for at in waves(&manifests, &terms).into_iter().flatten() {
            processed.insert(at, self.try_process(&manifests[at], &terms)?);
        }
        let done: Vec<Outcome> = processed.values().cloned().collect();
        let again = reconsider(&manifests, &done);
        if !again.is_empty() {
            let found = self.look_up(&manifests.iter().filter_map(Manifest::kind).collect());
            map(&mut manifests, &found);
            for at in again.into_iter().filter(|at| manifests[*at].untried.is_none()) {
                processed.insert(at, self.try_process(&manifests[at], &terms)?);
            }
        }
        let outcomes = complete(&manifests, processed);
        let report = self.report(&terms, &outcomes)?;
        let generation = self.work.metadata.generation.unwrap();
        let look = Look::new(generation, &outcomes, report.settled);
        self.wait = self.back_off.next(&Timing::default(), &look);
        Some(outcomes)
    }

    pub fn read(&self) -> Vec<Manifest> {
        let mut manifests = read(&self.work.spec.workload.manifests);
        let found = self.look_up(&types(&manifests));
        map(&mut manifests, &found);
        manifests
    }

    fn look_up(
        &self,
        kinds: &BTreeSet<GroupVersionKind>,
    ) -> BTreeMap<GroupVersionKind, Result<Mapping, Unmapped>> {
        let one = |of: &GroupVersionKind| match self.kinds.get(of.kind.as_str()) {
            Some(plural) => {
                Ok(Mapping { resource: (*plural).to_owned(), scope: Scope::Namespaced })
            }
            None => Err(Unmapped::NoSuchKind),
        };
        kinds.iter().map(|of| (of.clone(), one(of))).collect()
    }

    fn remove(&mut self, left: &WorkResourceIdentifier, terms: &ApplyOptions) -> Option<()> {
        self.burn()?;
        let name = format!("{} {}", left.kind, left.name);
        match removal(self.member.get(&name), &terms.owner) {
            Removal::Nothing => self.log.push(format!("leave {name}")),
            Removal::Disown(object) => {
                self.log.push(format!("disown {name}"));
                self.store(object);
            }
            Removal::Delete { uid } => {
                assert_eq!(self.member[&name]["metadata"]["uid"], json!(uid));
                self.log.push(format!("delete {name}"));
                self.member.remove(&name);
            }
        }
        Some(())
    }

    fn refused(&mut self, verb: Verb) -> Option<Refusal> {
        let at = self.refusals.iter().position(|(refused, _)| *refused == verb)?;
        Some(self.refusals.remove(at).1)
    }

    /// Takes one manifest all the way.
    pub fn process(&mut self, manifest: &Manifest, terms: &ApplyOptions) -> Outcome {
        self.try_process(manifest, terms).expect("no crash was asked for")
    }

    fn try_process(&mut self, manifest: &Manifest, terms: &ApplyOptions) -> Option<Outcome> {
        let of = &manifest.identifier;
        let name = format!("{} {}", of.kind, of.name);
        let mut step = begin(manifest, terms);
        loop {
            step = match step {
                Step::Done(outcome) => return Some(*outcome),
                Step::Find(find) => {
                    let found = self.refused(Verb::Find);
                    find.answer(found.map_or_else(|| Ok(self.member.get(&name).cloned()), Err))
                }
                Step::FindWorks(find) => {
                    let refused = self.refused(Verb::FindWorks);
                    let there = find.names.intersection(&self.works).cloned().collect();
                    find.answer(refused.map_or(Ok(there), Err))
                }
                Step::DryRun(run) => {
                    let refused = self.refused(Verb::DryRun);
                    // Maps are merged and lists replaced, which is near enough.
                    let wished = flagship_patch::merge(&self.member[&name], &run.body).unwrap();
                    run.answer(refused.map_or(Ok(wished), Err))
                }
                Step::TakeOver(take) => {
                    self.burn()?;
                    let answer = self.act(Verb::TakeOver, &name, |_| Ok(take.object.clone()));
                    take.answer(answer)
                }
                Step::Write(write) => {
                    self.burn()?;
                    let answer = match write.operation.clone() {
                        Operation::Create { body } => self.act(Verb::Create, &name, |_| Ok(body)),
                        Operation::Patch { style, body } => {
                            self.act(Verb::Patch, &name, |live| patched(live, style, &body))
                        }
                        Operation::Apply { body, force } => {
                            let forced = if force { ", forced" } else { "" };
                            let apply = |live: &Value| flagship_patch::merge(live, &body);
                            let answer = self.act(Verb::Apply, &name, apply);
                            self.log.last_mut().unwrap().push_str(forced);
                            answer
                        }
                    };
                    write.answer(answer)
                }
            }
        }
    }

    fn act(
        &mut self,
        verb: Verb,
        name: &str,
        change: impl FnOnce(&Value) -> Result<Value, PatchError>,
    ) -> Result<Value, Refusal> {
        self.log.push(format!("{verb:?} {name}"));
        if let Some(refusal) = self.refused(verb) {
            return Err(refusal);
        }
        let live = self.member.get(name).cloned().unwrap_or(Value::Null);
        let refused = |why: PatchError| Refusal::new(RefusalKind::Other, why.to_string());
        let object = change(&live).map_err(refused)?;
        let (asked, is) =
            (&object["metadata"]["resourceVersion"], &live["metadata"]["resourceVersion"]);
        if verb != Verb::Create && asked != is {
            return Err(Refusal::new(RefusalKind::Conflict, "the object has been modified"));
        }
        Ok(self.store(object))
    }

    fn report(&mut self, terms: &ApplyOptions, outcomes: &[Outcome]) -> Option<Report> {
        let report = report(&self.work, &self.applied, terms, outcomes, self.options, self.now);
        for write in report.writes.clone() {
            self.burn()?;
            match write {
                StatusWrite::Work(status) => {
                    self.reports += 1;
                    self.work.status = Some(status);
                }
                StatusWrite::AppliedWork(status) => self.applied = status,
            }
        }
        Some(report)
    }

    pub fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// The status as a person reads it.
    pub fn told(&self) -> String {
        let status = self.work.status.clone().unwrap_or_default();
        let mut text = String::new();
        for condition in &status.conditions {
            writeln!(
                text,
                "{}={} {}: {}",
                condition.type_, condition.status, condition.reason, condition.message
            )
            .unwrap();
        }
        for entry in &status.manifest_conditions {
            let of = &entry.identifier;
            let line = format!("#{} {} {}", of.ordinal, of.kind, of.name);
            writeln!(text, "{}", line.trim_end()).unwrap();
            for condition in &entry.conditions {
                let generation = condition.observed_generation.unwrap_or(0);
                let (of_type, is, reason) =
                    (&condition.type_, &condition.status, &condition.reason);
                writeln!(text, "  {of_type}={is} {reason} @{generation}: {}", condition.message)
                    .unwrap();
            }
            let drifts = entry.drift_details.iter().flat_map(|found| &found.observed_drifts);
            let diffs = entry.diff_details.iter().flat_map(|found| &found.observed_diffs);
            for (word, detail) in drifts.map(|d| ("drift", d)).chain(diffs.map(|d| ("diff", d))) {
                let (member, hub) = (&detail.value_in_member, &detail.value_in_hub);
                writeln!(text, "  {word} {} member={member:?} hub={hub:?}", detail.path).unwrap();
            }
        }
        text
    }

    /// Reason of each manifest's Applied or DiffReported condition.
    pub fn reasons(&self) -> Vec<String> {
        let status = self.work.status.clone().unwrap_or_default();
        let first = |conditions: &[flagship_api::condition::Condition]| {
            let found = conditions.iter().find(|one| one.type_ != "Available");
            found.map(|one| one.reason.clone()).unwrap_or_default()
        };
        status.manifest_conditions.iter().map(|entry| first(&entry.conditions)).collect()
    }

    /// What was done since the last time somebody asked.
    pub fn done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

fn name_of(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", word(&object["kind"]), word(&object["metadata"]["name"]))
}

fn patched(live: &Value, style: PatchStyle, body: &Value) -> Result<Value, PatchError> {
    match style {
        PatchStyle::Merge => flagship_patch::merge(live, body),
        PatchStyle::Strategic => {
            let (api_version, kind) = (live["apiVersion"].as_str(), live["kind"].as_str());
            let (group, version) =
                api_version.unwrap().split_once('/').unwrap_or(("", api_version.unwrap()));
            let shape = builtin(group, version, kind.unwrap());
            assert!(shape.is_some(), "a strategic patch for a kind nobody knows");
            flagship_patch::strategic(live, body, shape)
        }
    }
}
