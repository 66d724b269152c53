//! One request on its way in: which cluster, who asks, may they, and the answer.
//!
//! Who asks is settled before anything else is said, so that unauthenticated clients cannot learn
//! which clusters there are.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use flagship_base::machinery::path;
use flagship_base::machinery::status::ApiError;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;
use tower::Service;

use super::Shared;
use super::audit::Asked;
use super::bodies::{BodyQuota, Counted};
use super::connection_limit::ConnectionSlot;
use super::fair_queue::RequestSlot;
use super::gzip::inflate;
use super::outgoing::{Outgoing, ResponseGuards};
use super::root_paths;
use flagship_apiserver::auth::{Decision, Presented, RequestAttributes, User, group};
use flagship_apiserver::rest::{self, ClusterHandle, Disconnected};

/// What a listener serves.
pub(super) enum Listener {
    /// Every cluster, under `/clusters/<name>`.
    All,
    /// One cluster, without a path in front.
    Only(Arc<str>),
}

/// Where a request goes.
struct RequestRoute {
    /// `None` when there is no such cluster.
    cluster: Option<ClusterHandle>,
    /// The cluster that was named, whether or not it is there.
    named: Option<Arc<str>>,
    /// The path without the cluster.
    path: String,
}

/// An answer in the making. Boxed, for an HTTP/2 connection keeps room for this as long as the
/// answer is read: for a watch that is for hours.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Outgoing>, Disconnected>> + Send>>;

/// Answers a request. An error cuts the connection; only injected faults do that.
pub(super) fn answer(
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    certificate: Option<Arc<User>>,
    slot: Arc<ConnectionSlot>,
    request: Request<Incoming>,
) -> Answering {
    Box::pin(async move {
        // Boxed once more, so that it takes its room only when its turn has come.
        Box::pin(answered(&shared, &listener, certificate.as_deref(), &slot, request)).await
    })
}

async fn answered(
    shared: &Shared,
    listener: &Listener,
    certificate: Option<&User>,
    slot: &ConnectionSlot,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Disconnected> {
    let way = way(shared, listener, request.uri());
    let query = request.uri().query().unwrap_or_default();
    let ask = RequestAttributes::of(request.method().as_str(), &way.path, query);
    let counting = way.cluster.as_ref().map(|cluster| {
        let apply = request.headers().get(CONTENT_TYPE).is_some_and(is_apply);
        cluster.count(&ask, apply, query.contains("dryRun=All"))
    });
    // The rest of a body that is not read stands in the way of the next request.
    let mut unread_body = UnreadBody::of(&request);
    let came = Came { way, ask, listener, certificate, slot };
    let mut along = ResponseGuards::default();
    let admitted = admitted(shared, came, request, &mut along, &mut unread_body);
    let mut response = match timeout(shared.limits.request, admitted).await {
        Ok(Ok(response)) => response,
        Ok(Err(Refused::Severed)) => return Err(Disconnected),
        Ok(Err(Refused::Says(error))) => rest::refusal(&error),
        Err(_) => {
            let says = "Timeout: request did not complete within the allotted timeout";
            rest::refusal(&ApiError::new(504, "Timeout", says))
        }
    };
    if unread_body.is_left {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let (code, watch) = (response.status().as_u16(), response.body().is_watch());
    along.under_way = counting.and_then(|counting| counting.answered(code, watch));
    if let Some(record) = &mut along.record {
        record.answered(code, watch);
        if let Some(id) = record.id() {
            response.headers_mut().insert("audit-id", id);
        }
    }
    Ok(response.map(|body| Outgoing::new(body, &shared.closing, along)))
}

/// Whether something of a request's body is left on its connection. HTTP/2 has frames, so
/// there it does not matter.
struct UnreadBody {
    is_left: bool,
}

impl UnreadBody {
    fn of(request: &Request<Incoming>) -> Self {
        Self { is_left: request.version() < Version::HTTP_2 && !request.body().is_end_stream() }
    }
}

fn is_apply(kind: &HeaderValue) -> bool {
    kind.as_bytes().starts_with(b"application/apply-patch")
}

/// A request as it came in.
struct Came<'a> {
    way: RequestRoute,
    ask: RequestAttributes,
    listener: &'a Listener,
    certificate: Option<&'a User>,
    slot: &'a ConnectionSlot,
}

enum Refused {
    Says(Box<ApiError>),
    Severed,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Says(Box::new(error))
    }
}

async fn admitted(
    shared: &Shared,
    came: Came<'_>,
    request: Request<Incoming>,
    along: &mut ResponseGuards,
    unread_body: &mut UnreadBody,
) -> Result<Response<rest::Body>, Refused> {
    let Came { way, ask, listener, certificate, slot } = came;
    check_host(&request)?;
    if let Some(cluster) = &way.cluster {
        cluster.furnish(&shared.authority);
    }
    let query = request.uri().query();
    let target = query.map_or_else(|| way.path.clone(), |query| format!("{}?{query}", way.path));
    let presented = Presented {
        certificate,
        headers: request.headers(),
        cluster: way.cluster.as_ref(),
        audiences: &[],
    };
    let sender = shared.access.sender(&presented);
    let user = match &sender {
        Ok(sender) => shared.access.acting(sender.clone(), &presented),
        Err(error) => Err(error.clone()),
    };
    if let Some(audit) = &shared.audit {
        let sender = sender.unwrap_or_else(|_| User::anonymous());
        let acting = user.as_ref().ok().filter(|user| **user != sender);
        let asked = Asked {
            uri: target.clone(),
            ask: &ask,
            headers: request.headers(),
            from: slot.address,
            cluster: way.named.as_deref(),
            sender: &sender,
            acting,
        };
        along.record = audit.begin(&shared.env, &asked).map(Box::new);
    }
    let user = user?;
    if !user.is_in(group::UNAUTHENTICATED) {
        slot.authenticated(&user.name);
        shared.busy_users.belongs_to(slot, &user.name);
    }
    let decision = shared.access.may(&user, &ask, way.cluster.as_ref());
    if let Some(record) = &mut along.record {
        let (word, why) = match &decision {
            Decision::Allow(why) => ("allow", why),
            Decision::Deny(why) => ("forbid", why),
        };
        record.annotate("authorization.k8s.io/decision", word);
        record.annotate("authorization.k8s.io/reason", why);
    }
    if let Decision::Deny(why) = decision {
        return Err(ask.forbidden(&user, &why).into());
    }
    if way.path == root_paths::BACKUP
        && let Some(backup) = &shared.backup
    {
        return Ok(root_paths::back_up(backup, &user, request.method()).await?);
    }
    let Some(mut cluster) = way.cluster else {
        let query = request.uri().query().unwrap_or_default();
        return root_paths::answer(shared, listener, &way.path, query)
            .ok_or_else(|| nowhere(listener).into());
    };
    let uri: Uri = target.parse().map_err(|_| rest::nowhere())?;
    // Held until there is an answer: so long the body is in memory.
    let share = shared.bodies.share(&user.name);
    let mut request = whole(request, &share).await?;
    unread_body.is_left = false;
    if let Some(record) = &mut along.record {
        record.request(request.body());
    }
    *request.uri_mut() = uri;
    let name = user.name.clone();
    request.extensions_mut().insert(Arc::new(user));
    request.extensions_mut().insert(shared.access.clone());
    let weight = request.body().len().max(cluster.reads_through(&ask, request.headers()));
    let request = request.map(Full::new);
    let answered = if weight < HEAVY && is_vital(&ask) {
        cluster.call(request).await
    } else if weight < HEAVY && is_read(&ask) {
        let _slot = shared.reads.take(&name).await?;
        // With the turn in hand, so that of hundreds of reads of one user few are ready to run
        // at a time: a request of somebody else then finds few of them before it.
        yield_now().await;
        cluster.call(request).await
    } else if weight < HEAVY {
        let _slot = shared.light.take(&name).await?;
        cluster.call(request).await
    } else {
        let slot = shared.heavy.take(&name).await?;
        off_the_async_threads(shared, cluster, request, slot).await?
    };
    let response = answered.map_err(|Disconnected| Refused::Severed)?;
    if response.extensions().get::<rest::Unserved>().is_some() {
        // Clients tell by this that not the object is missing but its kind.
        let mut plain = rest::text("404 page not found\n".to_owned());
        *plain.status_mut() = StatusCode::NOT_FOUND;
        return Ok(plain);
    }
    if response.body().is_watch() {
        along.held = Some(shared.unread.watch(&name));
    }
    along.queue = response.body().is_costly().then(|| (shared.heavy.clone(), name));
    Ok(response)
}

/// Requests that decode or write at least so many bytes are heavy: that takes milliseconds, and
/// whatever else runs on the thread waits meanwhile.
const HEAVY: usize = 16 * 1024;

/// Requests that change nothing, and are answered from memory.
fn is_read(ask: &RequestAttributes) -> bool {
    match ask {
        RequestAttributes::Path { .. } => true,
        RequestAttributes::Resource { verb, .. } => {
            matches!(verb.as_str(), "get" | "list" | "watch")
        }
    }
}

/// Probes, and the leases by which agents lead: what is late there is taken for dead. While it
/// is small it waits for nobody's turn, whoever sends it.
fn is_vital(ask: &RequestAttributes) -> bool {
    match ask {
        RequestAttributes::Path { path, .. } => {
            ["/healthz", "/livez", "/readyz"].iter().any(|probe| path.starts_with(probe))
        }
        RequestAttributes::Resource { at, .. } => {
            at.group == "coordination.k8s.io" && at.resource == "leases" && at.name.is_some()
        }
    }
}

/// Answers on a thread where nobody else waits.
async fn off_the_async_threads(
    shared: &Shared,
    mut cluster: ClusterHandle,
    request: Request<Full<Bytes>>,
    slot: RequestSlot,
) -> Result<Result<Response<rest::Body>, Disconnected>, ApiError> {
    let runtime = Handle::current();
    let working = shared.busy_users.lower().spawn_blocking(move || {
        let _slot = slot;
        runtime.block_on(cluster.call(request))
    });
    working.await.map_err(|why| {
        tracing::error!(%why, "a request could not be worked on");
        ApiError::new(500, "InternalError", "Internal error occurred: see the server's log")
    })
}

/// Refuses what HTTP/1.1 does not allow: which host is meant must be said, and said once.
fn check_host(request: &Request<Incoming>) -> Result<(), ApiError> {
    let said = request.headers().get_all(HOST).iter().count();
    match (said, request.version()) {
        (0, Version::HTTP_11) if request.uri().authority().is_none() => {
            Err(ApiError::bad_request("missing required Host header"))
        }
        (2.., _) => Err(ApiError::bad_request("too many Host headers")),
        _ => Ok(()),
    }
}

/// 404; people who left the cluster out are told how to name it.
fn nowhere(listener: &Listener) -> ApiError {
    let mut error = rest::nowhere();
    if let Listener::All = listener {
        error.message.push_str(
            ": clusters are at /clusters/<name>, which `kubectl get --raw` must be told as well",
        );
    }
    error
}

fn way(shared: &Shared, listener: &Listener, uri: &Uri) -> RequestRoute {
    let (named, path) = match listener {
        Listener::Only(name) => (Some(name.clone()), uri.path().to_owned()),
        Listener::All => match path::split_cluster(uri.path()) {
            Some((name, rest)) => (Some(Arc::from(&*name)), rest.to_owned()),
            None => (None, uri.path().to_owned()),
        },
    };
    let cluster = named.as_ref().and_then(|name| shared.server.cluster(name));
    RequestRoute { cluster, named, path }
}

/// The request with its whole body, inflated, and what it holds counted.
async fn whole(
    request: Request<Incoming>,
    share: &Arc<BodyQuota>,
) -> Result<Request<Bytes>, ApiError> {
    let (mut parts, body) = request.into_parts();
    let bytes = rest::collect(Counted { body, share: share.clone() }).await?;
    let encoding = parts.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let bytes = match encoding {
        None | Some(b"" | b"identity") => bytes,
        Some(b"gzip") => {
            parts.headers.remove(CONTENT_ENCODING);
            parts.headers.remove(CONTENT_LENGTH);
            let plain = inflate(&bytes)?;
            share.take(plain.len())?;
            plain.into()
        }
        Some(_) => {
            return Err(ApiError::unsupported_media_type(
                "the body of the request is compressed in a way other than gzip",
            ));
        }
    };
    Ok(Request::from_parts(parts, bytes))
}
