//! Bounds the work of one rule.
//!
//! The interpreter has no limit of its own. Most rules on most objects cannot be
//! expensive, and run as they are; where the product of rule and object could be, a
//! second form of the rule runs, in which every turn of a loop and every argument of
//! a function that reads its argument is first paid for.

use std::cell::Cell;

use cel::ExecutionError;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::common::types::{CelBytes, CelString, MAP_TYPE};
use cel::common::value::{CowVal, Val};
use serde_json::Value;

use super::library::NAMESPACES;

/// Work allowed to one rule, in units of roughly a tenth of a microsecond, as Kubernetes has it.
pub(super) const PER_RULE: u64 = 1_000_000;
/// Work allowed to all rules of one object.
pub(super) const PER_OBJECT: u64 = 10_000_000;
/// The function that pays; no rule can write its name.
pub(super) const CHARGE: &str = "@charge";
/// Up to this estimate a rule runs unmetered.
const CHEAP: u64 = 200_000;
/// What each turn or argument costs apart from its size.
const PER_CHARGE: u64 = 4;
/// Bytes of text that cost one unit.
const BYTES_PER_UNIT: u64 = 32;

thread_local! {
    /// What is left to the rule that runs on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Runs with a limit and says how much was used, or `None` if it was not enough.
pub(super) fn limited<T>(limit: u64, run: impl FnOnce() -> T) -> (T, Option<u64>) {
    LEFT.set(limit);
    let result = run();
    let left = LEFT.replace(0);
    (result, (left > 0).then(|| limit - left))
}

/// The overload behind [`CHARGE`]: returns its argument.
pub(super) fn charge<'b, 'v>(
    mut args: Vec<CowVal<'b, 'v>>,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.pop().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let mut budget = LEFT.get().saturating_sub(PER_CHARGE);
    weigh(value.as_ref(), &mut budget, 0);
    LEFT.set(budget);
    if budget == 0 {
        return Err(ExecutionError::function_error(CHARGE, "actual cost limit exceeded"));
    }
    Ok(value)
}

/// Takes the weight of a value from the budget, stopping when nothing is left.
fn weigh(value: &dyn Val, budget: &mut u64, depth: usize) {
    let mut own = 1;
    if let Some(text) = value.downcast_ref::<CelString>() {
        own += text.inner().len() as u64 / BYTES_PER_UNIT;
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        own += bytes.inner().len() as u64 / BYTES_PER_UNIT;
    }
    *budget = budget.saturating_sub(own);
    let Some(iterable) = value.as_iterable().filter(|_| depth < 64) else { return };
    let indexer = value.as_indexer().filter(|_| *value.get_type() == MAP_TYPE);
    let mut elements = iterable.iter();
    while *budget > 0
        && let Some(element) = elements.next()
    {
        match indexer {
            Some(map) => {
                *budget = budget.saturating_sub(1);
                if let Ok(inner) = map.get(element) {
                    weigh(inner.as_ref(), budget, depth + 1);
                }
            }
            None => weigh(element, budget, depth + 1),
        }
    }
}

/// The weight of JSON in the same units, counted no further than `cap`.
pub(super) fn weight(value: &Value, cap: u64) -> u64 {
    fn count(value: &Value, left: &mut u64) {
        let own = match value {
            Value::String(text) => 1 + text.len() as u64 / BYTES_PER_UNIT,
            _ => 1,
        };
        *left = left.saturating_sub(own);
        match value {
            Value::Array(list) => more(&mut list.iter(), left),
            Value::Object(map) => more(&mut map.values(), left),
            _ => {}
        }
    }
    fn more(values: &mut dyn Iterator<Item = &Value>, left: &mut u64) {
        while *left > 0
            && let Some(value) = values.next()
        {
            count(value, left);
        }
    }
    let mut left = cap;
    count(value, &mut left);
    cap - left
}

/// How the work of an expression grows with the object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    nodes: u64,
    loops: u32,
}

impl Growth {
    pub(super) fn of(expr: &IdedExpr) -> Self {
        let mut growth = Growth { nodes: 0, loops: 0 };
        growth.add(expr, 0);
        growth
    }

    fn add(&mut self, expr: &IdedExpr, loops: u32) {
        self.nodes += 1;
        self.loops = self.loops.max(loops);
        if let Expr::Comprehension(c) = &expr.expr {
            for outer in [&c.iter_range, &c.accu_init] {
                self.add(outer, loops);
            }
            for inner in [&c.loop_cond, &c.loop_step, &c.result] {
                self.add(inner, loops + 1);
            }
        } else {
            children(expr, &mut |child| self.add(child, loops));
        }
    }

    /// Whether no object of this weight can make it expensive.
    pub(super) fn is_cheap_for(self, weight: u64) -> bool {
        let mut work = self.nodes.saturating_mul(weight.max(1));
        for _ in 0..self.loops {
            work = work.saturating_mul(weight.max(1));
        }
        work <= CHEAP
    }
}

/// The form of the rule that pays as it goes.
pub(super) fn metered(expr: &IdedExpr) -> IdedExpr {
    let mut copy = expr.clone();
    meter(&mut copy);
    copy
}

fn meter(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Comprehension(c) => {
            for part in [&mut c.iter_range, &mut c.accu_init, &mut c.loop_cond, &mut c.loop_step] {
                meter(part);
            }
            meter(&mut c.result);
            // `map` and `filter` run fast only while their condition stays a literal.
            match (&c.loop_cond.expr, &mut c.loop_step.expr) {
                (Expr::Literal(_), Expr::Call(step)) => pay_in_step(step),
                _ => pay(&mut c.loop_cond),
            }
        }
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|t| meter(t));
            call.args.iter_mut().for_each(meter);
            if !reads_nothing(&call.func_name) {
                call.target.iter_mut().filter(|t| is_value(t)).for_each(|t| pay(t));
                call.args.iter_mut().filter(|a| is_value(a)).for_each(pay);
            }
        }
        _ => children_mut(expr, &mut meter),
    }
}

/// `cond ? accu + [e] : accu`, `accu + [e]`, or `cond ? accu + 1 : accu`.
fn pay_in_step(step: &mut CallExpr) {
    if step.func_name == operators::CONDITIONAL
        && let Some(guard) = step.args.first_mut()
    {
        pay(guard);
    } else if let Some(IdedExpr { expr: Expr::List(list), .. }) = step.args.last_mut()
        && let Some(element) = list.elements.first_mut()
    {
        pay(element);
    }
}

fn pay(expr: &mut IdedExpr) {
    let inner = std::mem::take(expr);
    let call = CallExpr { func_name: CHARGE.to_owned(), target: None, args: vec![inner] };
    *expr = IdedExpr { id: 0, expr: Expr::Call(call) };
}

/// Something whose size the object decides; `strings` in `strings.quote(x)` is no value.
fn is_value(expr: &IdedExpr) -> bool {
    match &expr.expr {
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => false,
        // A loop's own result stays bare, or `map` and `filter` lose their fast form.
        Expr::Ident(name) => !name.starts_with('@') && !NAMESPACES.contains(&name.as_str()),
        Expr::Select(select) => !select.test,
        _ => true,
    }
}

/// Operators whose work does not depend on the size of their arguments.
fn reads_nothing(name: &str) -> bool {
    use operators::{
        CONDITIONAL, INDEX, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, OPT_INDEX, OPT_SELECT,
    };
    let free = [CONDITIONAL, INDEX, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, OPT_INDEX, OPT_SELECT];
    free.contains(&name)
        || name == CHARGE
        || name == operators::NOT_STRICTLY_FALSE
        || name == "type"
}

/// Calls with every direct part of an expression.
pub(super) fn children<'e>(expr: &'e IdedExpr, visit: &mut dyn FnMut(&'e IdedExpr)) {
    match &expr.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|t| visit(t));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(c) => {
            for part in [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result] {
                visit(part);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => map.entries.iter().for_each(|entry| entry_parts(&entry.expr, visit)),
        Expr::Struct(s) => s.entries.iter().for_each(|entry| entry_parts(&entry.expr, visit)),
        Expr::Select(select) => visit(&select.operand),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn entry_parts<'e>(entry: &'e EntryExpr, visit: &mut dyn FnMut(&'e IdedExpr)) {
    match entry {
        EntryExpr::StructField(field) => visit(&field.value),
        EntryExpr::MapEntry(entry) => {
            visit(&entry.key);
            visit(&entry.value);
        }
    }
}

/// As [`children`], to change them.
pub(super) fn children_mut(expr: &mut IdedExpr, visit: &mut dyn FnMut(&mut IdedExpr)) {
    match &mut expr.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|t| visit(t));
            call.args.iter_mut().for_each(visit);
        }
        Expr::Comprehension(c) => {
            for part in [&mut c.iter_range, &mut c.accu_init, &mut c.loop_cond, &mut c.loop_step] {
                visit(part);
            }
            visit(&mut c.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(visit),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    visit(&mut entry.key);
                    visit(&mut entry.value);
                }
            }
        }
        Expr::Struct(s) => {
            for entry in &mut s.entries {
                if let EntryExpr::StructField(field) = &mut entry.expr {
                    visit(&mut field.value);
                }
            }
        }
        Expr::Select(select) => visit(&mut select.operand),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}
