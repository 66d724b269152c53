//! `quantity('1.5Gi')` and what can be asked of it.
//!
//! What a quantity is stands in `machinery`; here are the functions that rules call.

#![allow(clippy::needless_pass_by_value, reason = "overloads take their arguments by value")]

use std::cmp::Ordering;

use cel::common::functions::Function;
use cel::common::types::{CelDouble, INT_TYPE, STRING_TYPE, Type};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};
use flagship_base::quantity::Quantity;

use super::library::{Answer, Args, Boxed, Native, failed, int, native, number, text, truth};

static TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");
impl Native for Quantity {
    const TYPE: &'static Type = &TYPE;
}

/// Adds the type's functions.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("quantity", "string_to_quantity", vec![STRING_TYPE], make)?;
    env.add_overload("isQuantity", "is_quantity", vec![STRING_TYPE], is_quantity)?;
    env.add_member_overload("sign", "quantity_sign", TYPE.to_owned(), vec![], sign)?;
    for (name, op) in [
        ("isGreaterThan", is_greater as Function),
        ("isLessThan", is_less),
        ("compareTo", compare_to),
        ("add", add),
        ("sub", sub),
    ] {
        let id = format!("quantity_{name}");
        env.add_member_overload(name, &id, TYPE.to_owned(), vec![TYPE.to_owned()], op)?;
    }
    env.add_member_overload("add", "quantity_add_int", TYPE.to_owned(), vec![INT_TYPE], add)?;
    env.add_member_overload("sub", "quantity_sub_int", TYPE.to_owned(), vec![INT_TYPE], sub)?;
    env.add_member_overload("asInteger", "quantity_int", TYPE.to_owned(), vec![], as_integer)?;
    env.add_member_overload("isInteger", "quantity_is_int", TYPE.to_owned(), vec![], is_integer)?;
    env.add_member_overload(
        "asApproximateFloat",
        "quantity_float",
        TYPE.to_owned(),
        vec![],
        float,
    )?;
    Ok(())
}

fn make<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let source = text(&args, 0)?;
    let made = Quantity::bounded(source).map_err(|why| failed(why.to_string()))?;
    Ok(CowVal::owned(Boxed(made)))
}

fn is_quantity<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(Quantity::bounded(text(&args, 0)?).is_ok())
}

fn compared(args: &Args<'_, '_>) -> Result<Ordering, ExecutionError> {
    Ok(native::<Quantity>(args, 0)?.cmp(native::<Quantity>(args, 1)?))
}

fn is_greater<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(compared(&args)? == Ordering::Greater)
}

fn is_less<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(compared(&args)? == Ordering::Less)
}

fn compare_to<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    number(compared(&args)? as i64)
}

fn sign<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    number(native::<Quantity>(&args, 0)?.cmp(&Quantity::ZERO) as i64)
}

fn operand(args: &Args<'_, '_>) -> Result<Quantity, ExecutionError> {
    match int(args, 1) {
        Some(whole) => Ok(Quantity::whole(whole)),
        None => Ok(*native::<Quantity>(args, 1)?),
    }
}

fn add<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let sum = *native::<Quantity>(&args, 0)? + operand(&args)?;
    Ok(CowVal::owned(Boxed(sum)))
}

fn sub<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let difference = *native::<Quantity>(&args, 0)? - operand(&args)?;
    Ok(CowVal::owned(Boxed(difference)))
}

fn as_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let quantity = native::<Quantity>(&args, 0)?;
    if !quantity.is_whole() {
        return Err(failed("cannot convert value to integer"));
    }
    number(quantity.to_whole())
}

fn is_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(native::<Quantity>(&args, 0)?.is_whole())
}

fn float<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelDouble::from(native::<Quantity>(&args, 0)?.as_f64())))
}
