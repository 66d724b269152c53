//! Calls to where people point: judged before a name is resolved and after it, to an address
//! that was judged, within a time and a size. The rules are `flagship_rules::egress`.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use flagship_api::keys::own;
use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE};
use flagship_api::notification_channel::SecretRef;
use flagship_rules::egress::{Allowed, target};
use flagship_rules::notification::delivery::Trouble;
use flagship_runtime::client::ClientError;
use flagship_runtime::network::{Answer, Call, Network, TIME_LIMIT};
use http::{HeaderMap, Method};
use k8s_openapi::api::core::v1::Secret;
use tokio::time::timeout;

use crate::hub::Context;

/// Where a hub may call, and by what it does.
#[derive(Clone, Default)]
pub struct Egress {
    /// What `--allow-egress` lists.
    pub allowed: Allowed,
    /// The world outside; a hub without one calls nobody.
    pub network: Option<Arc<dyn Network>>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.allowed.fmt(out)
    }
}

impl PartialEq for Egress {
    fn eq(&self, other: &Self) -> bool {
        self.allowed == other.allowed
    }
}

/// A request, but for where it goes.
pub(crate) struct Outgoing {
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The authorities that a certificate is held against, in PEM, where somebody says.
    pub trust: Option<Bytes>,
    /// How much of an answer is read.
    pub at_most: usize,
}

impl Egress {
    /// Sends a request to a URL that somebody wrote.
    pub(crate) async fn call(&self, url: &str, request: Outgoing) -> Result<Answer, Trouble> {
        let to = target(url).map_err(Trouble::Refused)?;
        self.allowed.may_resolve(&to).map_err(Trouble::Refused)?;
        let Some(network) = &self.network else {
            return Err(Trouble::Refused("this hub has no way to the network".to_owned()));
        };
        let host = &to.host;
        let resolving = timeout(TIME_LIMIT, network.resolve(host.clone(), to.port)).await;
        let addresses = match resolving {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(why)) => {
                return Err(Trouble::Failed(format!("{host} cannot be resolved: {why}")));
            }
            Err(_) => {
                let limit = TIME_LIMIT.as_secs();
                let why = format!("{host} cannot be resolved: no answer within {limit} s");
                return Err(Trouble::Failed(why));
            }
        };
        let address = self.allowed.judge(&to, &addresses).map_err(Trouble::Refused)?;
        let Outgoing { method, headers, body, trust, at_most } = request;
        let call = Call {
            method,
            tls: to.tls.then(|| host.clone()),
            trust,
            authority: to.authority(),
            path: to.path.clone(),
            headers,
            body,
            at_most,
        };
        let exchange = network.exchange(SocketAddr::new(address, to.port), call);
        match timeout(TIME_LIMIT, exchange).await {
            Ok(answered) => answered.map_err(|why| Trouble::Failed(format!("{host}: {why}"))),
            Err(_) => {
                let limit = TIME_LIMIT.as_secs();
                Err(Trouble::Failed(format!("{host} did not answer within {limit} s")))
            }
        }
    }
}

/// What a Secret of the hub's own namespace holds that is meant to be sent out. Others are not
/// read out for whoever may name them.
pub(crate) async fn secret(cx: &Context, of: &SecretRef) -> Result<Vec<u8>, Trouble> {
    let SecretRef { name, key } = of;
    let named = format!("Secret {SYSTEM_NAMESPACE}/{name}");
    let at = ObjectKey::namespaced(SYSTEM_NAMESPACE, name);
    let found = match cx.client.of::<Secret>().find(&at).await {
        Ok(Some(found)) => found,
        Ok(None) => return Err(Trouble::Refused(format!("{named} is not there; create it"))),
        Err(why @ ClientError::Malformed(_)) => return Err(Trouble::Refused(why.to_string())),
        Err(why) => return Err(Trouble::Failed(format!("{named} cannot be read: {why}"))),
    };
    let label = found.metadata.labels.as_ref().and_then(|labels| labels.get(own::OUTGOING));
    if label.is_none_or(|label| label != "true") {
        let label = own::OUTGOING;
        return Err(Trouble::Refused(format!(
            "{named} is not labelled to be sent out; if it is meant for that: kubectl label -n {SYSTEM_NAMESPACE} secret {name} {label}=true"
        )));
    }
    let value = found.data.and_then(|mut data| data.remove(key)).map(|value| value.0);
    value.ok_or_else(|| Trouble::Refused(format!("{named} has no key {key}; add it")))
}
