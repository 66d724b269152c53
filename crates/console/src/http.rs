//! The console over HTTP: the page, its views as JSON and as event streams, and the verbs.
//!
//! Every request passes the [`Guard`] first, whatever it asks for; [`Caller`] answers what was
//! let in. Answers carry a policy
//! under which the browser loads nothing from elsewhere and runs no script of a name or a
//! message.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use flagship_explain::printable::printable_json;
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
use crate::rights::Rights;
use crate::session::Session;
use crate::stream;
use crate::view::{View, field, status};

/// The body of an answer.
pub type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// A verb is a few names and a comment.
pub(crate) const LARGEST: usize = 64 << 10;

const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A console for one caller.
pub struct Console {
    guard: Guard,
    caller: Arc<Caller>,
}

impl Console {
    /// Shows the hub of this client to whoever the guard lets in.
    pub fn new(guard: Guard, client: Client, commands: Arc<dyn Commands>, env: &Env) -> Self {
        Self { guard, caller: Arc::new(Caller::new(client, commands, env)) }
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
                let mut answer = self.caller.route(&head, body).await;
                if let Some(cookie) = cookie {
                    answer.headers_mut().insert(SET_COOKIE, cookie);
                }
                answer
            }
        };
        guarded(answer.headers_mut());
        answer
    }
}

/// Somebody who was let in, and what they see of the hub.
pub(crate) struct Caller {
    client: Client,
    commands: Arc<dyn Commands>,
    env: Env,
    /// Who it is, where there are several.
    user: String,
    /// Why verbs are refused, if they are.
    read_only: Option<&'static str>,
    /// How long a stream lasts, where callers are looked at again.
    lasts: Option<Duration>,
    /// Begun by the first request that is let in: a console that nobody opens watches nothing.
    session: OnceLock<Session>,
}

impl Caller {
    pub(crate) fn new(client: Client, commands: Arc<dyn Commands>, env: &Env) -> Self {
        Self {
            client,
            commands,
            env: env.clone(),
            user: String::new(),
            read_only: None,
            lasts: None,
            session: OnceLock::new(),
        }
    }

    /// One of several, who is looked at again after so long.
    pub(crate) fn known_as(
        self,
        user: &str,
        lasts: Duration,
        read_only: Option<&'static str>,
    ) -> Self {
        Self { user: user.to_owned(), lasts: Some(lasts), read_only, ..self }
    }

    fn session(&self) -> &Session {
        self.session.get_or_init(|| {
            let rights = Rights::read_only(self.read_only);
            Session::start(&self.client, &self.env, self.commands.clone(), rights)
        })
    }

    /// Answers a request that was let in.
    pub(crate) async fn route<B>(self: &Arc<Self>, head: &Parts, body: B) -> Response<Answer>
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
            (&Method::GET, "/api/changes") => match key(query, "placement") {
                Some(placement) => {
                    let version = |name: &str| field(query, name).unwrap_or_default();
                    let (from, to) = (version("from"), version("to"));
                    let commands = self.session().commands();
                    match commands.changes(&placement, &from, &to).await {
                        Ok(changes) => said(StatusCode::OK, &changes),
                        Err(why) => said(StatusCode::CONFLICT, &json!({"error": why})),
                    }
                }
                None => plain(StatusCode::BAD_REQUEST, "name a placement: ?placement=NAME"),
            },
            (&Method::GET, "/api/me") => {
                said(StatusCode::OK, &json!({"user": self.user, "readOnly": self.read_only}))
            }
            (&Method::POST, "/api/act") => match self.read_only {
                Some(why) => said(StatusCode::FORBIDDEN, &json!({"error": why})),
                None => self.act(body).await,
            },
            (&Method::GET, path) => match assets::find(path) {
                Some(asset) => typed(asset.media_type, Bytes::from_static(asset.bytes)),
                None => plain(StatusCode::NOT_FOUND, "There is nothing here; begin at /."),
            },
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "This is read, or posted to /api/act."),
        }
    }

    fn events(self: &Arc<Self>, query: &str, headers: &HeaderMap) -> Response<Answer> {
        let Some(view) = View::read(query) else { return unknown_view() };
        let Some(live) = self.session().live(view) else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "Too many views are open; close some.");
        };
        // A page that connects by itself says in the address where it was.
        let seen = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok().map(str::to_owned));
        let seen = seen.or_else(|| field(query, "after"));
        // Whoever reads a stream is not forgotten: it holds the caller.
        let caller = self.clone();
        let now = Arc::new(move || caller.now());
        let mut answer = Response::new(stream::body(live.reader(seen.as_deref()), now, self.lasts));
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
        tracing::info!(command = %act.command(), user = self.user, "asked for on the console");
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

pub(crate) fn plain(status: StatusCode, says: &str) -> Response<Answer> {
    let mut answer = typed("text/plain; charset=utf-8", Bytes::from(format!("{says}\n")));
    *answer.status_mut() = status;
    answer
}

pub(crate) fn said(status: StatusCode, value: &Value) -> Response<Answer> {
    let mut answer = typed("application/json", Bytes::from(printable_json(value)));
    *answer.status_mut() = status;
    answer
}

pub(crate) fn typed(media_type: &'static str, bytes: Bytes) -> Response<Answer> {
    let mut answer = Response::new(Full::new(bytes).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

pub(crate) fn guarded(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
