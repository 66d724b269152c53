//! `quantity('1.5Gi')` and what can be asked of it.
//!
//! Held exactly, in billionths, as a 128-bit integer: the largest suffix fits with room.

#![allow(clippy::needless_pass_by_value, reason = "overloads take their arguments by value")]

use std::cmp::Ordering;

use cel::common::functions::Function;
use cel::common::types::{CelDouble, INT_TYPE, STRING_TYPE, Type};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::library::{Answer, Args, Boxed, Native, failed, int, native, number, text, truth};

static TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");
const ONE: i128 = 1_000_000_000;

/// An amount with a unit, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Quantity(i128);

impl Native for Quantity {
    const TYPE: &'static Type = &TYPE;
}

impl Quantity {
    fn parse(text: &str) -> Option<Self> {
        if !crate::schema::decode::looks_like_quantity(text) {
            return None;
        }
        let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (digits, suffix) = text.split_at(at);
        let (negative, digits) = match digits.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, digits.strip_prefix('+').unwrap_or(digits)),
        };
        let (multiplier, divisor): (i128, i128) = match suffix {
            "" => (1, 1),
            "n" => (1, ONE),
            "u" => (1, 1_000_000),
            "m" => (1, 1_000),
            "k" => (1_000, 1),
            "M" => (1_000_000, 1),
            "G" => (ONE, 1),
            "T" => (ONE * 1_000, 1),
            "P" => (ONE * 1_000_000, 1),
            "E" => (ONE * ONE, 1),
            "Ki" => (1 << 10, 1),
            "Mi" => (1 << 20, 1),
            "Gi" => (1 << 30, 1),
            "Ti" => (1 << 40, 1),
            "Pi" => (1 << 50, 1),
            "Ei" => (1 << 60, 1),
            exponent => {
                let power: i32 = exponent[1..].parse().ok()?;
                let scale = 10_i128.checked_pow(power.unsigned_abs())?;
                if power < 0 { (1, scale) } else { (scale, 1) }
            }
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = &fraction[..fraction.len().min(15)];
        let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let joined: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let exact = joined.checked_mul(multiplier)?.checked_mul(ONE)?;
        let billionths = exact.checked_add(divisor * scale - 1)? / divisor.checked_mul(scale)?;
        Some(Self(if negative { -billionths } else { billionths }))
    }

    fn whole(self) -> Option<i64> {
        (self.0 % ONE == 0).then(|| i64::try_from(self.0 / ONE).ok()).flatten()
    }
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
    let made = Quantity::parse(source).ok_or_else(|| {
        failed("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    })?;
    Ok(CowVal::owned(Boxed(made)))
}

fn is_quantity<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(Quantity::parse(text(&args, 0)?).is_some())
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
    number(native::<Quantity>(&args, 0)?.0.signum() as i64)
}

fn operand(args: &Args<'_, '_>) -> Result<i128, ExecutionError> {
    match int(args, 1) {
        Some(whole) => Ok(i128::from(whole) * ONE),
        None => Ok(native::<Quantity>(args, 1)?.0),
    }
}

fn add<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let sum = native::<Quantity>(&args, 0)?.0.saturating_add(operand(&args)?);
    Ok(CowVal::owned(Boxed(Quantity(sum))))
}

fn sub<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let difference = native::<Quantity>(&args, 0)?.0.saturating_sub(operand(&args)?);
    Ok(CowVal::owned(Boxed(Quantity(difference))))
}

fn as_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let whole = native::<Quantity>(&args, 0)?.whole();
    number(whole.ok_or_else(|| failed("cannot convert value to integer"))?)
}

fn is_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    truth(native::<Quantity>(&args, 0)?.whole().is_some())
}

fn float<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let exact = native::<Quantity>(&args, 0)?.0;
    Ok(CowVal::owned(CelDouble::from(exact as f64 / ONE as f64)))
}
