//! `/healthz`, `/readyz` and `/metrics` of an agent, over plain HTTP as probes expect.
//!
//! A bind address is Go's: `:8080` listens everywhere, in IPv4 and IPv6; `0` or nothing listens nowhere.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::readiness::Readiness;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::connections::{answer_all, serve_each};

/// What one listener answers besides `/healthz`.
#[derive(Clone)]
pub struct Answers {
    /// Why the agent is not ready; `None` when it is.
    pub unready: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// The metrics as text, if they are served here.
    pub metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl Answers {
    /// What an agent answers: how far it has come, and its metrics.
    pub fn of(ready: impl Fn() -> Readiness + Send + Sync + 'static, metrics: Metrics) -> Self {
        Self {
            unready: Arc::new(move || ready().unready()),
            metrics: Some(Arc::new(move || metrics.render())),
        }
    }

    /// The same, and not ready while something else is in the way.
    pub fn unless(self, why: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        let Self { unready, metrics } = self;
        Self { unready: Arc::new(move || unready().or_else(&why)), metrics }
    }
}

/// Listens on a Go-style address; a disabled one gives nothing.
pub async fn listen(flag: &str, address: &str) -> anyhow::Result<Option<TcpListener>> {
    if address.is_empty() || address == "0" {
        return Ok(None);
    }
    let listener = match address.strip_prefix(':').map(str::parse) {
        Some(Ok(port)) => everywhere(port).await,
        _ => TcpListener::bind(address).await,
    };
    let listener = listener
        .with_context(|| format!("cannot listen on {address} (--{flag}; 0 turns it off)"))?;
    Ok(Some(listener))
}

/// Listens on every address of this machine, of both families: a pod may have addresses of one
/// alone, or of both. Where there is no IPv6 the older family is all there is.
pub async fn everywhere(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        listener => listener,
    }
}

/// Listens on each address that is not turned off, and serves until the set is dropped.
pub async fn serve_all(
    addresses: &[(&str, &String)],
    answers: &Answers,
) -> anyhow::Result<JoinSet<()>> {
    let mut serving = JoinSet::new();
    for (flag, address) in addresses {
        if let Some(listener) = listen(flag, address).await? {
            // Probes come from everywhere. They are told nothing that they do not ask for.
            let answers = match flag.ends_with("metrics-bind-address") {
                true => answers.clone(),
                false => Answers { metrics: None, ..answers.clone() },
            };
            serving.spawn(serve(listener, answers));
        }
    }
    Ok(serving)
}

/// Serves until dropped.
pub async fn serve(listener: TcpListener, answers: Answers) {
    let serve = |socket| {
        let answers = answers.clone();
        async move {
            let answer = |request: Request<Incoming>| {
                std::future::ready(answer(request.uri().path(), &answers))
            };
            answer_all(socket, answer).await;
        }
    };
    serve_each(listener, serve).await;
}

fn answer(path: &str, answers: &Answers) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (path, &answers.metrics) {
        ("/healthz" | "/livez", _) => (StatusCode::OK, PLAIN, "ok".to_owned()),
        ("/readyz", _) => match (answers.unready)() {
            None => (StatusCode::OK, PLAIN, "ok".to_owned()),
            Some(why) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, why),
        },
        ("/metrics", Some(metrics)) => (StatusCode::OK, EXPOSITION, metrics()),
        (_, Some(_)) => {
            (StatusCode::NOT_FOUND, PLAIN, "try /healthz, /readyz or /metrics".to_owned())
        }
        (_, None) => (StatusCode::NOT_FOUND, PLAIN, "try /healthz or /readyz".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpStream;

    use super::*;

    fn answers(unready: Option<&'static str>) -> Answers {
        Answers {
            unready: Arc::new(move || unready.map(str::to_owned)),
            metrics: Some(Arc::new(|| "fleet_up 1\n".to_owned())),
        }
    }

    #[test]
    fn metrics_are_served_only_where_they_are_asked_for() {
        let probes = Answers { metrics: None, ..answers(None) };
        assert_eq!(answer("/metrics", &probes).status().as_u16(), 404);
        assert_eq!(answer("/healthz", &probes).status().as_u16(), 200);
    }

    /// Whoever wants them from elsewhere says so: `--metrics-bind-address=:8080`.
    #[test]
    fn metrics_are_on_loopback_unless_asked() {
        use clap::Args;
        let hub = super::super::Hub::augment_args(clap::Command::new("hub"));
        let member = super::super::Member::augment_args(clap::Command::new("member"));
        let mut found = 0;
        for argument in hub.get_arguments().chain(member.get_arguments()) {
            let name = argument.get_long().unwrap_or_default();
            if name.ends_with("metrics-bind-address") {
                found += 1;
                let default = argument.get_default_values()[0].to_string_lossy();
                assert!(default.starts_with("127.0.0.1:"), "{name} {default}");
            }
        }
        assert_eq!(found, 3, "of the hub, of a member, and of a member towards the hub");
    }

    #[test]
    fn an_agent_that_is_not_ready_says_why() {
        let waiting = answers(Some("no mirror is filled"));
        for (path, status) in
            [("/healthz", 200), ("/readyz", 500), ("/metrics", 200), ("/console", 404)]
        {
            assert_eq!(answer(path, &waiting).status().as_u16(), status, "{path}");
        }
        assert_eq!(answer("/readyz", &answers(None)).status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_disabled_address_listens_nowhere() {
        for address in ["", "0"] {
            assert!(listen("metrics-bind-address", address).await.unwrap().is_none());
        }
    }

    /// A pod of a cluster with IPv6 alone has no other address, nor has its probe.
    #[tokio::test]
    async fn a_port_without_an_address_is_reached_by_both_families() {
        let listener = listen("health-probe-bind-address", ":0").await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut families = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
        // Some machines have no IPv6 at all.
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            families.push(SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
        }
        for address in families {
            assert!(TcpStream::connect(address).await.is_ok(), "{address}");
        }
    }

    #[tokio::test]
    async fn a_port_in_use_names_the_flag() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let refusal = listen("metrics-bind-address", &address).await.unwrap_err();
        assert_eq!(
            refusal.to_string(),
            format!("cannot listen on {address} (--metrics-bind-address; 0 turns it off)")
        );
    }
}
