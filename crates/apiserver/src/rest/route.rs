//! From an HTTP request to a verb on a resource, and back to a response.

use std::sync::Arc;

use bytes::Bytes;
use flagship_base::machinery::fields;
use flagship_base::machinery::path::{self, BadPath, ObjectPath, Target};
use flagship_base::machinery::query::Query;
use flagship_base::machinery::status::ApiError;
use flagship_kinds::convert::event_label;
use flagship_kinds::protobuf;
use flagship_kinds::tables::Table;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::body::Body;
use super::cluster::{Caller, ClusterHandle, Ctx, Place};
use super::connect::{self, Remote};
use super::decode::{self, Decoded};
use super::delete::{self, Deleted};
use super::failure::Failure;
use super::local::traced;
use super::negotiate::{self, Form};
use super::options::{self, DeleteOptions, ListOptions, WriteOptions};
use super::patching::PatchKind;
use super::pods;
use super::present::Presenter;
use super::service::respond;
use super::subresource::Sub;
use super::write::{self, Source, Written};
use super::{documents, health, meta, present, read, rules, scale, tokens, watch};
use crate::auth::{Access, Asking, Review, User, group};
use crate::registry::Kind;

type Answer = Result<Response<Body>, Failure>;

/// Bodies that objects may come in.
const OBJECT_MEDIA: [&str; 2] = ["application/json", "application/yaml"];
/// Bodies that built-in kinds may come in.
const BUILTIN_MEDIA: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA];

/// 404 for paths where nothing is.
pub fn nowhere() -> ApiError {
    let says = "the server could not find the requested resource";
    let mut error = ApiError::new(404, "NotFound", says);
    error.details = Some(Box::default());
    error
}

/// 404 for a path that nobody has ever heard of, in the words of Go's router and without a
/// `Status`.
pub fn page_not_found() -> ApiError {
    ApiError::new(404, "", "404 page not found")
}

/// Answers one request.
pub(super) async fn handle(handle: &ClusterHandle, parts: &Parts, body: Bytes) -> Answer {
    let target = path::parse(parts.uri.path()).map_err(|bad| match bad {
        BadPath::Undecodable => ApiError::bad_request("the path cannot be decoded"),
        BadPath::Nowhere => nowhere(),
    })?;
    let query = Query::parse(parts.uri.query().unwrap_or_default())
        .map_err(|bad| ApiError::bad_request(format!("invalid URL escape in {bad:?}")))?;
    if let Target::Other(path) = &target
        && let Some((asked, check)) = health::asked(path)
    {
        // Whoever probes, by whatever method, wants the same.
        return health::answer(&handle.cluster, asked, check, &query).await;
    }
    match target {
        Target::Object(at) => {
            let request = Incoming { handle, parts, query, body };
            request.object(&at).await
        }
        _ if parts.method != Method::GET => Err(ApiError::method_not_allowed().into()),
        Target::Watch(at) => {
            let query = query.with("watch", "true");
            let request = Incoming { handle, parts, query, body };
            request.object(&at).await
        }
        other => documents::document(handle, parts, &other),
    }
}

/// A request for a collection, an object or a subresource.
struct Incoming<'a> {
    handle: &'a ClusterHandle,
    parts: &'a Parts,
    query: Query,
    body: Bytes,
}

impl Incoming<'_> {
    async fn object(&self, at: &ObjectPath) -> Answer {
        if let Some(review) = Review::at(at) {
            return self.review(review, at.namespace.as_deref().unwrap_or_default());
        }
        let cluster = &self.handle.cluster;
        let served =
            cluster.registry.find(&at.group, &at.version, &at.resource).ok_or(Failure::Unserved)?;
        if at.namespace.is_some() && !served.kind.namespaced {
            return Err(page_not_found().into());
        }
        let across = served.kind.namespaced && at.namespace.is_none();
        let place = Place {
            served,
            namespace: at.namespace.as_deref().unwrap_or_default().into(),
            name: at.name.as_deref().unwrap_or_default().into(),
        };
        let caller = self.caller();
        let method = &self.parts.method;
        let ctx = |verb| Ctx { cluster, caller: &caller, verb, place: &place };
        let refuse = || Failure::from(ApiError::method_not_allowed());
        let below = at.subresource.as_deref().unwrap_or_default();
        if let Some(remote) = Remote::at(&place.served.kind, below).filter(|_| !across) {
            if !remote.takes(method) {
                return Err(refuse());
            }
            let ctx = ctx("connect");
            let refused = connect::refuse(&ctx, remote, self.parts.uri.path(), &self.query);
            return traced(&ctx, async { Err(refused.await) }, |_| (0, 200)).await;
        }
        let form = negotiate::accept(&self.parts.headers, false)?.including(&self.query)?;

        if across && (at.name.is_some() || method != Method::GET) {
            // Across namespaces things can only be looked at.
            return Err(if at.name.is_some() { nowhere().into() } else { refuse() });
        }
        match (method, &at.name, below) {
            (&Method::GET, None, _) => self.list_or_watch(&place, &caller, form, None).await,
            (&Method::POST, None, _) => self.create(&ctx("create"), form).await,
            (&Method::DELETE, None, _) => {
                let allowed = place.served.kind.row();
                if allowed.is_some_and(|row| !row.verbs.contains(&"deletecollection")) {
                    return Err(refuse());
                }
                self.delete_collection(&ctx("deletecollection"), form).await
            }
            (&Method::GET, Some(name), "") if self.query.flag("watch") => {
                self.list_or_watch(&place, &caller, form, Some(name)).await
            }
            (&Method::GET, Some(_), sub) => self.get(&ctx("get"), sub, form).await,
            (&Method::PUT, Some(_), sub) => self.update(&ctx("update"), sub, form).await,
            (&Method::PATCH, Some(_), sub) => self.patch(&ctx("patch"), sub, form).await,
            (&Method::DELETE, Some(_), "") => self.delete(&ctx("delete"), form).await,
            (&Method::POST, Some(_), sub @ ("binding" | "eviction"))
                if place.served.kind.is(flagship_kinds::Kind::Pod) =>
            {
                self.act_on_pod(&ctx("create"), sub).await
            }
            (&Method::POST, Some(_), "token")
                if place.served.kind.is(flagship_kinds::Kind::ServiceAccount) =>
            {
                let options = WriteOptions::from_query(&self.query, "CreateOptions")?;
                let body = self.decoded(true)?.value;
                let ctx = ctx("create");
                let work = tokens::request(&ctx, body, &options);
                let (answer, warnings) = traced(&ctx, work, |_| (0, 201)).await?;
                Ok(respond(StatusCode::CREATED, Body::whole(answer.to_string()), &warnings))
            }
            _ => Err(refuse()),
        }
    }

    fn caller(&self) -> Arc<Caller> {
        let known = &self.handle.caller;
        let agent = self.parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        let manager = agent.and_then(|agent| agent.split('/').next()).unwrap_or_default();
        let user = self.parts.extensions.get::<Arc<User>>();
        if manager.is_empty() && user.is_none() {
            return known.clone();
        }
        let manager: Arc<str> = match manager {
            "" => known.manager.clone(),
            text => text.chars().filter(|c| !c.is_control()).take(128).collect::<String>().into(),
        };
        Arc::new(match user.map(|user| User::clone(user)) {
            Some(User { name, uid, groups, extra }) => {
                Caller { name, groups, uid, extra, manager, unguarded: false }
            }
            None => Caller { manager, ..Caller::clone(known) },
        })
    }

    /// The body as an object of a kind.
    fn decoded_as(&self, kind: &Kind) -> Result<Decoded, ApiError> {
        let decoded = self.decoded(kind.row().is_some());
        let mut decoded =
            decoded.map_err(|error| decode::of_kind(error, &kind.kind, &self.body))?;
        if self.body.starts_with(b"{") {
            decoded.text = self.body.clone();
        }
        Ok(decoded)
    }

    /// The body as an object; only built-in kinds come in protobuf.
    fn decoded(&self, builtin: bool) -> Result<Decoded, ApiError> {
        match negotiate::content_type(&self.parts.headers).as_str() {
            "" | "application/json" => decode::json(&self.body),
            "application/yaml" | "application/x-yaml" | "text/yaml" => decode::yaml(&self.body),
            protobuf::MEDIA if builtin => protobuf::decode(&self.body)
                .map(Decoded::from)
                .map_err(|why| ApiError::bad_request(why.to_string())),
            _ if builtin => Err(negotiate::unknown_format(&BUILTIN_MEDIA)),
            _ => Err(negotiate::unknown_format(&OBJECT_MEDIA)),
        }
    }

    /// Answers a question about rights or identity.
    fn review(&self, review: Review, namespace: &str) -> Answer {
        if self.parts.method != Method::POST {
            return Err(ApiError::method_not_allowed().into());
        }
        if let Form::Table(_) = negotiate::accept(&self.parts.headers, false)? {
            // What is never stored has no rows.
            return Err(negotiate::no_table().into());
        }
        let body = self.decoded(true)?.value;
        // Requests inside the process come from those who may do everything.
        let trusted = || Arc::new(User::authenticated(&self.handle.caller.name, [group::MASTERS]));
        let known = self.parts.extensions.get::<Arc<User>>().cloned();
        let (user, access) =
            (known.unwrap_or_else(trusted), self.parts.extensions.get::<Arc<Access>>());
        let access = access.cloned().unwrap_or_default();
        let asking = Asking { user: &user, access: &access, cluster: self.handle, namespace };
        let mut answered = review.answer(body, &asking)?;
        review.own(&mut answered, &self.caller().manager, self.handle.env().clock.now());
        Ok(respond(StatusCode::CREATED, Body::whole(answered.to_string()), &[]))
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let body = match self.body.is_empty() {
            true => None,
            false => Some(self.decoded(true)?.value),
        };
        DeleteOptions::read(&self.query, body.as_ref())
    }

    async fn get(&self, ctx: &Ctx<'_>, sub: &str, form: Form) -> Answer {
        let revision = options::revision(self.query.get("resourceVersion"))?;
        let served = &ctx.place.served;
        if sub == "log" && served.kind.is(flagship_kinds::Kind::Pod) {
            return self.log(ctx).await;
        }
        let sub = Sub::of(served, sub).ok_or_else(|| no_such_path(ctx.place))?;
        let work = async { Ok(read::get(ctx, revision)?) };
        let stored = traced(ctx, work, |stored| (stored.revision, 200)).await?;
        let warnings: Vec<String> =
            served.version().deprecation.as_deref().map(str::to_owned).into_iter().collect();
        let body = match sub {
            Sub::Scale => {
                let shown = scale::of(served, &rules::current(served, served.version, &stored)?)
                    .ok_or_else(nowhere)?;
                self.scale_body(ctx, &shown, form)
            }
            _ => Presenter::new(ctx.cluster, served.clone(), form)
                .body(&stored.body(), stored.revision)?,
        };
        Ok(respond(StatusCode::OK, Body::whole(body), &warnings))
    }

    /// The log of a pod: one honest line.
    async fn log(&self, ctx: &Ctx<'_>) -> Answer {
        let work = async { Ok(read::get(ctx, None)?) };
        let pod = traced(ctx, work, |stored| (stored.revision, 200)).await?;
        let pod = write::parse(&pod)?;
        let wanted = self.query.get("container").unwrap_or_default();
        let line = pods::log(&pod, wanted, self.query.flag("previous"))?;
        Ok(documents::text(line))
    }

    /// What to list; fields by the names that the store has for them.
    fn list_options(&self, place: &Place) -> Result<ListOptions, ApiError> {
        let mut options = ListOptions::from_query(&self.query)?;
        let served = &place.served;
        let newer = served.version().gv.group != *served.kind.group;
        if newer && served.kind.is(flagship_kinds::Kind::Event) {
            let fields = options.fields.renamed(event_label);
            options.fields = fields.map_err(|label| read::no_such_field(&label))?;
        }
        Ok(options)
    }

    async fn list_or_watch(
        &self,
        place: &Place,
        caller: &Caller,
        form: Form,
        name: Option<&str>,
    ) -> Answer {
        let mut options = self.list_options(place)?;
        if options.watch {
            negotiate::accept_stream(&self.parts.headers)?;
        }
        // Watching one object by its path is the old way of selecting it by name.
        let collection = Place { name: "".into(), ..place.clone() };
        if let Some(name) = name {
            options.fields = fields::Selector::named(name);
        }
        let presenter = Presenter::new(&self.handle.cluster, place.served.clone(), form);
        let warnings: Vec<String> =
            place.served.version().deprecation.as_deref().map(str::to_owned).into_iter().collect();
        let verb = if options.watch { "watch" } else { "list" };
        let ctx = Ctx { cluster: &self.handle.cluster, caller, verb, place: &collection };
        if options.watch {
            let since = options.revision.unwrap_or_default();
            let work = async { Ok(watch::start(&ctx, &options, presenter)?) };
            let stream = traced(&ctx, work, |_| (since, 200)).await?;
            return Ok(respond(StatusCode::OK, Body::watch(stream), &warnings));
        }
        let work = async { Ok(read::list(&ctx, &options)?) };
        let page = traced(&ctx, work, |page| (page.revision, 200)).await?;
        let head = presenter.list_head(&page.metadata());
        Ok(respond(StatusCode::OK, Body::list(head, page.items, presenter), &warnings))
    }

    async fn create(&self, ctx: &Ctx<'_>, form: Form) -> Answer {
        let options = WriteOptions::from_query(&self.query, "CreateOptions")?;
        let body = self.decoded_as(&ctx.place.served.kind)?;
        // The trace and the faults know the object by its name.
        let name = meta::text(&body.value, "name");
        let named = Place { name: name.into(), ..ctx.place.clone() };
        let ctx = Ctx { place: &named, ..*ctx };
        let written =
            traced(&ctx, write::create(&ctx, body, &options), |w| (w.revision, 201)).await?;
        show(&ctx, &written, form)
    }

    async fn update(&self, ctx: &Ctx<'_>, sub: &str, form: Form) -> Answer {
        let options = WriteOptions::from_query(&self.query, "UpdateOptions")?;
        let sub = Sub::of(&ctx.place.served, sub).ok_or_else(|| no_such_path(ctx.place))?;
        let source = Source::Object(self.decoded_as(&ctx.place.served.kind)?);
        let work = write::update(ctx, source, sub, &options);
        let written = traced(ctx, work, |w| (w.revision, code(w).as_u16())).await?;
        self.show_sub(ctx, &written, sub, form)
    }

    async fn patch(&self, ctx: &Ctx<'_>, sub: &str, form: Form) -> Answer {
        let custom = ctx.place.served.kind.row().is_none();
        let media = negotiate::content_type(&self.parts.headers);
        let kind = PatchKind::from_media(&media, custom)?;
        let options = WriteOptions::from_query(&self.query, "PatchOptions")?;
        kind.check(&options)?;
        let sub = Sub::of(&ctx.place.served, sub).ok_or_else(|| no_such_path(ctx.place))?;
        let source = Source::Patch(kind.read(&self.body)?);
        let work = write::update(ctx, source, sub, &options);
        let written = traced(ctx, work, |w| (w.revision, code(w).as_u16())).await?;
        self.show_sub(ctx, &written, sub, form)
    }

    fn show_sub(&self, ctx: &Ctx<'_>, written: &Written, sub: Sub, form: Form) -> Answer {
        if sub != Sub::Scale {
            return show(ctx, written, form);
        }
        let shown = scale::of(&ctx.place.served, &written.value).ok_or_else(nowhere)?;
        let body = self.scale_body(ctx, &shown, form);
        Ok(respond(StatusCode::OK, Body::whole(body), &written.warnings))
    }

    /// A Scale as it was asked for.
    fn scale_body(&self, ctx: &Ctx<'_>, scale: &Value, form: Form) -> Bytes {
        let Form::Table(_) = form else { return scale.to_string().into() };
        let cells = Value::Array(Table::Scale.cells(scale, ctx.cluster.env.clock.now()));
        let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
        let head = present::table_head(&metadata, &Table::Scale.columns());
        format!("{head}{{\"cells\":{cells},\"object\":{scale}}}]}}").into()
    }

    async fn delete(&self, ctx: &Ctx<'_>, form: Form) -> Answer {
        let options = self.delete_options()?;
        let work = delete::delete(ctx, &options);
        let Deleted { object, gone } =
            traced(ctx, work, |done| (done.object.revision, 200)).await?;
        if !gone || delete::returns_object(&ctx.place.served.kind) {
            return show(ctx, &object, form);
        }
        let kind = &ctx.place.served.kind;
        let mut details = json!({
            "name": ctx.place.name, "kind": kind.plural, "uid": meta::text(&object.value, "uid"),
        });
        let group = &ctx.place.served.version().gv.group;
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        let status = success(&details);
        Ok(respond(StatusCode::OK, Body::whole(status.to_string()), &object.warnings))
    }

    async fn delete_collection(&self, ctx: &Ctx<'_>, form: Form) -> Answer {
        let options = self.delete_options()?;
        let list = self.list_options(ctx.place)?;
        let work = delete::delete_collection(ctx, &list, &options);
        let (revision, deleted) = traced(ctx, work, |(revision, _)| (*revision, 200)).await?;
        let presenter = Presenter::new(ctx.cluster, ctx.place.served.clone(), form);
        let items: Result<Vec<Bytes>, ApiError> = deleted
            .iter()
            .map(|written| presenter.entry(&written.json, written.revision))
            .collect();
        let page = read::Page { revision, items: Vec::new(), token: None, remaining: None };
        let mut body = presenter.list_head(&page.metadata()).to_vec();
        body.extend_from_slice(&items?.join(&b','));
        body.extend_from_slice(b"]}");
        Ok(respond(StatusCode::OK, Body::whole(body), &[]))
    }

    async fn act_on_pod(&self, ctx: &Ctx<'_>, sub: &str) -> Answer {
        let options = WriteOptions::from_query(&self.query, "CreateOptions")?;
        let mut body = self.decoded(true)?.value;
        let work = async {
            let sub = if sub == "binding" { Sub::Binding } else { Sub::Eviction };
            let warnings = pods::ask(ctx, sub, &mut body, &options).await?;
            match sub {
                Sub::Binding => pods::bind(ctx, &body, &options).await?,
                _ => pods::evict(ctx, &body, &options).await?,
            }
            Ok(warnings)
        };
        let warnings = traced(ctx, work, |_| (0, 201)).await?;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        });
        Ok(respond(StatusCode::CREATED, Body::whole(status.to_string()), &warnings))
    }
}

/// 404 for a path below an object that its kind does not have.
fn no_such_path(place: &Place) -> ApiError {
    match place.served.kind.row() {
        Some(_) => nowhere(),
        // Kubernetes blames the object when its kind is a custom one.
        None => place.not_found(),
    }
}

fn success(details: &Value) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}

fn code(written: &Written) -> StatusCode {
    if written.created { StatusCode::CREATED } else { StatusCode::OK }
}

fn show(ctx: &Ctx<'_>, written: &Written, form: Form) -> Answer {
    let body = Presenter::new(ctx.cluster, ctx.place.served.clone(), form)
        .body(&written.json, written.revision)?;
    Ok(respond(code(written), Body::whole(body), &written.warnings))
}
