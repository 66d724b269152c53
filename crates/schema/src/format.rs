//! The string formats that Kubernetes checks in custom resources.
//!
//! Only these are checked; any other format, `int32` among them, is a comment.
//! Dashes in a format's name do not count.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use flagship_base::duration::GoDuration;
use regex::Regex;

/// A format that is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format(fn(&str) -> bool);

impl Format {
    /// The format of this name, if it is one that is checked.
    pub(super) fn named(name: &str) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        let check: fn(&str) -> bool = match &*name.replace('-', "") {
            "bsonobjectid" => |s| s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
            "uri" => is_uri,
            "email" => is_email,
            "hostname" => is_hostname,
            "ipv4" => |s| s.parse::<Ipv4Addr>().is_ok(),
            "ipv6" => |s| s.parse::<Ipv6Addr>().is_ok(),
            "cidr" => is_cidr,
            "mac" => is_mac,
            "uuid" => |s| is_uuid(s, None),
            "uuid3" => |s| is_uuid(s, Some(b'3')),
            "uuid4" => |s| is_uuid(s, Some(b'4')),
            "uuid5" => |s| is_uuid(s, Some(b'5')),
            "isbn" => |s| is_isbn10(s) || is_isbn13(s),
            "isbn10" => is_isbn10,
            "isbn13" => is_isbn13,
            "creditcard" => is_credit_card,
            "ssn" => |s| pattern(s, &SSN),
            "hexcolor" => |s| pattern(s, &HEX_COLOR),
            "rgbcolor" => |s| pattern(s, &RGB_COLOR),
            "byte" => is_base64,
            "password" => |_| true,
            "date" => is_date,
            "duration" => is_duration,
            "datetime" => is_date_time,
            _ => return None,
        };
        Some(Self(check))
    }

    /// Whether the text has this format.
    pub(super) fn accepts(self, text: &str) -> bool {
        (self.0)(text)
    }
}

static SSN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static HEX_COLOR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});

fn pattern(text: &str, regex: &Option<Regex>) -> bool {
    regex.as_ref().is_some_and(|r| r.is_match(text))
}

/// Nothing encodes nothing, and yet is refused.
fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// What Go takes as a request URI: a path from the root, or a scheme and something after it.
fn is_uri(text: &str) -> bool {
    let printable = text.bytes().all(|b| b > b' ' && b != 0x7f);
    let Some((scheme, rest)) = text.split_once(':') else {
        return printable && text.starts_with('/');
    };
    let mut letters = scheme.bytes();
    printable
        && (text.starts_with('/')
            || letters.next().is_some_and(|b| b.is_ascii_alphabetic())
                && letters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
                && rest.starts_with('/'))
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(at), Some(inner)) => &inner[at + 1..],
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |s: &str| {
        !s.is_empty()
            && s.split('.').all(|part| {
                !part.is_empty()
                    && part.chars().all(|c| {
                        c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
                    })
            })
    };
    atom(local) && atom(domain)
}

fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let good = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c == '-' || c.is_alphanumeric() || !c.is_ascii())
    };
    let top = labels.last().is_some_and(|t| {
        labels.len() == 1 || t.chars().count() >= 2 && t.chars().all(char::is_alphabetic)
    });
    text.len() <= 255 && top && labels.iter().all(|l| good(l))
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let Ok(bits) = bits.parse::<u32>() else { return false };
    plain
        && (address.parse::<Ipv4Addr>().is_ok() && bits <= 32
            || address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_mac(text: &str) -> bool {
    let hex = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_hexdigit());
    let octets = |sep: char| {
        let parts: Vec<&str> = text.split(sep).collect();
        [6, 8, 20].contains(&parts.len()) && parts.iter().all(|p| hex(p, 2))
    };
    let words: Vec<&str> = text.split('.').collect();
    octets(':')
        || octets('-')
        || [3, 4, 10].contains(&words.len()) && words.iter().all(|w| hex(w, 4))
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut hex = Vec::with_capacity(32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'-' if [8, 12, 16, 20].contains(&hex.len()) && at > 0 => {
                if text.as_bytes()[at - 1] == b'-' {
                    return false;
                }
            }
            b if b.is_ascii_hexdigit() => hex.push(b.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let variant = |v: u8| v == b'3' || hex.get(16).is_some_and(|b| b"89ab".contains(b));
    hex.len() == 32 && version.is_none_or(|v| hex[12] == v && variant(v))
}

fn digits_of(text: &str) -> String {
    text.chars().filter(|c| !"- ".contains(*c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = digits_of(text);
    let sum: Option<u32> = text
        .char_indices()
        .map(|(at, c)| match c {
            'X' if at == 9 => Some(10),
            c => Some((10 - at.min(10)) as u32 * c.to_digit(10)?),
        })
        .sum();
    text.len() == 10 && sum.is_some_and(|s| s % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let text = digits_of(text);
    let weigh = |(at, c): (usize, char)| Some(c.to_digit(10)? * if at % 2 == 0 { 1 } else { 3 });
    let sum: Option<u32> = text.chars().enumerate().map(weigh).sum();
    text.len() == 13 && sum.is_some_and(|s| s % 10 == 0)
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let luhn: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, d)| if at % 2 == 0 { *d } else { (d * 2) / 10 + (d * 2) % 10 })
        .sum();
    (13..=16).contains(&digits.len()) && luhn.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let two = |s: &str, max: u8| s.len() == 2 && s.parse::<u8>().is_ok_and(|n| n <= max);
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = whole.split(':');
    let mut next = |max| parts.next().is_some_and(|p| two(p, max));
    let good_clock = next(23) && next(59) && next(59) && parts.next().is_none();
    let good_zone = match zone.as_bytes() {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', rest @ ..] => {
            rest.len() == 5
                && rest.iter().enumerate().all(
                    |(i, b)| {
                        if i == 2 { *b == b':' } else { b.is_ascii_digit() }
                    },
                )
        }
        _ => false,
    };
    let good_fraction = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    is_date(date) && good_clock && good_fraction && good_zone
}

/// `1h30m`, as Go reads it, or `3 days`, as Scala does.
pub(super) fn is_duration(text: &str) -> bool {
    text.parse::<GoDuration>().is_ok() || {
        let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let units = [
            "ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "nano", "micro", "milli", "sec",
            "second", "min", "minute", "hr", "hour", "day", "week", "wk",
        ];
        let unit = unit.trim();
        !number.is_empty()
            && (units.contains(&unit) || units.contains(&unit.strip_suffix('s').unwrap_or(unit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        for (format, good, bad) in [
            ("date-time", "2024-02-29T23:59:59.5Z", "2024-02-30T00:00:00Z"),
            ("date-time", "2024-01-01T00:00:00+01:00", "2024-01-01 00:00:00Z"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "1x"),
            ("duration", "3 days", "days"),
            ("byte", "aGk=", "a"),
            ("uri", "http://a/b?c", "a b"),
            ("email", "a.b@c.de", "a@"),
            ("hostname", "a-b.example.com", "-a.com"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23:45"),
            ("uuid", "6BA7B810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            (
                "uuid4",
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                "f47ac10b-58cc-3372-a567-0e02b2c3d479",
            ),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("isbn10", "0321751043", "0321751044"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-22-3333", "111-2-3333"),
            ("hexcolor", "#FFF", "#FFFF"),
            ("rgbcolor", "rgb(1,2,255)", "rgb(1,2,256)"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("byte", "aGk=", ""),
        ] {
            let format = Format::named(format).unwrap_or_else(|| panic!("{format}"));
            assert!(format.accepts(good), "{good}");
            assert!(!format.accepts(bad), "{bad}");
        }
        assert!(Format::named("int32").is_none());
    }
}
