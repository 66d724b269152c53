//! Whether a schedule can be read, with the words of the library Kubernetes uses.
//!
//! Only the format is checked here; when a job runs next is the workloads' business.

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

const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Why a schedule cannot be read.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != PARTS.len() {
        let shown = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{shown}]", fields.len()));
    }
    for (field, part) in fields.into_iter().zip(&PARTS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            part.range(range)?;
        }
    }
    Ok(())
}

fn descriptor(schedule: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&schedule) {
        return Ok(());
    }
    match schedule.strip_prefix("@every ") {
        Some(span) if is_duration(span) => Ok(()),
        Some(span) => {
            Err(format!("failed to parse duration {schedule}: time: invalid duration {span:?}"))
        }
        None => Err(format!("unrecognized descriptor: {schedule}")),
    }
}

/// Numbers with units, as Go writes durations: `1h30m`.
fn is_duration(span: &str) -> bool {
    let mut rest = span.strip_prefix(['+', '-']).unwrap_or(span);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit_and_rest = &rest[digits..];
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .into_iter()
            .filter(|unit| unit_and_rest.starts_with(unit))
            .max_by_key(|unit| unit.len());
        match unit {
            Some(unit) if rest[..digits].bytes().any(|b| b.is_ascii_digit()) => {
                rest = &unit_and_rest[unit.len()..];
            }
            _ => return false,
        }
    }
    true
}

impl Part {
    /// `*`, `n`, `n-m`, each perhaps with `/step`.
    fn range(&self, expression: &str) -> Result<(), String> {
        let (span, step) = match expression.split('/').collect::<Vec<_>>().as_slice() {
            [span] => (*span, None),
            [span, step] => (*span, Some(*step)),
            _ => return Err(format!("too many slashes: {expression}")),
        };
        let (start, end) = match span.split('-').collect::<Vec<_>>().as_slice() {
            ["*" | "?"] => (self.low, self.high),
            [single] => {
                let start = self.number(single)?;
                (start, if step.is_some() { self.high } else { start })
            }
            ["*" | "?", _] => (self.low, self.high),
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
        if end > self.high {
            let high = self.high;
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
        Ok(())
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

/// Whether a text looks like `Area/City` or `UTC`. The list of zones is not kept here.
pub(super) fn is_zone_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+');
    !name.is_empty()
        && !name.eq_ignore_ascii_case("local")
        && name.bytes().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

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
