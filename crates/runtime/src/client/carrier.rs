//! What carries requests to the server: `kube::Client`, or a call of a server in this process.
//!
//! `kube::Client` puts a queue and a task of its own in front of every service, so that one that
//! takes one request at a time serves many callers. A server in this process takes any number:
//! called at once, a request costs two changes of tasks less, and a client no task.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower::{BoxError, Service};

/// The body of an answer, as it comes.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

type Answer = Result<Response<AnswerBody>, BoxError>;

/// Carries requests.
#[derive(Clone)]
pub(super) enum Carrier {
    Kube(kube::Client),
    Direct(Arc<Direct>),
}

/// A service that is called for each request.
pub(super) struct Direct {
    call: Box<dyn Fn(Request<Body>) -> BoxFuture<'static, Answer> + Send + Sync>,
    /// For calls that have no helper here.
    kube: OnceLock<kube::Client>,
    make: Box<dyn Fn() -> kube::Client + Send + Sync>,
}

impl Carrier {
    pub fn direct<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let queued = service.clone();
        let call = move |request: Request<Body>| -> BoxFuture<'static, Answer> {
            let mut service = service.clone();
            Box::pin(async move {
                std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
                let answer = service.call(request).await.map_err(Into::into)?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        };
        Self::Direct(Arc::new(Direct {
            call: Box::new(call),
            kube: OnceLock::new(),
            make: Box::new(move || kube::Client::new(queued.clone(), "default")),
        }))
    }

    pub fn kube(&self) -> &kube::Client {
        match self {
            Self::Kube(client) => client,
            Self::Direct(direct) => direct.kube.get_or_init(&direct.make),
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        match self {
            Self::Kube(client) => {
                let answer = client.send(request).await?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Self::Direct(direct) => (direct.call)(request).await,
        }
    }
}
