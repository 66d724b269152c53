//! What is not a resource: discovery, schemas, version. Health is in `health`.

use flagship_base::machinery::path::Target;
use flagship_store::ObjectKey;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::json;

use super::body::Body;
use super::cluster::ClusterHandle;
use super::failure::Failure;
use super::negotiate::{self, Form};
use super::route::page_not_found;
use super::service::respond;
use super::{health, metrics};
use crate::auth::accounts::ISSUER;
use crate::openapi;
use crate::registry::{self, Registry};

type Answer = Result<Response<Body>, Failure>;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The version that clients see.
pub(super) const VERSION: &str = "v1.34.0+flagship";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Answers a GET that is about no resource.
pub(super) fn document(handle: &ClusterHandle, parts: &Parts, target: &Target) -> Answer {
    let registry = handle.registry();
    let found = match target {
        Target::CoreVersions | Target::Groups => {
            let core = *target == Target::CoreVersions;
            if negotiate::accept(&parts.headers, true)? == Form::Aggregated {
                let found = registry::aggregated(registry, core);
                let body = Body::whole(found.text.clone());
                let mut response = tagged(&parts.headers, &found.tag, body);
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
                headers.insert(VARY, HeaderValue::from_static("Accept"));
                return Ok(response);
            }
            Some(if core {
                json!({
                    "kind": "APIVersions", "versions": ["v1"],
                    "serverAddressByClientCIDRs": [],
                })
            } else {
                registry::groups(registry)
            })
        }
        Target::Group(group) => registry::group(registry, group),
        Target::Resources { group, version } => registry::resources(registry, group, version),
        Target::Other(path) => return other(handle, parts, path),
        Target::Object(_) | Target::Watch(_) => None,
    };
    let known = match target {
        Target::Resources { group, .. } => group.is_empty(),
        _ => false,
    };
    let found = found.ok_or_else(|| match known {
        true => Failure::Unserved,
        // Nobody routes to a group that there is not.
        false => page_not_found().into(),
    })?;
    negotiate::accept(&parts.headers, true)?;
    let mut response = respond(StatusCode::OK, Body::whole(found.to_string()), &[]);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// The body with its tag, or only the tag when the client has that body already.
fn tagged(headers: &HeaderMap, tag: &str, body: Body) -> Response<Body> {
    let quoted = format!("\"{tag}\"");
    let asked = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let known = asked
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .any(|text| text == "*" || text.strip_prefix("W/").unwrap_or(text) == quoted);
    let (code, body) = match known {
        true => (StatusCode::NOT_MODIFIED, Body::whole("")),
        false => (StatusCode::OK, body),
    };
    let mut response = respond(code, body, &[]);
    if let Ok(value) = HeaderValue::from_str(&quoted) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

fn other(handle: &ClusterHandle, parts: &Parts, path: &str) -> Answer {
    let cluster = &handle.cluster;
    let definition = |resource: &str| cluster.read(DEFINITIONS, &ObjectKey::new("", resource));
    let source = openapi::Source { registry: handle.registry(), definition: &definition };
    if let Some(path) = path.strip_prefix("openapi/v3/") {
        let cache = &cluster.shared.documents;
        let (tag, body) = openapi::document(&source, cache, path).ok_or(Failure::Unserved)?;
        return Ok(tagged(&parts.headers, &tag, Body::whole(body)));
    }
    match path {
        "openapi/v3" => {
            let index = openapi::index(&source).to_string();
            Ok(respond(StatusCode::OK, Body::whole(index), &[]))
        }
        "openapi/v2" => {
            let packed = openapi::SWAGGER_MEDIA.iter().any(|m| negotiate::names(&parts.headers, m));
            let (tag, body) = openapi::swagger(&source, &cluster.shared.documents, packed);
            let mut response = tagged(&parts.headers, &tag, Body::whole(body));
            if packed {
                let media = HeaderValue::from_static(openapi::SWAGGER_MEDIA[1]);
                response.headers_mut().insert(CONTENT_TYPE, media);
            }
            response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
            Ok(response)
        }
        "version" => {
            let version = json!({
                "major": "1", "minor": "34", "gitVersion": VERSION,
                "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "", "compiler": "rustc",
                "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            });
            Ok(respond(StatusCode::OK, Body::whole(version.to_string()), &[]))
        }
        ".well-known/openid-configuration" => {
            let document = json!({
                "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
                "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            });
            Ok(respond(StatusCode::OK, Body::whole(document.to_string()), &[]))
        }
        "openid/v1/jwks" => {
            // Whoever fetches the keys may be shown a token soon: there has to be one.
            cluster.keyring.key(&cluster.store)?;
            let keys: Vec<_> =
                cluster.keyring.good(&cluster.store).map(|key| key.document()).collect();
            let keys = json!({"keys": keys});
            Ok(respond(StatusCode::OK, Body::whole(keys.to_string()), &[]))
        }
        "" | "index.html" => {
            let index = json!({"paths": paths(handle.registry())});
            Ok(respond(StatusCode::OK, Body::whole(index.to_string()), &[]))
        }
        "metrics" => {
            let mut response = text(handle.metrics());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::MEDIA));
            Ok(response)
        }
        _ => Err(page_not_found().into()),
    }
}

/// Every path that is about no resource, sorted.
fn paths(registry: &Registry) -> Vec<String> {
    let fixed = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/version",
    ];
    let mut paths: Vec<String> = fixed.map(str::to_owned).into();
    paths.extend(health::paths());
    let groups = registry::groups(registry);
    for group in groups["groups"].as_array().into_iter().flatten() {
        paths.push(format!("/apis/{}", group["name"].as_str().unwrap_or_default()));
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"].as_str().unwrap_or_default();
            paths.push(format!("/apis/{version}"));
        }
    }
    paths.sort();
    paths
}

/// An answer for people.
pub fn text(says: String) -> Response<Body> {
    let mut response = respond(StatusCode::OK, Body::whole(says), &[]);
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
