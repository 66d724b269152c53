//! One client for real API servers and for the one in this process.
//!
//! `kube::Client` carries the requests; this module says what they mean. It never
//! retries: an error goes to the caller with the action it calls for, and the queue decides.
//! (The retry layer that `kube` adds to real clients is left out: it draws
//! its pauses from a hasher, and it would repeat writes behind our back.)
//!
//! [`Objects`] has the verbs, [`ClientError`] the sorting of answers, [`watch`] the
//! stream of changes. Keeping objects is the reflector's work.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use thiserror::Error;

mod by_update;
mod carrier;
mod connection;
mod error;
mod malformed;
mod manifests;
mod objects;
mod probe;
mod rate_limit;
mod resource;
#[cfg(test)]
mod tests;
pub mod watch;

pub(crate) use carrier::AnswerBody;
use carrier::Carrier;
pub use error::ClientError;
pub use malformed::Malformed;
use manifests::Declined;
pub use manifests::{Applying, Cause, Manifests, Merge, Refused};
pub(crate) use objects::PAGE;
pub use objects::{Deleted, Listed, Objects, Precondition, Propagation, key_of};
use rate_limit::RateLimiter;
pub(crate) use resource::Query;
pub use resource::{ResourceType, Selection};

/// How long a request may take, unless told otherwise.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Talks to one API server. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Carrier,
    /// Who we say we are, to logs and to field ownership.
    name: Arc<str>,
    timeout: Duration,
    /// Shared by all clients made from this one.
    rate_limit: Option<Arc<RateLimiter>>,
    /// What roles let us update and not patch, as far as we have met it.
    unpatchable: Arc<Mutex<BTreeSet<String>>>,
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// This process does not run in a pod with a service account.
    #[error("cannot use the service account of this pod")]
    InCluster(#[from] kube::config::InClusterError),
    /// The configuration makes no client, for instance because of a bad certificate.
    #[error("cannot set up the connection")]
    Setup(#[source] Box<kube::Error>),
}

impl Client {
    /// A client for a server in this process, or for a scripted one. Needs a runtime.
    pub fn in_process<S, B>(service: S) -> Self
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        Self::over(kube::Client::new(service, "default"))
    }

    /// A client for a server in this process that takes any number of requests at once. It is
    /// called as the request is made, where [`Client::in_process`] hands it to a task.
    pub fn direct<S, B>(service: S) -> Self
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        Self::carried_by(Carrier::direct(service))
    }

    /// A client over one of `kube`'s that exists already.
    pub fn over(inner: kube::Client) -> Self {
        Self::carried_by(Carrier::Kube(inner))
    }

    fn carried_by(inner: Carrier) -> Self {
        Self {
            inner,
            name: "flagship".into(),
            timeout: REQUEST_TIMEOUT,
            rate_limit: None,
            unpatchable: Arc::default(),
        }
    }

    /// A client for a context of a kubeconfig; the current context if none is named,
    /// the usual file if no path is given.
    pub async fn from_kubeconfig(
        path: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let file = match path {
            Some(path) => Kubeconfig::read_from(path)?,
            None => Kubeconfig::read()?,
        };
        Self::of_context(file, context).await
    }

    /// A client for a context of a kubeconfig that was read already.
    pub async fn of_context(file: Kubeconfig, context: Option<&str>) -> Result<Self, ConnectError> {
        let options =
            KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
        Self::from_config(Config::from_custom_kubeconfig(file, &options).await?)
    }

    /// A client for the cluster that this process runs in.
    pub fn in_cluster() -> Result<Self, ConnectError> {
        Self::from_config(Config::incluster()?)
    }

    /// A client for a configuration made elsewhere.
    pub fn from_config(mut config: Config) -> Result<Self, ConnectError> {
        // A watch may be silent for minutes; its own timeout ends it, not the socket's.
        config.read_timeout = None;
        config.default_retry = false;
        let inner = connection::to(config).map_err(|error| ConnectError::Setup(Box::new(error)))?;
        Ok(Self::over(inner))
    }

    /// The same client under another name, as user agents and `managedFields` show it.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// The same client with another limit for requests.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The same client with at most so many requests a second in the long run, and so many
    /// at once. A rate of nothing or less limits nothing.
    #[must_use]
    pub fn with_rate_limit(&self, qps: f64, burst: u32) -> Self {
        Self { rate_limit: RateLimiter::new(qps, burst).map(Arc::new), ..self.clone() }
    }

    /// The same client with no limit, for what must not wait behind others, such as a lease.
    #[must_use]
    pub fn without_rate_limit(&self) -> Self {
        Self { rate_limit: None, ..self.clone() }
    }

    /// The same server for somebody else: every request carries these headers, those of
    /// watches and of discovery included. What was learned of our own rights, and our own
    /// limit, is not theirs.
    #[must_use]
    pub fn with_headers(&self, headers: HeaderMap) -> Self {
        let inner = self.kube().clone();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            for (name, value) in &headers {
                request.headers_mut().append(name, value.clone());
            }
            let inner = inner.clone();
            async move { inner.send(request).await }
        });
        let inner = Carrier::Kube(kube::Client::new(service, "default"));
        Self { inner, rate_limit: None, unpatchable: Arc::default(), ..self.clone() }
    }

    async fn wait_for_rate_limit(&self) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait().await;
        }
    }

    /// Objects of a type that knows its resource.
    pub fn of<K: kube::Resource<DynamicType = ()>>(&self) -> Objects<K> {
        self.of_type(ResourceType::of::<K>())
    }

    /// Objects of any resource, read as `K`.
    pub fn of_type<K>(&self, resource: ResourceType) -> Objects<K> {
        Objects::new(self.clone(), resource)
    }

    /// Who we say we are.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What carries the requests, for calls that have no helper here.
    pub fn kube(&self) -> &kube::Client {
        self.inner.kube()
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn ask(&self, call: Call<'_>) -> Result<Bytes, ClientError> {
        self.ask_plainly(call).await.map_err(|refused| refused.error)
    }

    /// The same, and a refusal keeps the words of the server.
    pub(crate) async fn ask_plainly(&self, call: Call<'_>) -> Result<Bytes, Refused> {
        self.wait_for_rate_limit().await;
        let object = call.object.clone();
        // Boxed: a task is as large as the largest future it awaits, and most tasks that make
        // requests mostly sleep.
        let whole = Box::pin(async {
            let response = self.exchange(call).await.map_err(Refused::unanswered)?;
            match response {
                Ok(response) => collected(response.into_body(), object.clone())
                    .await
                    .map_err(Refused::unanswered),
                Err(declined) => Err(Refused::declined(object.clone(), &declined)),
            }
        });
        match tokio::time::timeout(self.timeout, whole).await {
            Ok(answer) => answer,
            Err(_) => Err(Refused::unanswered(ClientError::Unreachable {
                object: object.clone(),
                source: format!("no answer within {:?}", self.timeout).into(),
            })),
        }
    }

    /// Sends a request and hands out the answer as it begins, if it is a good one.
    pub(crate) async fn open(&self, call: Call<'_>) -> Result<Response<AnswerBody>, ClientError> {
        self.wait_for_rate_limit().await;
        let object = call.object.clone();
        let answer = Box::pin(self.exchange(call)).await?;
        answer.map_err(|Declined { code, retry_after, body }| {
            ClientError::from_answer(object, code, retry_after, &body)
        })
    }

    async fn exchange(
        &self,
        call: Call<'_>,
    ) -> Result<Result<Response<AnswerBody>, Declined>, ClientError> {
        let Call { method, path, accept, content, object } = call;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, accept)
            .header(USER_AGENT, format!("{}/{}", self.name, env!("CARGO_PKG_VERSION")));
        let body = match content {
            Some((media_type, bytes)) => {
                request = request.header(CONTENT_TYPE, media_type);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        let unreachable = |source| ClientError::Unreachable { object: object.clone(), source };
        let request = request.body(body).map_err(|error| unreachable(Box::new(error)))?;
        let response = self.inner.send(request).await.map_err(unreachable)?;
        let code = response.status();
        if code.is_success() {
            return Ok(Ok(response));
        }
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let retry_after = after.map(Duration::from_secs);
        let body = collected(response.into_body(), object).await?;
        Ok(Err(Declined { code, retry_after, body }))
    }
}

/// One request.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) accept: &'a str,
    pub(crate) content: Option<(&'a str, Vec<u8>)>,
    /// What errors call it.
    pub(crate) object: String,
}

async fn collected(body: AnswerBody, object: String) -> Result<Bytes, ClientError> {
    match body.collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(source) => Err(ClientError::Unreachable { object, source }),
    }
}
