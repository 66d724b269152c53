//! Whole numbers as KubeFleet reads and complains about them.
//!
//! Indices and counts travel as strings in labels and annotations, and a bad one
//! ends up in a condition message that clients match on. Both the accepted
//! syntax (a sign, leading zeros, 64 bits) and the complaint are therefore fixed.

use std::fmt::Write as _;

use thiserror::Error;

/// Why a text is not a number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("strconv.Atoi: parsing {}: {problem}", quoted(.text))]
pub struct NotANumber {
    /// What was read.
    pub text: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Something other than an optional sign and ASCII digits.
    #[error("invalid syntax")]
    Syntax,
    /// More than 64 bits.
    #[error("value out of range")]
    Range,
}

/// Reads a signed decimal number: `+5`, `-3` and `007` are fine, `5 ` is not.
pub fn atoi(text: &str) -> Result<i64, NotANumber> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let failed = |problem| Err(NotANumber { text: text.to_owned(), problem });
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return failed(Problem::Syntax);
    }
    // `parse` knows the same syntax; all that is left to go wrong is the size.
    text.parse().or_else(|_| failed(Problem::Range))
}

/// Takes the digits off the front of a text.
pub fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// How much of a text a complaint repeats before it is cut.
const QUOTED_AT_MOST: usize = 256;

/// The text in double quotes, escaped; a very long one is cut and ends in `...`.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for (count, c) in text.chars().enumerate() {
        if count == QUOTED_AT_MOST {
            out.push_str("...");
            break;
        }
        push_escaped(&mut out, c);
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        ' '..='~' => out.push(c),
        _ => push_beyond_ascii(out, c),
    }
}

fn push_beyond_ascii(out: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a String cannot fail.
    let written = match code {
        0..=0x7f => write!(out, "\\x{code:02x}"),
        _ if c.escape_debug().len() == 1 => write!(out, "{c}"),
        0x80..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_and_leading_zeros_are_fine() {
        let read = ["0", "+5", "-3", "007", "9223372036854775807", "-9223372036854775808"];
        assert_eq!(read.map(|text| atoi(text).unwrap()), [0, 5, -3, 7, i64::MAX, i64::MIN]);
    }

    #[test]
    fn complaints_repeat_what_was_read() {
        for (text, complaint) in [
            ("", r#"strconv.Atoi: parsing "": invalid syntax"#),
            ("abc", r#"strconv.Atoi: parsing "abc": invalid syntax"#),
            ("-", r#"strconv.Atoi: parsing "-": invalid syntax"#),
            ("1 ", r#"strconv.Atoi: parsing "1 ": invalid syntax"#),
            ("1_000", r#"strconv.Atoi: parsing "1_000": invalid syntax"#),
            ("５", r#"strconv.Atoi: parsing "５": invalid syntax"#),
            (
                "9223372036854775808",
                r#"strconv.Atoi: parsing "9223372036854775808": value out of range"#,
            ),
        ] {
            assert_eq!(atoi(text).unwrap_err().to_string(), complaint);
        }
    }

    #[test]
    fn quoting_shows_what_cannot_be_seen() {
        assert_eq!(quoted("a\"b\\c\n\t\u{7}\u{1b}"), r#""a\"b\\c\n\t\a\x1b""#);
        assert_eq!(quoted("é\u{feff}\u{e0001}"), r#""é\ufeff\U000e0001""#);
    }

    #[test]
    fn a_hundred_thousand_digits_are_refused_in_a_short_sentence() {
        let complaint = atoi(&"9".repeat(100_000)).unwrap_err().to_string();
        assert!(complaint.len() < 400, "{}", complaint.len());
        assert!(complaint.ends_with("...\": value out of range"));
    }
}
