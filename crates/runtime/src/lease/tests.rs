//! Two candidates, one lease, and everything that can come between them.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::SignedDuration;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::fake::status;

/// The one Lease, with compare-and-swap, and how long answers take.
#[derive(Clone, Default)]
struct LeaseServer(Arc<Mutex<LeaseState>>);

#[derive(Default)]
struct LeaseState {
    lease: Option<Value>,
    version: u64,
}

/// One candidate's way to the server.
#[derive(Clone)]
struct Line {
    server: LeaseServer,
    /// While set, requests arrive and answers do not.
    cut: Arc<Mutex<bool>>,
}

impl LeaseServer {
    fn answer(&self, method: &Method, body: &Bytes) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let version =
            state.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        match (method, &version) {
            (&Method::GET, Some(_)) => return (200, state.lease.clone().unwrap()),
            (&Method::GET, None) => {
                let mut missing = status(404, "NotFound");
                missing["details"] = json!({"name": "hub"});
                return (404, missing);
            }
            (&Method::POST, Some(_)) => return (409, status(409, "AlreadyExists")),
            (&Method::PUT, old) if old.as_ref() != Some(&body["metadata"]["resourceVersion"]) => {
                return (409, status(409, "Conflict"));
            }
            _ => {}
        }
        state.version += 1;
        let mut lease = body;
        lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.lease = Some(lease.clone());
        (200, lease)
    }

    fn line(&self) -> Line {
        Line { server: self.clone(), cut: Arc::default() }
    }

    fn holder(&self) -> String {
        let state = self.0.lock().unwrap();
        let holder = state.lease.as_ref().map(|lease| lease["spec"]["holderIdentity"].clone());
        holder.and_then(|holder| Some(holder.as_str()?.to_owned())).unwrap_or_default()
    }
}

impl tower::Service<Request<Body>> for Line {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let line = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            if *line.cut.lock().unwrap() {
                std::future::pending::<()>().await;
            }
            let (code, answer) = line.server.answer(&parts.method, &body);
            let body = Full::new(Bytes::from(answer.to_string()));
            Ok(Response::builder().status(code).body(body).unwrap())
        })
    }
}

type Log = Arc<Mutex<Vec<String>>>;

struct Story {
    server: LeaseServer,
    begun: Instant,
    log: Log,
    env: Env,
}

impl Story {
    fn new() -> Self {
        let (server, log) = (LeaseServer::default(), Log::default());
        Self { server, begun: Instant::now(), log, env: Env::simulated(1) }
    }

    /// A candidate whose clock is off by `skew` seconds, that leads for `span` at a time.
    fn candidate(&self, name: &'static str, skew: i64, span: Duration) -> Line {
        let (env, _) = self.env.skewed(SignedDuration::from_secs(skew));
        let config =
            LeaseConfig { identity: name.to_owned(), ..LeaseConfig::new(&env, "hub", name) };
        self.candidate_with(config, env, name, span)
    }

    /// A candidate with the spans of KubeFleet's flags.
    fn slow_candidate(&self, name: &'static str, span: Duration) -> Line {
        let config = LeaseConfig {
            identity: name.to_owned(),
            duration: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(45),
            retry: Duration::from_secs(5),
            ..LeaseConfig::new(&self.env, "hub", name)
        };
        self.candidate_with(config, self.env.clone(), name, span)
    }

    fn candidate_with(
        &self,
        config: LeaseConfig,
        env: Env,
        name: &'static str,
        span: Duration,
    ) -> Line {
        let line = self.server.line();
        let mut candidate = Candidate::new(&Client::in_process(line.clone()), &env, config);
        let (begun, log) = (self.begun, self.log.clone());
        tokio::spawn(async move {
            let say = |what: &str| {
                let seconds = begun.elapsed().as_secs();
                log.lock().unwrap().push(format!("{seconds}s {name} {what}"));
            };
            loop {
                let ended = candidate
                    .lead(std::future::pending(), async |leadership| {
                        say(&format!("leads, epoch {}", leadership.epoch()));
                        tokio::time::sleep(span).await;
                        assert!(leadership.is_held());
                    })
                    .await;
                say(if ended == Ended::Lost { "lost" } else { "finished" });
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
        });
        line
    }

    async fn runs_until(&self, second: u64) {
        tokio::time::sleep_until(self.begun + Duration::from_secs(second)).await;
    }

    fn told(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

const LONG: Duration = Duration::from_secs(100_000);

#[tokio::test(start_paused = true)]
async fn the_second_waits_while_the_first_renews() {
    let story = Story::new();
    story.candidate("one", 0, LONG);
    story.runs_until(1).await;
    story.candidate("two", 0, LONG);
    story.runs_until(3600).await;
    assert_eq!(story.told(), ["0s one leads, epoch 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_knows_before_the_other_may_lead() {
    for skew in [0, 600, -600] {
        let story = Story::new();
        let one = story.candidate("one", 0, LONG);
        story.candidate("two", skew, LONG);
        story.runs_until(100).await;
        *one.cut.lock().unwrap() = true;
        story.runs_until(130).await;
        let told = story.told();
        assert_eq!(told[..2], ["0s one leads, epoch 0", "108s one lost"], "skew {skew}");
        let second: u64 = told[2].split_once('s').unwrap().0.parse().unwrap();
        assert!(told[2].ends_with("two leads, epoch 1"), "{told:?}");
        assert!((112..=118).contains(&second), "skew {skew}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_the_next_look() {
    let story = Story::new();
    story.candidate("one", 0, Duration::from_secs(60));
    story.candidate("two", 0, LONG);
    story.runs_until(70).await;
    let told = story.told();
    assert_eq!(told[..2], ["0s one leads, epoch 0", "60s one finished"]);
    let second: u64 = told[2].split_once('s').unwrap().0.parse().unwrap();
    assert!(second <= 63, "{told:?}");
    assert_eq!(story.server.holder(), "two");
}

#[tokio::test(start_paused = true)]
async fn however_rarely_leases_are_renewed_nobody_waits_long_for_a_leader() {
    let story = Story::new();
    let one = story.slow_candidate("one", LONG);
    story.slow_candidate("two", LONG);
    story.runs_until(100).await;
    *one.cut.lock().unwrap() = true;
    // Its lease lasts 60 seconds from a renewal that was at most now.
    story.runs_until(162).await;
    assert_eq!(story.server.holder(), "two", "{:?}", story.told());

    let story = Story::new();
    story.slow_candidate("one", Duration::from_secs(60));
    story.slow_candidate("two", LONG);
    story.runs_until(61).await;
    assert_eq!(story.server.holder(), "two", "{:?}", story.told());
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_told_to_stop_ends_and_takes_nothing() {
    let story = Story::new();
    story.candidate("one", 0, LONG);
    story.runs_until(1).await;
    let config = LeaseConfig::new(&story.env, "hub", "two");
    let client = Client::in_process(story.server.line());
    let mut two = Candidate::new(&client, &story.env, config);
    let stop = tokio::time::sleep(Duration::from_secs(20));
    let ended = two.lead(stop, async |_| unreachable!("the first one leads")).await;
    assert_eq!(ended, Ended::<()>::Stopped);
    assert_eq!(story.begun.elapsed().as_secs(), 21);
    assert_eq!(story.server.holder(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_short_cut_is_survived() {
    let story = Story::new();
    let one = story.candidate("one", 0, LONG);
    story.candidate("two", 0, LONG);
    for minute in 1..5u64 {
        story.runs_until(60 * minute).await;
        *one.cut.lock().unwrap() = true;
        story.runs_until(60 * minute + 5).await;
        *one.cut.lock().unwrap() = false;
    }
    story.runs_until(400).await;
    assert_eq!(story.told(), ["0s one leads, epoch 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_is_told_at_its_next_look() {
    let story = Story::new();
    story.candidate("one", 0, LONG);
    story.runs_until(11).await;
    let usurper = json!({
        "metadata": {"namespace": "fleet-system", "name": "hub", "resourceVersion": "999"},
        "spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 15},
    });
    story.server.0.lock().unwrap().lease = Some(usurper);
    story.runs_until(13).await;
    assert_eq!(story.told(), ["0s one leads, epoch 0", "12s one lost"]);
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_by_the_clock_alone() {
    let leadership = Leadership::new(Instant::now() + Duration::from_secs(10), 0);
    assert!(leadership.is_held());
    let begun = Instant::now();
    leadership.lost().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert!(!leadership.is_held());
    assert!(Leadership::uncontested().is_held());
}
