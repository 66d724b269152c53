//! Durations as they are read, printed and refused, against Go's words.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<GoDuration, DurationError> {
    text.parse()
}

#[test]
fn durations_are_read_and_printed_in_canonical_form() {
    for (text, nanos, printed) in [
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("+0h", 0, "0s"),
        ("5s", 5_000_000_000, "5s"),
        ("1m", 60_000_000_000, "1m0s"),
        ("1m0s", 60_000_000_000, "1m0s"),
        ("90m", 5_400_000_000_000, "1h30m0s"),
        ("1h30m", 5_400_000_000_000, "1h30m0s"),
        ("1h30m0s", 5_400_000_000_000, "1h30m0s"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("15m0s", 900_000_000_000, "15m0s"),
        ("3m0s", 180_000_000_000, "3m0s"),
        ("6h", 21_600_000_000_000, "6h0m0s"),
        ("300ms", 300_000_000, "300ms"),
        ("0.5s", 500_000_000, "500ms"),
        (".5s", 500_000_000, "500ms"),
        ("5.s", 5_000_000_000, "5s"),
        ("1m0.5s", 60_500_000_000, "1m0.5s"),
        ("1.0000005s", 1_000_000_500, "1.0000005s"),
        ("1us", 1_000, "1\u{b5}s"),
        ("1.5\u{b5}s", 1_500, "1.5\u{b5}s"),
        ("1.5\u{3bc}s", 1_500, "1.5\u{b5}s"),
        ("7ns", 7, "7ns"),
        ("-1m30s", -90_000_000_000, "-1m30s"),
        ("+2s", 2_000_000_000, "2s"),
        ("1s1s", 2_000_000_000, "2s"),
        ("1h1ns", 3_600_000_000_001, "1h0m0.000000001s"),
        ("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
        ("0.999999999s", 999_999_999, "999.999999ms"),
        ("0.9999999999999999999999s", 1_000_000_000, "1s"),
    ] {
        let duration = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (duration.as_nanos(), duration.to_string().as_str()),
            (nanos, printed),
            "{text}"
        );
    }
}

#[test]
fn complaints_name_what_was_read() {
    for (text, complaint) in [
        ("", r#"time: invalid duration """#),
        ("-", r#"time: invalid duration "-""#),
        ("s", r#"time: invalid duration "s""#),
        (".s", r#"time: invalid duration ".s""#),
        ("--1s", r#"time: invalid duration "--1s""#),
        (" 1s", r#"time: invalid duration " 1s""#),
        ("1", r#"time: missing unit in duration "1""#),
        ("1s2", r#"time: missing unit in duration "1s2""#),
        ("1d", r#"time: unknown unit "d" in duration "1d""#),
        ("0abc", r#"time: unknown unit "abc" in duration "0abc""#),
        ("1s ", r#"time: unknown unit "s " in duration "1s ""#),
        ("１s", r#"time: invalid duration "１s""#),
        ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
        ("-9223372036854775809ns", r#"time: invalid duration "-9223372036854775809ns""#),
        ("99999999999999999999d", r#"time: invalid duration "99999999999999999999d""#),
        ("2562048h", r#"time: invalid duration "2562048h""#),
        ("2562047h60m", r#"time: invalid duration "2562047h60m""#),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), complaint, "{text}");
    }
}

#[test]
fn a_hundred_thousand_digits_are_refused_at_once() {
    for text in ["9".repeat(100_000) + "s", "1s".repeat(50_000) + "x", "1h".repeat(3_000_000)] {
        let complaint = read(&text).unwrap_err().to_string();
        assert!(complaint.len() < 1_000, "{}", complaint.len());
    }
    // Digits behind the point are only slow to write, not to read.
    assert_eq!(read(&format!("0.{}s", "0".repeat(100_000))).unwrap(), GoDuration::ZERO);
}

#[test]
fn the_pattern_of_a_wait_time() {
    for text in ["0s", "1h30m", "1m", "5s", "0.5s", "1m0s", "10h", "1.25h30m", "0s0s"] {
        assert!(matches_wait_time_pattern(text), "{text}");
    }
    for text in ["", "1", "1d", "01h", "0abc", "500ms", "-1s", "+1s", "1.s", ".5s", "1h ", "１s"] {
        assert!(!matches_wait_time_pattern(text), "{text}");
    }
}

/// The copy in a run's status is guarded by the same pattern as the spec.
#[test]
fn a_wait_below_a_second_keeps_a_form_the_pattern_accepts() {
    for (text, copied) in [
        ("1m", "1m0s"),
        ("90m", "1h30m0s"),
        ("5s", "5s"),
        ("0s", "0s"),
        ("0.5s", "0.5s"),
        ("0.000000001s", "0.000000001s"),
        ("60.25s", "1m0.25s"),
    ] {
        assert_eq!(read(text).unwrap().as_wait_time(), copied);
        assert!(matches_wait_time_pattern(copied));
    }
}

#[test]
fn a_duration_is_a_string_on_the_wire() {
    assert_eq!(serde_json::to_string(&GoDuration::from_secs(90)).unwrap(), "\"1m30s\"");
    assert_eq!(serde_json::from_str::<GoDuration>("\"1.5h\"").unwrap().to_string(), "1h30m0s");
    let error = serde_json::from_str::<GoDuration>("\"1d\"").unwrap_err().to_string();
    assert!(error.starts_with("time: unknown unit \"d\" in duration \"1d\""), "{error}");
    assert!(serde_json::from_str::<GoDuration>("5").is_err());
}

#[test]
fn a_timer_never_gets_a_negative_time() {
    assert_eq!(GoDuration::from_secs(-5).as_std(), std::time::Duration::ZERO);
    assert_eq!(GoDuration::from_secs(5).as_std(), std::time::Duration::from_secs(5));
    assert_eq!(GoDuration::from_secs(i64::MAX).as_nanos(), i64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_printed_reads_back(nanos in any::<i64>(), shift in 0u32..64) {
        let duration = GoDuration::from_nanos(nanos >> shift);
        prop_assert_eq!(read(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn a_wait_time_reads_back_and_matches_the_pattern(nanos in 0..i64::MAX, shift in 0u32..63) {
        let duration = GoDuration::from_nanos(nanos >> shift);
        let text = duration.as_wait_time();
        prop_assert_eq!(read(&text), Ok(duration));
        prop_assert!(matches_wait_time_pattern(&text), "{}", text);
    }

    #[test]
    fn the_scanner_agrees_with_the_pattern(text in "[0-9.smh]{0,12}") {
        let pattern = regex::Regex::new(WAIT_TIME_PATTERN).unwrap();
        prop_assert_eq!(matches_wait_time_pattern(&text), pattern.is_match(&text));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        if let Ok(duration) = read(&text) {
            prop_assert_eq!(read(&duration.to_string()), Ok(duration));
        }
    }

    #[test]
    fn a_longer_wait_is_a_larger_duration(a in 0u32..100_000, b in 0u32..100_000) {
        let wait = |seconds: u32| read(&format!("{seconds}s")).unwrap();
        prop_assert_eq!(wait(a).cmp(&wait(b)), a.cmp(&b));
    }
}
