//! JSONPath as Kubernetes writes it, for printer columns.
//!
//! Not the RFC: dots in names are escaped with a backslash, missing keys are no error,
//! filters compare one value with one, strings do not order against numbers. A path is
//! what stands between the braces of a template; `range` is not understood.
//!
//! Evaluation is bounded: who looks at more than a hundred thousand values finds nothing.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// Values that one evaluation may look at.
const MAX_VISITS: usize = 100_000;
/// Filters and unions inside each other.
const MAX_NESTING: usize = 8;

/// A path that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// `[from:to:every]`.
    Slice(Slice),
    /// `.*`: every value of an object or a list.
    Every,
    /// `..`: the value and all containers below it.
    Below,
    /// `[a,b]`: the results of each, one after the other.
    Union(Vec<Vec<Step>>),
    /// `[?(left op right)]`, or `[?(left)]` for those where it exists.
    Filter(Vec<Step>, Option<(Op, Vec<Step>)>),
    /// A value that stands in the path itself.
    Literal(Value),
}

#[derive(Debug, Clone, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    /// `to` was not written: it is one after `from`.
    single: bool,
    every: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// A path that was not understood, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPath(String);

/// The evaluation cannot go on; the path then has no result.
struct Stuck;

type Found<'a> = Vec<Cow<'a, Value>>;

impl JsonPath {
    /// Reads a path such as `.spec.replicas` or `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        parse(text, 0).map(Self)
    }

    /// The first value at the path; `None` where there is none, or the object does not
    /// have the shape that the path expects.
    pub fn first<'a>(&self, object: &'a Value) -> Option<Cow<'a, Value>> {
        self.all(object).into_iter().next()
    }

    /// All values at the path.
    pub fn all<'a>(&self, object: &'a Value) -> Vec<Cow<'a, Value>> {
        let mut visits = MAX_VISITS;
        walk(&self.0, vec![Cow::Borrowed(object)], &mut visits).unwrap_or_default()
    }
}

/// A value as text, the way Kubernetes prints results.
pub fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // As Go prints an interface that holds nothing.
        Value::Null => "<no value>".to_owned(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => print_float(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Go's `%v`: plain for common sizes, with an exponent of two digits otherwise.
fn print_float(float: f64) -> String {
    let size = float.abs();
    if float == 0.0 || (1e-4..1e21).contains(&size) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn parse(text: &str, nesting: usize) -> Result<Vec<Step>, BadPath> {
    let bad = |says: String| Err(BadPath(says));
    if nesting > MAX_NESTING {
        return bad("too many brackets inside each other".to_owned());
    }
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(inside) = rest.strip_prefix("[?(") {
            let (filter, after) = filter(inside, nesting)?;
            steps.push(filter);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Below) {
                return bad("invalid multiple recursive descent".to_owned());
            }
            steps.push(Step::Below);
            rest = after;
            if rest.starts_with(is_word) {
                let (name, after) = field(rest);
                steps.push(name);
                rest = after;
            }
        } else if c == '[' {
            let Some(end) = rest.find(']') else { return bad("unterminated array".to_owned()) };
            steps.extend(brackets(&rest[1..end], nesting)?);
            rest = &rest[end + 1..];
        } else if c == '.' {
            let (name, after) = field(&rest[1..]);
            steps.push(name);
            rest = after;
        } else if matches!(c, '@' | '$' | ' ') {
            rest = &rest[c.len_utf8()..];
        } else if matches!(c, '"' | '\'') {
            let (literal, after) = quoted(rest, c)?;
            steps.push(Step::Literal(Value::String(literal)));
            rest = after;
        } else if matches!(c, '+' | '-') || c.is_ascii_digit() {
            let end = rest[1..]
                .find(|c: char| c != '.' && !c.is_ascii_digit())
                .map_or(rest.len(), |at| at + 1);
            steps.push(Step::Literal(number(&rest[..end])?));
            rest = &rest[end..];
        } else if is_word(c) {
            let end = rest.find(is_end).unwrap_or(rest.len());
            match &rest[..end] {
                "true" => steps.push(Step::Literal(Value::Bool(true))),
                "false" => steps.push(Step::Literal(Value::Bool(false))),
                other => return bad(format!("unrecognized identifier {other}")),
            }
            rest = &rest[end..];
        } else {
            return bad(format!("unrecognized character in action: {c:?}"));
        }
    }
    Ok(steps)
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_end(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// A name up to the next end that is not escaped.
fn field(text: &str) -> (Step, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            // What stands after it belongs to the name, whatever it is.
            name.extend(chars.next().map(|(_, escaped)| escaped).filter(|c| *c != '\\'));
        } else if is_end(c) {
            end = at;
            break;
        } else {
            name.push(c);
        }
    }
    let step = if &text[..end] == "*" { Step::Every } else { Step::Field(name) };
    (step, &text[end..])
}

fn number(text: &str) -> Result<Value, BadPath> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if let Ok(whole) = digits.parse::<i64>() {
        return Ok(whole.into());
    }
    let float = digits.parse::<f64>().ok().filter(|float| float.is_finite());
    float.map(Value::from).ok_or_else(|| BadPath(format!("cannot parse number {text}")))
}

/// A quoted text at the start, and what comes after it.
fn quoted(text: &str, quote: char) -> Result<(String, &str), BadPath> {
    let mut literal = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => literal.push('\n'),
                Some('t') => literal.push('\t'),
                Some('r') => literal.push('\r'),
                Some(c) => literal.push(c),
                None => break,
            },
            c if c == quote => return Ok((literal, &text[at + c.len_utf8()..])),
            c => literal.push(c),
        }
    }
    Err(BadPath("unterminated quoted string".to_owned()))
}

/// What stands between square brackets: an index, a slice, a name or several of these.
fn brackets(text: &str, nesting: usize) -> Result<Vec<Step>, BadPath> {
    if text.contains(',') {
        let each = text.split(',').map(|part| parse(&format!("[{}]", part.trim()), nesting + 1));
        return Ok(vec![Step::Union(each.collect::<Result<_, _>>()?)]);
    }
    if let Some(name) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''))
        && !name.contains('\'')
    {
        // Read as a field would be: dots in it need their backslash here too.
        return parse(&format!(".{name}"), nesting + 1);
    }
    let bad = || BadPath(format!("invalid array index {text}"));
    let text = if text == "*" { ":" } else { text };
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || text.is_empty() {
        return Err(bad());
    }
    let part = |index: usize| match parts.get(index).copied().unwrap_or_default() {
        "" => Ok(None),
        digits => digits.parse::<i64>().map(Some).map_err(|_| bad()),
    };
    let single = parts.len() == 1;
    Ok(vec![Step::Slice(Slice { from: part(0)?, to: part(1)?, single, every: part(2)? })])
}

/// A filter after its opening, and what comes after it.
fn filter(text: &str, nesting: usize) -> Result<(Step, &str), BadPath> {
    let (mut open, mut before) = (None, ' ');
    let mut end = None;
    for (at, c) in text.char_indices() {
        match (open, c) {
            (None, '"' | '\'') => open = Some(c),
            (Some(quote), c) if c == quote && before != '\\' => open = None,
            (None, ')') => {
                end = Some(at);
                break;
            }
            _ => {}
        }
        before = c;
    }
    let end = end.ok_or_else(|| BadPath("unterminated filter".to_owned()))?;
    let inside = &text[..end];
    let after = text[end + 1..]
        .strip_prefix(']')
        .ok_or_else(|| BadPath("unclosed array expect ]".to_owned()))?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let step = match inside.find(is_operator) {
        Some(at) if at > 0 => {
            let length = inside[at..].find(|c| !is_operator(c)).unwrap_or(inside.len() - at);
            let op = match &inside[at..at + length] {
                "<" => Op::Less,
                "<=" => Op::LessOrEqual,
                "==" => Op::Equal,
                "!=" => Op::NotEqual,
                ">=" => Op::GreaterOrEqual,
                ">" => Op::Greater,
                other => return Err(BadPath(format!("unrecognized filter operator {other}"))),
            };
            let left = parse(&inside[..at], nesting + 1)?;
            Step::Filter(left, Some((op, parse(&inside[at + length..], nesting + 1)?)))
        }
        _ => Step::Filter(parse(inside, nesting + 1)?, None),
    };
    Ok((step, after))
}

fn walk<'a>(steps: &[Step], mut here: Found<'a>, visits: &mut usize) -> Result<Found<'a>, Stuck> {
    for step in steps {
        *visits = visits.checked_sub(here.len() + 1).ok_or(Stuck)?;
        here = take(step, here, visits)?;
    }
    Ok(here)
}

fn take<'a>(step: &Step, here: Found<'a>, visits: &mut usize) -> Result<Found<'a>, Stuck> {
    let mut found = Found::new();
    match step {
        Step::Literal(value) => found.extend(here.iter().map(|_| Cow::Owned(value.clone()))),
        Step::Field(name) => found.extend(here.into_iter().filter_map(|v| child(v, name))),
        Step::Every => {
            for value in here {
                found.extend(children(value));
            }
        }
        Step::Below => {
            for value in here {
                below(value, &mut found, visits)?;
            }
        }
        Step::Union(paths) => {
            for path in paths {
                found.extend(walk(path, here.clone(), visits)?);
            }
        }
        Step::Slice(slice) => {
            for value in here.into_iter().filter(|value| !value.is_null()) {
                let Value::Array(list) = &*value else { return Err(Stuck) };
                let picked = slice.indices(list.len())?;
                found.extend(picked.filter_map(|index| element(&value, index)));
            }
        }
        Step::Filter(left, right) => {
            for value in here {
                let Value::Array(list) = &*value else { return Err(Stuck) };
                for item in (0..list.len()).filter_map(|index| element(&value, index)) {
                    if passes(left, right.as_ref(), &item, visits)? {
                        found.push(item);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn child<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn element<'a>(value: &Cow<'a, Value>, index: usize) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(index).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(index).cloned().map(Cow::Owned),
    }
}

fn children<'a>(value: Cow<'a, Value>) -> Vec<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(Value::Array(list)) => list.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(list)) => list.into_iter().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(map)) => map.into_iter().map(|(_, v)| Cow::Owned(v)).collect(),
        _ => Vec::new(),
    }
}

/// A value that has children, and all of its kind below it. Depth is that of the object.
fn below<'a>(
    value: Cow<'a, Value>,
    found: &mut Found<'a>,
    visits: &mut usize,
) -> Result<(), Stuck> {
    *visits = visits.checked_sub(1).ok_or(Stuck)?;
    let inside = children(value.clone());
    if inside.is_empty() {
        return Ok(());
    }
    found.push(value);
    inside.into_iter().try_for_each(|child| below(child, found, visits))
}

impl Slice {
    fn indices(&self, length: usize) -> Result<impl Iterator<Item = usize> + use<>, Stuck> {
        let length = i64::try_from(length).map_err(|_| Stuck)?;
        let wrap = |index: i64| if index < 0 { index + length } else { index };
        let from = wrap(self.from.unwrap_or(0));
        let to = match (self.single, self.to) {
            (true, _) => from + 1,
            (false, Some(to)) => wrap(to),
            (false, None) => length,
        };
        let step = self.every.unwrap_or(1);
        // Nothing asked for is nothing found; anything else must be there.
        let empty = from == to;
        let there = (0..length).contains(&from) && (0..=length).contains(&to) && from <= to;
        if (!empty && !there) || step < 1 {
            return Err(Stuck);
        }
        let step = usize::try_from(step).map_err(|_| Stuck)?;
        let range = if empty { 0..0 } else { from..to };
        Ok(range.step_by(step).filter_map(|index| usize::try_from(index).ok()))
    }
}

fn passes(
    left: &[Step],
    right: Option<&(Op, Vec<Step>)>,
    item: &Value,
    visits: &mut usize,
) -> Result<bool, Stuck> {
    let lefts = walk(left, vec![Cow::Borrowed(item)], visits);
    let Some((op, right)) = right else { return Ok(lefts.is_ok_and(|found| !found.is_empty())) };
    let rights = walk(right, vec![Cow::Borrowed(item)], visits)?;
    match (lefts?.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(left, *op, right),
        _ => Err(Stuck),
    }
}

fn compare(left: &Value, op: Op, right: &Value) -> Result<bool, Stuck> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) if matches!(op, Op::Equal | Op::NotEqual) => {
            left.cmp(right)
        }
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            let (left, right) = (left.as_f64().ok_or(Stuck)?, right.as_f64().ok_or(Stuck)?);
            left.partial_cmp(&right).ok_or(Stuck)?
        }
        _ => return Err(Stuck),
    };
    Ok(match op {
        Op::Less => order == Ordering::Less,
        Op::LessOrEqual => order != Ordering::Greater,
        Op::Equal => order == Ordering::Equal,
        Op::NotEqual => order != Ordering::Equal,
        Op::GreaterOrEqual => order != Ordering::Less,
        Op::Greater => order == Ordering::Greater,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(path: &str, object: &Value) -> String {
        let path = JsonPath::parse(path).unwrap();
        path.all(object).iter().map(|value| print(value)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn paths_find_what_kubernetes_finds() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "dotted", "plain": "x"}},
            "spec": {"replicas": 3, "share": 0.5, "on": true, "tags": ["a", "b", "c"]},
            "status": {
                "properties": {"kubernetes-fleet.io/node-count": {"value": "7"}},
                "conditions": [
                    {"type": "Ready", "status": "True", "n": 1},
                    {"type": "Odd )", "status": "False", "n": 2},
                ],
            },
        });
        let table = [
            (".spec.replicas", "3"),
            ("$.spec.share", "0.5"),
            ("spec.on", ""),
            (".spec.missing.deeper", ""),
            (r".status.properties.kubernetes-fleet\.io/node-count.value", "7"),
            (r".metadata.labels['a\.b/c']", "dotted"),
            (".metadata.labels['plain']", "x"),
            (".spec.tags[0]", "a"),
            (".spec.tags[-1]", "c"),
            (".spec.tags[-1:]", "c"),
            (".spec.tags[0:2]", "a b"),
            (".spec.tags[::2]", "a c"),
            (".spec.tags[*]", "a b c"),
            (".spec.tags[0,2]", "a c"),
            (".spec.tags[3]", ""),
            (".spec.tags", r#"["a","b","c"]"#),
            (".spec.replicas[0]", ""),
            (".status.conditions[?(@.type==\"Ready\")].status", "True"),
            (".status.conditions[?(@.type=='Odd )')].status", "False"),
            (".status.conditions[?(@.n>1)].type", "Odd )"),
            (".status.conditions[?(@.n>=1)].n", "1 2"),
            (".status.conditions[?(@.type!=\"Ready\")].n", "2"),
            (".status.conditions[?(@.gone)].n", ""),
            (".status.conditions[?(@.n)].n", "1 2"),
            (".status.conditions[?(@.type>1)].n", ""),
            (".status.conditions[*].type", "Ready Odd )"),
            (".spec.*", "true 3 0.5 [\"a\",\"b\",\"c\"]"),
            ("..value", "7"),
        ];
        for (path, want) in table {
            if path == "spec.on" {
                assert!(JsonPath::parse(path).is_err());
                continue;
            }
            assert_eq!(found(path, &object), want, "{path}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for path in [
            "x",
            ".a[",
            ".a[x]",
            ".a[]",
            ".a[1:2:3:4]",
            ".a[?(@.b",
            ".a[?(@.b=1)]",
            "....a",
            "\"b",
            "{",
            ".a[?(@.b==1)",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        let deep = format!("{}x{}", "[?(".repeat(50_000), ")]".repeat(50_000));
        assert!(JsonPath::parse(&deep).is_err());
    }

    #[test]
    fn floats_print_as_go_prints_them() {
        let table =
            [(0.5, "0.5"), (3.0, "3"), (1e21, "1e+21"), (1.5e-7, "1.5e-07"), (-0.25, "-0.25")];
        for (float, want) in table {
            assert_eq!(print(&json!(float)), want);
        }
    }

    #[test]
    fn a_path_that_asks_for_too_much_finds_nothing() {
        let mut object = json!({"a": 1});
        for _ in 0..100 {
            object = json!({"a": object, "b": [1, 2, 3]});
        }
        let path = JsonPath::parse("..a..a..a..b").unwrap();
        assert!(path.all(&object).is_empty());
    }

    proptest! {
        #[test]
        fn no_path_panics(path in r#"[.\[\]a*?()@$'"=<>!:,0-9\\ -]{0,24}"#) {
            if let Ok(path) = JsonPath::parse(&path) {
                path.all(&json!({"a": [{"a": 1}, [1, 2]], "*": "x"}));
            }
        }
    }
}
