//! Cron expressions: `minute hour day month weekday`, in UTC.
//!
//! Lists, ranges, steps and English names, and the usual `@` words. When both day
//! and weekday are restricted, either is enough, as cron has always had it.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A parsed expression: which minutes, hours, days, months and weekdays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether day and weekday are both restricted.
    either_day: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// A time that is not found within five years never comes: the 30th of February.
const HORIZON: i64 = 366 * 5;

impl Times {
    /// Reads an expression.
    pub fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts[..] else { return None };
        let open = |part: &str| part.starts_with(['*', '?']);
        let mut weekdays = field(weekday, 0, 7, &WEEKDAYS, 0)?;
        // Seven is Sunday, too.
        weekdays |= weekdays >> 7 & 1;
        Some(Self {
            minutes: field(minute, 0, 59, &[], 0)?,
            hours: field(hour, 0, 23, &[], 0)?,
            days: field(day, 1, 31, &[], 0)?,
            months: field(month, 1, 12, &MONTHS, 1)?,
            weekdays,
            either_day: !open(day) && !open(weekday),
        })
    }

    /// The first time after a moment.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let from = utc(after).checked_add(1.minute()).ok()?;
        let mut date = from.date();
        let mut least = i32::from(from.hour()) * 60 + i32::from(from.minute());
        for _ in 0..HORIZON {
            if self.has_date(date) {
                let mut all = (least..24 * 60).filter(|minute| self.has_minute(*minute));
                if let Some(minute) = all.next() {
                    return moment(date, minute);
                }
            }
            date = date.tomorrow().ok()?;
            least = 0;
        }
        None
    }

    /// The last time at or before a moment, if it is after `earliest`.
    pub fn last(&self, earliest: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let until = utc(now);
        let mut date = until.date();
        let mut most = i32::from(until.hour()) * 60 + i32::from(until.minute());
        for _ in 0..HORIZON {
            if self.has_date(date) {
                let mut all = (0..=most).rev().filter(|minute| self.has_minute(*minute));
                if let Some(minute) = all.next() {
                    return moment(date, minute).filter(|found| *found > earliest);
                }
            }
            date = date.yesterday().ok()?;
            most = 24 * 60 - 1;
            if moment(date, most)? < earliest {
                return None;
            }
        }
        None
    }

    fn has_date(&self, date: Date) -> bool {
        let bit = |set: u64, number: i8| set >> number & 1 == 1;
        let day = bit(self.days, date.day());
        let weekday = bit(self.weekdays, date.weekday().to_sunday_zero_offset());
        let fits = if self.either_day { day || weekday } else { day && weekday };
        fits && bit(self.months, date.month())
    }

    fn has_minute(&self, minute: i32) -> bool {
        self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1
    }
}

fn utc(moment: Timestamp) -> DateTime {
    moment.to_zoned(TimeZone::UTC).datetime()
}

fn moment(date: Date, minute: i32) -> Option<Timestamp> {
    let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
    let zoned = date.at(hour, minute, 0, 0).to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}

/// A field as a set of numbers. Names stand for numbers from `base`.
fn field(text: &str, least: u32, most: u32, names: &[&str], base: u32) -> Option<u64> {
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|s| *s > 0)?),
            None => (part, 1),
        };
        let number = |text: &str| -> Option<u32> {
            let lower = text.to_ascii_lowercase();
            let named = names.iter().position(|n| *n == lower);
            let value = match named {
                Some(at) => u32::try_from(at).ok()? + base,
                None => text.parse().ok()?,
            };
            (least..=most).contains(&value).then_some(value)
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*" | "?", _) => (least, most),
            (_, Some((from, to))) => (number(from)?, number(to)?),
            // `5/15` means from 5 on.
            (one, None) if part.contains('/') => (number(one)?, most),
            (one, None) => (number(one)?, number(one)?),
        };
        if from > to {
            return None;
        }
        let steps = (from..=to).step_by(usize::try_from(step).ok()?);
        steps.for_each(|value| set |= 1_u64 << value);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_is_found() {
        let after: Timestamp = "2026-01-01T10:07:30Z".parse().unwrap(); // a Thursday
        for (text, expected) in [
            ("* * * * *", "2026-01-01T10:08:00Z"),
            ("*/15 * * * *", "2026-01-01T10:15:00Z"),
            ("5/20 * * * *", "2026-01-01T10:25:00Z"),
            ("0 9-17 * * mon-fri", "2026-01-01T11:00:00Z"),
            ("30 6 * * 7", "2026-01-04T06:30:00Z"),
            ("0 0 13 * fri", "2026-01-02T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("@monthly", "2026-02-01T00:00:00Z"),
            ("0 12 1 JAN,jul *", "2026-01-01T12:00:00Z"),
        ] {
            let next = Times::parse(text).unwrap().next(after).map(|t| t.to_string());
            assert_eq!(next.as_deref(), Some(expected), "{text}");
        }
        assert_eq!(Times::parse("0 0 30 2 *").unwrap().next(after), None);
    }

    #[test]
    fn the_last_time_is_found_after_the_earliest() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let hourly = Times::parse("0 * * * *").unwrap();
        let now = at("2026-01-01T10:07:30Z");
        assert_eq!(hourly.last(at("2026-01-01T05:00:00Z"), now), Some(at("2026-01-01T10:00:00Z")));
        assert_eq!(hourly.last(at("2026-01-01T10:00:00Z"), now), None);
        let yearly = Times::parse("@yearly").unwrap();
        assert_eq!(yearly.last(at("2025-06-01T00:00:00Z"), now), Some(at("2026-01-01T00:00:00Z")));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "* * * *", "60 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "* * 0 * *"]
        {
            assert_eq!(Times::parse(text), None, "{text}");
        }
    }
}
