//! Resource quantities: `100m`, `1.5Gi`, `2e3`.
//!
//! Held in billionths, exactly; finer parts are rounded up, away from zero, as wanting a
//! little must not become wanting nothing. `1000m` equals `1`, and `1Gi` exceeds `1G`. Sums
//! keep the notation of their left side, because people read them; nothing has no notation,
//! and takes that of the right side.
//!
//! Two ways to read and to add, because two callers promise different things. Properties of
//! clusters are compared as KubeFleet compares them: [`FromStr`], [`Quantity::plus`] and
//! [`Quantity::minus`] know no largest decimal amount. The API server counts quotas in 64
//! bits: [`Quantity::bounded`], `+` and `-` stop at the largest 64-bit integer.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use thiserror::Error;

use crate::go_number::split_digits;

/// An exact amount of some resource.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// How an amount was written, and will be again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// Powers of 1000: `k`, `M`, `m`.
    Decimal,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// It does not have the form of one.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// It has the form, but no digit.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// It has a suffix nobody knows.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

/// The largest amount in binary notation, and of any amount that is bounded.
const CAP: i128 = i64::MAX as i128 * NANO;

/// Powers of ten that an `i128` of billionths can still hold.
const LARGEST_POWER: i64 = 38;

/// Beyond this power of ten every bounded amount is the cap, or rounded up from nothing.
const BOUNDED_POWER: i64 = 100_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, notation: Notation::Decimal };

    /// A whole number.
    pub const fn whole(number: i64) -> Self {
        Self { nanos: number as i128 * NANO, notation: Notation::Decimal }
    }

    /// A number of thousandths.
    pub const fn milli(number: i64) -> Self {
        Self { nanos: number as i128 * MILLI, notation: Notation::Decimal }
    }

    /// Reads a quantity as the API server does: no more than 64 bits of whole units,
    /// whatever the notation.
    pub fn bounded(text: &str) -> Result<Self, QuantityError> {
        let mut written = Written::read(text)?;
        if let Power::Ten(power, _) = &mut written.power {
            *power = (*power).clamp(-BOUNDED_POWER, BOUNDED_POWER);
        }
        let size = written.size().min(CAP);
        let notation = match written.notation() {
            // Less than one cannot be said with binary suffixes.
            Notation::Binary if size < NANO => Notation::Decimal,
            notation => notation,
        };
        Ok(Self { nanos: if written.negative { -size } else { size }, notation })
    }

    /// The sum, up to the limit of the type.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), notation: self.notation_with(other) }
    }

    /// The difference, down to the limit of the type; it may be negative.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), notation: self.notation_with(other) }
    }

    const fn notation_with(self, other: Self) -> Notation {
        if self.nanos == 0 { other.notation } else { self.notation }
    }

    /// The amount as a whole number, rounded up away from zero.
    pub fn to_whole(self) -> i64 {
        i64::try_from(divide_away(self.nanos, NANO)).unwrap_or(i64::MAX)
    }

    /// The amount in thousandths, rounded up away from zero; capped at 64 bits.
    pub fn to_milli(self) -> i64 {
        let bound = if self.nanos < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(divide_away(self.nanos, MILLI)).unwrap_or(bound)
    }

    /// The nearest floating-point number.
    pub fn as_f64(self) -> f64 {
        let (whole, rest) = (self.nanos / NANO, self.nanos % NANO);
        // Dividing the whole of it would round twice.
        if rest == 0 { whole as f64 } else { self.nanos as f64 / NANO as f64 }
    }

    /// The same, no finer than a thousandth, as resource lists are kept.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        Self { nanos: divide_away(self.nanos, MILLI).saturating_mul(MILLI), ..self }
    }

    /// Whether there is nothing of it.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it has no fractional part.
    pub const fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    const fn within_cap(self) -> Self {
        let nanos = match self.nanos {
            nanos if nanos > CAP => CAP,
            nanos if nanos < -CAP => -CAP,
            nanos => nanos,
        };
        Self { nanos, ..self }
    }
}

fn divide_away(number: i128, by: i128) -> i128 {
    number / by + (number % by).signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Self;

    /// The sum, up to 64 bits of whole units.
    fn add(self, other: Self) -> Self {
        self.plus(other).within_cap()
    }
}

impl Sub for Quantity {
    type Output = Self;

    /// The difference, down to 64 bits of whole units.
    fn sub(self, other: Self) -> Self {
        self.minus(other).within_cap()
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if matches!(text, "+" | "-") {
            return Err(QuantityError::Format);
        }
        let written = Written::read(text)?;
        if matches!(written.power, Power::Ten(power, _) if i32::try_from(power).is_err()) {
            return Err(QuantityError::Suffix);
        }
        let size = written.size();
        let nanos = if written.negative { -size } else { size };
        Ok(Self { nanos, notation: written.notation() })
    }
}

/// A quantity in its parts: `-1.5Gi` has `1`, `5` and two to the power of 30.
struct Written<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    power: Power,
}

enum Power {
    Ten(i64, Notation),
    Two(u32),
}

impl<'a> Written<'a> {
    fn read(text: &'a str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if text.is_empty() || !has_suffix_form(suffix) {
            return Err(QuantityError::Format);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Number);
        }
        let power = suffix_power(suffix).ok_or(QuantityError::Suffix)?;
        Ok(Self { negative: text.starts_with('-'), whole, fraction, power })
    }

    /// The amount without its sign, in billionths.
    fn size(&self) -> i128 {
        match self.power {
            Power::Ten(power, _) => decimal(self.whole, self.fraction, power),
            Power::Two(power) => binary(self.whole, self.fraction, power),
        }
    }

    fn notation(&self) -> Notation {
        match self.power {
            Power::Ten(_, notation) => notation,
            Power::Two(_) => Notation::Binary,
        }
    }
}

/// `[eEinumkKMGTP]*[-+]?[0-9]*`
fn has_suffix_form(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|byte| byte.is_ascii_digit())
}

fn suffix_power(suffix: &str) -> Option<Power> {
    let ten = |power| Some(Power::Ten(power, Notation::Decimal));
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => Some(Power::Two(10)),
        "Mi" => Some(Power::Two(20)),
        "Gi" => Some(Power::Two(30)),
        "Ti" => Some(Power::Two(40)),
        "Pi" => Some(Power::Two(50)),
        "Ei" => Some(Power::Two(60)),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some(Power::Ten(power, Notation::Exponent))
        }
    }
}

/// Billionths in `whole.fraction * 10^power`, rounded up and capped.
fn decimal(whole: &str, fraction: &str, power: i64) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes()).map(|byte| i128::from(byte - b'0'));
    // The power of ten that the current digit stands for, in billionths.
    let mut place = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(power + 9);
    let mut nanos: i128 = 0;
    let mut below = false;
    for digit in digits {
        place -= 1;
        if digit == 0 && nanos == 0 {
            continue;
        }
        if place < 0 {
            below |= digit > 0;
        } else if place >= LARGEST_POWER {
            return i128::MAX;
        } else {
            nanos = nanos.saturating_mul(10).saturating_add(digit);
        }
    }
    for _ in 0..if nanos == 0 { 0 } else { place.max(0) } {
        nanos = nanos.saturating_mul(10);
    }
    nanos.saturating_add(i128::from(below))
}

/// Billionths in `whole.fraction * 2^power`, rounded up and capped.
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let units = decimal(whole, "", 0) / NANO;
    if units > i128::from(i64::MAX) >> power {
        return CAP;
    }
    // From the last digit to the first: what carries out is the part above a
    // billionth, what stays behind only decides whether to round up.
    let factor = (1i128 << power) * NANO;
    let (mut carry, mut below) = (0i128, false);
    for byte in fraction.bytes().rev() {
        let step = i128::from(byte - b'0') * factor + carry;
        below |= step % 10 > 0;
        carry = step / 10;
    }
    let nanos = (units << power) * NANO + carry + i128::from(below);
    nanos.min(CAP)
}

impl fmt::Display for Quantity {
    /// Canonical form: no fraction, and the largest suffix that allows it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Powers of 1024 cannot say a fraction, and say little about a small number.
        let fits_binary = self.nanos.abs() >= 1024 * NANO && self.nanos % NANO == 0;
        match self.notation {
            Notation::Binary if fits_binary => fmt_binary(self.nanos / NANO, out),
            Notation::Binary | Notation::Decimal => fmt_decimal(self.nanos, out, |power| {
                let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                suffixes.get(power / 3).map(|suffix| (*suffix).to_owned())
            }),
            Notation::Exponent => fmt_decimal(self.nanos, out, |power| {
                let power = i64::try_from(power).ok()? - 9;
                Some(if power == 0 { String::new() } else { format!("e{power}") })
            }),
        }
    }
}

/// Takes out thousands as long as there is a suffix for them.
fn fmt_decimal(
    nanos: i128,
    out: &mut fmt::Formatter<'_>,
    suffix: impl Fn(usize) -> Option<String>,
) -> fmt::Result {
    if nanos == 0 {
        return out.write_str("0");
    }
    let (mut number, mut power) = (nanos, 0);
    while number % 1000 == 0 && suffix(power + 3).is_some() {
        number /= 1000;
        power += 3;
    }
    write!(out, "{number}{}", suffix(power).unwrap_or_default())
}

fn fmt_binary(mut number: i128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while number % 1024 == 0 {
        let Some(next) = suffixes.next() else { break };
        number /= 1024;
        suffix = next;
    }
    write!(out, "{number}{suffix}")
}

#[cfg(test)]
mod bounded_tests;
#[cfg(test)]
mod tests;
