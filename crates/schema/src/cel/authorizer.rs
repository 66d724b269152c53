//! `authorizer` in expressions of admission: whether a user may do something else, too.

#![allow(clippy::needless_pass_by_value, reason = "overloads take their arguments by value")]

use std::fmt;
use std::sync::Arc;

use cel::common::functions::Function;
use cel::common::types::{CelString, STRING_TYPE, Type};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env};
use flagship_base::machinery::attributes::{Decision, RequestAttributes};
use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::user::User;

use super::library::{Answer, Args, Boxed, Native, native, text, truth};

static ASKER: Type = Type::new_unspecified_type("kubernetes.authorization.Authorizer");
static CHECK: Type = Type::new_unspecified_type("kubernetes.authorization.ResourceCheck");
static PATH: Type = Type::new_unspecified_type("kubernetes.authorization.PathCheck");
static ANSWER: Type = Type::new_unspecified_type("kubernetes.authorization.Decision");

/// What decides: the roles and bindings of a cluster.
pub trait AccessPolicy: Send + Sync {
    /// Whether a user may do it, and why.
    fn decide(&self, user: &User, ask: &RequestAttributes) -> Decision;
}

/// Who asks, and what decides.
#[derive(Clone)]
pub struct Asker {
    /// The roles and bindings of the cluster.
    pub policy: Arc<dyn AccessPolicy>,
    /// Whose rights are meant.
    pub user: Arc<User>,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asker({})", self.user.name)
    }
}

impl PartialEq for Asker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy) && self.user == other.user
    }
}

/// A question about a resource, as far as it was put.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    pub(super) asker: Asker,
    pub(super) at: ObjectPath,
}

/// A question about a path.
#[derive(Debug, Clone, PartialEq)]
struct PathCheck {
    asker: Asker,
    path: String,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
struct Answered {
    allowed: bool,
    reason: String,
}

impl Native for Asker {
    const TYPE: &'static Type = &ASKER;
}
impl Native for Check {
    const TYPE: &'static Type = &CHECK;
}
impl Native for PathCheck {
    const TYPE: &'static Type = &PATH;
}
impl Native for Answered {
    const TYPE: &'static Type = &ANSWER;
}

/// Adds the functions.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let one = || vec![STRING_TYPE];
    let (asker, check) = (|| ASKER.to_owned(), || CHECK.to_owned());
    env.add_member_overload("group", "authorizer_group", asker(), one(), group)?;
    env.add_member_overload("path", "authorizer_path", asker(), one(), path)?;
    let two = vec![STRING_TYPE, STRING_TYPE];
    env.add_member_overload("serviceAccount", "authorizer_account", asker(), two, account)?;
    for (name, op) in [
        ("resource", resource as Function),
        ("subresource", subresource),
        ("namespace", namespace),
        ("name", name),
        ("check", check_resource),
    ] {
        env.add_member_overload(name, &format!("check_{name}"), check(), one(), op)?;
    }
    env.add_member_overload("check", "path_check", PATH.to_owned(), one(), check_path)?;
    for (name, op) in [
        ("allowed", allowed as Function),
        ("errored", errored),
        ("reason", reason),
        ("error", error),
    ] {
        env.add_member_overload(name, &format!("decision_{name}"), ANSWER.to_owned(), vec![], op)?;
    }
    Ok(())
}

fn group<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let asker = native::<Asker>(&args, 0)?.clone();
    let at = ObjectPath { group: text(&args, 1)?.to_owned(), ..ObjectPath::default() };
    Ok(CowVal::owned(Boxed(Check { asker, at })))
}

fn path<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let asker = native::<Asker>(&args, 0)?.clone();
    Ok(CowVal::owned(Boxed(PathCheck { asker, path: text(&args, 1)?.to_owned() })))
}

fn account<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let Asker { policy, .. } = native::<Asker>(&args, 0)?.clone();
    let (namespace, name) = (text(&args, 1)?, text(&args, 2)?);
    let own = format!("system:serviceaccounts:{namespace}");
    let name = format!("system:serviceaccount:{namespace}:{name}");
    let user = Arc::new(User::authenticated(&name, ["system:serviceaccounts", &own]));
    Ok(CowVal::owned(Boxed(Asker { policy, user })))
}

fn narrowed<'b, 'v>(
    args: &Args<'b, 'v>,
    set: impl FnOnce(&mut ObjectPath, String),
) -> Answer<'b, 'v> {
    let mut check = native::<Check>(args, 0)?.clone();
    set(&mut check.at, text(args, 1)?.to_owned());
    Ok(CowVal::owned(Boxed(check)))
}

fn resource<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    narrowed(&args, |at, text| at.resource = text)
}

fn subresource<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    narrowed(&args, |at, text| at.subresource = Some(text).filter(|t| !t.is_empty()))
}

fn namespace<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    narrowed(&args, |at, text| at.namespace = Some(text).filter(|t| !t.is_empty()))
}

fn name<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    narrowed(&args, |at, text| at.name = Some(text).filter(|t| !t.is_empty()))
}

fn check_resource<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let Check { asker, at } = native::<Check>(&args, 0)?.clone();
    Ok(answered(&asker, &RequestAttributes::Resource { verb: text(&args, 1)?.to_owned(), at }))
}

fn check_path<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let PathCheck { asker, path } = native::<PathCheck>(&args, 0)?.clone();
    Ok(answered(&asker, &RequestAttributes::Path { verb: text(&args, 1)?.to_owned(), path }))
}

fn answered<'b, 'v>(asker: &Asker, ask: &RequestAttributes) -> CowVal<'b, 'v> {
    let (allowed, reason) = match asker.policy.decide(&asker.user, ask) {
        Decision::Allow(why) => (true, why),
        Decision::Deny(why) => (false, why),
    };
    CowVal::owned(Boxed(Answered { allowed, reason }))
}

fn allowed<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(native::<Answered>(&args, 0)?.allowed)
}

/// Nothing here can fail: roles that are missing are a reason, not an error.
fn errored<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    native::<Answered>(&args, 0)?;
    truth(false)
}

fn reason<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let reason = native::<Answered>(&args, 0)?.reason.clone();
    Ok(CowVal::owned(CelString::from(reason)))
}

fn error<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    native::<Answered>(&args, 0)?;
    Ok(CowVal::owned(CelString::from(String::new())))
}
