//! What may be shown to a person: text, and colours of our own.
//!
//! Messages come from members, webhooks and whoever can write an object. A terminal obeys
//! control characters in them, and bidirectional ones show a name as another name, on a page,
//! too. What commands, logs and the console show goes through here.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

/// The colours that commands use, and no other sequence.
const COLOURS: [&str; 6] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[34m"];

/// The text with every other control or bidirectional character written out, as JSON writes
/// it: `\u001b`. So a JSON document stays the same document.
pub fn printable(text: &str, colours: bool) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let own = COLOURS.iter().find(|own| colours && rest.starts_with(**own));
        let length = own.map_or(letter.len_utf8(), |own| own.len());
        match own {
            None if is_obeyed(letter) => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => shown.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    Cow::Owned(shown)
}

/// Whether a terminal or a page does something else with a letter than show it. Lines and
/// columns are our own means.
pub fn is_obeyed(letter: char) -> bool {
    let bidirectional = matches!(letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    bidirectional || letter.is_control() && !matches!(letter, '\n' | '\t')
}

/// A value as JSON whose texts are printable once they are read: a page shows what it reads.
pub fn printable_json(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Shown);
    // Our own values always have a JSON form.
    let written = value.serialize(&mut serializer);
    written.ok().and_then(|()| String::from_utf8(text).ok()).unwrap_or_else(|| "null".to_owned())
}

/// Writes JSON with a second backslash before what would be obeyed.
struct Shown;

impl Formatter for Shown {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_obeyed) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let Some(letter) = from.chars().next() else { break };
            write!(out, "\\\\u{:04x}", u32::from(letter))?;
            rest = &from[letter.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let control = match escape {
            CharEscape::Backspace => 8,
            CharEscape::FormFeed => 12,
            CharEscape::CarriageReturn => 13,
            CharEscape::AsciiControl(byte) => byte,
            CharEscape::Quote => return out.write_all(b"\\\""),
            CharEscape::ReverseSolidus => return out.write_all(b"\\\\"),
            CharEscape::Solidus => return out.write_all(b"\\/"),
            CharEscape::LineFeed => return out.write_all(b"\\n"),
            CharEscape::Tab => return out.write_all(b"\\t"),
        };
        write!(out, "\\\\u{control:04x}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_message_cannot_talk_to_the_terminal() {
        for (said, shown) in [
            ("plain, ümläut, 漢字 ✔\n\tand columns\n", "plain, ümläut, 漢字 ✔\n\tand columns\n"),
            ("\u{1b}[2J\u{1b}[H", "\\u001b[2J\\u001b[H"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{1b}]8;;http://evil\u{1b}\\here", "\\u001b]8;;http://evil\\u001b\\here"),
            ("a\rb\u{8}c\u{7f}d\u{c}", "a\\u000db\\u0008c\\u007fd\\u000c"),
            ("\u{9b}31m", "\\u009b31m"),
            ("\u{202e}nimda\u{202c} \u{2066}x\u{2069}", "\\u202enimda\\u202c \\u2066x\\u2069"),
            ("\u{200f}\u{61c}", "\\u200f\\u061c"),
            ("\0", "\\u0000"),
        ] {
            assert_eq!(printable(said, false), shown);
            assert_eq!(printable(said, true), shown, "no more with colours");
            // A page that reads this shows the same.
            let told = json!({"says": [said]});
            let read: Value = serde_json::from_str(&printable_json(&told)).unwrap();
            assert_eq!(read, json!({"says": [shown]}));
        }
    }

    #[test]
    fn text_without_such_letters_is_the_same_json() {
        let told = json!({"a \"b\" \\u001b c/d": ["\n\t", "漢字", 1, null, {"x": "\\"}]});
        assert_eq!(printable_json(&told), told.to_string());
    }

    #[test]
    fn our_own_colours_pass_where_there_are_colours() {
        let green = "\u{1b}[32mdone\u{1b}[0m";
        assert_eq!(printable(green, true), green);
        assert_eq!(printable(green, false), "\\u001b[32mdone\\u001b[0m");
        for other in ["\u{1b}[8mhidden", "\u{1b}[3", "\u{1b}[38;5;1mx", "\u{1b}"] {
            assert!(printable(other, true).starts_with("\\u001b"), "{other:?}");
        }
    }

    #[test]
    fn a_json_document_stays_the_same_document() {
        let value = json!({"says": "\u{1b}[2J \u{202e}x \u{9b}"});
        let text = serde_json::to_string(&value).unwrap();
        let shown = printable(&text, false);
        assert!(!shown.contains(is_obeyed));
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
}
