//! What is served where no cluster is named: health, the list of clusters, and metrics of
//! connections; and the copy of all clusters, whichever is named.

use flagship_base::machinery::status::ApiError;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::request::Listener;
use super::{Backup, Shared};
use flagship_apiserver::auth::{User, group};
use flagship_apiserver::rest;

/// Where a copy of everything is asked for.
pub(super) const BACKUP: &str = "/backup";

/// Has the copy made. Only administrators may: it holds the Secrets of all clusters, and rights
/// in one of them are no rights in the others.
pub(super) async fn back_up(
    backup: &Backup,
    user: &User,
    method: &Method,
) -> Result<Response<rest::Body>, ApiError> {
    if !user.is_in(group::MASTERS) {
        let says = format!("only members of {} may have everything copied", group::MASTERS);
        return Err(ApiError::new(403, "Forbidden", says));
    }
    if method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let backup = backup.clone();
    let made = spawn_blocking(move || backup()).await;
    let says = made.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    Ok(with_media(says, "application/json"))
}

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
    Some(with_media(says, media))
}

fn with_media(says: String, media: &'static str) -> Response<rest::Body> {
    let mut response = rest::text(says);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

fn paths(shared: &Shared) -> Vec<String> {
    let clusters = shared.server.clusters();
    let clusters = clusters.iter().map(|name| format!("/clusters/{name}"));
    let own = ["/healthz", "/livez", "/metrics", "/readyz"].map(str::to_owned);
    clusters.chain(own).collect()
}
