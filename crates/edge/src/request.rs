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
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tokio::time::timeout;
use tower::Service;

use super::Shared;
use super::bodies::{Counted, Share};
use super::connection_limit::ConnectionSlot;
use super::gzip::inflate;
use super::outgoing::Outgoing;
use super::root_paths;
use flagship_apiserver::auth::{Ask, Presented, User, group};
use flagship_apiserver::rest::{self, ClusterHandle, Disconnected};

/// What a listener serves.
pub(super) enum Listener {
    /// Every cluster, under `/clusters/<name>`.
    All,
    /// One cluster, without a path in front.
    Only(Arc<str>),
}

type Inner = Request<Either<Counted, Full<Bytes>>>;

/// Where a request goes.
struct Way {
    /// `None` when there is no such cluster.
    cluster: Option<ClusterHandle>,
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
    let ask = Ask::of(request.method().as_str(), &way.path, query);
    let counting = way.cluster.as_ref().map(|cluster| {
        let apply = request.headers().get(CONTENT_TYPE).is_some_and(is_apply);
        cluster.count(&ask, apply, query.contains("dryRun=All"))
    });
    let came = Came { way, ask, listener, certificate, slot };
    let admitted = timeout(shared.limits.request, admitted(shared, came, request)).await;
    let response = match admitted {
        Ok(Ok(response)) => response,
        Ok(Err(Refused::Severed)) => return Err(Disconnected),
        Ok(Err(Refused::Says(error))) => rest::refusal(&error),
        Err(_) => {
            let says = "Timeout: request did not complete within the allotted timeout";
            rest::refusal(&ApiError::new(504, "Timeout", says))
        }
    };
    let (code, watch) = (response.status().as_u16(), response.body().is_watch());
    let under_way = counting.and_then(|counting| counting.answered(code, watch));
    Ok(response.map(|body| Outgoing::new(body, &shared.closing, under_way)))
}

fn is_apply(kind: &HeaderValue) -> bool {
    kind.as_bytes().starts_with(b"application/apply-patch")
}

/// A request as it came in.
struct Came<'a> {
    way: Way,
    ask: Ask,
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
) -> Result<Response<rest::Body>, Refused> {
    let Came { way, ask, listener, certificate, slot } = came;
    if let Some(cluster) = &way.cluster {
        cluster.furnish(&shared.authority);
    }
    let presented = Presented {
        certificate,
        headers: request.headers(),
        cluster: way.cluster.as_ref(),
        audiences: &[],
    };
    let user = shared.access.identify(&presented)?;
    if !user.is_in(group::UNAUTHENTICATED) {
        slot.authenticated();
    }
    shared.access.check(&user, &ask, way.cluster.as_ref())?;
    let Some(mut cluster) = way.cluster else {
        let query = request.uri().query().unwrap_or_default();
        return root_paths::answer(shared, listener, &way.path, query)
            .ok_or_else(|| nowhere(listener).into());
    };
    let target = match request.uri().query() {
        Some(query) => format!("{}?{query}", way.path),
        None => way.path,
    };
    let uri: Uri = target.parse().map_err(|_| rest::nowhere())?;
    // Held until there is an answer: so long the body is in memory.
    let share = shared.bodies.share(&user.name);
    let mut request = plain(request, &share).await?;
    *request.uri_mut() = uri;
    request.extensions_mut().insert(Arc::new(user));
    request.extensions_mut().insert(shared.access.clone());
    let response = cluster.call(request).await.map_err(|Disconnected| Refused::Severed)?;
    if response.extensions().get::<rest::Unserved>().is_some() {
        // Clients tell by this that not the object is missing but its kind.
        let mut plain = rest::text("404 page not found\n".to_owned());
        *plain.status_mut() = StatusCode::NOT_FOUND;
        return Ok(plain);
    }
    Ok(response)
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

fn way(shared: &Shared, listener: &Listener, uri: &Uri) -> Way {
    match listener {
        Listener::Only(name) => {
            Way { cluster: shared.server.cluster(name), path: uri.path().to_owned() }
        }
        Listener::All => match path::split_cluster(uri.path()) {
            Some((name, rest)) => {
                Way { cluster: shared.server.cluster(&name), path: rest.to_owned() }
            }
            None => Way { cluster: None, path: uri.path().to_owned() },
        },
    }
}

/// The request with its body inflated, and what it holds counted.
async fn plain(request: Request<Incoming>, share: &Arc<Share>) -> Result<Inner, ApiError> {
    let request = request.map(|body| Counted { body, share: share.clone() });
    let encoding = request.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    match encoding {
        None | Some(b"" | b"identity") => Ok(request.map(Either::Left)),
        Some(b"gzip") => {
            let (mut parts, body) = request.into_parts();
            let bytes = rest::collect(body).await?;
            parts.headers.remove(CONTENT_ENCODING);
            parts.headers.remove(http::header::CONTENT_LENGTH);
            let plain = inflate(&bytes)?;
            share.take(plain.len())?;
            Ok(Request::from_parts(parts, Either::Right(Full::new(plain.into()))))
        }
        Some(_) => Err(ApiError::unsupported_media_type(
            "the body of the request is compressed in a way other than gzip",
        )),
    }
}
