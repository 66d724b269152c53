//! Durations as the API writes them: `90m`, `1h30m0s`, `1.5h`, `300ms`.
//!
//! A duration is 64 bits of nanoseconds, so about 292 years, and anything larger
//! is refused. Reading is one pass whatever the length of the text.
//!
//! The API narrows `waitTime` further by a pattern; [`matches_wait_time_pattern`]
//! and [`GoDuration::as_wait_time`] know it. No clock is read here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::go_number::{quoted, split_digits};

/// The pattern the API puts on `waitTime`, in specs and in statuses.
pub const WAIT_TIME_PATTERN: &str = r"^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$";

/// A signed number of nanoseconds with the text form of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// Not a number with units, or too large.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number that says nothing about what it counts.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A unit nobody knows, such as `d`.
    #[error("time: unknown unit {} in duration {}", quoted(.unit), quoted(.text))]
    UnknownUnit {
        /// The unit as written.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// One more than the largest duration: the size of the smallest.
const LIMIT: u64 = 1 << 63;

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// So many seconds, up to the limit of the type.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND.cast_signed()))
    }

    /// Nanoseconds, negative for a time that lies back.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// For adding to a timestamp.
    pub const fn as_signed_duration(self) -> jiff::SignedDuration {
        jiff::SignedDuration::from_nanos(self.0)
    }

    /// For a timer: no time at all if it lies back.
    pub fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Text for a `waitTime` field: as [`fmt::Display`], except that less than a
    /// second stays in seconds (`0.5s`), because `500ms` would not match the
    /// pattern and the server would refuse the whole status for it.
    pub fn as_wait_time(self) -> String {
        let size = self.0.unsigned_abs();
        if size == 0 || size >= SECOND {
            return self.to_string();
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        format!("{sign}{}s", Decimal { value: size, unit: SECOND })
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    /// Reads `[-+]?([0-9]*(\.[0-9]*)?unit)+`, or a bare `0`.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (part, after) = one_part(text, rest)?;
            total = total.checked_add(part).filter(|sum| *sum <= LIMIT).ok_or_else(invalid)?;
            rest = after;
        }
        let nanos = if negative { 0i64.checked_sub_unsigned(total) } else { total.try_into().ok() };
        nanos.map(Self).ok_or_else(invalid)
    }
}

/// Reads one number with its unit off the front of `rest`, in nanoseconds.
fn one_part<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (whole, after) = split_digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let count = whole_number(whole).ok_or_else(invalid)?;
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let unit = unit_nanos(unit).ok_or_else(|| DurationError::UnknownUnit {
        unit: unit.to_owned(),
        text: text.to_owned(),
    })?;
    let nanos = count.checked_mul(unit).filter(|nanos| *nanos <= LIMIT).ok_or_else(invalid)?;
    Ok((nanos + part_of_unit(fraction, unit), after))
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Two different characters that look like the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// The digits as a number, if it is no larger than the limit.
fn whole_number(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0u64, |sum, digit| {
        let next = sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        (next <= LIMIT).then_some(next)
    })
}

/// `unit` times `0.{fraction}`, without the part below a nanosecond. Digits that
/// no longer fit 63 bits cannot change a nanosecond and are left out.
fn part_of_unit(fraction: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1.0f64);
    for digit in fraction.bytes() {
        let next = value.checked_mul(10).and_then(|sum| sum.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if next <= LIMIT => value = next,
            _ => break,
        }
        scale *= 10.0;
    }
    // The same floating-point expression as in Go, so that even its
    // rounding is the same; the result is at most `unit`, hence below 2^42.
    (value as f64 * (unit as f64 / scale)) as u64
}

impl fmt::Display for GoDuration {
    /// Hours, minutes and seconds, or the largest smaller unit that is not zero:
    /// `1h30m0s`, `1m0.5s`, `1.5ms`, `0s`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.unsigned_abs();
        if self.0 < 0 {
            out.write_str("-")?;
        }
        match size {
            0 => return out.write_str("0s"),
            1..MICROSECOND => return write!(out, "{size}ns"),
            MICROSECOND..MILLISECOND => {
                return write!(out, "{}\u{b5}s", Decimal { value: size, unit: MICROSECOND });
            }
            MILLISECOND..SECOND => {
                return write!(out, "{}ms", Decimal { value: size, unit: MILLISECOND });
            }
            _ => {}
        }
        if size >= HOUR {
            write!(out, "{}h", size / HOUR)?;
        }
        if size >= MINUTE {
            write!(out, "{}m", size % HOUR / MINUTE)?;
        }
        write!(out, "{}s", Decimal { value: size % MINUTE, unit: SECOND })
    }
}

/// `value / unit` as a decimal number without trailing zeros.
struct Decimal {
    value: u64,
    unit: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.value / self.unit)?;
        let mut rest = self.value % self.unit;
        if rest > 0 {
            out.write_str(".")?;
        }
        let mut place = self.unit / 10;
        while rest > 0 {
            write!(out, "{}", rest / place)?;
            rest %= place;
            place /= 10;
        }
        Ok(())
    }
}

/// Whether a text matches [`WAIT_TIME_PATTERN`].
pub fn matches_wait_time_pattern(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let Some(after) = after_one_wait(rest) else { return false };
        rest = after;
    }
    !text.is_empty()
}

fn after_one_wait(text: &str) -> Option<&str> {
    let (whole, mut rest) = split_digits(text);
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    if let Some(after) = rest.strip_prefix('.') {
        let (fraction, after) = split_digits(after);
        if fraction.is_empty() {
            return None;
        }
        rest = after;
    }
    rest.strip_prefix(['s', 'm', 'h'])
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
