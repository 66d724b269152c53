//! Resource quantities such as `500m`, `1Gi` or `1e3`: parsed, compared, added, printed.
//!
//! A quantity is a whole number of billionths held in an `i128`, which is exact for
//! everything Kubernetes can say: amounts are capped at the largest 64-bit integer and
//! rounded up, away from zero, to a billionth. It remembers the notation it was written
//! in, because the canonical text keeps it: `1024Mi` becomes `1Gi`, `1000m` becomes `1`.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use thiserror::Error;

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// The largest amount, in billionths.
const CAP: i128 = i64::MAX as i128 * NANO;
/// More digits than the cap has.
const CAP_DIGITS: usize = 29;

/// An exact amount and the notation it was written in.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    notation: Notation,
}

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `Ki`, `Mi`, `Gi`, ...
    Binary,
    /// `n`, `u`, `m`, none, `k`, `M`, ...
    Decimal,
    /// `e3`, `e6`, ...
    Exponent,
}

/// Why a text is no quantity, in Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text does not look like a quantity at all.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The part before the suffix is no number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is none of the known ones.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// What a suffix does to the number before it.
enum Scale {
    /// Times two to this power.
    Two(u32),
    /// Times ten to this power.
    Ten(i32),
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0, notation: Notation::Decimal };

    /// A whole number.
    pub fn whole(number: i64) -> Self {
        Self { nano: i128::from(number) * NANO, notation: Notation::Decimal }
    }

    /// A number of thousandths.
    pub fn milli(number: i64) -> Self {
        Self { nano: i128::from(number) * MILLI, notation: Notation::Decimal }
    }

    /// The amount as a whole number, rounded up away from zero.
    pub fn to_whole(self) -> i64 {
        i64::try_from(divide_away(self.nano, NANO)).unwrap_or(i64::MAX)
    }

    /// The amount in thousandths, rounded up away from zero; capped at 64 bits.
    pub fn to_milli(self) -> i64 {
        let bound = if self.nano < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(divide_away(self.nano, MILLI)).unwrap_or(bound)
    }

    /// The amount as a float, close to it.
    pub fn to_f64(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// The same, no finer than a thousandth, as resource lists are kept.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        Self { nano: divide_away(self.nano, MILLI) * MILLI, ..self }
    }

    /// Whether there is nothing of it.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it has no fractional part.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    fn bounded(nano: i128, notation: Notation) -> Self {
        Self { nano: nano.clamp(-CAP, CAP), notation }
    }
}

fn divide_away(number: i128, by: i128) -> i128 {
    let (whole, rest) = (number / by, number % by);
    whole + rest.signum()
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(QuantityError::Format),
        };
        let number_end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || !has_suffix_shape(suffix) {
            return Err(QuantityError::Format);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Number);
        }
        let (scale, mut notation) = scale_of(suffix).ok_or(QuantityError::Suffix)?;
        let size = match scale {
            Scale::Ten(power) => decimal(whole, fraction, power),
            Scale::Two(power) => binary(whole, fraction, power),
        }
        .min(CAP);
        // Less than one cannot be said with binary suffixes.
        if notation == Notation::Binary && size < NANO {
            notation = Notation::Decimal;
        }
        Ok(Self { nano: if negative { -size } else { size }, notation })
    }
}

/// Letters, then perhaps a sign, then perhaps digits.
fn has_suffix_shape(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit())
}

fn scale_of(suffix: &str) -> Option<(Scale, Notation)> {
    let found = match suffix {
        "Ki" => (Scale::Two(10), Notation::Binary),
        "Mi" => (Scale::Two(20), Notation::Binary),
        "Gi" => (Scale::Two(30), Notation::Binary),
        "Ti" => (Scale::Two(40), Notation::Binary),
        "Pi" => (Scale::Two(50), Notation::Binary),
        "Ei" => (Scale::Two(60), Notation::Binary),
        "n" => (Scale::Ten(-9), Notation::Decimal),
        "u" => (Scale::Ten(-6), Notation::Decimal),
        "m" => (Scale::Ten(-3), Notation::Decimal),
        "" => (Scale::Ten(0), Notation::Decimal),
        "k" => (Scale::Ten(3), Notation::Decimal),
        "M" => (Scale::Ten(6), Notation::Decimal),
        "G" => (Scale::Ten(9), Notation::Decimal),
        "T" => (Scale::Ten(12), Notation::Decimal),
        "P" => (Scale::Ten(15), Notation::Decimal),
        "E" => (Scale::Ten(18), Notation::Decimal),
        _ => {
            let power: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Beyond this everything is capped, or rounded up from nothing.
            let power = power.clamp(-100_000_000, 100_000_000) as i32;
            (Scale::Ten(power), Notation::Exponent)
        }
    };
    Some(found)
}

/// Billionths of a decimal number times a power of ten, rounded up; more than the cap if huge.
fn decimal(whole: &str, fraction: &str, power: i32) -> i128 {
    let digits: Vec<u8> =
        whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').skip_while(|d| *d == 0).collect();
    if digits.is_empty() {
        return 0;
    }
    // Where the last digit stands, counted in powers of ten of a billionth.
    let shift = i64::from(power) + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX / 2);
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX / 2);
    if length + shift > CAP_DIGITS as i64 {
        return CAP;
    }
    let kept = usize::try_from(length + shift.min(0)).unwrap_or(0);
    let number = digits[..kept].iter().fold(0_i128, |sum, d| sum * 10 + i128::from(*d));
    let lost = digits[kept..].iter().any(|d| *d != 0);
    let zeros = u32::try_from(shift.max(0)).unwrap_or(0);
    number * 10_i128.pow(zeros) + i128::from(lost)
}

/// Billionths of a decimal number times a power of two, rounded up; more than the cap if huge.
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let whole = whole.trim_start_matches('0');
    if whole.len() > CAP_DIGITS {
        return CAP;
    }
    let unit = 1_i128 << power;
    let number = whole.bytes().fold(0_i128, |sum, b| sum * 10 + i128::from(b - b'0'));
    let Some(large) = number.checked_mul(unit).and_then(|n| n.checked_mul(NANO)) else {
        return CAP;
    };
    // Eighteen digits are exact; what follows can only round up.
    let kept = fraction.len().min(18);
    let lost = fraction.bytes().skip(kept).any(|b| b != b'0');
    let parts = fraction.bytes().take(kept).fold(0_i128, |sum, b| sum * 10 + i128::from(b - b'0'));
    let ten = 10_i128.pow(kept.abs_diff(9) as u32);
    let small = if kept <= 9 { parts * ten * unit } else { divide_away(parts * unit, ten) };
    large.saturating_add(small).saturating_add(i128::from(lost))
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl fmt::Display for Quantity {
    /// The canonical form: no precision lost, no fraction, the largest suffix possible.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let small = self.nano.abs() < 1024 * NANO;
        if self.notation == Notation::Binary && !small && self.is_whole() {
            let (number, step) = reduce(self.nano / NANO, 1024, BINARY_SUFFIXES.len());
            return write!(f, "{number}{}", BINARY_SUFFIXES[step]);
        }
        let (number, step) = reduce(self.nano, 1000, DECIMAL_SUFFIXES.len());
        match (self.notation, step) {
            (Notation::Exponent, 3) => write!(f, "{number}"),
            (Notation::Exponent, step) => write!(f, "{number}e{}", step as i32 * 3 - 9),
            _ => write!(f, "{number}{}", DECIMAL_SUFFIXES[step]),
        }
    }
}

/// Divides while nothing is lost, at most `steps - 1` times; returns how often.
fn reduce(mut number: i128, by: i128, steps: usize) -> (i128, usize) {
    let mut step = 0;
    while step + 1 < steps && number % by == 0 {
        number /= by;
        step += 1;
    }
    (number, step)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
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
        self.nano.cmp(&other.nano)
    }
}

impl Add for Quantity {
    type Output = Self;

    /// Keeps the notation of the left side, unless that is nothing.
    fn add(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self::bounded(self.nano + other.nano, notation)
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self::bounded(self.nano - other.nano, notation)
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn the_canonical_form_loses_nothing_and_has_no_fraction() {
        let table = [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("0Mi", "0"),
            ("-0", "0"),
            ("1023Ki", "1023Ki"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1e3", "1e3"),
            ("1E2", "100"),
            ("12e6", "12e6"),
            ("1e-3", "1e-3"),
            ("+5", "5"),
            ("-1.5", "-1500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1E", "1E"),
            ("9999E", "9223372036854775807"),
            ("100000000000000000000000000000000000000000", "9223372036854775807"),
            ("1e400", "9223372036854775807e0"),
            ("1e-400", "1e-9"),
            ("0e99999999", "0"),
            ("8Ei", "9223372036854775807"),
            ("007", "7"),
        ];
        for (text, canonical) in table {
            let canonical = canonical.strip_suffix("e0").unwrap_or(canonical);
            assert_eq!(parse(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_in_kubernetes_words() {
        let table = [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1Gb", QuantityError::Format),
            ("-", QuantityError::Number),
            (".", QuantityError::Number),
            ("Mi", QuantityError::Number),
            ("1mi", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1m5", QuantityError::Suffix),
            ("1é", QuantityError::Format),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
        }
    }

    #[test]
    fn sums_keep_the_notation_of_the_left_side() {
        assert_eq!((parse("512Mi") + parse("512Mi")).to_string(), "1Gi");
        assert_eq!((parse("0") + parse("1Gi")).to_string(), "1Gi");
        assert_eq!((parse("1") - parse("1500m")).to_string(), "-500m");
        assert_eq!((parse("9E") + parse("9E")).to_string(), "9223372036854775807");
        assert!(parse("1Gi") > parse("1G"));
        assert_eq!(parse("1.0001").to_whole(), 2);
        assert_eq!(parse("100u").to_milli(), 1);
        assert_eq!(parse("100u").round_up_to_milli().to_string(), "1m");
    }

    /// Texts that are, or nearly are, quantities.
    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[+-]?[0-9]{0,6}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?",
            "[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,30}",
            ".{0,12}",
        ]
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_a_fixed_point_of_the_same_amount(text in texts()) {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let canonical = quantity.to_string();
                let again = parse(&canonical);
                prop_assert_eq!(again, quantity);
                prop_assert_eq!(again.to_string(), canonical);
            }
        }

        #[test]
        fn order_and_sums_survive_printing(left in texts(), right in texts()) {
            if let (Ok(a), Ok(b)) = (left.parse::<Quantity>(), right.parse::<Quantity>()) {
                let (c, d) = (parse(&a.to_string()), parse(&b.to_string()));
                prop_assert_eq!(a.cmp(&b), c.cmp(&d));
                prop_assert_eq!(a + b, d + c);
                prop_assert_eq!((a + b) - (b + a), Quantity::ZERO);
            }
        }
    }
}
