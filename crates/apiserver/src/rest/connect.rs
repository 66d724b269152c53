//! `exec`, `attach`, `portforward` and `proxy`: requests that lead into a container or beyond
//! a node.
//!
//! They are asked about as writes are, with the options of the request in place of an object,
//! so that a policy that forbids them says so in its own words. What is allowed then gets the
//! one honest answer: there is nothing to connect to.

use flagship_base::machinery::path;
use flagship_base::machinery::query::Query;
use flagship_base::machinery::status::ApiError;
use flagship_kinds::Kind as K;
use http::Method;
use serde_json::{Value, json};

use super::admission::{Hooks, Options};
use super::cluster::{Ctx, Place};
use super::failure::Failure;
use super::subresource::Sub;
use super::{pods, read, write};
use crate::registry::Kind;

/// A path below an object that leads out of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remote {
    /// `pods/attach`.
    Attach,
    /// `pods/exec`.
    Exec,
    /// `pods/portforward`.
    PortForward,
    /// `pods/proxy`.
    PodProxy,
    /// `services/proxy`.
    ServiceProxy,
    /// `nodes/proxy`.
    NodeProxy,
}

impl Remote {
    /// What a path below an object of this kind leads to, if it leads out.
    pub(super) fn at(kind: &Kind, sub: &str) -> Option<Self> {
        Some(match (kind.row()?.id, sub) {
            (K::Pod, "attach") => Self::Attach,
            (K::Pod, "exec") => Self::Exec,
            (K::Pod, "portforward") => Self::PortForward,
            (K::Pod, "proxy") => Self::PodProxy,
            (K::Service, "proxy") => Self::ServiceProxy,
            (K::Node, "proxy") => Self::NodeProxy,
            _ => return None,
        })
    }

    /// The last part of its path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Exec => "exec",
            Self::PortForward => "portforward",
            Self::PodProxy | Self::ServiceProxy | Self::NodeProxy => "proxy",
        }
    }

    /// The kind of its options.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Attach => "PodAttachOptions",
            Self::Exec => "PodExecOptions",
            Self::PortForward => "PodPortForwardOptions",
            Self::PodProxy => "PodProxyOptions",
            Self::ServiceProxy => "ServiceProxyOptions",
            Self::NodeProxy => "NodeProxyOptions",
        }
    }

    /// Whether a connection may be asked for in this way; a proxy passes on whatever comes.
    pub(super) fn takes(self, method: &Method) -> bool {
        self.name() == "proxy" || [Method::GET, Method::POST].contains(method)
    }

    /// The options of a request, as webhooks and policies see them.
    fn options(self, at: &str, query: &Query) -> Result<Value, ApiError> {
        let mut options = json!({"kind": self.kind(), "apiVersion": "v1"});
        match self {
            Self::Attach | Self::Exec => {
                for stream in ["stdin", "stdout", "stderr", "tty"] {
                    if query.flag(stream) {
                        options[stream] = json!(true);
                    }
                }
                if let Some(container) = query.get("container").filter(|name| !name.is_empty()) {
                    options["container"] = json!(container);
                }
                if self == Self::Exec {
                    let command: Vec<&str> = query.all("command").collect();
                    let none = command.is_empty();
                    options["command"] = if none { Value::Null } else { json!(command) };
                }
            }
            Self::PortForward => {
                let texts = query.all("ports").flat_map(|list| list.split(','));
                let ports = texts.map(port).collect::<Result<Vec<_>, _>>()?;
                if !ports.is_empty() {
                    options["ports"] = json!(ports);
                }
            }
            Self::PodProxy | Self::ServiceProxy | Self::NodeProxy => {
                if let Some(beyond) = path::beyond_proxy(at, self != Self::NodeProxy) {
                    options["path"] = json!(beyond);
                }
            }
        }
        Ok(options)
    }
}

fn port(text: &str) -> Result<u16, ApiError> {
    text.parse().map_err(|_| {
        let why = match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            true => "value out of range",
            false => "invalid syntax",
        };
        ApiError::bad_request(format!(
            "cannot convert to []int32: strconv.ParseUint: parsing {text:?}: {why}"
        ))
    })
}

/// Answers a request for a connection, which is always a refusal.
pub(super) async fn refuse(ctx: &Ctx<'_>, remote: Remote, at: &str, query: &Query) -> Failure {
    let mut options = match remote.options(at, query) {
        Ok(options) => options,
        Err(error) => return error.into(),
    };
    let hooks = Hooks::below(ctx, "connect", Sub::Connect(remote), Options::Connect);
    // Warnings cannot be told: what follows is a refusal in any case.
    match hooks.ask(&mut options, &mut Vec::new()).await {
        Ok(()) => nothing_there(ctx, remote, &options).unwrap_or_else(|error| error).into(),
        Err(error) => error.into(),
    }
}

/// Why no connection can be made, in the order in which Kubernetes looks.
fn nothing_there(ctx: &Ctx<'_>, remote: Remote, options: &Value) -> Result<ApiError, ApiError> {
    let name = match remote.name() {
        "proxy" => bare_name(ctx.place)?,
        _ => &ctx.place.name,
    };
    let place = Place { name: name.into(), ..ctx.place.clone() };
    let object = read::get(&Ctx { place: &place, ..*ctx }, None)?;
    if matches!(remote, Remote::Attach | Remote::Exec | Remote::PortForward) {
        let pod = write::parse(&object)?;
        if remote != Remote::PortForward {
            pods::container(&pod, options["container"].as_str().unwrap_or_default(), false)?;
        }
        if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
            let says = format!("pod {name} does not have a host assigned");
            return Err(ApiError::bad_request(says));
        }
    }
    if remote == Remote::PodProxy && write::parse(&object)?["status"]["podIP"].is_null() {
        return Err(ApiError::bad_request("address not allowed"));
    }
    let says = format!("containers are simulated here: {} is not possible", remote.name());
    Ok(ApiError::new(501, "NotImplemented", says))
}

/// The object in `name`, `name:port` or `scheme:name:port`.
fn bare_name(place: &Place) -> Result<&str, ApiError> {
    let parts: Vec<&str> = place.name.split(':').collect();
    let name = match parts.as_slice() {
        [name] | [name, _] | ["" | "http" | "https", name, _] => *name,
        _ => "",
    };
    if name.is_empty() {
        let (kind, given) = (&place.served.kind.singular, &place.name);
        return Err(ApiError::bad_request(format!("invalid {kind} request {given:?}")));
    }
    Ok(name)
}
