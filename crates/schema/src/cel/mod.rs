//! Rules written in CEL (`x-kubernetes-validations`): compiled with the schema, run on
//! every write.
//!
//! A rule that mentions `oldSelf` is a transition rule: it runs only where old and new
//! value can be told to be the same thing, which is never inside a plain list. Other
//! rules are forgiven where nothing changed. Null is never judged.

pub(super) mod admission;
mod authorizer;
mod library;
mod meter;
mod net;
mod overloads;
mod parse;
mod quantity;
pub(super) mod rule;
#[cfg(test)]
mod stories;
pub(super) mod typed;
mod value;

use std::collections::BTreeMap;

use cel::common::types::{CelBool, CelOptional, CelString};
use cel::common::value::Val;
use cel::{Context, ExecutionError};
use flagship_base::machinery::bounds::MAX_WALK;
use flagship_base::machinery::status::{FieldError, FieldProblem};
use serde_json::Value;

use super::lists::{counterpart, is_unchanged};
use super::node::{Arena, NodeId, NodeRef, Schema};
use super::path::{Findings, Path};
use super::validate::type_name;
use rule::{Defect, Expression, Rule};

/// Longest message that a message expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// All rules of a schema.
#[derive(Debug, Default)]
pub(super) struct RuleTable {
    rules: BTreeMap<NodeId, Vec<Rule>>,
    /// Nodes with a rule at or below them; nothing else is visited.
    visited: Vec<bool>,
}

/// A rule that cannot run, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokenRule {
    pub(super) node: NodeId,
    pub(super) index: usize,
    pub(super) defect: Defect,
}

impl RuleTable {
    /// Compiles every rule of a custom resource's schema.
    pub(super) fn compile(schema: &Schema) -> (Self, Vec<BrokenRule>) {
        let mut table =
            Self { rules: BTreeMap::new(), visited: vec![false; schema.arena.nodes.len()] };
        let mut broken = Vec::new();
        table.collect(&schema.arena, schema.root, true, &mut broken);
        (table, broken)
    }

    fn collect(
        &mut self,
        arena: &Arena,
        id: NodeId,
        is_root: bool,
        broken: &mut Vec<BrokenRule>,
    ) -> bool {
        let node = arena.at(id);
        let n = node.node();
        let texts = n.checks.as_deref().map_or(&[][..], |c| &c.rules);
        let is_resource = is_root || n.embedded_resource;
        let mut rules = Vec::new();
        for (index, text) in texts.iter().enumerate().filter(|(_, t)| !t.rule.trim().is_empty()) {
            match Rule::read(text, node, is_resource) {
                Ok(rule) => rules.push(rule),
                Err(defect) => broken.push(BrokenRule { node: id, index, defect }),
            }
        }
        let mut any = !rules.is_empty();
        if any {
            self.rules.insert(id, rules);
        }
        for child in n.properties.values().copied().chain(n.items).chain(n.values) {
            any |= self.collect(arena, child, false, broken);
        }
        self.visited[id as usize] = any;
        any
    }

    /// Whether there is any rule.
    pub(super) fn is_used(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether this rule of a node looks at the old value; `None` if it does not run.
    pub(super) fn uses_old(&self, node: NodeId, rule: &str) -> Option<bool> {
        let rules = self.rules.get(&node)?;
        rules.iter().find(|r| r.text.rule == rule).map(|r| r.uses_old)
    }

    /// Runs every rule that applies to `new`, which stands at `path`.
    pub(super) fn check(
        &self,
        schema: &Schema,
        new: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
    ) -> Vec<FieldError> {
        if !self.visited.get(schema.root as usize).copied().unwrap_or(false) {
            return Vec::new();
        }
        let cap = 1 << 32;
        let weight = meter::weight(new, cap) + old.map_or(0, |old| meter::weight(old, cap));
        let mut run = Run {
            table: self,
            arena: &schema.arena,
            weight,
            left: meter::PER_OBJECT,
            found: Vec::new(),
        };
        let pair = old.map(|old| (new, old, schema.root));
        run.walk(schema.root, new, old, pair, path, 0);
        run.found
    }
}

/// One pass over one object.
struct Run<'r> {
    table: &'r RuleTable,
    arena: &'r Arena,
    weight: u64,
    left: u64,
    found: Vec<FieldError>,
}

/// New and old state of the nearest part that has both, and its schema.
type Pair<'v> = Option<(&'v Value, &'v Value, NodeId)>;

impl<'r> Run<'r> {
    /// Returns whether to go on: not after the budget is used up.
    fn walk<'v: 'r>(
        &mut self,
        id: NodeId,
        new: &'v Value,
        old: Option<&'v Value>,
        pair: Pair<'v>,
        path: &Path<'_>,
        depth: usize,
    ) -> bool {
        let visited = self.table.visited[id as usize];
        if !visited || new.is_null() || depth > MAX_WALK {
            return true;
        }
        let old = old.filter(|old| !old.is_null());
        let node = self.arena.at(id);
        if let Some(rules) = self.table.rules.get(&id)
            && !self.judge(rules, node, new, old, pair, path)
        {
            return false;
        }
        let n = node.node();
        match new {
            Value::Object(map) => map.iter().all(|(key, value)| {
                let Some(child) = n.properties.get(&**key).copied().or(n.values) else {
                    return true;
                };
                let path = match node.has_property(key) {
                    true => Path::Field(path, key),
                    false => Path::Key(path, key),
                };
                let before = old.and_then(|old| old.get(key));
                self.step(child, value, before, pair, &path, depth)
            }),
            Value::Array(list) => {
                let Some(items) = n.items else { return true };
                list.iter().enumerate().all(|(at, value)| {
                    let before = counterpart(value, old, node);
                    self.step(items, value, before, pair, &Path::Index(path, at), depth)
                })
            }
            _ => true,
        }
    }

    fn step<'v: 'r>(
        &mut self,
        id: NodeId,
        new: &'v Value,
        old: Option<&'v Value>,
        pair: Pair<'v>,
        path: &Path<'_>,
        depth: usize,
    ) -> bool {
        let pair = old.map(|old| (new, old, id)).or(pair);
        self.walk(id, new, old, pair, path, depth + 1)
    }

    fn judge<'v: 'r>(
        &mut self,
        rules: &'r [Rule],
        node: NodeRef<'r>,
        new: &'v Value,
        old: Option<&'v Value>,
        pair: Pair<'v>,
        path: &Path<'_>,
    ) -> bool {
        let mut context = Context::with_env(library::env());
        context.add_variable_as_val("self", value::view(new, Some(node)));
        for rule in rules {
            let optional = rule.text.optional_old_self == Some(true);
            if rule.uses_old {
                let old = old.map(|old| value::view(old, Some(node)));
                let old: Box<dyn Val + '_> = match old {
                    None if !optional => continue,
                    Some(old) if !optional => old,
                    old => Box::new(CelOptional::from(old)),
                };
                context.add_variable_as_val("oldSelf", old);
            }
            let kind = type_name(node.node().kind);
            let weight = || self.local_weight(new, old);
            let weight =
                if rule.expression.growth.is_cheap_for(self.weight) { 0 } else { weight() };
            let verdict = match self.evaluate(&rule.expression, &context, weight) {
                Ok(value) => value.downcast_ref::<CelBool>().is_some_and(|b| *b.inner()),
                Err(Stop::OutOfBudget) => {
                    let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
                    self.found.add(FieldError::invalid(path.to_string(), kind.into(), detail));
                    return false;
                }
                Err(Stop::TooExpensive) => {
                    let detail = format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        rule.name()
                    );
                    self.found.add(FieldError::invalid(path.to_string(), kind.into(), detail));
                    return false;
                }
                Err(Stop::Failed(error)) => {
                    let detail = failure(&error, rule.name());
                    self.found.add(FieldError::invalid(path.to_string(), kind.into(), detail));
                    continue;
                }
            };
            let arena = self.arena;
            let unchanged =
                || pair.is_some_and(|(new, old, id)| is_unchanged(new, old, arena.at(id)));
            if verdict || (!rule.uses_old && unchanged()) {
                continue;
            }
            let weight = self.weight;
            let message = rule.message.as_ref().and_then(|m| self.message(m, &context, weight));
            let detail = message.unwrap_or_else(|| rule.says());
            self.blame(rule, path, kind, detail);
        }
        true
    }

    fn blame(&mut self, rule: &Rule, path: &Path<'_>, kind: &str, detail: String) {
        let path = match &rule.field {
            Some(field) => Path::Field(path, field).to_string(),
            None => path.to_string(),
        };
        let (value, detail) = match rule.problem {
            FieldProblem::Forbidden | FieldProblem::Required => (None, detail),
            FieldProblem::Duplicate => (Some(kind.into()), String::new()),
            _ => (Some(kind.into()), detail),
        };
        self.found.add(FieldError { problem: rule.problem, path, value, detail });
    }

    fn message(
        &mut self,
        expression: &Expression,
        context: &Context<'_, '_>,
        weight: u64,
    ) -> Option<String> {
        let made = self.evaluate(expression, context, weight).ok()?;
        let text = made.downcast_ref::<CelString>()?.inner().trim().to_owned();
        let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        usable.then_some(text)
    }

    /// The weight of what a rule sees; the whole object's is the cheaper guess.
    fn local_weight(&self, new: &Value, old: Option<&Value>) -> u64 {
        meter::weight(new, self.weight) + old.map_or(0, |old| meter::weight(old, self.weight))
    }

    /// Runs an expression in the form that its worst case on values of this weight asks for.
    fn evaluate<'e, 'v>(
        &mut self,
        expression: &'e Expression,
        context: &'e Context<'_, 'v>,
        weight: u64,
    ) -> Result<Box<dyn Val + 'v>, Stop> {
        let owned = |value: cel::common::value::CowVal<'e, 'v>| value.into_owned();
        if expression.growth.is_cheap_for(weight) {
            self.left = self.left.saturating_sub(1);
            let value = cel::Value::resolve_val(&expression.plain, context);
            return value.map(owned).map_err(Stop::Failed);
        }
        if self.left == 0 {
            return Err(Stop::OutOfBudget);
        }
        let limit = self.left.min(meter::PER_RULE);
        let (value, used) =
            meter::limited(limit, || cel::Value::resolve_val(&expression.metered, context));
        match used {
            Some(used) => {
                self.left -= used;
                value.map(owned).map_err(Stop::Failed)
            }
            None if limit < meter::PER_RULE => Err(Stop::OutOfBudget),
            None => Err(Stop::TooExpensive),
        }
    }
}

/// Why an expression has no value.
enum Stop {
    Failed(ExecutionError),
    TooExpensive,
    OutOfBudget,
}

/// The words of cel-go for a failed evaluation.
fn failure(error: &ExecutionError, rule: &str) -> String {
    match reason(error) {
        Some(why) => format!("{why} evaluating rule: {rule}"),
        None => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
        ),
    }
}

/// Why an evaluation failed; `None` when something was called that does not fit.
fn reason(error: &ExecutionError) -> Option<String> {
    Some(match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(cel::Value::Int(at)) => {
            format!("index out of bounds: {at}")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { function, message }
            if message.starts_with("string parse error") =>
        {
            format!("type conversion error from 'string' to '{function}'")
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. } => return None,
        other => other.to_string(),
    })
}
