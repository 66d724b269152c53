//! What expressions of an admission policy do wrong with a kind that the policy matches.
//!
//! A partial type checker: it knows what schemas, literals and the common functions tell, and
//! everything else fits everywhere. So whatever it complains about is wrong, and what it lets
//! pass may be, too. Words and places are those of cel-go, for people look for them.
//!
//! Which functions take what is in `overloads`. Rules of custom resources are checked in
//! `rule`, which knows less and refuses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use serde_json::{Value, json};

use super::library::NAMESPACES;
use super::overloads;
use super::parse::parse;
use super::rule::at;
use super::value::escape;
use crate::builtin::object_meta;
use crate::node::{NodeRef, Schema, Type};

/// How much is told of all expressions together: each complaint repeats a line of them.
const MAX_TOLD: usize = 128 * 1024;
/// Deeper than any list of maps of lists goes.
const MAX_NESTING: usize = 8;
/// Longer than the name of any place in a schema that does not go in circles.
const MAX_NAME: usize = 1024;

const REQUEST_NAME: &str = "kubernetes.AdmissionRequest";

/// `request`, without what it says of objects, which have names of their own.
static REQUEST: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let kind = object(json!({"group": text, "version": text, "kind": text}));
    let resource = object(json!({"group": text, "version": text, "resource": text}));
    let texts = json!({"type": "array", "items": text});
    let user = object(json!({
        "username": text, "uid": text, "groups": texts,
        "extra": {"type": "object", "additionalProperties": texts},
    }));
    fixed(&object(json!({
        "kind": kind, "resource": resource, "subResource": text,
        "requestKind": kind, "requestResource": resource, "requestSubResource": text,
        "name": text, "namespace": text, "operation": text, "userInfo": user,
        "dryRun": {"type": "boolean"}, "options": {"x-kubernetes-preserve-unknown-fields": true},
    })))
});

/// `namespaceObject`: which fields it has, and no more.
static NAMESPACE: LazyLock<Schema> = LazyLock::new(|| {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let spec = object(json!({"finalizers": {"type": "array", "items": {"type": "string"}}}));
    let status = object(json!({"phase": {"type": "string"}, "conditions": any}));
    fixed(&object(json!({"metadata": any, "spec": spec, "status": status})))
});

fn fixed(schema: &Value) -> Schema {
    Schema::from_openapi(schema).expect("written beside this, and a test reads it")
}

/// What expressions see as an object: its kind and its schema.
#[derive(Debug, Clone)]
pub struct Subject {
    /// As written in manifests.
    pub kind: String,
    /// What it may look like.
    pub schema: Schema,
}

/// What the expressions of a policy can name.
pub struct Sighted<'s> {
    /// Unknown while a policy is written: it may be about any kind.
    pub object: Option<&'s Subject>,
    /// What `params` is, if the policy has such.
    pub params: Option<&'s Subject>,
    /// Names and expressions; each sees those before it.
    pub variables: &'s [(String, String)],
}

impl Sighted<'_> {
    /// What is wrong with each of these expressions, in cel-go's words.
    pub fn complaints(&self, sources: &[&str]) -> Vec<Option<String>> {
        let meta = object_meta();
        let mut check = Check {
            object: self.object.map_or(Kind::Dyn, root),
            params: self.params.map_or(Kind::Dyn, root),
            variables: BTreeMap::new(),
            meta: &meta,
            bound: Vec::new(),
            seen: BTreeMap::new(),
            found: Vec::new(),
            room: MAX_TOLD,
        };
        for (name, source) in self.variables {
            let kind = check.read(source).0;
            check.variables.insert(name, kind);
        }
        check.room = MAX_TOLD;
        sources.iter().map(|source| check.read(source).1).collect()
    }
}

/// The type of an expression, as far as it is known.
///
/// However it came about, it stays small. What is inside another comes from a schema or from
/// [`Kind::inside`], which forget what nests deeper than `MAX_NESTING`; a map's key comes
/// from [`Kind::keyed`] and has nothing inside. So a type is a chain and never a tree, of
/// some twenty parts at most, and the name at its end is not much longer than `MAX_NAME`.
#[derive(Debug, Clone)]
pub(super) enum Kind<'s> {
    /// Anything.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    Quantity,
    List(Box<Kind<'s>>),
    Map(Box<Kind<'s>>, Box<Kind<'s>>),
    Maybe(Box<Kind<'s>>),
    /// An object with known fields, by a name that says where it stands.
    Object(NodeRef<'s>, String),
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Time => "timestamp",
            Self::Span => "duration",
            Self::Quantity => "kubernetes.Quantity",
            Self::List(element) => return write!(f, "list({element})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Maybe(inner) => return write!(f, "optional_type({inner})"),
            Self::Object(_, name) => name,
        })
    }
}

impl<'s> Kind<'s> {
    /// The type of what a schema describes.
    fn of(node: NodeRef<'s>, name: &str, depth: usize) -> Self {
        let n = node.node();
        if n.int_or_string || depth > MAX_NESTING || name.len() > MAX_NAME {
            return Self::Dyn;
        }
        let below =
            |node, part: &str| Box::new(Self::of(node, &format!("{name}.{part}"), depth + 1));
        match n.kind {
            Type::Any => Self::Dyn,
            Type::Boolean => Self::Bool,
            Type::Integer => Self::Int,
            Type::Number => Self::Double,
            Type::String => match &*n.format {
                "byte" => Self::Bytes,
                "date" | "date-time" => Self::Time,
                "duration" => Self::Span,
                "quantity" => Self::Dyn,
                _ => Self::Text,
            },
            Type::Array => Self::List(
                node.items().map_or_else(|| Box::new(Self::Dyn), |items| below(items, "@idx")),
            ),
            Type::Object => match node.values() {
                Some(values) => Self::Map(Box::new(Self::Text), below(values, "@elem")),
                // Without any known field it is whatever its writer likes.
                None if n.properties.is_empty() => Self::Dyn,
                None => Self::Object(node, name.to_owned()),
            },
        }
    }

    /// This type as a part of another.
    pub(super) fn inside(self) -> Box<Self> {
        Box::new(if self.depth() > MAX_NESTING { Self::Dyn } else { self })
    }

    fn depth(&self) -> usize {
        match self {
            Self::List(inner) | Self::Map(_, inner) | Self::Maybe(inner) => 1 + inner.depth(),
            _ => 0,
        }
    }

    /// This type as that of a map's keys.
    pub(super) fn keyed(self) -> Box<Self> {
        Box::new(match self {
            Self::List(_) | Self::Map(..) | Self::Maybe(_) | Self::Object(..) => Self::Dyn,
            scalar => scalar,
        })
    }

    /// Whether a value could be of both types.
    pub(super) fn fits(&self, other: &Self) -> bool {
        use Kind::{Dyn, List, Map, Maybe, Null, Object, Span, Time};
        match (self, other) {
            (Dyn, _) | (_, Dyn) | (Object(..), Object(..)) => true,
            (Null, Object(..) | Time | Span | Maybe(_)) => true,
            (Object(..) | Time | Span | Maybe(_), Null) => true,
            (List(a), List(b)) | (Maybe(a), Maybe(b)) => a.fits(b),
            (Map(a, b), Map(c, d)) => a.fits(c) && b.fits(d),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// What two branches have in common.
    fn joined(self, other: &Self) -> Self {
        if matches!(other, Self::Dyn) { Self::Dyn } else { self }
    }
}

fn root(subject: &Subject) -> Kind<'_> {
    Kind::Object(subject.schema.root(), subject.kind.clone())
}

struct Check<'c, 's> {
    object: Kind<'s>,
    params: Kind<'s>,
    variables: BTreeMap<&'c str, Kind<'s>>,
    /// The schema of `metadata`, which custom resources do not repeat.
    meta: &'s Schema,
    /// Names of loops, innermost last.
    bound: Vec<(String, Kind<'s>)>,
    /// The types of the expression's parts.
    seen: BTreeMap<u64, Kind<'s>>,
    found: Vec<(u64, String)>,
    /// How much may still be told.
    room: usize,
}

impl<'s> Check<'_, 's> {
    /// The type of an expression, and what is wrong with it.
    fn read(&mut self, source: &str) -> (Kind<'s>, Option<String>) {
        self.seen.clear();
        self.found.clear();
        // What does not even parse was refused when it was written.
        let Ok(program) = parse(source) else { return (Kind::Dyn, None) };
        let kind = self.visit(program.expression());
        if self.found.is_empty() {
            return (kind, None);
        }
        let info = program.source_info();
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(id, _)| info.offset_for(*id));
        let mut told = Vec::new();
        for (id, says) in &found {
            let line = at(info, *id, source, says);
            match self.room.checked_sub(line.len()) {
                Some(left) => self.room = left,
                None => break,
            }
            told.push(line);
        }
        (Kind::Dyn, (!told.is_empty()).then(|| told.join("\n")))
    }

    fn visit(&mut self, expr: &IdedExpr) -> Kind<'s> {
        let kind = match &expr.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Kind::Bool,
                LiteralValue::Bytes(_) => Kind::Bytes,
                LiteralValue::Double(_) => Kind::Double,
                LiteralValue::Int(_) => Kind::Int,
                LiteralValue::Null => Kind::Null,
                LiteralValue::String(_) => Kind::Text,
                LiteralValue::UInt(_) => Kind::Uint,
            },
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(expr.id, select),
            Expr::List(list) => {
                let mut first = None;
                for element in &list.elements {
                    let kind = self.visit(element);
                    self.same(&mut first, element.id, kind);
                }
                Kind::List(first.unwrap_or(Kind::Dyn).inside())
            }
            Expr::Map(map) => {
                let (mut key, mut value) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let kind = self.visit(&entry.key);
                    self.same(&mut key, entry.key.id, kind);
                    let kind = self.visit(&entry.value);
                    self.same(&mut value, entry.value.id, kind);
                }
                let known = |kind: Option<Kind<'s>>| kind.unwrap_or(Kind::Dyn);
                Kind::Map(known(key).keyed(), known(value).inside())
            }
            Expr::Comprehension(_) => self.comprehension(expr),
            Expr::Call(_) => self.call(expr),
            _ => Kind::Dyn,
        };
        self.seen.insert(expr.id, kind.clone());
        kind
    }

    /// Elements of a literal are of one type.
    fn same(&mut self, first: &mut Option<Kind<'s>>, id: u64, kind: Kind<'s>) {
        match first {
            None => *first = Some(kind),
            Some(known) if known.fits(&kind) => {
                *first = Some(known.clone().joined(&kind));
            }
            Some(known) => {
                self.found.push((id, format!("expected type '{known}' but found '{kind}'")));
            }
        }
    }

    fn ident(&self, name: &str) -> Kind<'s> {
        if let Some((_, kind)) = self.bound.iter().rev().find(|(known, _)| known == name) {
            return kind.clone();
        }
        match name {
            "object" | "oldObject" => self.object.clone(),
            "params" => self.params.clone(),
            "request" => Kind::Object(REQUEST.root(), REQUEST_NAME.to_owned()),
            "namespaceObject" => Kind::Object(NAMESPACE.root(), "kubernetes.Namespace".to_owned()),
            _ => Kind::Dyn,
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Kind<'s> {
        if matches!(&select.operand.expr, Expr::Ident(name) if name == "variables") {
            let known = self.variables.get(select.field.as_str()).cloned();
            if known.is_none() {
                self.found.push((id, format!("undefined field '{}'", select.field)));
            }
            return if select.test { Kind::Bool } else { known.unwrap_or(Kind::Dyn) };
        }
        let operand = self.visit(&select.operand);
        let field = self.field(id, operand, &select.field);
        if select.test { Kind::Bool } else { field }
    }

    fn field(&mut self, id: u64, of: Kind<'s>, name: &str) -> Kind<'s> {
        match of {
            Kind::Dyn => Kind::Dyn,
            Kind::Map(_, value) => *value,
            Kind::Maybe(inner) => Kind::Maybe(self.field(id, *inner, name).inside()),
            Kind::Object(node, at) => {
                let whole = !at.contains('.');
                let n = node.node();
                match name {
                    "apiVersion" | "kind" if whole || n.embedded_resource => return Kind::Text,
                    "metadata" if whole => {
                        return Kind::Object(self.meta.root(), format!("{at}.metadata"));
                    }
                    "metadata" if n.embedded_resource => return Kind::Dyn,
                    _ => {}
                }
                // Policies may leave reserved words as they are.
                let is = |field: &str| field == name || escape(field).as_deref() == Some(name);
                let found = node.fields().find(|(field, _)| is(field));
                match found {
                    Some((field, node)) => Kind::of(node, &placed(&at, field), 0),
                    None if n.preserve_unknown => Kind::Dyn,
                    None => {
                        self.found.push((id, format!("undefined field '{name}'")));
                        Kind::Dyn
                    }
                }
            }
            other => {
                self.found.push((id, format!("type '{other}' does not support field selection")));
                Kind::Dyn
            }
        }
    }

    fn comprehension(&mut self, expr: &IdedExpr) -> Kind<'s> {
        let Expr::Comprehension(c) = &expr.expr else { return Kind::Dyn };
        let range = self.visit(&c.iter_range);
        let (one, two) = match range {
            Kind::Dyn => (Kind::Dyn, Kind::Dyn),
            Kind::List(element) => match c.iter_var2 {
                Some(_) => (Kind::Int, *element),
                None => (*element, Kind::Dyn),
            },
            Kind::Map(key, value) => (*key, *value),
            other => {
                let says = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.found.push((c.iter_range.id, says));
                (Kind::Dyn, Kind::Dyn)
            }
        };
        let gathers = matches!(&c.accu_init.expr, Expr::List(list) if list.elements.is_empty());
        let start = self.visit(&c.accu_init);
        let outside = self.bound.len();
        self.bound.push((c.accu_var.clone(), start));
        self.bound.push((c.iter_var.clone(), one));
        if let Some(name) = &c.iter_var2 {
            self.bound.push((name.clone(), two));
        }
        self.visit(&c.loop_cond);
        self.visit(&c.loop_step);
        self.bound.truncate(outside + 1);
        let result = self.visit(&c.result);
        self.bound.truncate(outside);
        if !gathers {
            return result;
        }
        // `map` and `filter`: a list of what each step adds.
        let added = gathered(&c.loop_step).and_then(|id| self.seen.get(&id).cloned());
        Kind::List(added.unwrap_or(Kind::Dyn).inside())
    }

    fn call(&mut self, expr: &IdedExpr) -> Kind<'s> {
        let Expr::Call(call) = &expr.expr else { return Kind::Dyn };
        let name = call.func_name.as_str();
        let namespaced = call.target.as_ref().is_some_and(|target| {
            matches!(&target.expr, Expr::Ident(space) if NAMESPACES.contains(&space.as_str())
                && !self.bound.iter().any(|(bound, _)| bound == space))
        });
        if namespaced {
            call.args.iter().for_each(|arg| drop(self.visit(arg)));
            return Kind::Dyn;
        }
        if name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = self.visit(operand);
            return maybe(self.field(expr.id, operand, field.inner()));
        }
        let target = call.target.as_ref().map(|target| self.visit(target));
        let args: Vec<Kind<'s>> = call.args.iter().map(|arg| self.visit(arg)).collect();
        if let operators::LOGICAL_AND | operators::LOGICAL_OR = name {
            for (arg, kind) in call.args.iter().zip(&args) {
                if !kind.fits(&Kind::Bool) {
                    let says = format!("expected type 'bool' but found '{kind}'");
                    self.found.push((arg.id, says));
                }
            }
            return Kind::Bool;
        }
        overloads::result(name, target.as_ref(), &args).unwrap_or_else(|| {
            let shown: Vec<String> = args.iter().map(ToString::to_string).collect();
            let of = target.map(|target| format!("{target}.")).unwrap_or_default();
            let says = format!(
                "found no matching overload for '{name}' applied to '{of}({})'",
                shown.join(", ")
            );
            self.found.push((expr.id, says));
            Kind::Dyn
        })
    }
}

/// What a field is called; parts of a request have names of their own.
fn placed(at: &str, field: &str) -> String {
    match (at, field) {
        (REQUEST_NAME, "kind" | "requestKind") => "kubernetes.GroupVersionKind".to_owned(),
        (REQUEST_NAME, "resource" | "requestResource") => {
            "kubernetes.GroupVersionResource".to_owned()
        }
        (REQUEST_NAME, "userInfo") => "kubernetes.UserInfo".to_owned(),
        _ => format!("{at}.{field}"),
    }
}

/// A value that may be missing; once is enough.
pub(super) fn maybe(kind: Kind<'_>) -> Kind<'_> {
    match kind {
        Kind::Maybe(_) => kind,
        other => Kind::Maybe(other.inside()),
    }
}

/// What a step of `map` or `filter` adds to the list that it makes.
fn gathered(step: &IdedExpr) -> Option<u64> {
    let Expr::Call(call) = &step.expr else { return None };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::CONDITIONAL, [_, added, _]) => gathered(added),
        (operators::ADD, [_, added]) => match &added.expr {
            Expr::List(list) => list.elements.first().map(|element| element.id),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    fn subject(group: &str, kind: &str) -> Subject {
        Subject { kind: kind.into(), schema: builtin(group, "v1", kind).unwrap() }
    }

    /// What is wrong is told beside real answers, in `tests/differential`; here is what must
    /// not be blamed, by people who write policies.
    #[test]
    fn sound_expressions_are_not_blamed() {
        let variables = [
            (
                "all",
                "object.spec.template.spec.containers + object.spec.template.spec.initContainers",
            ),
            ("images", "variables.all.map(c, c.image)"),
            ("limit", "object.spec.?replicas.orValue(1)"),
        ]
        .map(|(name, source)| (name.to_owned(), source.to_owned()));
        let sound = [
            "object.spec.replicas <= 5",
            "object.spec.replicas < 5.5 && variables.limit >= 1",
            "!has(object.spec.paused) || !object.spec.paused",
            "object.spec.template.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits)",
            "object.spec.template.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('2')))",
            "object.spec.template.spec.containers.all(c, c.resources.limits.memory != '1Gi')",
            "variables.images.all(i, i.startsWith('registry.example.com/') && !i.endsWith(':latest'))",
            "variables.all.exists_one(c, c.name == 'main')",
            "object.metadata.labels.?app.orValue('') == 'web' && object.metadata.labels[?'x'].hasValue()",
            "'team' in object.metadata.labels && object.metadata.labels['team'].size() > 0",
            "object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '25%'",
            "object.metadata.namespace in ['a', 'b'] && object.metadata.name.matches('^[a-z]+$')",
            "object.metadata.?deletionTimestamp.hasValue() || object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
            "oldObject == null || object.spec.replicas - oldObject.spec.replicas < 10",
            "object.spec.selector.matchLabels == object.spec.template.metadata.labels",
            "[object.spec.replicas, 2, variables.limit].exists(n, n > 1)",
            "{'a': 1, 'b': object.spec.replicas}['a'] == 1",
            "(object.spec.replicas > 1 ? 'many' : 'one') == 'one'",
            "request.userInfo.groups.exists(g, g == 'admins') || request.options.dryRun == ['All']",
            "authorizer.group('apps').resource('deployments').check('get').allowed()",
            "namespaceObject.metadata.labels['a'] == 'b' && params.spec.max > object.spec.replicas",
            "object.spec.template.spec.volumes.filter(v, has(v.hostPath)).map(v, v.hostPath.path).size() == 0",
            "type(object.spec.replicas) == int && dyn(object.spec.replicas) == 'a'",
            "object.metadata.ownerReferences.exists(o, o.controller && o.uid == object.metadata.uid)",
            "object.metadata.annotations.all(k, k.startsWith('example.com/') || object.metadata.annotations[k] != '')",
            "sets.contains(['a'], object.metadata.finalizers) && math.greatest(object.spec.replicas, 2) < 9",
            "duration(string(object.spec.progressDeadlineSeconds) + 's') < duration('10m')",
            "object.apiVersion == 'apps/v1' && object.kind == 'Deployment' && string(object.spec.replicas) != ''",
        ];
        let object = subject("apps", "Deployment");
        let sighted = Sighted { object: Some(&object), params: None, variables: &variables };
        for (source, told) in sound.iter().zip(sighted.complaints(&sound)) {
            assert!(parse(source).is_ok(), "{source}");
            assert_eq!(told, None, "{source}");
        }
    }

    #[test]
    fn what_is_known_of_every_request_is_checked_before_any_kind_is() {
        let variables = [("n".to_owned(), "object.spec.replicas".to_owned())];
        let sighted = Sighted { object: None, params: None, variables: &variables };
        let sound = [
            "object.anything[0].goes > 1 && variables.n == 'a' && oldObject.x == params.y",
            "request.userInfo.groups.exists(g, g == 'a') && request.userInfo.extra['k'][0] == 'v'",
            "request.kind.kind == 'Pod' && request.resource.resource == 'pods' && !request.dryRun",
            "request.options.fieldManager == 'me' || has(request.subResource)",
            "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.phase == 'Active'",
            "request.operation in ['CREATE', 'CONNECT'] && request.namespace.startsWith('team-')",
        ];
        for (source, told) in sound.iter().zip(sighted.complaints(&sound)) {
            assert_eq!(told, None, "{source}");
        }
    }

    #[test]
    fn expressions_as_deep_as_they_may_be_are_read() {
        let object = subject("apps", "Deployment");
        let deep = [
            format!("object.metadata.labels{} == 1", "[0]".repeat(240)),
            vec!["object.a"; 240].join("+"),
            format!("object.a{}", ".all(x,x".repeat(15)) + &")".repeat(15),
        ];
        let texts: Vec<&str> = deep.iter().map(String::as_str).collect();
        let sighted = Sighted { object: Some(&object), params: None, variables: &[] };
        assert_eq!(sighted.complaints(&texts).iter().flatten().count(), deep.len());
    }

    #[test]
    fn a_policy_that_is_wrong_a_thousand_times_is_told_some_of_it() {
        let object = subject("apps", "Deployment");
        let sighted = Sighted { object: Some(&object), params: None, variables: &[] };
        let source = vec!["object.a"; 1500].join("||");
        let told = sighted.complaints(&[&source, &source]);
        let length: usize = told.iter().flatten().map(String::len).sum();
        assert!(told[0].is_some() && length <= MAX_TOLD, "{length}");
    }

    #[test]
    fn types_stay_small_however_variables_build_on_each_other() {
        let object = subject("apiextensions.k8s.io", "CustomResourceDefinition");
        let told = |first: &str, next: &str, length: usize| {
            let name = |at: usize| format!("v{at}");
            let mut variables = vec![(name(0), first.to_owned())];
            for at in 1..length {
                variables.push((name(at), next.replace('$', &format!("variables.v{}", at - 1))));
            }
            let sighted = Sighted { object: Some(&object), params: None, variables: &variables };
            let asked = format!("variables.v{} < 1", length - 1);
            let told = sighted.complaints(&[&asked]).remove(0).expect("is told");
            let (_, kind) = told.split_once("applied to '(").expect("names types");
            kind.split_once(", int)'").expect("names both").0.to_owned()
        };
        let deepest = |kind: &str| kind.matches('(').count() <= MAX_NESTING + 1;
        for length in 290..300 {
            let kind = told("[1]", "[$]", length);
            assert!(deepest(&kind), "{kind}");
        }
        for length in 1..20 {
            let kind = told("{1: 1}", "{$: $}", length);
            assert!(deepest(&kind), "{kind}");
        }
        assert_eq!(told("[1]", "$.map(x, {x: x})", 3), "list(map(dyn, map(int, int)))");
        // Where names grow in a circle, they are forgotten.
        let schema = "object.spec.versions[0].schema.openAPIV3Schema";
        let sources = ["variables.v9.nothing == 1", "variables.v399.nothing == 1"];
        let of = |at: usize| match at {
            0 => ("v0".to_owned(), schema.to_owned()),
            _ => (format!("v{at}"), format!("variables.v{}.not", at - 1)),
        };
        let variables: Vec<_> = (0..400).map(of).collect();
        let sighted = Sighted { object: Some(&object), params: None, variables: &variables };
        let told = sighted.complaints(&sources);
        assert!(told[0].is_some() && told[1].is_none(), "{told:?}");
    }

    #[test]
    fn a_schema_that_contains_itself_is_read_as_deep_as_needed() {
        let object = subject("apiextensions.k8s.io", "CustomResourceDefinition");
        let sighted = Sighted { object: Some(&object), params: None, variables: &[] };
        let schema = "object.spec.versions[0].schema.openAPIV3Schema";
        let fine = format!("{schema}.properties['a'].properties['b'].items.foo == 1");
        let wrong = format!("{schema}.not.not.not.nothing == 1");
        let told = sighted.complaints(&[&fine, &wrong]);
        assert_eq!(told[0], None);
        assert!(told[1].as_ref().unwrap().contains("undefined field 'nothing'"), "{told:?}");
    }
}
