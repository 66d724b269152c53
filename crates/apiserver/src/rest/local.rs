//! The API without HTTP, for controllers inside the process.
//!
//! Every call goes through the same pipeline as a request: faults, validation, hooks,
//! managedFields and the trace. Resources are named as in `deployments.apps`; objects
//! are in their storage version. A connection cut by a fault is an error with code 0
//! and reason `ConnectionReset`: whether the write happened is then unknown.

use std::sync::Arc;

use flagship_base::machinery::status::ApiError;
use flagship_base::selector;
use flagship_store::env::{Env, Point};
use flagship_store::{Stored, Subscription, WatchFrom};
use serde_json::Value;

use super::cluster::{Caller, Cluster, Ctx, Place};
use super::delete;
use super::failure::Failure;
use super::meta;
use super::options::{DeleteOptions, ListOptions, WriteOptions};
use super::patching::PatchKind;
use super::subresource::Sub;
use super::write::{self, Source, Written};
use super::{read, rules, watch};

/// The in-process API of one cluster for one controller.
#[derive(Clone)]
pub struct Local {
    cluster: Arc<Cluster>,
    caller: Arc<Caller>,
}

impl Local {
    pub(super) fn new(cluster: Arc<Cluster>, caller: Caller) -> Self {
        Self { cluster, caller: Arc::new(caller) }
    }

    /// Time, chance and failure, as this cluster sees them.
    pub fn env(&self) -> &Env {
        &self.cluster.env
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.cluster.name
    }

    /// One object. `namespace` is empty for cluster-scoped kinds.
    pub async fn get(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, ApiError> {
        let stored = self.get_stored(resource, namespace, name).await?;
        match self.cluster.registry.stored(resource) {
            Some(served) => rules::current(&served, served.version, &stored),
            None => write::parse(&stored),
        }
    }

    /// One object as it is stored, unparsed.
    pub async fn get_stored(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        let place = self.place(resource, namespace, name)?;
        let ctx = self.ctx("get", &place);
        run(&ctx, async { Ok(read::get(&ctx, None)?) }, |stored| (stored.revision, 200)).await
    }

    /// All objects of a kind, in one namespace or in all, with the revision of the list.
    pub async fn list(
        &self,
        resource: &str,
        namespace: Option<&str>,
        label_selector: Option<&str>,
    ) -> Result<(u64, Vec<Arc<Stored>>), ApiError> {
        let place = self.place(resource, namespace.unwrap_or_default(), "")?;
        let ctx = self.ctx("list", &place);
        let labels = selector::Selector::parse(label_selector.unwrap_or_default())
            .map_err(ApiError::bad_request)?;
        let options = ListOptions { labels, ..ListOptions::default() };
        let page =
            run(&ctx, async { Ok(read::list(&ctx, &options)?) }, |page| (page.revision, 200));
        let page = page.await?;
        Ok((page.revision, page.items))
    }

    /// Creates an object. `namespace` is empty for cluster-scoped kinds.
    pub async fn create(
        &self,
        resource: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        self.create_with(resource, namespace, object, &WriteOptions::default()).await
    }

    /// Creates an object with options.
    pub async fn create_with(
        &self,
        resource: &str,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let mut place = self.place(resource, namespace, "")?;
        place.name = meta::text(&object, "name").into();
        let ctx = self.ctx("create", &place);
        let work = write::create(&ctx, object.into(), options);
        Ok(run(&ctx, work, |written| (written.revision, 201)).await?.value)
    }

    /// Replaces an object. With a `resourceVersion` in it, only if it is still that one.
    pub async fn update(&self, resource: &str, object: Value) -> Result<Value, ApiError> {
        self.replace(resource, object, Sub::Main).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, resource: &str, object: Value) -> Result<Value, ApiError> {
        self.replace(resource, object, Sub::Status).await
    }

    /// Replaces the finalizers in a namespace's spec, so that it can go.
    pub async fn finalize_namespace(&self, object: Value) -> Result<Value, ApiError> {
        self.replace("namespaces", object, Sub::Finalize).await
    }

    /// Puts a pod on a node, as a scheduler does. A pod is assigned once.
    pub async fn bind_pod(&self, namespace: &str, name: &str, node: &str) -> Result<(), ApiError> {
        let place = self.place("pods", namespace, name)?;
        let ctx = self.ctx("bind", &place);
        let body = serde_json::json!({"target": {"kind": "Node", "name": node}});
        let options = WriteOptions::default();
        let work = super::pods::bind(&ctx, &body, &options);
        run(&ctx, work, |()| (0, 201)).await
    }

    async fn replace(&self, resource: &str, object: Value, sub: Sub) -> Result<Value, ApiError> {
        let (namespace, name) = (meta::text(&object, "namespace"), meta::text(&object, "name"));
        if name.is_empty() {
            return Err(ApiError::bad_request("name must be provided"));
        }
        let place = self.place(resource, namespace, name)?;
        if Sub::of(&place.served, sub.name()) != Some(sub) {
            return Err(place.not_found());
        }
        let ctx = self.ctx("update", &place);
        let source = Source::Object(object.into());
        let options = WriteOptions::default();
        let work = write::update(&ctx, source, sub, &options);
        Ok(run(&ctx, work, |written| (written.revision, 200)).await?.value)
    }

    /// Patches an object, or the subresource named; empty means the object itself.
    #[allow(clippy::too_many_arguments)] // the seven parts of a PATCH request
    pub async fn patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        kind: PatchKind,
        patch: Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let place = self.place(resource, namespace, name)?;
        if kind == PatchKind::Strategic && place.served.kind.row().is_none() {
            PatchKind::from_media("application/strategic-merge-patch+json", true)?;
        }
        let sub = Sub::of(&place.served, subresource).ok_or_else(|| place.not_found())?;
        if kind != PatchKind::Apply {
            kind.check(options)?;
        }
        let ctx = self.ctx("patch", &place);
        let source = Source::Patch(kind.with(patch));
        let work = write::update(&ctx, source, sub, options);
        Ok(run(&ctx, work, |written: &Written| (written.revision, 200)).await?.value)
    }

    /// Deletes an object, or marks it. Returns it as it then is, or as it last was.
    pub async fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<Value, ApiError> {
        let place = self.place(resource, namespace, name)?;
        let ctx = self.ctx("delete", &place);
        let work = delete::delete(&ctx, &options);
        Ok(run(&ctx, work, |done| (done.object.revision, 200)).await?.object.value)
    }

    /// The changes of a kind after a revision; 410 `Expired` when that is too long ago.
    pub async fn watch(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: u64,
    ) -> Result<Subscription, ApiError> {
        let place = self.place(resource, namespace.unwrap_or_default(), "")?;
        let ctx = self.ctx("watch", &place);
        let options = ListOptions::default();
        let work = async {
            let filter = watch::filter(&ctx, &options);
            let resource = &place.served.kind.resource;
            let from = WatchFrom::After(after);
            watch::check_future(&ctx.cluster.store, after)?;
            let begun = ctx.cluster.store.watch_as(resource, from, filter, &ctx.call());
            Ok(begun.map_err(|why| ApiError::expired(why.to_string()))?)
        };
        run(&ctx, work, |_| (after, 200)).await
    }

    fn ctx<'a>(&'a self, verb: &'static str, place: &'a Place) -> Ctx<'a> {
        Ctx { cluster: &self.cluster, caller: &self.caller, verb, place }
    }

    fn place(&self, resource: &str, namespace: &str, name: &str) -> Result<Place, ApiError> {
        let served = self.cluster.registry.stored(resource).ok_or_else(|| {
            let says = "the server could not find the requested resource";
            ApiError::new(404, "NotFound", format!("{says} ({resource})"))
        })?;
        let namespace = if served.kind.namespaced { namespace } else { "" };
        Ok(Place { served, namespace: namespace.into(), name: name.into() })
    }
}

/// Takes a request past the first fault point, does the work and notes the outcome.
pub(super) async fn run<T>(
    ctx: &Ctx<'_>,
    work: impl Future<Output = Result<T, Failure>>,
    outcome: impl FnOnce(&T) -> (u64, u16),
) -> Result<T, ApiError> {
    traced(ctx, work, outcome).await.map_err(Failure::into_error)
}

/// The same, for callers that can show a cut connection.
pub(super) async fn traced<T>(
    ctx: &Ctx<'_>,
    work: impl Future<Output = Result<T, Failure>>,
    outcome: impl FnOnce(&T) -> (u64, u16),
) -> Result<T, Failure> {
    let result = match arrive(ctx).await {
        Ok(()) => work.await,
        Err(failure) => Err(failure),
    };
    if matches!(result, Err(Failure::Refused(_))) && !matches!(ctx.verb, "get" | "list" | "watch") {
        // A refusal may speak of what readers do not see yet. Whoever reads after it finds it
        // so, or the disk fails, which others are told.
        drop(ctx.cluster.store.settled(ctx.cluster.store.last_commit()).await);
    }
    let (revision, code) = match &result {
        Ok(done) => outcome(done),
        Err(failure) => (0, failure.code()),
    };
    ctx.record(revision, code);
    result
}

async fn arrive(ctx: &Ctx<'_>) -> Result<(), Failure> {
    ctx.pass(Point::Request).await?;
    Ok(ctx.cluster.check_open()?)
}
