//! Rows under headings, aligned as kubectl aligns them; one below the other where they do not
//! fit the terminal.

use std::io::Write;

use super::board_text::Look;
use super::wrap::{after, shown_width};

/// Writes a heading and its rows.
pub fn write<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    look: Look,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut widths = heading.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(shown_width(cell));
        }
    }
    let line = |cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let pad = width.saturating_sub(shown_width(cell)) + 3;
            text.push_str(&format!("{cell}{:pad$}", ""));
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![line(heading)];
    lines.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str))));
    let fits = |text: &String| look.width.is_none_or(|width| shown_width(text) <= width);
    if lines.iter().all(fits) {
        return lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    }
    let names = heading.iter().skip(1).map(|name| name.len()).max().unwrap_or(0);
    for row in rows {
        for (at, (name, cell)) in heading.iter().zip(row).enumerate() {
            let lead = match at {
                0 => String::new(),
                _ if cell.is_empty() => continue,
                _ => format!("  {name:<names$}  "),
            };
            writeln!(out, "{}", after(&lead, cell, look.width))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(look: Look) -> String {
        let mut out = Vec::new();
        let rows = [["a".to_owned(), "bb".to_owned()], ["longer".to_owned(), "c d e".to_owned()]];
        write(["X", "LONG"], &rows, look, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(written(Look::default()), "X        LONG\na        bb\nlonger   c d e\n");
    }

    #[test]
    fn what_is_too_wide_stands_below() {
        let narrow = written(Look { colours: false, width: Some(12) });
        assert_eq!(narrow, "a\n  LONG  bb\nlonger\n  LONG  c d\n    e\n");
    }
}
