//! A console for many callers, each as themselves.
//!
//! A caller shows a bearer token, as a header that an ingress adds or as a cookie from the
//! sign-in page. The hub's API server says whose it is (TokenReview), and everything that is
//! read and written for the caller goes out in the caller's name (impersonation), so that the
//! API server's roles decide and its audit log tells who it was. The console reads nothing in
//! its own name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use http::header::{AUTHORIZATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::assets;
use crate::commands::Commands;
use crate::guard::{Refusal, cookie_of, from_our_page, has_verb_header, host_of, refusal};
use crate::http::{Answer, Caller, LARGEST, guarded, plain, said, typed};

/// How long an answer about a token holds.
const REVIEWED: Duration = Duration::from_secs(30);
/// How long a stream lasts before its caller is looked at again.
const STREAM: Duration = Duration::from_secs(300);
/// How long what a caller sees is kept up after the last request.
const KEPT: Duration = Duration::from_secs(120);
/// Callers at a time: each has a mirror of the hub of their own.
const MOST_CALLERS: usize = 64;
/// Tokens whose owners are remembered.
const MOST_TOKENS: usize = 1024;
/// Browsers keep cookies of four kilobytes.
const LONGEST_TOKEN: usize = 3800;
/// Requests a second for each caller in the long run, and at once.
const RATE: (f64, u32) = (50.0, 200);

const COOKIE: &str = "__Host-flagship-console";
/// Differs from token to token of the same person.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

const FOREIGN_HOST: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "This console answers only to the names that --console-hosts lists.",
);
const NO_TOKEN: Refusal =
    refusal(StatusCode::UNAUTHORIZED, "Sign in with a token that the hub's API server accepts.");
const UNCHECKED: Refusal = refusal(
    StatusCode::SERVICE_UNAVAILABLE,
    "The hub's API server cannot be asked about tokens now; try again in a moment.",
);
const CROWDED: Refusal = refusal(
    StatusCode::SERVICE_UNAVAILABLE,
    "Too many people have the console open; try again in a few minutes.",
);
const READ_ONLY: &str = "This console only shows: the hub runs without --console-verbs.";

/// What a team's console is told.
pub struct Team {
    /// The names, with or without a port, under which people open it.
    pub hosts: Vec<String>,
    /// Whether verbs are carried out.
    pub verbs: bool,
    /// Makes the commands of a caller's client.
    pub commands: Box<dyn Fn(Client) -> Arc<dyn Commands> + Send + Sync>,
}

/// A console for many callers.
pub struct TeamConsole {
    team: Team,
    /// Asks about tokens, and may impersonate.
    hub: Client,
    env: Env,
    tokens: Mutex<BTreeMap<Vec<u8>, (Instant, UserInfo)>>,
    callers: Mutex<BTreeMap<String, (Instant, Arc<Caller>)>>,
}

impl TeamConsole {
    /// Shows the hub of this client to whoever its API server knows.
    pub fn new(hub: Client, team: Team, env: &Env) -> Self {
        let (tokens, callers) = (Mutex::default(), Mutex::default());
        Self { team, hub, env: env.clone(), tokens, callers }
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Answer>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let mut answer = match self.checked(&head) {
            Err(refusal) => plain(refusal.status, refusal.says),
            Ok(()) => self.let_in(&head, body).await,
        };
        guarded(answer.headers_mut());
        answer
    }

    /// Refuses other names, other sites' pages and forms.
    fn checked(&self, head: &Parts) -> Result<(), Refusal> {
        let host = host_of(head);
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let mut hosts = self.team.hosts.iter();
        if !hosts.any(|ours| ours.eq_ignore_ascii_case(host) || ours.eq_ignore_ascii_case(name)) {
            return Err(FOREIGN_HOST);
        }
        from_our_page(head, "https://")?;
        has_verb_header(head)
    }

    async fn let_in<B>(&self, head: &Parts, body: B) -> Response<Answer>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match (&head.method, head.uri.path()) {
            (&Method::GET, path @ ("/style.css" | "/icon.svg" | "/sign-in.js")) => {
                return asset(path, StatusCode::OK);
            }
            (&Method::POST, "/api/sign-in") => return self.sign_in(body).await,
            (&Method::POST, "/api/sign-out") => {
                return signed(said(StatusCode::OK, &json!({})), "", "; Max-Age=0");
            }
            _ => {}
        }
        let user = match token_of(head) {
            Some(token) => self.owner(&token).await,
            None => Err(NO_TOKEN),
        };
        match user.and_then(|user| self.caller(&user)) {
            Ok(caller) => caller.route(head, body).await,
            Err(NO_TOKEN) if head.method == Method::GET && head.uri.path() == "/" => {
                asset("/sign-in.html", StatusCode::UNAUTHORIZED)
            }
            Err(refusal) => plain(refusal.status, refusal.says),
        }
    }

    /// Takes a token for a cookie that scripts and other sites cannot use.
    async fn sign_in<B>(&self, body: B) -> Response<Answer>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let refused = |status, why: &str| said(status, &json!({"error": why}));
        let Ok(body) = Limited::new(body, LARGEST).collect().await else {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "This is too long for a token.");
        };
        let sent: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        let token = sent["token"].as_str().unwrap_or_default().trim().to_owned();
        if token.len() > LONGEST_TOKEN {
            let why = "This token is too long for a cookie; have the ingress send it as a header.";
            return refused(StatusCode::BAD_REQUEST, why);
        }
        if !is_token(&token) {
            return refused(StatusCode::BAD_REQUEST, "This is not a bearer token.");
        }
        match self.owner(&token).await {
            Ok(user) => signed(said(StatusCode::OK, &json!({"user": user.username})), &token, ""),
            Err(NO_TOKEN) => refused(
                StatusCode::UNAUTHORIZED,
                "The hub's API server does not accept this token.",
            ),
            Err(refusal) => refused(refusal.status, refusal.says),
        }
    }

    /// Whose token this is, by the word of the hub's API server.
    async fn owner(&self, token: &str) -> Result<UserInfo, Refusal> {
        let name = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        let now = Instant::now();
        if let Some((asked, user)) = lock(&self.tokens).get(&name)
            && now - *asked < REVIEWED
        {
            return Ok(user.clone());
        }
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let answer = self.hub.of::<TokenReview>().create(&review).await.map_err(|error| {
            tracing::warn!(%error, "cannot ask about a token");
            UNCHECKED
        })?;
        let mut tokens = lock(&self.tokens);
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).unwrap_or_default();
        // A user without a name would be the console itself.
        if user.username.as_deref().unwrap_or_default().is_empty() {
            tokens.remove(&name);
            return Err(NO_TOKEN);
        }
        tokens.retain(|_, (asked, _)| now - *asked < REVIEWED);
        if tokens.len() < MOST_TOKENS {
            tokens.insert(name, (now, user.clone()));
        }
        Ok(user)
    }

    /// What this user sees, begun if nobody has seen it of late.
    fn caller(&self, user: &UserInfo) -> Result<Arc<Caller>, Refusal> {
        let now = Instant::now();
        let identity = identity(user);
        let mut callers = lock(&self.callers);
        // Whoever reads a stream holds it too.
        let is_read = |caller: &Arc<Caller>| Arc::strong_count(caller) > 1;
        callers.retain(|_, (used, caller)| is_read(caller) || now - *used < KEPT);
        if let Some((used, caller)) = callers.get_mut(&identity) {
            *used = now;
            return Ok(caller.clone());
        }
        if callers.len() >= MOST_CALLERS {
            let idle = callers.iter().filter(|(_, (_, caller))| !is_read(caller));
            let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone());
            callers.remove(&oldest.ok_or(CROWDED)?);
        }
        let headers = impersonating(user).ok_or(NO_TOKEN)?;
        let client = self.hub.with_headers(headers).with_rate_limit(RATE.0, RATE.1);
        let commands = (self.team.commands)(client.clone());
        let read_only = (!self.team.verbs).then_some(READ_ONLY);
        let name = user.username.as_deref().unwrap_or_default();
        let caller = Caller::new(client, commands, &self.env).known_as(name, STREAM, read_only);
        let caller = Arc::new(caller);
        callers.insert(identity, (now, caller.clone()));
        Ok(caller)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn asset(path: &str, status: StatusCode) -> Response<Answer> {
    match assets::find(path) {
        Some(asset) => {
            let mut answer = typed(asset.media_type, bytes::Bytes::from_static(asset.bytes));
            *answer.status_mut() = status;
            answer
        }
        None => plain(StatusCode::NOT_FOUND, "There is nothing here; begin at /."),
    }
}

fn signed(mut answer: Response<Answer>, token: &str, more: &str) -> Response<Answer> {
    let cookie = format!("{COOKIE}={token}; Path=/; Secure; HttpOnly; SameSite=Strict{more}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// The token a request shows; what an ingress adds counts before the cookie.
fn token_of(head: &Parts) -> Option<String> {
    let mut sent = head.headers.get_all(AUTHORIZATION).iter();
    let token = match (sent.next(), sent.next()) {
        (None, _) => cookie_of(head, COOKIE)?,
        (Some(only), None) => {
            let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())?
        }
        (Some(_), Some(_)) => return None,
    };
    is_token(&token).then_some(token)
}

/// What RFC 6750 lets stand in a header, and a cookie takes as well.
fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// Everything that roles may depend on.
fn identity(user: &UserInfo) -> String {
    let mut extra = user.extra.clone().unwrap_or_default();
    extra.remove(CREDENTIAL);
    json!([user.username, user.uid, user.groups, extra]).to_string()
}

/// The headers by which a request is this user's; nothing if one cannot be written, for with
/// fewer the request would be another's.
fn impersonating(user: &UserInfo) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_str(value).ok()?);
        Some(())
    };
    add("impersonate-user", user.username.as_deref().filter(|name| !name.is_empty())?)?;
    for group in user.groups.iter().flatten() {
        add("impersonate-group", group)?;
    }
    if let Some(uid) = user.uid.as_deref().filter(|uid| !uid.is_empty()) {
        add("impersonate-uid", uid)?;
    }
    for (key, values) in user.extra.iter().flatten() {
        for value in values {
            add(&format!("impersonate-extra-{}", escaped(key)), value)?;
        }
    }
    Some(headers)
}

/// A key as it may stand in the name of a header.
fn escaped(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letters = key.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    });
    letters.collect()
}

#[cfg(test)]
mod tests;
