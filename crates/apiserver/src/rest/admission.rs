//! Hooks that see every write: in-process counterparts of admission webhooks.
//!
//! Mutating hooks run after decoding and defaulting, before the kind's own preparation,
//! so that they cannot change what the path of the request may not. Validating hooks run
//! after the object has passed its own rules and only read it. Each sees what the ones
//! before it left. A refusal ends the request.
//!
//! Webhooks and admission policies that users create are asked after them: `dynamic_admission`.

use flagship_base::machinery::status::ApiError;
use flagship_store::{Expect, Store, Stored};
use serde_json::Value;

use super::cluster::{Caller, Cluster, Ctx, Place};
use super::draft::PreparedObject;
use super::options::{DeleteOptions, WriteOptions};
use super::subresource::Sub;
use super::{meta, rules};
use crate::registry::Registry;

/// A write under review. Validating hooks read the object, mutating ones get [`Mutation`].
pub struct Review<'a, O = &'a Value> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// The cluster's objects, for hooks that look at others than the one written.
    pub store: &'a Store,
    /// The kinds the cluster serves.
    pub registry: &'a Registry,
    /// `create`, `update` or `delete`; patches come as what they amount to.
    pub operation: &'static str,
    /// `plural.group`.
    pub resource: &'a str,
    /// Kind as written in manifests.
    pub kind: &'a str,
    /// Group and version of the request.
    pub api_version: &'a str,
    /// Such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Who asks.
    pub caller: &'a Caller,
    /// Nothing will be committed; hooks must not act either.
    pub dry_run: bool,
    /// The object as it will be; for deletes, as it is.
    pub object: O,
    /// The object as it is; absent on create.
    pub old: Option<&'a Value>,
    /// What to tell the client in `Warning` headers.
    pub warnings: &'a mut Vec<String>,
}

/// A write whose object may still be changed.
pub type Mutation<'a> = Review<'a, &'a mut Value>;

/// A hook.
pub trait Admission: Send + Sync {
    /// May change the object, or refuse it. What the server owns is put back afterwards.
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        _ = review;
        Ok(())
    }

    /// May refuse the object. Other writes may be committed before this one.
    ///
    /// The object can only be read, so that nothing is stored which was not validated:
    ///
    /// ```compile_fail,E0594
    /// use flagship_apiserver::rest::Review;
    /// fn validate(review: &mut Review<'_>) {
    ///     *review.object = serde_json::Value::Null;
    /// }
    /// ```
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        _ = review;
        Ok(())
    }

    /// Whether the hook wants the last word on a write; asked before every commit.
    fn wants_last_word(&self, review: &Review<'_>) -> bool {
        _ = review;
        false
    }

    /// May refuse the object at the moment of its commit. No other write on which a hook has
    /// a last word is committed meanwhile, so what was counted here stays true. Must be
    /// quick; it is too late for warnings.
    fn last_word(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        _ = review;
        Ok(())
    }
}

/// The hooks of a cluster, ready for the stages of one write.
pub(super) struct Hooks<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) caller: &'a Caller,
    pub(super) place: &'a Place,
    pub(super) operation: &'static str,
    pub(super) sub: Sub,
    pub(super) dry_run: bool,
    /// What the client asked for besides. Without any, webhooks and policies are not asked:
    /// it is the server's own write, or they have been.
    pub(super) options: Option<Options<'a>>,
}

/// Options of the request behind a write.
#[derive(Clone, Copy)]
pub(super) enum Options<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// Of a connection: they are its object.
    Connect,
}

impl Hooks<'_> {
    /// Lets every hook change the object, then every webhook.
    pub(super) async fn mutate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let (name, namespace) = place_of(object);
        for hook in self.cluster.admission().iter() {
            let mut review = self.review(&mut *object, (&name, &namespace), old, warnings);
            hook.mutate(&mut review)?;
        }
        self.ask_to_mutate(object, old, warnings).await
    }

    /// Lets every hook refuse the object, then policies and webhooks.
    pub(super) async fn validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        self.hooks_validate(object, old, warnings)?;
        self.ask_to_validate(object, old, warnings).await
    }

    /// Lets the hooks inside the process refuse the object.
    pub(super) fn hooks_validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let (name, namespace) = place_of(object);
        for hook in self.cluster.admission().iter() {
            hook.validate(&mut self.review(object, (&name, &namespace), old, warnings))?;
        }
        Ok(())
    }

    /// The hooks of a request below an object that stores nothing itself.
    pub(super) fn below<'a>(
        ctx: &Ctx<'a>,
        operation: &'static str,
        sub: Sub,
        options: Options<'a>,
    ) -> Hooks<'a> {
        let Ctx { cluster, caller, place, .. } = *ctx;
        let dry_run = matches!(options, Options::Write(options) if options.dry_run);
        Hooks { cluster, caller, place, operation, sub, dry_run, options: Some(options) }
    }

    /// The hooks of a write that is about to be committed.
    pub(super) fn at_commit<'a>(
        ctx: &Ctx<'a>,
        expect: Expect,
        draft: &PreparedObject,
    ) -> Hooks<'a> {
        let operation = if expect == Expect::Absent { "create" } else { "update" };
        let Ctx { cluster, caller, place, .. } = *ctx;
        Hooks { cluster, caller, place, operation, sub: draft.sub, dry_run: false, options: None }
    }

    /// Whether a hook has a last word on the object.
    pub(super) fn have_a_last_word(&self, object: &Value) -> bool {
        let hooks = self.cluster.admission();
        if hooks.is_empty() {
            return false;
        }
        let (name, namespace) = place_of(object);
        let mut warnings = Vec::new();
        let review = self.review(object, (&name, &namespace), None, &mut warnings);
        hooks.iter().any(|hook| hook.wants_last_word(&review))
    }

    /// Lets the hooks that want to refuse the object that stands to be committed.
    pub(super) fn last_word(&self, object: &Value, there: Option<&Stored>) -> Result<(), ApiError> {
        let (name, namespace) = place_of(object);
        let old = there
            .map(|there| rules::current(&self.place.served, self.place.served.kind.storage, there))
            .transpose()?;
        let mut warnings = Vec::new();
        for hook in self.cluster.admission().iter() {
            let mut review = self.review(object, (&name, &namespace), old.as_ref(), &mut warnings);
            if hook.wants_last_word(&review) {
                hook.last_word(&mut review)?;
            }
        }
        Ok(())
    }

    fn review<'a, O>(
        &'a self,
        object: O,
        (name, namespace): (&'a str, &'a str),
        old: Option<&'a Value>,
        warnings: &'a mut Vec<String>,
    ) -> Review<'a, O> {
        let served = &self.place.served;
        Review {
            cluster: &self.cluster.name,
            store: &self.cluster.store,
            registry: &self.cluster.registry,
            operation: self.operation,
            resource: &served.kind.resource,
            kind: &served.kind.kind,
            api_version: &served.version().api_version,
            subresource: self.sub.name(),
            namespace,
            name,
            caller: self.caller,
            dry_run: self.dry_run,
            object,
            old,
            warnings,
        }
    }
}

fn place_of(object: &Value) -> (String, String) {
    (meta::text(object, "name").to_owned(), meta::text(object, "namespace").to_owned())
}
