//! The console over HTTP: the page, its views as JSON and as event streams, and the verbs.
//!
//! Every request passes the [`Guard`] first, whatever it asks for. Answers carry a policy
//! under which the browser loads nothing from elsewhere and runs no script of a name or a
//! message.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use serde_json::{Value, json};

use crate::assets;
use crate::commands::{Act, Commands};
use crate::guard::Guard;
use crate::live::whole_text;
use crate::session::Session;
use crate::stream;
use crate::view::{View, field, status};

/// The body of an answer.
pub type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// A verb is a few names and a comment.
const LARGEST: usize = 64 << 10;

const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A console for one caller.
pub struct Console {
    guard: Guard,
    client: Client,
    commands: Arc<dyn Commands>,
    env: Env,
    /// Begun by the first request that is let in: a console that nobody opens watches nothing.
    session: OnceLock<Session>,
}

impl Console {
    /// Shows the hub of this client to whoever the guard lets in.
    pub fn new(guard: Guard, client: Client, commands: Arc<dyn Commands>, env: &Env) -> Self {
        Self { guard, client, commands, env: env.clone(), session: OnceLock::new() }
    }

    fn session(&self) -> &Session {
        self.session.get_or_init(|| Session::start(&self.client, &self.env, self.commands.clone()))
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Answer>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let mut answer = match self.guard.check(&head) {
            Err(refusal) => plain(refusal.status, refusal.says),
            Ok(cookie) => {
                let mut answer = self.route(&head, body).await;
                if let Some(cookie) = cookie {
                    answer.headers_mut().insert(SET_COOKIE, cookie);
                }
                answer
            }
        };
        guarded(answer.headers_mut());
        answer
    }

    async fn route<B>(&self, head: &Parts, body: B) -> Response<Answer>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let query = head.uri.query().unwrap_or_default();
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/events") => self.events(query, &head.headers),
            (&Method::GET, "/api/view") => match View::read(query) {
                Some(view) => {
                    let whole = whole_text(&self.session().model(&view), self.now());
                    typed("application/json", Bytes::from(whole))
                }
                None => unknown_view(),
            },
            (&Method::GET, "/api/status") => match key(query, "run") {
                Some(key) => said(StatusCode::OK, &status(self.session().inner(), &key)),
                None => plain(StatusCode::BAD_REQUEST, "name a run: ?run=NAME&namespace=NAMESPACE"),
            },
            (&Method::GET, "/api/plan") => match key(query, "placement") {
                Some(placement) => {
                    let strategy = field(query, "strategy").filter(|named| !named.is_empty());
                    let plan = self.session().commands().plan(&placement, strategy.as_deref());
                    match plan.await {
                        Ok(plan) => said(StatusCode::OK, &plan),
                        Err(why) => said(StatusCode::CONFLICT, &json!({"error": why})),
                    }
                }
                None => plain(StatusCode::BAD_REQUEST, "name a placement: ?placement=NAME"),
            },
            (&Method::POST, "/api/act") => self.act(body).await,
            (&Method::GET, path) => match assets::find(path) {
                Some(asset) => typed(asset.media_type, Bytes::from_static(asset.bytes)),
                None => plain(StatusCode::NOT_FOUND, "There is nothing here; begin at /."),
            },
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "This is read, or posted to /api/act."),
        }
    }

    fn events(&self, query: &str, headers: &HeaderMap) -> Response<Answer> {
        let Some(view) = View::read(query) else { return unknown_view() };
        let Some(live) = self.session().live(view) else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "Too many views are open; close some.");
        };
        // A page that connects by itself says in the address where it was.
        let seen = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok().map(str::to_owned));
        let seen = seen.or_else(|| field(query, "after"));
        let env = self.env.clone();
        let now = Arc::new(move || env.now().as_millisecond());
        let mut answer = Response::new(stream::body(live.reader(seen.as_deref()), now));
        let kind = HeaderValue::from_static("text/event-stream");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        answer
    }

    async fn act<B>(&self, body: B) -> Response<Answer>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Ok(body) = Limited::new(body, LARGEST).collect().await else {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "This is too long for a verb.");
        };
        let act = match serde_json::from_slice::<Act>(&body.to_bytes()) {
            Ok(act) if act.has_flag_for_name() => {
                let why = "a name is empty or begins with a dash";
                return said(StatusCode::BAD_REQUEST, &json!({"error": why}));
            }
            Ok(act) => act,
            Err(error) => {
                let why = format!("this is no verb: {error}");
                return said(StatusCode::BAD_REQUEST, &json!({"error": why}));
            }
        };
        tracing::info!(command = %act.command(), "asked for on the console");
        let done = self.session().commands().act(act).await;
        // What was done is to be seen at once, not at the next tick.
        self.session().inner().mirror.touch();
        match done {
            Ok(text) => said(StatusCode::OK, &json!({"said": text})),
            Err(why) => said(StatusCode::CONFLICT, &json!({"error": why})),
        }
    }

    fn now(&self) -> i64 {
        self.env.now().as_millisecond()
    }
}

fn key(query: &str, name: &str) -> Option<ObjectKey> {
    let name = field(query, name).filter(|name| !name.is_empty())?;
    let namespace = field(query, "namespace").filter(|namespace| !namespace.is_empty());
    Some(ObjectKey::new(namespace.as_deref(), &name))
}

fn unknown_view() -> Response<Answer> {
    plain(StatusCode::NOT_FOUND, "There is no such view: home, run, fleet, placements or cluster.")
}

fn plain(status: StatusCode, says: &str) -> Response<Answer> {
    let mut answer = typed("text/plain; charset=utf-8", Bytes::from(format!("{says}\n")));
    *answer.status_mut() = status;
    answer
}

fn said(status: StatusCode, value: &Value) -> Response<Answer> {
    let mut answer = typed("application/json", Bytes::from(value.to_string()));
    *answer.status_mut() = status;
    answer
}

fn typed(media_type: &'static str, bytes: Bytes) -> Response<Answer> {
    let mut answer = Response::new(Full::new(bytes).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

fn guarded(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
