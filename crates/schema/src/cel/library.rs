//! The functions a rule may call: CEL's own, and those that Kubernetes adds.
//!
//! One environment, built once and shared by all threads. [`KNOWN`] lists every name
//! in it, so that a rule that calls anything else is known when its CRD arrives and
//! not when an object does. Values with a type of their own live in `quantity`
//! and `net`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "overloads are plain functions of their arguments, taken by value"
)]

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cel::common::functions::Function;
use cel::common::types::{
    CelBool, CelInt, CelList, CelString, DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, extensions};
use regex::Regex;

use super::{authorizer, meter, net, quantity};

pub(super) type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
pub(super) type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Names before the dot of qualified functions.
pub(super) const NAMESPACES: [&str; 8] =
    ["strings", "optional", "math", "sets", "lists", "ip", "cidr", "base64"];

/// Every function that a rule may call, by name; operators apart.
pub(super) const KNOWN: &[&str] = &[
    // CEL
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "type",
    "dyn",
    "duration",
    "timestamp",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "optional.of",
    "optional.none",
    "optional.ofNonZeroValue",
    "hasValue",
    "value",
    "or",
    "orValue",
    // strings, lists and math extensions
    "charAt",
    "indexOf",
    "lastIndexOf",
    "join",
    "lowerAscii",
    "upperAscii",
    "trim",
    "replace",
    "split",
    "substring",
    "format",
    "reverse",
    "strings.quote",
    "slice",
    "flatten",
    "distinct",
    "sort",
    "lists.range",
    "@sortByAssociatedKeys",
    "math.greatest",
    "math.least",
    "math.abs",
    "math.ceil",
    "math.floor",
    "math.round",
    "math.trunc",
    "math.sign",
    "math.sqrt",
    "math.isNaN",
    "math.isInf",
    "math.isFinite",
    "math.bitAnd",
    "math.bitOr",
    "math.bitXor",
    "math.bitNot",
    "math.bitShiftLeft",
    "math.bitShiftRight",
    // Kubernetes
    "isSorted",
    "sum",
    "min",
    "max",
    "find",
    "findAll",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "quantity",
    "isQuantity",
    "sign",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "asApproximateFloat",
    "asInteger",
    "isInteger",
    "add",
    "sub",
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "ip",
    "isIP",
    "ip.isCanonical",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "cidr",
    "isCIDR",
    "containsIP",
    "containsCIDR",
    "prefixLength",
    "masked",
    // Kubernetes, of `authorizer`
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "path",
    "check",
    "allowed",
    "reason",
    "errored",
    "error",
];

static ENV: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(build().expect("no name is declared twice, and a test builds it")));

/// The shared environment.
pub(super) fn env() -> Arc<Env> {
    ENV.clone()
}

/// Calls a standard function of one text, such as `timestamp`.
pub(super) fn call(function: &str, text: &str) -> Option<Box<dyn Val>> {
    let args = vec![CowVal::owned(CelString::from(text.to_owned()))];
    let op = ENV.find_overload(function, &args)?;
    op(args).ok().map(CowVal::into_owned)
}

fn build() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    env.add_extension(extensions::math)?;
    env.add_overload(meter::CHARGE, "charge", vec![DYN_TYPE], meter::charge)?;
    env.add_member_overload(MATCHES, "cached", STRING_TYPE, vec![STRING_TYPE], matches)?;
    env.add_overload(MATCHES, "cached_global", vec![STRING_TYPE, STRING_TYPE], matches)?;
    env.add_overload(EQUAL, "equal", vec![DYN_TYPE, DYN_TYPE], equal)?;
    env.add_overload(UNEQUAL, "unequal", vec![DYN_TYPE, DYN_TYPE], unequal)?;
    env.add_member_overload("find", "find", STRING_TYPE, vec![STRING_TYPE], find)?;
    env.add_member_overload("findAll", "all", STRING_TYPE, vec![STRING_TYPE], find_all)?;
    let limited = vec![STRING_TYPE, INT_TYPE];
    env.add_member_overload("findAll", "all_limited", STRING_TYPE, limited, find_all)?;
    for (name, op) in
        [("isSorted", is_sorted as Function), ("sum", sum), ("min", min), ("max", max)]
    {
        env.add_member_overload(name, &format!("list_{name}"), LIST_TYPE, vec![], op)?;
    }
    env.add_member_overload("indexOf", "list_index_of", LIST_TYPE, vec![DYN_TYPE], index_of)?;
    let last = "list_last_index_of";
    env.add_member_overload("lastIndexOf", last, LIST_TYPE, vec![DYN_TYPE], last_index_of)?;
    let lists = || vec![LIST_TYPE, LIST_TYPE];
    env.add_overload("sets.contains", "sets_contains", lists(), sets_contains)?;
    env.add_overload("sets.equivalent", "sets_equivalent", lists(), sets_equivalent)?;
    env.add_overload("sets.intersects", "sets_intersects", lists(), sets_intersects)?;
    env.add_extension(quantity::declare)?;
    env.add_extension(net::declare)?;
    env.add_extension(authorizer::declare)?;
    Ok(env)
}

/// A value with a type of its own.
pub(super) trait Native:
    std::fmt::Debug + Clone + PartialEq + Send + Sync + 'static
{
    /// The name and identity of the type.
    const TYPE: &'static Type;
}

/// A [`Native`] as CEL handles it.
#[derive(Debug)]
pub(super) struct Boxed<T>(pub(super) T);

impl<T: Native> Val for Boxed<T> {
    fn get_type(&self) -> &Type {
        T::TYPE
    }

    fn cel_type() -> &'static Type {
        T::TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Boxed<T>>().is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(Boxed(self.0.clone()))
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl<T: Native> StaticVal for Boxed<T> {}

/// The argument as a native value.
pub(super) fn native<'a, T: Native>(
    args: &'a Args<'_, '_>,
    at: usize,
) -> Result<&'a T, ExecutionError> {
    let arg = args.get(at).ok_or(ExecutionError::MissingArgumentOrTarget)?;
    arg.downcast_ref::<Boxed<T>>().map(|b| &b.0).ok_or_else(|| wrong_type(arg.as_ref()))
}

/// The argument as text.
pub(super) fn text<'a>(args: &'a Args<'_, '_>, at: usize) -> Result<&'a str, ExecutionError> {
    let arg = args.get(at).ok_or(ExecutionError::MissingArgumentOrTarget)?;
    arg.downcast_ref::<CelString>().map(|s| s.inner()).ok_or_else(|| wrong_type(arg.as_ref()))
}

/// The argument as an integer, if there is one.
pub(super) fn int(args: &Args<'_, '_>, at: usize) -> Option<i64> {
    args.get(at)?.downcast_ref::<CelInt>().map(|i| *i.inner())
}

fn wrong_type(value: &dyn Val) -> ExecutionError {
    ExecutionError::no_such_overload("call", vec![value.get_type().name().to_owned()])
}

pub(super) fn truth<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

pub(super) fn number<'b, 'v>(value: i64) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

pub(super) fn words<'b, 'v>(value: impl Into<String>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelString::from(value.into())))
}

pub(super) fn failed(why: impl Into<String>) -> ExecutionError {
    ExecutionError::FunctionError { function: String::new(), message: why.into() }
}

/// What rules call `matches`; ours keeps compiled patterns.
pub(super) const MATCHES: &str = "@matches";

/// What rules write as `==` and `!=`.
pub(super) const EQUAL: &str = "@equal";
pub(super) const UNEQUAL: &str = "@unequal";

fn is_equal(args: &Args<'_, '_>) -> bool {
    matches!(&args[..], [a, b] if a.equals(b.as_ref()) || b.equals(a.as_ref()))
}

fn equal<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(is_equal(&args))
}

fn unequal<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(!is_equal(&args))
}

fn matches<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(pattern(text(&args, 1)?)?.is_match(text(&args, 0)?))
}

/// Patterns by text. Rules have few, and objects can bring in more: bounded.
fn pattern(source: &str) -> Result<Regex, ExecutionError> {
    const MAX_KEPT: usize = 512;
    static KEPT: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = kept.get(source) {
        return Ok(regex.clone());
    }
    let compiled = crate::load::compile(source).regex;
    let regex = compiled.ok_or_else(|| failed(format!("error parsing regexp: `{source}`")))?;
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(source.to_owned(), regex.clone());
    Ok(regex)
}

fn find<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let found = pattern(text(&args, 1)?)?.find(text(&args, 0)?).map(|m| m.as_str().to_owned());
    words(found.unwrap_or_default())
}

fn find_all<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let limit = int(&args, 2).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let regex = pattern(text(&args, 1)?)?;
    let found: Vec<Box<dyn Val + 'v>> = regex
        .find_iter(text(&args, 0)?)
        .take(limit)
        .map(|m| Box::new(CelString::from(m.as_str().to_owned())) as Box<dyn Val + 'v>)
        .collect();
    Ok(CowVal::owned(CelList::from(found)))
}

/// The elements of a list argument.
fn elements<'a, 'v>(
    args: &'a Args<'_, 'v>,
    at: usize,
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = args.get(at).ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let iterable = list.as_iterable().ok_or_else(|| wrong_type(list.as_ref()))?;
    let mut elements = iterable.iter();
    let mut all = Vec::new();
    while let Some(element) = elements.next() {
        all.push(element);
    }
    Ok(all)
}

fn compare(a: &dyn Val, b: &dyn Val) -> Result<Ordering, ExecutionError> {
    a.as_comparer().ok_or_else(|| wrong_type(a))?.compare(b)
}

fn is_sorted<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    for pair in elements(&args, 0)?.windows(2) {
        if compare(pair[0], pair[1])? == Ordering::Greater {
            return truth(false);
        }
    }
    truth(true)
}

fn sum<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let all = elements(&args, 0)?;
    let Some((first, rest)) = all.split_first() else { return number(0) };
    let mut total = first.clone_as_boxed();
    for element in rest {
        let adder = total.as_adder().ok_or_else(|| wrong_type(total.as_ref()))?;
        total = adder.add(*element)?.into_owned();
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(args: Args<'b, 'v>, name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let all = elements(&args, 0)?;
    let mut best = *all.first().ok_or_else(|| failed(format!("{name} called on empty list")))?;
    for element in &all[1..] {
        if compare(*element, best)? == wanted {
            best = *element;
        }
    }
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

fn min<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    extreme(args, "min", Ordering::Less)
}

fn max<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    extreme(args, "max", Ordering::Greater)
}

fn index_of<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let at = elements(&args, 0)?.iter().position(|e| e.equals(args[1].as_ref()));
    number(at.map_or(-1, |at| at as i64))
}

fn last_index_of<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let at = elements(&args, 0)?.iter().rposition(|e| e.equals(args[1].as_ref()));
    number(at.map_or(-1, |at| at as i64))
}

fn has_all(these: &[&(dyn Val + '_)], of: &[&(dyn Val + '_)]) -> bool {
    of.iter().all(|wanted| these.iter().any(|e| e.equals(*wanted)))
}

fn sets_contains<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(has_all(&elements(&args, 0)?, &elements(&args, 1)?))
}

fn sets_equivalent<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (a, b) = (elements(&args, 0)?, elements(&args, 1)?);
    truth(has_all(&a, &b) && has_all(&b, &a))
}

fn sets_intersects<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (a, b) = (elements(&args, 0)?, elements(&args, 1)?);
    truth(a.iter().any(|e| b.iter().any(|other| e.equals(*other))))
}
