//! Cron schedules: `minute hour day month weekday`, in UTC.
//!
//! Lists, ranges, steps and English names, and the usual `@` words. When both day
//! and weekday are restricted, either is enough, as cron has always had it.
//!
//! [`check`] refuses what Kubernetes' library refuses, in its words. [`Times::parse`] reads
//! more, because a schedule that is stored already should run rather than not: Sunday may be
//! 7. `@every` has no times of its own here.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::duration::GoDuration;

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

/// A field of a schedule: its bounds and the names that stand for numbers.
struct Part {
    low: u32,
    high: u32,
    names: &'static [&'static str],
    /// The number of the first name.
    first: u32,
}

const PARTS: [Part; 5] = [
    Part { low: 0, high: 59, names: &[], first: 0 },
    Part { low: 0, high: 23, names: &[], first: 0 },
    Part { low: 1, high: 31, names: &[], first: 0 },
    Part {
        low: 1,
        high: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        first: 1,
    },
    Part { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"], first: 0 },
];

/// A time that is not found within five years never comes: the 30th of February.
const HORIZON: i64 = 366 * 5;

impl Times {
    /// Reads a schedule, more leniently than [`check`]; nothing for one that has no times.
    pub fn parse(text: &str) -> Option<Self> {
        read(text.trim(), 7).ok()?
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

/// Why a schedule cannot be read.
pub fn check(schedule: &str) -> Result<(), String> {
    read(schedule, 6).map(|_| ())
}

/// Reads a schedule whose weekdays go up to `weekdays`, which is 6, or 7 for a second Sunday.
fn read(schedule: &str, weekdays: u32) -> Result<Option<Times>, String> {
    let schedule = match schedule {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    };
    if schedule.starts_with('@') {
        let Some(span) = schedule.strip_prefix("@every ") else {
            return Err(format!("unrecognized descriptor: {schedule}"));
        };
        let span = span.parse::<GoDuration>();
        return match span {
            Ok(_) => Ok(None),
            Err(error) => Err(format!("failed to parse duration {schedule}: {error}")),
        };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        let shown = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{shown}]", fields.len()));
    };
    let set = |part: usize, list: &str| PARTS[part].set(list, PARTS[part].high);
    let open = |list: &str| list.starts_with(['*', '?']);
    let (minutes, hours, days) = (set(0, minute)?, set(1, hour)?, set(2, day)?);
    let (months, mut weekday_set) = (set(3, month)?, PARTS[4].set(weekday, weekdays)?);
    // Seven is Sunday, too.
    weekday_set |= weekday_set >> 7 & 1;
    Ok(Some(Times {
        minutes,
        hours,
        days,
        months,
        weekdays: weekday_set,
        either_day: !open(day) && !open(weekday),
    }))
}

impl Part {
    /// The numbers of a list, as bits.
    fn set(&self, list: &str, high: u32) -> Result<u64, String> {
        let ranges = list.split(',').filter(|range| !range.is_empty());
        ranges.map(|range| self.range(range, high)).try_fold(0, |set, bits| Ok(set | bits?))
    }

    /// The numbers of `*`, `n` or `n-m`, each perhaps with `/step`, as bits.
    fn range(&self, expression: &str, high: u32) -> Result<u64, String> {
        let (span, step) = match expression.split('/').collect::<Vec<_>>().as_slice() {
            [span] => (*span, None),
            [span, step] => (*span, Some(*step)),
            _ => return Err(format!("too many slashes: {expression}")),
        };
        let (start, end) = match span.split('-').collect::<Vec<_>>().as_slice() {
            ["*" | "?"] => (self.low, high),
            [single] => {
                let start = self.number(single)?;
                (start, if step.is_some() { high } else { start })
            }
            ["*" | "?", _] => (self.low, high),
            [start, end] => (self.number(start)?, self.number(end)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        };
        let step = step.map_or(Ok(1), integer)?;
        if start < self.low {
            let low = self.low;
            return Err(format!(
                "beginning of range ({start}) below minimum ({low}): {expression}"
            ));
        }
        if end > high {
            return Err(format!("end of range ({end}) above maximum ({high}): {expression}"));
        }
        if start > end {
            return Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {expression}"
            ));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {expression}"));
        }
        let steps = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok(steps.fold(0, |set, number| set | 1 << number))
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_lowercase();
        let position = self.names.iter().position(|name| *name == lower);
        match position.and_then(|position| u32::try_from(position).ok()) {
            Some(position) => Ok(self.first + position),
            None => integer(text),
        }
    }
}

fn integer(text: &str) -> Result<u32, String> {
    let Ok(number) = text.parse::<i64>() else {
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        ));
    };
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
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

    #[test]
    fn schedules_that_people_write_are_read() {
        for schedule in [
            "* * * * *",
            "*/5 0-6 1,15 jan-MAR mon",
            "0 0 ? * 0",
            "@daily",
            "@every 1h30m",
            "5/10 * * * *",
            "0 0 1 1 *",
        ] {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn schedules_that_cannot_be_read_are_told_why() {
        let table = [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ];
        for (schedule, says) in table {
            assert_eq!(check(schedule).unwrap_err(), says, "{schedule}");
        }
    }
}
