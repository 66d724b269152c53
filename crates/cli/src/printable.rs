//! What may reach a terminal: text, and colours of our own.
//!
//! Messages come from members, webhooks and whoever can write an object. A terminal obeys
//! control characters in them, and bidirectional ones show a name as another name. All output
//! goes through here, so that no command has to remember it.

use std::borrow::Cow;
use std::io::{self, Write};

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

/// Whether a terminal does something else with a letter than show it. Lines and columns are
/// our own means.
fn is_obeyed(letter: char) -> bool {
    let bidirectional = matches!(letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    bidirectional || letter.is_control() && !matches!(letter, '\n' | '\t')
}

/// Writes printable text, line by line.
pub struct Printable<W> {
    out: W,
    colours: bool,
    /// What came since the last whole line.
    line: Vec<u8>,
}

impl<W: Write> Printable<W> {
    /// Over this, with our colours or without any.
    pub fn new(out: W, colours: bool) -> Self {
        Self { out, colours, line: Vec::new() }
    }

    fn send(&mut self, until: usize) -> io::Result<()> {
        let whole: Vec<u8> = self.line.drain(..until).collect();
        let text = String::from_utf8_lossy(&whole);
        self.out.write_all(printable(&text, self.colours).as_bytes())
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            self.send(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(self.line.len())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[&[u8]], colours: bool) -> String {
        let mut sent = Vec::new();
        let mut out = Printable::new(&mut sent, colours);
        for piece in pieces {
            out.write_all(piece).unwrap();
        }
        out.flush().unwrap();
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn a_message_cannot_talk_to_the_terminal() {
        for (said, shown) in [
            ("plain, ümläut, 漢字 ✔\n\tand columns\n", "plain, ümläut, 漢字 ✔\n\tand columns\n"),
            ("\u{1b}[2J\u{1b}[H", "\\u001b[2J\\u001b[H"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{1b}]8;;http://evil\u{1b}\\here", "\\u001b]8;;http://evil\\u001b\\here"),
            ("a\rb\u{8}c\u{7f}d", "a\\u000db\\u0008c\\u007fd"),
            ("\u{9b}31m", "\\u009b31m"),
            ("\u{202e}nimda\u{202c} \u{2066}x\u{2069}", "\\u202enimda\\u202c \\u2066x\\u2069"),
            ("\u{200f}\u{61c}", "\\u200f\\u061c"),
            ("\0", "\\u0000"),
        ] {
            assert_eq!(printable(said, false), shown);
            assert_eq!(printable(said, true), shown, "no more with colours");
            assert_eq!(written(&[said.as_bytes()], true), shown);
        }
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
    fn a_sequence_in_pieces_is_one_sequence() {
        assert_eq!(written(&[b"\x1b", b"[32m", b"ok\n"], true), "\u{1b}[32mok\n");
        assert_eq!(written(&["é".as_bytes().split_at(1).0, &"é".as_bytes()[1..]], false), "é");
        assert_eq!(written(&[b"no newline"], false), "no newline");
    }

    #[test]
    fn a_json_document_stays_the_same_document() {
        let value = serde_json::json!({"says": "\u{1b}[2J \u{202e}x \u{9b}"});
        let text = serde_json::to_string(&value).unwrap();
        let shown = printable(&text, false);
        assert!(!shown.contains(is_obeyed));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
