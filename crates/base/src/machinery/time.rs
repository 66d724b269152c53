//! Moments as Kubernetes writes them: RFC 3339 in UTC, to the second (`Time`) or to the
//! microsecond (`MicroTime`).

use jiff::Timestamp;

/// `metav1.Time`: `2026-01-01T00:00:00Z`. Fractions are dropped.
pub fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// `metav1.MicroTime`: `2026-01-01T00:00:00.000000Z`, always six digits.
pub fn micros(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Reads RFC 3339 with any offset.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_written_and_read() {
        let at = parse("2026-03-04T05:06:07.891011+01:00").unwrap();
        assert_eq!(seconds(at), "2026-03-04T04:06:07Z");
        assert_eq!(micros(at), "2026-03-04T04:06:07.891011Z");
        assert_eq!(micros(parse("2026-03-04T05:06:07Z").unwrap()), "2026-03-04T05:06:07.000000Z");
        assert_eq!(parse("yesterday"), None);
    }
}
