//! What is served where no cluster is named: health, the list of
//! clusters, and metrics of connections.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde_json::json;

use super::Shared;
use super::request::Listener;
use flagship_apiserver::rest;

/// Answers whoever may ask; `None` where nothing is.
pub(super) fn answer(
    shared: &Shared,
    listener: &Listener,
    path: &str,
    query: &str,
) -> Option<Response<rest::Body>> {
    if let Some(health) = rest::without_cluster(path, query) {
        return Some(health);
    }
    // A listener of one cluster serves nothing when that is gone.
    let Listener::All = listener else { return None };
    let (media, says) = match path.trim_end_matches('/') {
        "" | "/index.html" => ("application/json", json!({"paths": paths(shared)}).to_string()),
        "/metrics" => (rest::METRICS_MEDIA, shared.connections.metrics().render()),
        _ => return None,
    };
    let mut response = rest::text(says);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    Some(response)
}

fn paths(shared: &Shared) -> Vec<String> {
    let clusters = shared.server.clusters();
    let clusters = clusters.iter().map(|name| format!("/clusters/{name}"));
    let own = ["/healthz", "/livez", "/metrics", "/readyz"].map(str::to_owned);
    clusters.chain(own).collect()
}
