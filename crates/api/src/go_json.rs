//! JSON exactly as KubeFleet's encoder writes it, byte for byte.
//!
//! Hashes of this text decide whether something changed: after switching from
//! KubeFleet, one differing byte would roll out every placement again. What
//! differs from plain compact JSON: `<`, `>`, `&`, U+2028 and U+2029 are escaped,
//! a number without a fraction has no point, and exponents appear only below
//! 1e-6 and from 1e21 on.
//!
//! Structs keep the order of their fields, maps and [`Sorted`] trees are sorted.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::ser::{CharEscape, Formatter};
use serde_json::{Result, Value};

/// Writes a value as text.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, GoFormatter))?;
    // The formatter writes whole characters only.
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

/// A JSON tree with the keys of every object in byte order, whatever order the
/// map underneath keeps.
pub struct Sorted<'a>(pub &'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let mut keys: Vec<_> = fields.iter().collect();
                keys.sort_unstable_by_key(|(key, _)| *key);
                let mut map = serializer.serialize_map(Some(keys.len()))?;
                for (key, value) in keys {
                    map.serialize_entry(key, &Sorted(value))?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            other => other.serialize(serializer),
        }
    }
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut chars = special.chars();
            let code = chars.next().map_or(0, u32::from);
            write!(out, "\\u{code:04x}")?;
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let text: &[u8] = match escape {
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"/",
            CharEscape::Backspace => b"\\b",
            CharEscape::FormFeed => b"\\f",
            CharEscape::LineFeed => b"\\n",
            CharEscape::CarriageReturn => b"\\r",
            CharEscape::Tab => b"\\t",
            CharEscape::AsciiControl(byte) => return write!(out, "\\u{byte:04x}"),
        };
        out.write_all(text)
    }

    fn write_u64<W: Write + ?Sized>(&mut self, out: &mut W, value: u64) -> io::Result<()> {
        match i64::try_from(value) {
            Ok(value) => write!(out, "{value}"),
            // Beyond 63 bits Go holds a floating-point number.
            Err(_) => self.write_f64(out, value as f64),
        }
    }

    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if size != 0.0 && !(1e-6..1e21).contains(&size) {
            let text = format!("{value:e}");
            return match text.split_once('e') {
                Some((digits, power)) if !power.starts_with('-') => {
                    write!(out, "{digits}e+{power}")
                }
                _ => out.write_all(text.as_bytes()),
            };
        }
        write!(out, "{value}")
    }

    fn write_raw_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Text that is kept as it was written still loses its spaces and gains
        // escapes. What must be escaped can only stand inside a string.
        let (mut inside, mut escaped, mut start) = (false, false, 0);
        for (at, byte) in fragment.bytes().enumerate() {
            if !inside && byte.is_ascii_whitespace() {
                self.write_string_fragment(out, &fragment[start..at])?;
                start = at + 1;
            }
            inside ^= byte == b'"' && !escaped;
            escaped = inside && byte == b'\\' && !escaped;
        }
        self.write_string_fragment(out, &fragment[start..])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    /// Reads plain JSON and writes it the other way.
    fn rewritten(text: &str) -> String {
        to_string(&Sorted(&serde_json::from_str(text).unwrap())).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_the_original_does() {
        for (plain, written) in [
            (r#""a<b>c&d""#, r#""a\u003cb\u003ec\u0026d""#),
            ("\"\u{2028}\u{2029}\"", r#""\u2028\u2029""#),
            (r#""q\"b\\s\/""#, r#""q\"b\\s/""#),
            (r#""\b\f\n\r\t\u0000\u001f\u007f""#, "\"\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}\""),
            ("\"\u{e9}\u{1f600}\"", "\"\u{e9}\u{1f600}\""),
            (r#"{"<":1}"#, r#"{"\u003c":1}"#),
        ] {
            assert_eq!(rewritten(plain), written);
        }
    }

    #[test]
    fn numbers_are_written_as_the_original_does() {
        for (plain, written) in [
            ("3", "3"),
            ("3.0", "3"),
            ("1.0", "1"),
            ("-0.0", "-0"),
            ("1.5", "1.5"),
            ("0.1", "0.1"),
            ("1e3", "1000"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775808", "9223372036854776000"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.5e300", "1.5e+300"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("-1.25e-9", "-1.25e-9"),
            // Needs an exact parser: a quick one is off in the last digit.
            ("0.9452706955539223", "0.9452706955539223"),
        ] {
            assert_eq!(rewritten(plain), written, "{plain}");
        }
    }

    #[test]
    fn objects_are_sorted_by_bytes_at_every_level() {
        assert_eq!(
            rewritten(r#" { "b" : [ { "z":1, "a":null } ], "B":true, "é":{}, "a":[] } "#),
            r#"{"B":true,"a":[],"b":[{"a":null,"z":1}],"é":{}}"#
        );
    }

    #[test]
    fn kept_text_loses_its_spaces_but_not_its_order_or_its_spelling() {
        let text = "{ \"b <\" : 1.50 ,\n\t\"a\\\" x\" : [ true , \"&\u{2028}\" ] }";
        let kept: Box<RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(to_string(&kept).unwrap(), r#"{"b \u003c":1.50,"a\" x":[true,"\u0026\u2028"]}"#);
        let tricky: Box<RawValue> = serde_json::from_str(r#"[ "\\" , " \\\" " ]"#).unwrap();
        assert_eq!(to_string(&tricky).unwrap(), r#"["\\"," \\\" "]"#);
    }
}
