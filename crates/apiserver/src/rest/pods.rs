//! `pods/binding` and `pods/eviction`, small requests that change a pod on the way; and what
//! stands in place of a log.

use flagship_base::machinery::query::Query;
use flagship_base::machinery::status::ApiError;
use flagship_base::selector;
use flagship_store::Scope;
use serde_json::{Value, json};

use super::admission::{Hooks, Options};
use super::cluster::{Ctx, Place};
use super::failure::Failure;
use super::options::{DeleteOptions, WriteOptions};
use super::patching::Patch;
use super::subresource::Sub;
use super::write::{self, Source};
use super::{delete, meta};

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// The container that a request means, which may leave out the name of the only one.
/// `first` tells apart those that run first where a choice is offered.
pub(super) fn container<'p>(
    pod: &'p Value,
    wanted: &str,
    first: bool,
) -> Result<&'p str, ApiError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let items = |path| items(pod, path);
    let mut containers = ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"]
        .into_iter()
        .flat_map(items)
        .filter_map(|container| container["name"].as_str());
    let names = |path| items(path).filter_map(|item| item["name"].as_str()).collect::<Vec<_>>();
    let (own, before) = (names("/spec/containers"), names("/spec/initContainers"));
    if wanted.is_empty() && own.len() > 1 {
        let (all, apart) = match first {
            true => (own, before),
            false => (before.into_iter().chain(own).collect(), Vec::new()),
        };
        let mut says = format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        );
        if !apart.is_empty() {
            says += &format!(" or one of the init containers: [{}]", apart.join(" "));
        }
        return Err(ApiError::bad_request(says));
    }
    let found = match wanted {
        "" => containers.next(),
        wanted => containers.find(|name| *name == wanted),
    };
    found.ok_or_else(|| {
        ApiError::bad_request(format!("container {wanted} is not valid for pod {name}"))
    })
}

fn items<'p>(pod: &'p Value, path: &'static str) -> impl Iterator<Item = &'p Value> {
    pod.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// What stands in place of the log of a container; refused where a real one has none either.
pub(super) fn log(pod: &Value, wanted: &str, previous: bool) -> Result<String, ApiError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let container = container(pod, wanted, true)?;
    if previous {
        let says = format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(ApiError::bad_request(says));
    }
    let status =
        items(pod, "/status/containerStatuses").find(|status| status["name"] == *container);
    if let Some(reason) = status.and_then(|status| status["state"]["waiting"]["reason"].as_str()) {
        let why = match reason {
            "ErrImagePull" | "ImagePullBackOff" => "trying and failing to pull image",
            other => other,
        };
        let says = format!("container {container:?} in pod {name:?} is waiting to start: {why}");
        return Err(ApiError::bad_request(says));
    }
    Ok(format!(
        "flagship: containers are simulated here, so {container:?} in pod {name:?} writes no log\n"
    ))
}

/// Asks webhooks and policies about a binding or an eviction. Returns warnings.
pub(super) async fn ask(
    ctx: &Ctx<'_>,
    sub: Sub,
    body: &mut Value,
    options: &WriteOptions,
) -> Result<Vec<String>, ApiError> {
    let (version, kind) = match sub {
        Sub::Eviction => ("policy/v1", "Eviction"),
        _ => ("v1", "Binding"),
    };
    let metadata = meta::of_mut(body);
    metadata.insert("name".to_owned(), json!(ctx.place.name));
    metadata.insert("namespace".to_owned(), json!(ctx.place.namespace));
    body["apiVersion"] = json!(version);
    body["kind"] = json!(kind);
    let hooks = Hooks::below(ctx, "create", sub, Options::Write(options));
    let mut warnings = Vec::new();
    hooks.ask(body, &mut warnings).await?;
    Ok(warnings)
}

/// Assigns a pod to a node. A pod is assigned once.
pub(super) async fn bind(
    ctx: &Ctx<'_>,
    body: &Value,
    options: &WriteOptions,
) -> Result<(), Failure> {
    let node = body["target"]["name"].as_str().unwrap_or_default();
    let kind = body["target"]["kind"].as_str().unwrap_or("Node");
    if node.is_empty() || !matches!(kind, "" | "Node") {
        let says = "a binding needs a target of kind Node with a name";
        return Err(ApiError::bad_request(says).into());
    }
    let name = &ctx.place.name;
    let pod = ctx.cluster.read("pods", &ctx.place.key()).ok_or_else(|| ctx.place.not_found())?;
    let assigned = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !assigned.is_empty() {
        let why = format!("pod {name} is already assigned to node {assigned:?}");
        return Err(ApiError::conflict("pods/binding", name, &why).into());
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        let why = format!("pod {name} is being deleted, cannot be assigned to a host");
        return Err(ApiError::conflict("pods/binding", name, &why).into());
    }
    let revision = &pod["metadata"]["resourceVersion"];
    let mut annotations = json!({});
    if body["metadata"]["annotations"].is_object() {
        annotations = body["metadata"]["annotations"].clone();
    }
    let patch = json!({
        "metadata": {"resourceVersion": revision, "annotations": annotations},
        "spec": {"nodeName": node},
    });
    let source = Source::Patch(Patch::Merge(patch.into()));
    write::update(ctx, source, Sub::Binding, options).await?;
    let scheduled = json!({"status": {"conditions": [{
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": ctx.cluster.now(),
    }]}});
    let source = Source::Patch(Patch::Strategic(scheduled.into()));
    write::update(ctx, source, Sub::Status, options).await?;
    Ok(())
}

/// Deletes a pod unless a disruption budget forbids it.
pub(super) async fn evict(
    ctx: &Ctx<'_>,
    body: &Value,
    options: &WriteOptions,
) -> Result<(), Failure> {
    let pod = ctx.cluster.read("pods", &ctx.place.key()).ok_or_else(|| ctx.place.not_found())?;
    let wanted = body.get("deleteOptions").filter(|options| options.is_object());
    let mut delete_options = DeleteOptions::read(&Query::default(), wanted)?;
    delete_options.dry_run |= options.dry_run;
    let idle = matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Succeeded" | "Failed"));
    let going = pod["metadata"]["deletionTimestamp"].is_string();
    if !idle && !going {
        spend_budget(ctx, &pod, &delete_options).await?;
    }
    delete::delete(ctx, &delete_options).await?;
    Ok(())
}

/// Takes one disruption from the budget that covers the pod, if there is one.
async fn spend_budget(ctx: &Ctx<'_>, pod: &Value, options: &DeleteOptions) -> Result<(), Failure> {
    let scope = Scope::Namespace(&ctx.place.namespace);
    let mut covering = Vec::new();
    for stored in ctx.cluster.store.list(BUDGETS, scope).items {
        let budget = write::parse(&stored)?;
        let selector = &budget["spec"]["selector"];
        let covers = selector.is_object()
            && selector::Selector::from_value(selector)
                .is_ok_and(|s| s.matches_what(|label| pod["metadata"]["labels"][label].as_str()));
        if covers {
            covering.push(budget);
        }
    }
    let budget = match covering.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            let says = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(500, "InternalError", says).into());
        }
    };
    let number = |key: &str| budget["status"][key].as_i64().unwrap_or_default();
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    if number("disruptionsAllowed") < 1 {
        let says = "Cannot evict pod as it would violate the pod's disruption budget.";
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        let error = ApiError::new(429, "TooManyRequests", says);
        return Err(error.with_cause("DisruptionBudget", &why, "").into());
    }
    if options.dry_run {
        return Ok(());
    }
    let Some(served) = ctx.cluster.registry.stored(BUDGETS) else { return Ok(()) };
    let place = Place { served, namespace: ctx.place.namespace.clone(), name: name.into() };
    let budget_ctx = Ctx { place: &place, ..*ctx };
    // Its revision makes sure that no other eviction spends the same disruption.
    let patch = json!({
        "metadata": {"resourceVersion": budget["metadata"]["resourceVersion"]},
        "status": {
            "disruptionsAllowed": number("disruptionsAllowed") - 1,
            "disruptedPods": {(&*ctx.place.name): ctx.cluster.now()},
        },
    });
    let source = Source::Patch(Patch::Merge(patch.into()));
    write::update(&budget_ctx, source, Sub::Status, &WriteOptions::default()).await?;
    Ok(())
}
