//! One rule of `x-kubernetes-validations`: what can be known of it before an object arrives.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use flagship_base::machinery::status::FieldProblem;

use super::library::{self, EQUAL, KNOWN, MATCHES, NAMESPACES, UNEQUAL};
use super::meter::{Growth, children, children_mut, metered};
use super::parse::parse;
use super::value::escape;
use crate::node::{NodeRef, RuleText, Type};

/// A rule ready to run.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) text: RuleText,
    pub(super) expression: Expression,
    pub(super) message: Option<Expression>,
    pub(super) uses_old: bool,
    /// The field to blame, below the one the rule stands at.
    pub(super) field: Option<String>,
    pub(super) problem: FieldProblem,
}

/// An expression in both its forms.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) plain: IdedExpr,
    pub(super) metered: IdedExpr,
    pub(super) growth: Growth,
    /// What it evaluates to, where the schema tells.
    kind: Type,
}

/// Why a rule cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The rule does not compile.
    Rule(String),
    /// Its message expression does not.
    Message(String),
    /// It calls functions that we lack; Kubernetes may have them.
    Missing(Vec<String>),
}

impl Rule {
    /// Reads a rule that stands at `node`; `is_resource` where that is a whole object.
    pub(super) fn read(
        text: &RuleText,
        node: NodeRef<'_>,
        is_resource: bool,
    ) -> Result<Self, Defect> {
        let optional_old = text.optional_old_self == Some(true);
        let scope = Scope { node: Some(node), is_resource, optional_old, names: &[] };
        let expression = scope.read(&text.rule).map_err(|defect| match defect {
            Defect::Message(why) => Defect::Rule(why),
            other => other,
        })?;
        if !may_be_bool(&expression.plain) || ![Type::Any, Type::Boolean].contains(&expression.kind)
        {
            return Err(Defect::Rule("cel expression must evaluate to a bool".to_owned()));
        }
        let message = match text.message_expression.trim() {
            "" => None,
            source => Some(scope.read(source).map_err(|defect| match defect {
                Defect::Message(why) => Defect::Message(format!("messageExpression {why}")),
                other => other,
            })?),
        };
        if message.as_ref().is_some_and(|m| ![Type::Any, Type::String].contains(&m.kind)) {
            let why = "messageExpression must evaluate to a string";
            return Err(Defect::Message(why.to_owned()));
        }
        let problem = match text.reason.as_deref() {
            Some("FieldValueForbidden") => FieldProblem::Forbidden,
            Some("FieldValueRequired") => FieldProblem::Required,
            Some("FieldValueDuplicate") => FieldProblem::Duplicate,
            _ => FieldProblem::Invalid,
        };
        Ok(Self {
            uses_old: mentions(&expression.plain, "oldSelf"),
            field: field_path(&text.field_path, node),
            text: text.clone(),
            expression,
            message,
            problem,
        })
    }

    /// What to say when the rule has no message expression, or that one fails.
    pub(super) fn says(&self) -> String {
        match self.text.message.trim() {
            "" => format!("failed rule: {}", self.text.rule.trim()),
            message => message.to_owned(),
        }
    }

    /// The rule as it is named in errors.
    pub(super) fn name(&self) -> &str {
        match self.text.message.trim() {
            "" => self.text.rule.trim(),
            message => message,
        }
    }
}

/// Where an expression stands, and what it can name there.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    /// The schema of `self` and `oldSelf`; absent where there is no such thing.
    pub(super) node: Option<NodeRef<'s>>,
    pub(super) is_resource: bool,
    pub(super) optional_old: bool,
    /// Other names, of which nothing is known.
    pub(super) names: &'s [&'s str],
}

/// What is known of a value before it is there.
#[derive(Clone, Copy)]
enum Known<'s> {
    Nothing,
    Node {
        node: NodeRef<'s>,
        is_resource: bool,
    },
    /// `metadata` of an object: a rule sees only its name.
    Metadata,
}

type Bound<'e, 's> = Vec<(&'e str, Known<'s>)>;

impl<'s> Scope<'s> {
    pub(super) fn read(self, source: &str) -> Result<Expression, Defect> {
        let program = parse(source)
            .map_err(|shown| Defect::Message(format!("compilation failed: {shown}")))?;
        let mut findings = Vec::new();
        let mut missing = Vec::new();
        let check = &mut Check { scope: self, findings: &mut findings, missing: &mut missing };
        let known = check.visit(program.expression(), &mut Vec::new());
        if let Some((id, says)) = findings.first() {
            let shown = at(program.source_info(), *id, source, says);
            return Err(Defect::Message(format!("compilation failed: {shown}")));
        }
        // What a schema's author may know and we do not is let through; here it would be
        // a policy that never holds.
        if let (None, Some((id, name))) = (self.node, missing.first()) {
            let says = format!("undeclared reference to '{name}' (in container '')");
            let shown = at(program.source_info(), *id, source, &says);
            return Err(Defect::Message(format!("compilation failed: {shown}")));
        }
        if !missing.is_empty() {
            let names = missing.into_iter().map(|(_, name)| name).collect();
            return Err(Defect::Missing(names));
        }
        let mut plain = program.expression().clone();
        adapt(&mut plain);
        let kind = match known {
            Known::Node { node, .. } if !node.node().int_or_string => node.node().kind,
            _ => Type::Any,
        };
        Ok(Expression { metered: metered(&plain), growth: Growth::of(&plain), plain, kind })
    }
}

/// The error text of cel-go: place, reason, line, and a caret below it.
pub(super) fn at(info: &SourceInfo, id: u64, source: &str, says: &str) -> String {
    let offset = info.offset_for(id).map_or(0, |(start, _)| start as usize);
    let before: String = source.chars().take(offset).collect();
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let snippet = source.lines().nth(line).unwrap_or_default();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{}:{}: {says}\n | {snippet}\n | {dots}^", line + 1, column + 1)
}

struct Check<'c, 's> {
    scope: Scope<'s>,
    findings: &'c mut Vec<(u64, String)>,
    missing: &'c mut Vec<(u64, String)>,
}

impl<'s> Check<'_, 's> {
    /// Looks for undeclared names, unknown functions and fields that the schema has not.
    fn visit<'e>(&mut self, expr: &'e IdedExpr, bound: &mut Bound<'e, 's>) -> Known<'s> {
        match &expr.expr {
            Expr::Ident(name) => self.ident(expr.id, name, bound),
            Expr::Select(select) => {
                let operand = self.visit(&select.operand, bound);
                let field = self.field(expr.id, operand, &select.field);
                // `has(..)` is a test, whatever the field is.
                if select.test { Known::Nothing } else { field }
            }
            Expr::Comprehension(c) => {
                let range = self.visit(&c.iter_range, bound);
                self.visit(&c.accu_init, bound);
                let element = match range {
                    Known::Node { node, .. } => node.items().map(known),
                    _ => None,
                };
                bound.push((&c.accu_var, Known::Nothing));
                bound.push((&c.iter_var, element.unwrap_or(Known::Nothing)));
                for part in [&c.loop_cond, &c.loop_step, &c.result] {
                    self.visit(part, bound);
                }
                bound.truncate(bound.len() - 2);
                // `filter` keeps the elements it loops over.
                let filters = matches!(&c.loop_step.expr, Expr::Call(step)
                    if step.func_name == operators::CONDITIONAL);
                if filters && matches!(c.accu_init.expr, Expr::List(_)) {
                    range
                } else {
                    Known::Nothing
                }
            }
            Expr::Call(call) => {
                let namespace = call.target.as_ref().and_then(|target| match &target.expr {
                    Expr::Ident(name)
                        if NAMESPACES.contains(&name.as_str())
                            && !bound.iter().any(|(b, _)| b == name) =>
                    {
                        Some(name.as_str())
                    }
                    _ => None,
                });
                let name = match namespace {
                    Some(namespace) => format!("{namespace}.{}", call.func_name),
                    None => call.func_name.clone(),
                };
                if !is_operator(&name) && !KNOWN.contains(&name.as_str()) {
                    self.missing.push((expr.id, name));
                }
                let target = call.target.as_ref().filter(|_| namespace.is_none());
                if let Some(target) = target {
                    self.visit(target, bound);
                }
                let mut first = Known::Nothing;
                for (at, arg) in call.args.iter().enumerate() {
                    let known = self.visit(arg, bound);
                    first = if at == 0 { known } else { first };
                }
                match (call.func_name.as_str(), first) {
                    (operators::INDEX, Known::Node { node, .. }) => {
                        node.items().or(node.values()).map_or(Known::Nothing, known)
                    }
                    _ => Known::Nothing,
                }
            }
            _ => {
                children(expr, &mut |child| {
                    self.visit(child, bound);
                });
                Known::Nothing
            }
        }
    }

    fn ident(&mut self, id: u64, name: &str, bound: &Bound<'_, 's>) -> Known<'s> {
        if let Some((_, known)) = bound.iter().rev().find(|(b, _)| *b == name) {
            return *known;
        }
        let Scope { node, is_resource, optional_old, names } = self.scope;
        match (name, node) {
            ("oldSelf", Some(_)) if optional_old => Known::Nothing,
            ("self" | "oldSelf", Some(node)) => Known::Node { node, is_resource },
            _ if names.contains(&name) => Known::Nothing,
            _ if library::env().types().find_type(name).is_some() || name.starts_with('@') => {
                Known::Nothing
            }
            _ if NAMESPACES.contains(&name) || name == "google" => Known::Nothing,
            _ => {
                self.findings
                    .push((id, format!("undeclared reference to '{name}' (in container '')")));
                Known::Nothing
            }
        }
    }

    fn field(&mut self, id: u64, of: Known<'s>, name: &str) -> Known<'s> {
        let mut undefined = || {
            self.findings.push((id, format!("undefined field '{name}'")));
            Known::Nothing
        };
        match of {
            Known::Nothing => Known::Nothing,
            Known::Metadata if name == "name" || name == "generateName" => Known::Nothing,
            Known::Metadata => undefined(),
            Known::Node { node, is_resource } => {
                let n = node.node();
                if is_resource || n.embedded_resource {
                    match name {
                        "apiVersion" | "kind" => return Known::Nothing,
                        "metadata" => return Known::Metadata,
                        _ => {}
                    }
                }
                if let Some(values) = node.values() {
                    return known(values);
                }
                let field = node.fields().find(|(f, _)| escape(f).as_deref() == Some(name));
                match field {
                    Some((_, field)) => known(field),
                    None if n.preserve_unknown || n.int_or_string || n.kind == Type::Any => {
                        Known::Nothing
                    }
                    None if n.kind == Type::Object => undefined(),
                    None => {
                        let kind = match n.kind {
                            Type::Integer => "int",
                            Type::Number => "double",
                            Type::Boolean => "bool",
                            Type::Array => "list",
                            _ => "string",
                        };
                        let says = format!("type '{kind}' does not support field selection");
                        self.findings.push((id, says));
                        Known::Nothing
                    }
                }
            }
        }
    }
}

fn known(node: NodeRef<'_>) -> Known<'_> {
    Known::Node { node, is_resource: false }
}

fn is_operator(name: &str) -> bool {
    name.starts_with(['_', '!', '-']) || name.contains('@')
}

/// Changes that keep the meaning: patterns are cached, and equality asks both sides, because
/// only views of JSON know both kinds of list. Beside a literal the plain operator does.
fn adapt(expr: &mut IdedExpr) {
    children_mut(expr, &mut adapt);
    let Expr::Call(call) = &mut expr.expr else { return };
    let ours = match call.func_name.as_str() {
        "matches" => MATCHES,
        operators::EQUALS if !has_literal(&call.args) => EQUAL,
        operators::NOT_EQUALS if !has_literal(&call.args) => UNEQUAL,
        _ => return,
    };
    ours.clone_into(&mut call.func_name);
}

fn has_literal(args: &[IdedExpr]) -> bool {
    args.iter().any(|arg| matches!(arg.expr, Expr::Literal(_)))
}

/// Whether a rule can be true at all, as far as its outermost part tells.
pub(super) fn may_be_bool(expr: &IdedExpr) -> bool {
    use operators::{ADD, DIVIDE, MODULO, MULTIPLY, NEGATE, SUBSTRACT};
    match &expr.expr {
        Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
        Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => false,
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            ![ADD, DIVIDE, MODULO, MULTIPLY, NEGATE, SUBSTRACT, "size", "string", "int", "double"]
                .contains(&name)
        }
        _ => true,
    }
}

/// The type of an expression, where its outermost part tells.
pub(super) fn type_of(expr: &IdedExpr) -> Option<&'static str> {
    use operators::{ADD, DIVIDE, MODULO, MULTIPLY, NEGATE, SUBSTRACT};
    match &expr.expr {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::Boolean(_) => "bool",
            LiteralValue::Bytes(_) => "bytes",
            LiteralValue::Double(_) => "double",
            LiteralValue::Int(_) => "int",
            LiteralValue::Null => "null_type",
            LiteralValue::String(_) => "string",
            LiteralValue::UInt(_) => "uint",
        }),
        Expr::Call(call) => match call.func_name.as_str() {
            "size" | "int" => Some("int"),
            "string" => Some("string"),
            "double" => Some("double"),
            ADD | DIVIDE | MODULO | MULTIPLY | NEGATE | SUBSTRACT => {
                call.args.iter().find_map(type_of)
            }
            _ => None,
        },
        _ => None,
    }
}

fn mentions(expr: &IdedExpr, name: &str) -> bool {
    let mut found = matches!(&expr.expr, Expr::Ident(ident) if ident == name);
    children(expr, &mut |child| found = found || mentions(child, name));
    found
}

/// `.a.b['c']` as a path below the rule's field, or `None` if it leads nowhere.
pub(crate) fn field_path(path: &str, node: NodeRef<'_>) -> Option<String> {
    let mut rest = path.trim();
    if rest.is_empty() {
        return None;
    }
    let mut at = node;
    let mut shown = String::new();
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']")?;
            (quoted[..end].replace("\\'", "'"), &quoted[end + 2..])
        } else {
            let name = rest.strip_prefix('.')?;
            let end = name.find(['.', '[']).unwrap_or(name.len());
            (name[..end].to_owned(), &name[end..])
        };
        if at.has_property(&name) {
            let dot = if shown.is_empty() { "" } else { "." };
            shown.push_str(&format!("{dot}{name}"));
        } else {
            at.values()?;
            shown.push_str(&format!("[{name}]"));
        }
        at = at.field(&name)?;
        rest = after;
    }
    Some(shown)
}
