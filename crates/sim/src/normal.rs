//! What differs from run to run, replaced by what it is: for transcripts that are compared.
//!
//! Whoever prints folders of its own replaces those before.

/// Ages, clocks, moments, uids, whole hashes, revisions, ports and drawn names by what they are; columns
/// by two spaces.
pub fn normal(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = where_from(&columns(&words(line)));
        // Which client is used is not what the stories are about.
        if line.starts_with("WARNING: version difference") {
            continue;
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The same with the columns as they were printed: an empty one is seen only by its width.
pub fn aligned(text: &str) -> String {
    let mut out = String::new();
    let mut events = false;
    for line in text.lines() {
        let named = where_from(&words(line));
        // Ages of events are counted by kubectl, by another clock than the fleet's.
        events = if line.starts_with("Events:") { true } else { events && line.starts_with(' ') };
        let line = if events { columns(&named) } else { named };
        let line = line.trim_end();
        let is_rule = events && line.trim_start().starts_with("----");
        if !is_rule {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Since 1.34 kubectl says where it deleted something.
fn where_from(line: &str) -> String {
    let Some((what, rest)) = line.split_once(" deleted from ") else { return line.to_owned() };
    match rest.split_once(" namespace") {
        Some((_, how)) => format!("{what} deleted{how}"),
        None => line.to_owned(),
    }
}

/// Runs of spaces inside a line become two.
fn columns(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let (start, rest) = line.split_at(indent);
    let mut out = start.to_owned();
    let mut spaces = 0;
    for c in rest.replace('\t', "  ").chars() {
        if c == ' ' {
            spaces += 1;
            continue;
        }
        out.push_str(match spaces {
            0 => "",
            1 => " ",
            _ => "  ",
        });
        spaces = 0;
        out.push(c);
    }
    out
}

fn words(line: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.' | '+' | '/' | '_') {
            word.push(c);
        } else {
            out.push_str(&named(&word));
            word.clear();
            out.push(c);
        }
    }
    out.push_str(&named(&word));
    after(&out)
}

/// The name of what a word is. The end of a sentence is not part of its last word.
fn named(word: &str) -> String {
    let bare = word.trim_end_matches(['.', ':']);
    format!("{}{}", named_bare(bare), &word[bare.len()..])
}

fn named_bare(word: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_age(word) {
        return "<age>".to_owned();
    }
    if word.split(':').count() > 1 && word.split(':').all(|part| part.len() == 2 && digits(part)) {
        return "<clock>".to_owned();
    }
    let is_moment = word.len() >= 20 && word.ends_with('Z') && word.contains('T');
    if is_moment && word.as_bytes()[4] == b'-' && digits(&word[..4]) {
        return "<moment>".to_owned();
    }
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = word.split('-').collect();
    if parts.len() == 5 && word.len() == 36 && parts.iter().all(|part| hex(part)) {
        return "<uid>".to_owned();
    }
    if word.len() == 64 && hex(word) {
        return "<hash>".to_owned();
    }
    if let Some((host, port)) = word.split_once("127.0.0.1:") {
        let rest = port.find(|c: char| !c.is_ascii_digit()).map_or("", |at| &port[at..]);
        return format!("{host}127.0.0.1:<port>{rest}");
    }
    drawn(word)
}

/// `5s`, `2m3s`, `4d`.
fn is_age(word: &str) -> bool {
    let mut rest = word;
    let mut parts = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[end..].chars().next() {
            Some('s' | 'm' | 'h' | 'd' | 'y') if end > 0 => rest = &rest[end + 1..],
            _ => return false,
        }
        parts += 1;
    }
    parts > 0
}

/// Names that were drawn: `web-6d4cf56db6-abcde`, `backup-x2x4z`, `web-member1-2afc7d7f`.
fn drawn(word: &str) -> String {
    let alphabet = |part: &str| part.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b));
    let hex = |part: &str| {
        part.len() == 8
            && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            && part.bytes().any(|b| b.is_ascii_digit())
    };
    let parts: Vec<&str> = word.split('-').collect();
    match parts.as_slice() {
        [first @ .., suffix] if !first.is_empty() && hex(suffix) => {
            format!("{}-<hash>", first.join("-"))
        }
        [first @ .., hash, id]
            if !first.is_empty()
                && alphabet(hash)
                && hash.len() > 7
                && alphabet(id)
                && id.len() == 5 =>
        {
            format!("{}-<hash>-<id>", first.join("-"))
        }
        [first @ .., hash] if !first.is_empty() && alphabet(hash) && hash.len() > 7 => {
            format!("{}-<hash>", first.join("-"))
        }
        [first @ .., id]
            if !first.is_empty()
                && alphabet(id)
                && id.len() == 5
                // Words have vowels, which the alphabet has not; this one is an exception.
                && *id != "https" =>
        {
            format!("{}-<id>", first.join("-"))
        }
        _ => word.to_owned(),
    }
}

/// Numbers that only their label gives away, and dates in prose.
fn after(line: &str) -> String {
    let trimmed = line.trim_start();
    for label in ["resourceVersion:", "\"resourceVersion\":", "Resource Version:"] {
        if let Some(rest) = trimmed.strip_prefix(label) {
            let end = if rest.ends_with(',') { "," } else { "" };
            let indent = &line[..line.len() - trimmed.len()];
            let spaces = rest.len() - rest.trim_start().len();
            return format!("{indent}{label}{} <revision>{end}", &rest[..spaces - 1]);
        }
    }
    for label in ["CreationTimestamp:", "Start Time:", "Started:", "Finished:", "Completed At:"] {
        if let Some(at) = line.find(label)
            && line.ends_with("+0000")
        {
            return format!("{}{label}  <moment>", &line[..at]);
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let table = [
            (
                "pod/web-6d4cf56db6-2bcdf   1/1     Running   0    12s",
                "pod/web-<hash>-<id>  1/1  Running  0  <age>",
            ),
            ("  uid: 0b6ee4a8-8c6c-4f7e-9d3c-0d5f3a1b2c3d", "  uid: <uid>"),
            ("  resourceVersion: \"42\"", "  resourceVersion: <revision>"),
            ("at https://127.0.0.1:4711/clusters/hub", "at https://127.0.0.1:<port>/clusters/hub"),
            ("  creationTimestamp: \"2026-01-01T00:00:00Z\"", "  creationTimestamp: \"<moment>\""),
            ("CreationTimestamp:  Sun, 15 Nov 2026 13:19:38 +0000", "CreationTimestamp:  <moment>"),
            ("kube-node-lease   Active   3s", "kube-node-lease  Active  <age>"),
            ("demo-member2-e1a567da waits for 5m00s.", "demo-member2-<hash> waits for <age>."),
            ("demo-run   RUNNING   00:04", "demo-run  RUNNING  <clock>"),
        ];
        for (line, want) in table {
            assert_eq!(normal(line).trim_end(), want);
        }
    }
}
