//! Expressions of webhooks and admission policies: `object`, `oldObject`, `request` and
//! what else they see.
//!
//! Compiled once with the object that holds them. Nothing is known of the shape of what
//! they see, so a misspelt field shows when it is looked for. `variables` are evaluated
//! when one is first asked for, and then kept.

use std::sync::{Arc, OnceLock};

use cel::common::traits::Indexer;
use cel::common::types::{CelBool, CelNull, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, Val};
use cel::{Context, ExecutionError};
use flagship_base::machinery::path::ObjectPath;
use serde_json::Value;

use super::authorizer::Check;
pub use super::authorizer::{AccessPolicy, Asker};
use super::library::{self, Boxed, failed};
use super::rule::{Defect, Expression, Scope, may_be_bool, type_of};
use super::{MAX_MESSAGE, meter, reason, value};

/// What every expression may name.
const NAMES: [&str; 6] =
    ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
/// What those may name that decide; not those that only word something.
const ALL_NAMES: [&str; 7] =
    ["object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer"];

/// An expression ready to run.
#[derive(Debug)]
pub struct Program {
    expression: Expression,
}

impl Program {
    /// Compiles an expression; why it cannot run, in the words of Kubernetes.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::read(source, &ALL_NAMES)
    }

    /// The same for an expression that words a message.
    pub fn wording(source: &str) -> Result<Self, String> {
        Self::read(source, &NAMES)
    }

    fn read(source: &str, names: &[&str]) -> Result<Self, String> {
        let scope = Scope { node: None, is_resource: false, optional_old: false, names };
        let expression = scope.read(source).map_err(|defect| match defect {
            Defect::Rule(why) | Defect::Message(why) => why,
            Defect::Missing(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
                format!("compilation failed: undeclared reference to {}", names.join(", "))
            }
        })?;
        Ok(Self { expression })
    }

    /// The same for an expression that makes a note for an audit: a text, or null for none.
    pub fn note(source: &str) -> Result<Self, String> {
        let program = Self::compile(source)?;
        match type_of(&program.expression.plain) {
            None | Some("string" | "null_type") => Ok(program),
            Some(kind) => Err(format!("must evaluate to one of [string null_type] but got {kind}")),
        }
    }

    /// The same for an expression that must be true or false.
    pub fn condition(source: &str) -> Result<Self, String> {
        let program = Self::compile(source)?;
        match may_be_bool(&program.expression.plain) {
            true => Ok(program),
            false => Err(match type_of(&program.expression.plain) {
                Some(kind) => format!("must evaluate to bool but got {kind}"),
                None => "must evaluate to bool".to_owned(),
            }),
        }
    }
}

/// What expressions see.
#[derive(Debug)]
pub struct Sight<'v> {
    /// `object`: what is to be stored.
    pub object: &'v Value,
    /// `oldObject`: what is stored.
    pub old: &'v Value,
    /// `request`: what an AdmissionReview would say of it.
    pub request: &'v Value,
    /// `params`: the object that the binding names.
    pub params: &'v Value,
    /// `namespaceObject`: the namespace it is in.
    pub namespace: &'v Value,
    /// `authorizer`: who asks, and what decides.
    pub asker: Asker,
    /// What `authorizer.requestResource` is about.
    pub at: ObjectPath,
    /// In the order they were written; each sees those before it.
    pub variables: &'v [(String, Program)],
}

/// What an expression noted for an audit.
pub enum Noted {
    /// Nothing.
    Nothing,
    /// This.
    Text(String),
    /// Something of this type, which is no note.
    Odd(String),
}

/// One run of the expressions of a policy, with a bound on their work.
pub struct Evaluation<'v> {
    context: Context<'v, 'v>,
    left: u64,
}

impl<'v> Evaluation<'v> {
    /// Begins a run.
    pub fn new(sight: &'v Sight<'v>) -> Self {
        let memo = (0..sight.variables.len()).map(|_| OnceLock::new()).collect();
        let variables = Variables { sight, seen: sight.variables.len(), memo: Arc::new(memo) };
        Self { context: context(sight, variables), left: meter::PER_OBJECT }
    }

    /// Whether a condition holds, or why that cannot be told.
    pub fn holds(&mut self, program: &Program) -> Result<bool, String> {
        let value = self.run(program)?;
        let truth = value.downcast_ref::<CelBool>().map(|truth| *truth.inner());
        truth.ok_or_else(|| "cel expression must evaluate to a bool".to_owned())
    }

    /// A text for people; `None` where there is none that can be shown.
    pub fn text(&mut self, program: &Program) -> Option<String> {
        let value = self.run(program).ok()?;
        let text = value.downcast_ref::<CelString>()?.inner().trim().to_owned();
        let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        usable.then_some(text)
    }

    /// What is noted for an audit, or why that cannot be told.
    pub fn note(&mut self, program: &Program) -> Result<Noted, String> {
        let value = self.run(program)?;
        if value.downcast_ref::<CelNull>().is_some() {
            return Ok(Noted::Nothing);
        }
        let Some(text) = value.downcast_ref::<CelString>() else {
            return Ok(Noted::Odd(value.get_type().name().to_owned()));
        };
        let text = text.inner().trim();
        Ok(if text.is_empty() { Noted::Nothing } else { Noted::Text(text.to_owned()) })
    }

    fn run(&mut self, program: &Program) -> Result<Box<dyn Val + 'v>, String> {
        let limit = self.left.min(meter::PER_RULE);
        if limit == 0 {
            let says = "validation failed due to running out of cost budget, no further validation rules will be run";
            return Err(says.to_owned());
        }
        let metered = &program.expression.metered;
        let (value, used) = meter::limited(limit, || {
            cel::Value::resolve_val(metered, &self.context).map(CowVal::into_owned)
        });
        match used {
            Some(used) => self.left -= used,
            None => {
                self.left = self.left.saturating_sub(limit);
                return Err("operation cancelled: actual cost limit exceeded".to_owned());
            }
        }
        value.map_err(|error| reason(&error).unwrap_or_else(|| "no such overload".to_owned()))
    }
}

fn context<'v>(sight: &'v Sight<'v>, variables: Variables<'v>) -> Context<'v, 'v> {
    let mut context = Context::with_env(library::env());
    for (name, value) in [
        ("object", sight.object),
        ("oldObject", sight.old),
        ("request", sight.request),
        ("params", sight.params),
        ("namespaceObject", sight.namespace),
    ] {
        context.add_variable_as_val(name, value::view(value, None));
    }
    let check = Check { asker: sight.asker.clone(), at: sight.at.clone() };
    context.add_variable_as_val("authorizer", Box::new(Boxed(sight.asker.clone())));
    context.add_variable_as_val("authorizer.requestResource", Box::new(Boxed(check)));
    context.add_variable_as_val("variables", Box::new(variables));
    context
}

/// What a variable turned out to be.
type Kept<'v> = OnceLock<Result<Box<dyn Val + 'v>, String>>;

/// The variables of a policy, each made when it is asked for.
#[derive(Debug, Clone)]
struct Variables<'v> {
    sight: &'v Sight<'v>,
    /// How many of them can be seen from here.
    seen: usize,
    memo: Arc<Vec<Kept<'v>>>,
}

impl<'v> Variables<'v> {
    fn find(&self, name: &str) -> Result<&(dyn Val + 'v), ExecutionError> {
        let all = self.sight.variables.iter().take(self.seen);
        let Some((at, (_, program))) = all.enumerate().find(|(_, (known, _))| known == name) else {
            return Err(ExecutionError::no_such_key(name));
        };
        let made = self.memo[at].get_or_init(|| {
            let earlier = Variables { seen: at, ..self.clone() };
            let context = context(self.sight, earlier);
            let value = cel::Value::resolve_val(&program.expression.metered, &context);
            let why = |error: ExecutionError| {
                reason(&error).unwrap_or_else(|| "no such overload".to_owned())
            };
            value.map(CowVal::into_owned).map_err(why)
        });
        let says =
            |why: &String| failed(format!("composited variable {name:?} fails to evaluate: {why}"));
        made.as_deref().map_err(says)
    }
}

impl<'v> Val for Variables<'v> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn equals(&self, _: &dyn Val) -> bool {
        false
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(self.clone())
    }
}

impl Indexer for Variables<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let Some(key) = key.downcast_ref::<CelString>() else {
            return Err(ExecutionError::UnexpectedType {
                got: key.get_type().name().to_owned(),
                want: "string".to_owned(),
            });
        };
        Ok(CowVal::Owned(self.find(key.inner())?.clone_as_boxed()))
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagship_base::machinery::attributes::{Decision, RequestAttributes};
    use flagship_base::machinery::user::User;
    use serde_json::json;

    /// Lets everybody ask for paths and nobody for resources.
    struct PathsOnly;

    impl AccessPolicy for PathsOnly {
        fn decide(&self, _: &User, ask: &RequestAttributes) -> Decision {
            match ask {
                RequestAttributes::Path { .. } => Decision::Allow(String::new()),
                RequestAttributes::Resource { .. } => Decision::Deny(String::new()),
            }
        }
    }

    fn said(source: &str, variables: &[(&str, &str)]) -> String {
        let object = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"replicas": 3, "list": [1, 2]}});
        let (request, null) =
            (json!({"operation": "CREATE", "userInfo": {"username": "bob"}}), Value::Null);
        let variables: Vec<(String, Program)> = variables
            .iter()
            .map(|(name, source)| ((*name).to_owned(), Program::compile(source).unwrap()))
            .collect();
        let user = Arc::new(User::authenticated("bob", []));
        let sight = Sight {
            object: &object,
            old: &null,
            request: &request,
            params: &null,
            namespace: &null,
            asker: Asker { policy: Arc::new(PathsOnly), user },
            at: ObjectPath { resource: "pods".to_owned(), ..ObjectPath::default() },
            variables: &variables,
        };
        match Program::condition(source) {
            Ok(program) => match Evaluation::new(&sight).holds(&program) {
                Ok(truth) => truth.to_string(),
                Err(why) => why,
            },
            Err(why) => why,
        }
    }

    #[test]
    fn expressions_see_the_request_and_who_asks() {
        let table = [
            ("object.spec.replicas <= 5 && oldObject == null", "true"),
            ("object.metadata.namespace == 'n' && has(object.spec.list)", "true"),
            ("request.userInfo.username == 'eve'", "false"),
            ("object.spec.nothing == 1", "no such key: nothing"),
            (
                "authorizer.group('').resource('pods').namespace('n').check('list').allowed()",
                "false",
            ),
            ("authorizer.path('/healthz').check('get').allowed()", "true"),
            ("authorizer.requestResource.check('create').allowed()", "false"),
            (
                "authorizer.serviceAccount('n', 'a').path('/version').check('get').errored()",
                "false",
            ),
            ("1 + 1", "must evaluate to bool but got int"),
            (
                "nothing == 1",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing == 1\n | ^",
            ),
            (
                "unheard(object)",
                "compilation failed: ERROR: <input>:1:8: undeclared reference to 'unheard' (in container '')\n | unheard(object)\n | .......^",
            ),
        ];
        for (source, want) in table {
            assert_eq!(said(source, &[]), want, "{source}");
        }
    }

    #[test]
    fn variables_are_made_when_they_are_asked_for() {
        let variables = [
            ("many", "object.spec.replicas > 2"),
            ("broken", "object.spec.nothing"),
            ("both", "variables.many && size(object.spec.list) == 2"),
            ("late", "variables.later"),
            ("later", "1"),
        ];
        assert_eq!(said("variables.both", &variables), "true");
        assert_eq!(said("variables.many || variables.broken == 1", &variables), "true");
        assert_eq!(said("has(object.none) && variables.broken == 1", &variables), "false");
        assert_eq!(
            said("variables.broken == 1", &variables),
            "composited variable \"broken\" fails to evaluate: no such key: nothing"
        );
        assert!(said("variables.late == 1", &variables).contains("no such key: later"));
        assert_eq!(said("variables.none == 1", &variables), "no such key: none");
    }

    #[test]
    fn work_is_bounded() {
        let many = "[1,2,3,4,5,6,7,8,9,10]";
        let mut source = "true".to_owned();
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            source = format!("{many}.all({name}, {source})");
        }
        assert_eq!(said(&source, &[]), "operation cancelled: actual cost limit exceeded");
    }
}
