//! Frames of a board on a terminal: each is drawn over the one before it.
//!
//! Nothing is taken from the terminal that would have to be given back: no other screen, no
//! raw keys, no hidden cursor. Ctrl-C at any moment leaves the last frame where it is.

use std::io::IsTerminal;

use terminal_size::{Height, Width, terminal_size};

use super::board_text::Look;

/// Columns and rows of a terminal.
pub type Size = (usize, usize);

/// How large the terminal is; nothing if standard output is none, or does not say.
pub fn size() -> Option<Size> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (Width(columns), Height(rows)) = terminal_size()?;
    (columns > 0 && rows > 0).then_some((columns.into(), rows.into()))
}

#[cfg(test)]
thread_local! {
    /// How wide the terminal is that a test plays; as wide as need be if nothing is set.
    pub static WIDTH: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

impl Look {
    /// How standard output looks. Tests hold words, whatever terminal they are run in.
    pub fn here() -> Self {
        #[cfg(test)]
        let (colours, width) = (false, WIDTH.get());
        #[cfg(not(test))]
        let (colours, width) = (super::print::colours(), size().map(|(columns, _)| columns));
        Self { colours, width }
    }
}

/// What stands on the terminal since the last frame.
#[derive(Debug, Default)]
pub struct Frame {
    lines: usize,
    size: Option<Size>,
}

impl Frame {
    /// What to send so that the terminal shows this text in place of the last.
    pub fn next(&mut self, text: &str, size: Option<Size>) -> String {
        let lines = fit(text, size);
        let mut sent = match (self.lines, self.size == size) {
            (0, _) => String::new(),
            // Up to where the last frame began.
            (up, true) => format!("\u{1b}[{up}A\r"),
            // The terminal has broken the old lines anew; nobody knows where they are.
            (_, false) => "\u{1b}[2J\u{1b}[H".to_owned(),
        };
        for line in &lines {
            // Each line clears what is left of the old one, so that nothing flickers.
            sent.push_str(&format!("{line}\u{1b}[K\n"));
        }
        sent.push_str("\u{1b}[J");
        (self.lines, self.size) = (lines.len(), size);
        sent
    }
}

/// The lines that fit, one row being left for the cursor. The first and the last two stay,
/// what is over is at the top of the others.
fn fit(text: &str, size: Option<Size>) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some((_, rows)) = size else { return lines };
    let room = rows.saturating_sub(1).max(1);
    if lines.len() <= room {
        return lines;
    }
    let gone = lines.len() - room + 1;
    if room < 5 || gone + 3 > lines.len() {
        lines.truncate(room);
        return lines;
    }
    lines.splice(1..=gone, [format!("  … {gone} lines do not fit")]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that knows the few signs we send.
    #[derive(Default)]
    struct Terminal {
        lines: Vec<String>,
        row: usize,
        column: usize,
    }

    impl Terminal {
        fn take(&mut self, sent: &str) {
            let mut rest = sent;
            while let Some(letter) = rest.chars().next() {
                if let Some(after) = rest.strip_prefix("\u{1b}[") {
                    let end = after.find(char::is_alphabetic).unwrap();
                    self.obey(&after[..end], &after[end..=end]);
                    rest = &after[end + 1..];
                    continue;
                }
                rest = &rest[letter.len_utf8()..];
                match letter {
                    '\r' => self.column = 0,
                    '\n' => (self.row, self.column) = (self.row + 1, 0),
                    letter => {
                        self.lines.resize(self.lines.len().max(self.row + 1), String::new());
                        let line = &mut self.lines[self.row];
                        let after = line.chars().skip(self.column + 1).collect::<String>();
                        let before = line.chars().take(self.column).collect::<String>();
                        *line = format!("{before}{letter}{after}");
                        self.column += 1;
                    }
                }
            }
        }

        fn obey(&mut self, number: &str, verb: &str) {
            match (number, verb) {
                ("2", "J") => self.lines.clear(),
                ("", "H") => (self.row, self.column) = (0, 0),
                ("", "J") => self.lines.truncate(self.row),
                ("", "K") => {
                    self.lines.resize(self.lines.len().max(self.row + 1), String::new());
                    let line = &mut self.lines[self.row];
                    *line = line.chars().take(self.column).collect();
                }
                (up, "A") => self.row -= up.parse::<usize>().unwrap(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn each_frame_stands_where_the_last_one_stood() {
        let (mut frame, mut terminal) = (Frame::default(), Terminal::default());
        let size = Some((80, 24));
        for text in ["one\n\ntwo\nthree\n", "one\n\nlonger two\n", "a\n", "a\n\nb\nc\nd\n"] {
            terminal.take(&frame.next(text, size));
            assert_eq!(terminal.lines, text.lines().collect::<Vec<_>>(), "{text}");
        }
        // Another size: all is drawn anew from the corner.
        terminal.lines.insert(0, "a line that was broken".to_owned());
        terminal.take(&frame.next("x\ny\n", Some((40, 24))));
        assert_eq!(terminal.lines, ["x", "y"]);
    }

    #[test]
    fn what_is_too_tall_keeps_its_first_and_last_lines() {
        let text: String = (1..=12).map(|n| format!("line {n}\n")).collect();
        let told = |rows| fit(&text, Some((80, rows)));
        assert_eq!(told(13).len(), 12);
        assert_eq!(
            told(7),
            ["line 1", "  … 7 lines do not fit", "line 9", "line 10", "line 11", "line 12"]
        );
        assert_eq!(told(4), ["line 1", "line 2", "line 3"]);
        assert_eq!(told(1), ["line 1"]);
        assert_eq!(fit(&text, None).len(), 12);
    }
}
