//! Clusters as `tower` services: what sockets and `kube::Client` call.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flagship_base::machinery::path;
use flagship_base::machinery::status::ApiError;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower::Service;

use super::body::Body;
use super::cluster::ClusterHandle;
use super::failure::{Failure, Unserved};
use super::negotiate::wants_yaml;
use super::route;
use super::server::Server;

/// Bodies of requests may have this many bytes, as in Kubernetes.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// The connection broke before an answer came; only faults do this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnected;

impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by peer")
    }
}

impl Error for Disconnected {}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Disconnected>> + Send>>;

impl<B> Service<Request<B>> for ClusterHandle
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        let handle = self.clone();
        Box::pin(async move { answer(&handle, request).await })
    }
}

async fn answer<B>(
    handle: &ClusterHandle,
    request: Request<B>,
) -> Result<Response<Body>, Disconnected>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let outcome = match collect(body).await {
        Ok(body) => route::handle(handle, &parts, body).await,
        Err(error) => Err(error.into()),
    };
    let response = match outcome {
        Ok(response) => response,
        Err(Failure::Refused(error)) => refusal(&error),
        Err(Failure::Unserved) => {
            let mut response = refusal(&route::nowhere());
            response.extensions_mut().insert(Unserved);
            response
        }
        Err(Failure::Severed) => return Err(Disconnected),
    };
    // Schemas have forms of their own.
    let written = parts.uri.path().starts_with("/openapi") || !wants_yaml(&parts.headers);
    Ok(if written { response } else { in_yaml(response) })
}

/// The same answer in YAML, if it is JSON.
fn in_yaml(response: Response<Body>) -> Response<Body> {
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !json || response.body().is_watch() {
        return response;
    }
    let mut response = response.map(Body::in_yaml);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    response
}

/// Reads a body, but no more of it than requests may have. Whoever hands it over may refuse
/// to go on with an error of ours.
pub async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(ApiError::too_large(MAX_BODY));
    }
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(why) if why.is::<LengthLimitError>() => Err(ApiError::too_large(MAX_BODY)),
        Err(why) => Err(match why.downcast::<ApiError>() {
            Ok(refused) => *refused,
            Err(why) => ApiError::bad_request(format!("cannot read the request body: {why}")),
        }),
    }
}

/// A response with a JSON body and its warnings.
pub(super) fn respond(code: StatusCode, body: Body, warnings: &[String]) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&warning_header(warning)) {
            headers.append(WARNING, value);
        }
    }
    response
}

/// `299 - "text"`, quoted as headers want it and cut where Kubernetes cuts.
fn warning_header(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 8);
    for c in text.chars().filter(|c| !c.is_control()).take(256) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    format!("299 - \"{quoted}\"")
}

/// A refusal as its `Status`.
pub fn refusal(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if code == StatusCode::NOT_FOUND && error.reason.is_empty() {
        let mut response = respond(code, Body::whole(format!("{}\n", error.message)), &[]);
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        return response;
    }
    let mut response = respond(code, Body::whole(error.to_status().to_string()), &[]);
    let seconds = error.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// All clusters as one service: `/clusters/<name>/…`.
#[derive(Clone)]
pub struct ServerService {
    server: Server,
}

impl Server {
    /// The service that takes requests for every cluster.
    pub fn service(&self) -> ServerService {
        ServerService { server: self.clone() }
    }
}

impl<B> Service<Request<B>> for ServerService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Answer {
        let found = path::split_cluster(request.uri().path()).and_then(|(name, rest)| {
            let target = match request.uri().query() {
                Some(query) => format!("{rest}?{query}"),
                None => rest.to_owned(),
            };
            Some((self.server.cluster(&name)?, target.parse().ok()?))
        });
        match found {
            Some((mut handle, uri)) => {
                *request.uri_mut() = uri;
                handle.call(request)
            }
            None => Box::pin(async { Ok(refusal(&route::nowhere())) }),
        }
    }
}
