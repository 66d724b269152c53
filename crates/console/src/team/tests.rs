//! Who is let into a team's console, as whom, and what goes out in whose name.

use std::convert::Infallible;

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_explain::why::MemberView;
use futures::future::{BoxFuture, FutureExt};
use http_body_util::Full;

use super::*;
use crate::commands::Act;

/// A hub that knows two tokens and writes down who asked for what.
#[derive(Clone, Default)]
struct FakeHub {
    asked: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    /// Tokens that are good no more.
    revoked: Arc<Mutex<Vec<String>>>,
    silent: bool,
}

impl FakeHub {
    fn client(&self) -> Client {
        let hub = self.clone();
        Client::in_process(tower::service_fn(move |request| {
            let hub = hub.clone();
            async move { Ok::<_, Infallible>(hub.answer(request).await) }
        }))
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        lock(&self.asked).push((path.clone(), head.headers));
        let whole = |status: u16, value: Value| {
            let body = Full::new(Bytes::from(value.to_string()));
            Response::builder().status(status).body(body).unwrap()
        };
        let failure = |code: u16| {
            whole(
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "reason": "InternalError", "message": "no"}),
            )
        };
        if path.ends_with("/tokenreviews") {
            if self.silent {
                return failure(500);
            }
            let body = body.collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let token = review["spec"]["token"].as_str().unwrap().to_owned();
            let user = |name: &str| {
                json!({"authenticated": true, "user": {"username": name, "uid": "u-1",
                "groups": ["devs", "system:authenticated"],
                "extra": {"example.com/scope": ["read"], CREDENTIAL: [token]}}})
            };
            review["status"] = match token.as_str() {
                token if lock(&self.revoked).iter().any(|gone| gone == token) => json!({}),
                "ana-1" | "ana-2" => user("ana"),
                "bo" => user("bo"),
                "nameless" => user(""),
                "unsaid" => json!({"user": {"username": "eve"}}),
                _ => json!({"authenticated": false, "error": "invalid bearer token"}),
            };
            return whole(201, review);
        }
        failure(503)
    }

    fn asked(&self) -> Vec<(String, HeaderMap)> {
        lock(&self.asked).clone()
    }
}

struct Nobody;

impl Commands for Nobody {
    fn act(&self, _: Act) -> BoxFuture<'_, Result<String, String>> {
        async { Ok("done".to_owned()) }.boxed()
    }

    fn plan(&self, _: &ObjectKey, _: Option<&str>) -> BoxFuture<'_, Result<Value, String>> {
        async { Err("nobody plans here".to_owned()) }.boxed()
    }

    fn changes(&self, _: &ObjectKey, _: &str, _: &str) -> BoxFuture<'_, Result<Value, String>> {
        async { Err("nobody compares here".to_owned()) }.boxed()
    }

    fn look(&self, _: &str, _: &ResourceIdentifier) -> BoxFuture<'_, MemberView> {
        async { MemberView::default() }.boxed()
    }
}

fn console(hub: &FakeHub, verbs: bool) -> TeamConsole {
    let team = Team {
        hosts: vec!["fleet.example".to_owned(), "10.0.0.7:8444".to_owned()],
        verbs,
        commands: Box::new(|_| Arc::new(Nobody)),
    };
    TeamConsole::new(hub.client(), team, &Env::simulated(1))
}

async fn ask(
    console: &TeamConsole,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<Answer> {
    let (method, uri) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "fleet.example");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    console.answer(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await
}

async fn text(answer: Response<Answer>) -> String {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&body).trim().to_owned()
}

const ANA: (&str, &str) = ("authorization", "Bearer ana-1");
const VERB: (&str, &str) = ("x-flagship-verb", "1");
const STOP: &str = r#"{"verb":"stop","run":"r"}"#;

#[tokio::test(start_paused = true)]
async fn without_a_token_nothing_is_shown_but_the_way_to_sign_in() {
    let (hub, paths) =
        (FakeHub::default(), ["/events?view=home", "/api/view?view=home", "/app.js"]);
    let console = console(&hub, true);
    for path in paths {
        let answer = ask(&console, &format!("GET {path}"), &[], "").await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(text(answer).await, NO_TOKEN.says);
    }
    let page = ask(&console, "GET /", &[], "").await;
    assert_eq!(page.status(), StatusCode::UNAUTHORIZED);
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'self'; frame-ancestors 'none'"), "{policy}");
    assert!(text(page).await.contains("<h1>Sign in</h1>"));
    for path in ["/style.css", "/icon.svg", "/sign-in.js"] {
        let answer = ask(&console, &format!("GET {path}"), &[], "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
    assert_eq!(hub.asked().len(), 0, "nobody is asked about nothing");
}

#[tokio::test(start_paused = true)]
async fn tokens_that_the_api_server_does_not_accept_are_refused() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    for sent in
        ["Bearer wrong", "Bearer nameless", "Bearer unsaid", "Basic YTpi", "ana-1", "Bearer "]
    {
        let headers = [("authorization", sent)];
        let answer = ask(&console, "GET /api/view?view=home", &headers, "").await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{sent}");
    }
    let two = [ANA, ("authorization", "Bearer bo")];
    let answer = ask(&console, "GET /api/view?view=home", &two, "").await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "two tokens are none");
    assert!(lock(&console.callers).is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_tokens_cannot_be_checked_nobody_is_let_in() {
    let hub = FakeHub { silent: true, ..FakeHub::default() };
    let answer = ask(&console(&hub, true), "GET /api/view?view=home", &[ANA], "").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(text(answer).await, UNCHECKED.says);
}

#[tokio::test(start_paused = true)]
async fn everything_goes_out_in_the_name_of_the_caller() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    let answer = ask(&console, "GET /api/view?view=home", &[ANA], "").await;
    assert_eq!(answer.status(), StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = hub.asked();
    let (reviews, others): (Vec<_>, Vec<_>) =
        asked.iter().partition(|(path, _)| path.ends_with("/tokenreviews"));
    assert_eq!(reviews.len(), 1);
    assert!(!reviews[0].1.contains_key("impersonate-user"));
    assert!(others.len() > 10, "the hub is read: {}", others.len());
    for (path, headers) in others {
        assert_eq!(headers["impersonate-user"], "ana", "{path}");
        let groups: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(groups, ["devs", "system:authenticated"], "{path}");
        assert_eq!(headers["impersonate-uid"], "u-1");
        assert_eq!(headers["impersonate-extra-example.com%2fscope"], "read");
        assert!(!headers.contains_key("authorization"), "the token goes nowhere else");
    }
    let me = text(ask(&console, "GET /api/me", &[ANA], "").await).await;
    assert_eq!(me, r#"{"readOnly":null,"user":"ana"}"#);
}

#[tokio::test(start_paused = true)]
async fn people_share_nothing_and_a_person_keeps_what_they_see_under_a_new_token() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    for token in ["ana-1", "ana-2", "bo"] {
        let sent = format!("Bearer {token}");
        let headers = [("authorization", sent.as_str())];
        ask(&console, "GET /api/view?view=home", &headers, "").await;
    }
    assert_eq!(lock(&console.callers).len(), 2);
    // Whoever is gone costs nothing after a while.
    tokio::time::advance(KEPT * 2).await;
    ask(&console, "GET /api/view?view=home", &[("authorization", "Bearer bo")], "").await;
    assert_eq!(lock(&console.callers).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_refused_soon_and_its_streams_end() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    let stream = ask(&console, "GET /events?view=home", &[ANA], "").await;
    assert_eq!(stream.status(), StatusCode::OK);
    lock(&hub.revoked).push("ana-1".to_owned());
    tokio::time::advance(REVIEWED * 2).await;
    let answer = ask(&console, "GET /api/view?view=home", &[ANA], "").await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let begun = Instant::now();
    let whole = tokio::time::timeout(STREAM * 2, stream.into_body().collect()).await;
    let whole = whole.expect("streams end").unwrap().to_bytes();
    assert!(begun.elapsed() <= STREAM);
    assert!(whole.ends_with(b"retry: 50\n\n"), "the page comes back at once, and is refused");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_host_or_origin_and_a_form_are_refused_even_with_a_token() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    let refused = |line: &'static str, headers: Vec<(&'static str, &'static str)>| {
        let console = &console;
        async move {
            let answer = ask(console, line, &headers, STOP).await;
            (answer.status().as_u16(), text(answer).await)
        }
    };
    for host in ["evil.example", "fleet.example.evil", "10.0.0.7", "10.0.0.7:1", ""] {
        let told = refused("GET /api/view?view=home", vec![ANA, ("host", host)]).await;
        assert_eq!(told, (403, FOREIGN_HOST.says.to_owned()), "{host}");
    }
    for host in ["fleet.example", "FLEET.example:443", "10.0.0.7:8444"] {
        let answer = ask(&console, "GET /api/me", &[ANA, ("host", host)], "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{host}");
    }
    for origin in
        ["https://evil.example", "http://fleet.example", "https://fleet.example:1", "null"]
    {
        let (status, _) = refused("POST /api/act", vec![ANA, VERB, ("origin", origin)]).await;
        assert_eq!(status, 403, "{origin}");
    }
    let (status, said) = refused("POST /api/act", vec![ANA]).await;
    assert_eq!((status, said.contains("needs the header")), (403, true), "{said}");
    let cross = ("sec-fetch-site", "cross-site");
    for line in ["POST /api/act", "GET /events?view=home", "POST /api/sign-in"] {
        assert_eq!(refused(line, vec![ANA, VERB, cross]).await.0, 403, "{line}");
    }
    let ours = vec![ANA, VERB, ("origin", "https://fleet.example")];
    assert_eq!(refused("POST /api/act", ours).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_console_without_verbs_shows_them_disabled_and_carries_none_out() {
    let hub = FakeHub::default();
    let console = console(&hub, false);
    let answer = ask(&console, "POST /api/act", &[ANA, VERB], STOP).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(text(answer).await.contains("--console-verbs"));
    let rights = crate::rights::Rights::read_only(Some(READ_ONLY));
    assert_eq!(rights.missing(&crate::rights::Right::create_run(None)), READ_ONLY);
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_gives_a_cookie_that_scripts_and_other_sites_cannot_use() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    let sent = json!({"token": " ana-1\n"}).to_string();
    let answer = ask(&console, "POST /api/sign-in", &[VERB], &sent).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert_eq!(cookie, "__Host-flagship-console=ana-1; Path=/; Secure; HttpOnly; SameSite=Strict");
    let cookie = ("cookie", "a=b; __Host-flagship-console=ana-1");
    let me = text(ask(&console, "GET /api/me", &[cookie], "").await).await;
    assert!(me.contains(r#""user":"ana""#), "{me}");
    // What the ingress says counts.
    let both = [cookie, ("authorization", "Bearer bo")];
    assert!(text(ask(&console, "GET /api/me", &both, "").await).await.contains(r#""user":"bo""#));
    let out = ask(&console, "POST /api/sign-out", &[VERB, cookie], "").await;
    assert!(out.headers()["set-cookie"].to_str().unwrap().ends_with("; Max-Age=0"));
    let long = "x".repeat(LONGEST_TOKEN + 1);
    for (token, status) in
        [("wrong", 401), ("", 400), ("a b", 400), ("a;b", 400), ("ä", 400), (long.as_str(), 400)]
    {
        let sent = json!({"token": token}).to_string();
        let answer = ask(&console, "POST /api/sign-in", &[VERB], &sent).await;
        assert_eq!(answer.status().as_u16(), status, "{token}");
        assert!(!answer.headers().contains_key("set-cookie"));
    }
    assert_eq!(ask(&console, "POST /api/sign-in", &[], &sent).await.status(), 403);
}

#[test]
fn a_user_whose_name_fits_no_header_is_nobody() {
    let user = |name: &str| UserInfo { username: Some(name.to_owned()), ..UserInfo::default() };
    assert!(impersonating(&user("ana\r\nimpersonate-group: system:masters")).is_none());
    assert!(impersonating(&user("")).is_none());
    assert!(impersonating(&user("system:serviceaccount:ops:ana")).is_some());
    assert_eq!(escaped("example.com/a b"), "example.com%2fa%20b");
}

#[tokio::test(start_paused = true)]
async fn callers_are_bounded_and_readers_are_not_thrown_out() {
    let hub = FakeHub::default();
    let console = console(&hub, true);
    let user =
        |number: usize| UserInfo { username: Some(format!("user{number}")), ..UserInfo::default() };
    let mut readers: Vec<_> =
        (0..MOST_CALLERS).map(|number| console.caller(&user(number)).ok().unwrap()).collect();
    assert_eq!(console.caller(&user(MOST_CALLERS)).err(), Some(CROWDED));
    drop(readers.pop());
    assert!(console.caller(&user(MOST_CALLERS)).is_ok());
    assert_eq!(lock(&console.callers).len(), MOST_CALLERS);
}
