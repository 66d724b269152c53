//! Text that fits a terminal: broken between words, never inside a command.

/// Puts parts on as many lines as it takes; lines after the first are indented, and the
/// width is what the first has.
pub fn flow(parts: &[String], between: &str, indent: &str, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut used = 0;
    for part in parts {
        let wide = shown_width(part);
        let joined = used + between.len() + wide;
        if text.is_empty() {
            used = wide;
        } else if width.is_none_or(|width| joined <= width) {
            text.push_str(between);
            used = joined;
        } else {
            text.push('\n');
            text.push_str(indent);
            used = indent.len() + wide;
        }
        text.push_str(part);
    }
    text
}

/// A text after what stands in front of it, its further lines below its first word.
pub fn after(lead: &str, text: &str, width: Option<usize>) -> String {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let mut front = shown_width(lead);
    // On a very narrow terminal words go below the lead, not off the edge beside it.
    if width.is_some_and(|width| front + 12 > width) {
        front = 4;
    }
    let indent = " ".repeat(front);
    let mut parts = vec![format!("{lead}{}", words.first().map_or("", String::as_str))];
    parts.extend(words.into_iter().skip(1));
    flow(&parts, " ", &indent, width)
}

/// Columns a text takes: colours take none.
pub fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_colour = false;
    for letter in text.chars() {
        match (in_colour, letter) {
            (false, '\u{1b}') => in_colour = true,
            (true, 'm') => in_colour = false,
            (true, _) => {}
            (false, _) => width += 1,
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_stand_below_the_first_word() {
        let text = "one two three four five";
        assert_eq!(after("  lead  ", text, None), "  lead  one two three four five");
        assert_eq!(
            after("  lead  ", text, Some(20)),
            "  lead  one two\n        three four\n        five"
        );
        // Too narrow for both: below the lead.
        assert_eq!(
            after("  lead  ", text, Some(12)),
            "  lead  one\n    two\n    three\n    four\n    five"
        );
    }
}
