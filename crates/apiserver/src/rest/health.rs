//! Health checks by name, as probes ask for them: `/healthz`, `/livez` and `/readyz`.
//!
//! The names are those of Kubernetes: `ping` says that somebody answers, `etcd` and
//! `etcd-readiness` that the store and its disk keep what is written. Other checks of
//! Kubernetes could not fail here, and are not named.

use std::time::Duration;

use flagship_base::machinery::query::Query;
use http::{Response, StatusCode};
use tokio::time::timeout;

use super::body::Body;
use super::cluster::Cluster;
use super::documents::text;
use super::failure::Failure;
use super::route::page_not_found;

/// Who asks.
const ASKED: [&str; 3] = ["healthz", "livez", "readyz"];

/// How long the disk may take to keep what was written.
const SETTLED: Duration = Duration::from_secs(2);

/// Something that must be well.
struct Check {
    name: &'static str,
    /// Only whoever wants to send requests asks for it.
    ready: bool,
    /// Otherwise it holds by itself once there is anybody to answer.
    store: bool,
}

const fn check(name: &'static str, ready: bool, store: bool) -> Check {
    Check { name, ready, store }
}

const CHECKS: [Check; 3] =
    [check("ping", false, false), check("etcd", false, true), check("etcd-readiness", true, true)];

fn checks(asked: &str) -> impl Iterator<Item = &'static Check> {
    let ready = asked == "readyz";
    CHECKS.iter().filter(move |check| ready || !check.ready)
}

/// What a path asks for: all checks of a kind, or the one that is named.
pub(super) fn asked(path: &str) -> Option<(&'static str, &str)> {
    let (first, name) = path.split_once('/').unwrap_or((path, ""));
    Some((ASKED.into_iter().find(|asked| *asked == first)?, name))
}

/// The paths there are.
pub(super) fn paths() -> Vec<String> {
    let below = |asked: &'static str| checks(asked).map(move |c| format!("/{asked}/{}", c.name));
    let all = ASKED.into_iter();
    all.flat_map(|asked| std::iter::once(format!("/{asked}")).chain(below(asked))).collect()
}

/// Answers for a cluster.
pub(super) async fn answer(
    cluster: &Cluster,
    asked: &str,
    name: &str,
    query: &Query,
) -> Result<Response<Body>, Failure> {
    let wanted: Vec<&Check> =
        checks(asked).filter(|check| name.is_empty() || check.name == name).collect();
    if wanted.is_empty() {
        return Err(page_not_found().into());
    }
    let store = match wanted.iter().any(|check| check.store) {
        true => stores(cluster).await,
        false => true,
    };
    let results = wanted.into_iter().map(|check| {
        // A server without room on its disk still serves reads: to be restarted would not help it.
        let trouble = cluster.store.trouble().filter(|_| check.store && check.ready);
        let withheld = (!store && check.store).then(|| "reason withheld".to_owned());
        (check.name, trouble.or(withheld))
    });
    Ok(told(asked, name, results, query))
}

/// Answers where no cluster was named: somebody is there.
pub fn without_cluster(path: &str, query: &str) -> Option<Response<Body>> {
    let (asked, name) = asked(path.trim_matches('/'))?;
    let query = Query::parse(query).ok()?;
    let results = [("ping", None)].into_iter();
    matches!(name, "" | "ping").then(|| told(asked, name, results, &query))
}

/// Whether what was written is kept.
async fn stores(cluster: &Cluster) -> bool {
    let settled = cluster.store.settled(cluster.store.last_commit());
    cluster.check_open().is_ok() && matches!(timeout(SETTLED, settled).await, Ok(Ok(())))
}

fn told(
    asked: &str,
    name: &str,
    results: impl Iterator<Item = (&'static str, Option<String>)>,
    query: &Query,
) -> Response<Body> {
    let mut excluded: Vec<&str> = query.all("exclude").filter(|name| !name.is_empty()).collect();
    let (mut lines, mut well) = (String::new(), true);
    for (check, failure) in results {
        let before = excluded.len();
        excluded.retain(|name| *name != check);
        lines += &if excluded.len() < before {
            format!("[+]{check} excluded: ok\n")
        } else if let Some(why) = failure {
            well = false;
            format!("[-]{check} failed: {why}\n")
        } else {
            format!("[+]{check} ok\n")
        };
    }
    if !excluded.is_empty() {
        excluded.sort_unstable();
        excluded.dedup();
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(", ");
        lines += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    let mut response = match (well, name) {
        (true, "") if query.get("verbose").is_some() => {
            text(format!("{lines}{asked} check passed\n"))
        }
        (true, _) => text("ok".to_owned()),
        (false, "") => text(format!("{lines}{asked} check failed\n")),
        (false, name) => text(format!("internal server error: {name} failed\n")),
    };
    if !well {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::rest::{ClusterHandle, Server};
    use flagship_store::env::Env;

    async fn ask(cluster: &ClusterHandle, path: &str, query: &str) -> (u16, String) {
        let (asked, name) = asked(path).unwrap();
        let query = Query::parse(query).unwrap();
        let Ok(response) = answer(&cluster.cluster, asked, name, &query).await else {
            return (404, String::new());
        };
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn checks_are_told_and_left_out_by_name() {
        let cluster = Server::new(Env::simulated(1)).add_cluster("hub");
        for (path, query, code, says) in [
            ("healthz", "", 200, "ok"),
            ("readyz", "exclude=nope", 200, "ok"),
            ("readyz/etcd", "verbose", 200, "ok"),
            ("readyz/shutdown", "", 404, ""),
            ("livez/etcd-readiness", "", 404, ""),
            ("livez/nope", "", 404, ""),
            (
                "livez",
                "verbose&exclude=ping&exclude=b&exclude=a",
                200,
                "[+]ping excluded: ok\n[+]etcd ok\n\
                 warn: some health checks cannot be excluded: no matches for \"a\", \"b\"\n\
                 livez check passed\n",
            ),
        ] {
            let want = (code, says.to_owned());
            assert_eq!(ask(&cluster, path, query).await, want, "{path}?{query}");
        }
        assert!(asked("healthy").is_none());
        assert!(paths().contains(&"/readyz/etcd-readiness".to_owned()));
    }

    /// A check that holds whatever happens tells nobody anything.
    #[tokio::test(start_paused = true)]
    async fn every_check_but_ping_can_fail() {
        let server = Server::new(Env::simulated(1));
        let cluster = server.add_cluster("hub");
        server.remove_cluster("hub");
        let (_, says) = ask(&cluster, "readyz", "").await;
        let well: Vec<&str> = says.lines().filter(|line| line.starts_with("[+]")).collect();
        assert_eq!(well, ["[+]ping ok"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_gone_is_not_well() {
        let server = Server::new(Env::simulated(1));
        let cluster = server.add_cluster("hub");
        server.remove_cluster("hub");
        let (code, says) = ask(&cluster, "livez", "").await;
        assert_eq!(code, 500);
        assert!(says.contains("[-]etcd failed: reason withheld\n"), "{says}");
        assert!(says.ends_with("livez check failed\n"), "{says}");
        assert_eq!(ask(&cluster, "livez", "exclude=etcd").await, (200, "ok".to_owned()));
        let failed = (500, "internal server error: etcd failed\n".to_owned());
        assert_eq!(ask(&cluster, "healthz/etcd", "").await, failed);
    }
}
