//! Rows under headings, aligned as kubectl aligns them.

use std::io::Write;

/// Writes a heading and its rows.
pub fn write<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut widths = heading.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            text.push_str(&format!("{cell:<width$}   "));
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(heading)?;
    for row in rows {
        line(row.each_ref().map(String::as_str))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut out = Vec::new();
        let rows = [["a".to_owned(), "bb".to_owned()], ["longer".to_owned(), String::new()]];
        write(["X", "LONG"], &rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "X        LONG\na        bb\nlonger\n");
    }
}
