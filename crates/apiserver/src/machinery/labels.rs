//! Label selectors: parsing the query form and matching sorted labels.
//!
//! The grammar and the words of its errors are Kubernetes'. The structured form
//! (`matchLabels`, `matchExpressions`) becomes the same [`Selector`].

use serde_json::Value;

use super::names;
use super::status::FieldError;

/// A conjunction of requirements; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Reads the query form, such as `app=web,tier in (a,b),!old`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: tokens(text), at: 0 }.selector()
    }

    /// Reads `matchLabels` and `matchExpressions`. An absent or `null` selector
    /// matches nothing by convention of its callers, so they check that first.
    pub fn from_value(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        if let Some(pairs) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in pairs {
                let value = value.as_str().ok_or("matchLabels: values must be strings")?;
                requirements.push(requirement(key, "=", &[value.into()])?);
            }
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<Box<str>> = values.filter_map(Value::as_str).map(Box::from).collect();
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => "in",
                "NotIn" => "notin",
                "Exists" => "exists",
                "DoesNotExist" => "!",
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            requirements.push(requirement(key, operator, &values)?);
        }
        Ok(Self { requirements })
    }

    /// Whether it lets everything through.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// A label and the one value that everything it lets through has, if it names such.
    pub fn exact(&self) -> Option<(&str, &str)> {
        self.requirements.iter().find_map(|requirement| match &requirement.test {
            Test::In(values) if values.len() == 1 => Some((&*requirement.key, &*values[0])),
            _ => None,
        })
    }

    /// Whether the labels that `get` looks up satisfy every requirement.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::Exists, value) => value.is_some(),
            (Test::Absent, value) => value.is_none(),
            (Test::In(values), Some(value)) => values.iter().any(|v| &**v == value),
            (Test::NotIn(values), Some(value)) => !values.iter().any(|v| &**v == value),
            (Test::NotIn(_), None) => true,
            (Test::Above(bound), Some(value)) => value.parse::<i64>().is_ok_and(|v| v > *bound),
            (Test::Below(bound), Some(value)) => value.parse::<i64>().is_ok_and(|v| v < *bound),
            (Test::In(_) | Test::Above(_) | Test::Below(_), None) => false,
        }
    }
}

fn requirement(key: &str, operator: &str, values: &[Box<str>]) -> Result<Requirement, String> {
    check_key(key)?;
    let text: Value = values.iter().map(|v| Value::from(v.as_ref())).collect();
    let refuse = |detail: &str| FieldError::invalid("values", text.clone(), detail).to_string();
    let test = match operator {
        "in" | "notin" if values.is_empty() => {
            return Err(refuse("for 'in', 'notin' operators, values set can't be empty"));
        }
        "exists" | "!" if !values.is_empty() => {
            return Err(refuse("values set must be empty for exists and does not exist"));
        }
        "gt" | "lt" => {
            let bound = match values {
                [only] => only.parse::<i64>().ok(),
                _ => None,
            };
            let bound = bound
                .ok_or_else(|| refuse("for 'Gt', 'Lt' operators, the value must be an integer"))?;
            if operator == "gt" { Test::Above(bound) } else { Test::Below(bound) }
        }
        "exists" => Test::Exists,
        "!" => Test::Absent,
        "!=" | "notin" => Test::NotIn(values.to_vec()),
        _ => Test::In(values.to_vec()),
    };
    for (index, value) in values.iter().enumerate() {
        let complaints = names::label_value(value);
        if !complaints.is_empty() {
            let path = format!("values[{index}][{key}]");
            let value = Value::from(value.as_ref());
            return Err(FieldError::invalid(path, value, complaints.join("; ")).to_string());
        }
    }
    Ok(Requirement { key: key.into(), test })
}

fn check_key(key: &str) -> Result<(), String> {
    let complaints = names::qualified_name(key);
    if complaints.is_empty() {
        return Ok(());
    }
    Err(FieldError::invalid("key", Value::from(key), complaints.join("; ")).to_string())
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            found.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),><".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    found.push(Token::End);
    found
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(Selector { requirements }),
                Token::Word(_) | Token::Symbol("!") => {
                    let next = self
                        .requirement()
                        .map_err(|why| format!("unable to parse requirement: {why}"))?;
                    requirements.push(next);
                }
                other => {
                    let text = other.text();
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            match self.take() {
                Token::End => return Ok(Selector { requirements }),
                Token::Symbol(",") => {
                    if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                        let text = self.peek().text();
                        return Err(format!("found '{text}', expected: identifier after ','"));
                    }
                }
                other => {
                    let text = other.text();
                    return Err(format!("found '{text}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = *self.peek() == Token::Symbol("!");
        if absent {
            self.at += 1;
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return requirement(&key, if absent { "!" } else { "exists" }, &[]);
        }
        if absent {
            // `!key=value`: the operator is not allowed after a negation.
            return Err(format!(
                "found '{}', expected: ',' or 'end of string'",
                self.peek().text()
            ));
        }
        match self.take() {
            Token::Word(word) if word == "in" || word == "notin" => {
                let values = self.values()?;
                requirement(&key, &word, &values)
            }
            Token::Symbol(symbol @ ("=" | "==" | "!=" | ">" | "<")) => {
                let value = match self.peek() {
                    Token::End | Token::Symbol(",") => String::new(),
                    Token::Word(_) => self.take().text().to_owned(),
                    other => return Err(format!("found '{}', expected: identifier", other.text())),
                };
                let operator = match symbol {
                    ">" => "gt",
                    "<" => "lt",
                    other => other,
                };
                requirement(&key, operator, &[value.into()])
            }
            other => {
                let text = other.text();
                Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt"))
            }
        }
    }

    /// `(a,b)`; an empty place between commas is the empty value.
    fn values(&mut self) -> Result<Vec<Box<str>>, String> {
        let open = self.take();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values: Vec<Box<str>> = Vec::new();
        if *self.peek() == Token::Symbol(")") {
            self.at += 1;
            return Ok(values);
        }
        loop {
            match self.peek() {
                Token::Word(_) => values.push(self.take().text().into()),
                Token::Symbol("," | ")") => values.push("".into()),
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        other.text()
                    ));
                }
            }
            match self.take() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_as_written() {
        let web = BTreeMap::from([("app", "web"), ("n", "5"), ("tier", "front")]);
        let get = |key: &str| web.get(key).copied();
        let table = [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            (" app = web , tier = front ", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app", true),
            ("!app", false),
            ("! gone", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (db,cache)", true),
            ("gone notin (x)", true),
            ("gone in (x)", false),
            ("app=", false),
            ("n>4,n<6", true),
            ("n>5", false),
            ("example.com/x", false),
        ];
        for (text, want) in table {
            assert_eq!(Selector::parse(text).map(|s| s.matches(get)), Ok(want), "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a==(", "unable to parse requirement: found '(', expected: identifier"),
        ];
        for (text, want) in table {
            assert_eq!(Selector::parse(text), Err(want.to_owned()), "{text:?}");
        }
        let error = Selector::parse("a=-").unwrap_err();
        assert!(
            error.starts_with(
                "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label"
            ),
            "{error}"
        );
        let error = Selector::parse("a in ()").unwrap_err();
        assert_eq!(
            error,
            "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
    }

    #[test]
    fn the_structured_form_means_the_same() {
        let written = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(Selector::from_value(&written), Selector::parse("app=web,tier in (a,b),!old"));
        assert!(Selector::from_value(&json!({"matchExpressions": [{"key": "a"}]})).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z=!(), <>/.-]{0,24}") {
            if let Ok(selector) = Selector::parse(&text) {
                selector.matches(|_| None);
            }
        }
    }
}
