//! Output of commands: all of it is made printable here, so that no command has to remember it.

use std::io::{self, Write};

use flagship_explain::printable::printable;

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
    fn what_is_written_is_printable() {
        assert_eq!(written(&[b"a \x1b[2J b\n", b"\x07"], true), "a \\u001b[2J b\n\\u0007");
    }

    #[test]
    fn a_sequence_in_pieces_is_one_sequence() {
        assert_eq!(written(&[b"\x1b", b"[32m", b"ok\n"], true), "\u{1b}[32mok\n");
        assert_eq!(written(&["é".as_bytes().split_at(1).0, &"é".as_bytes()[1..]], false), "é");
        assert_eq!(written(&[b"no newline"], false), "no newline");
    }
}
