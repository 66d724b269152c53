//! HTTPS for webhooks: one path a webhook, a review in, a review out.

use bytes::Bytes;
use flagship_hub::admission::Admission;
use flagship_rules::admission::{Webhook, guard_rails};
use flagship_runtime::metrics::{Metrics, SECONDS};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::super::connections::{answer_all, serve_each};
use super::super::tls::Tls;
use super::Judging;
use super::review::Asked;

/// An object may have three megabytes on a generous server, and comes twice.
const LARGEST: usize = 8 << 20;

/// Serves until dropped.
pub async fn serve(listener: TcpListener, tls: Tls, answering: Answering) {
    serve_each(listener, |socket| connection(socket, tls.clone(), answering.clone())).await;
}

async fn connection(socket: TcpStream, tls: Tls, answering: Answering) {
    let Some(stream) = tls.accept(socket).await else { return };
    answer_all(stream, |request| answering.counted(request)).await;
}

/// What reviews are answered with.
#[derive(Clone)]
pub struct Answering {
    pub admission: Admission,
    pub judging: Judging,
    pub metrics: Metrics,
}

impl Answering {
    /// Answers a request, and counts it under the names that every webhook server of Go's
    /// controller-runtime has, KubeFleet's among them.
    async fn counted(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (begun, path) = (Instant::now(), request.uri().path().to_owned());
        let response = answer(request, &self.admission, &self.judging).await;
        let status = response.status();
        // A path that nobody serves is whatever a stranger asks for.
        if status != StatusCode::NOT_FOUND {
            let took = "How long reviews took, by the path of the webhook.";
            let name = "controller_runtime_webhook_latency_seconds";
            let took = self.metrics.histogram(name, took, SECONDS, &[("webhook", &path)]);
            took.observe(begun.elapsed().as_secs_f64());
            let count = "Reviews that were asked for, by the code of the answer.";
            let labels = [("code", status.as_str()), ("webhook", &path)];
            self.metrics.counter("controller_runtime_webhook_requests_total", count, &labels).inc();
        }
        response
    }
}

/// Who answers at a path.
enum Asks<'a> {
    Webhook(&'static Webhook),
    /// The name that the API server knows the hub by.
    Records(&'a str),
    GuardRails(&'a guard_rails::Options),
}

async fn answer(
    request: Request<Incoming>,
    admission: &Admission,
    judging: &Judging,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let rails = judging.guard_rails.as_deref().filter(|_| path == guard_rails::PATH);
    let webhook = judging.webhooks().find(|webhook| webhook.path == path);
    let hub_user = judging.hub_user.as_deref();
    let asks = match (webhook, rails) {
        (Some(webhook), _) if webhook.is_about_records() => {
            Asks::Records(hub_user.unwrap_or_default())
        }
        (Some(webhook), _) => Asks::Webhook(webhook),
        (None, Some(rails)) => Asks::GuardRails(rails),
        (None, None) => return plain(StatusCode::NOT_FOUND, "no webhook is served here"),
    };
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "reviews are posted");
    }
    let body = match Limited::new(request.into_body(), LARGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return plain(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match Asked::read(&body) {
        Ok(asked) => {
            let said = match asks {
                Asks::Webhook(webhook) => asked.answered(admission, webhook, hub_user).await,
                Asks::Records(hub) => asked.about_record(hub),
                Asks::GuardRails(options) => asked.guarded(admission, options).await,
            };
            let said = said.to_string();
            let mut response = Response::new(Full::new(Bytes::from(said)));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(why) => plain(StatusCode::BAD_REQUEST, &why),
    }
}

fn plain(status: StatusCode, says: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(says.to_owned())));
    *response.status_mut() = status;
    response
}
