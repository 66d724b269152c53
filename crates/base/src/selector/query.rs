//! The text form of selectors in queries: `app=web,tier in (a,b),!old`.
//!
//! The grammar and the words of its errors are Kubernetes'.

use super::{Operator, Requirement, Selector, check_key, requirement};

impl Selector {
    /// Reads the query form, such as `app=web,tier in (a,b),!old`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let requirements = Parser { tokens: tokens(text), at: 0 }.requirements()?;
        Ok(Self { requirements: Some(requirements) })
    }
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

    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
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
                Token::End => return Ok(requirements),
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
        check_key("", &key).map_err(|error| error.to_string())?;
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return made(&key, if absent { Operator::DoesNotExist } else { Operator::Exists }, &[]);
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
                let values: Vec<&str> = values.iter().map(|value| &**value).collect();
                made(&key, if word == "in" { Operator::In } else { Operator::NotIn }, &values)
            }
            Token::Symbol(symbol @ ("=" | "==" | "!=" | ">" | "<")) => {
                let value = match self.peek() {
                    Token::End | Token::Symbol(",") => String::new(),
                    Token::Word(_) => self.take().text().to_owned(),
                    other => return Err(format!("found '{}', expected: identifier", other.text())),
                };
                let operator = match symbol {
                    ">" => Operator::Gt,
                    "<" => Operator::Lt,
                    "!=" => Operator::NotIn,
                    _ => Operator::In,
                };
                made(&key, operator, &[&value])
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

fn made(key: &str, operator: Operator, values: &[&str]) -> Result<Requirement, String> {
    requirement("", key, operator, values).map_err(|error| error.to_string())
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
            assert_eq!(Selector::parse(text).map(|s| s.matches_what(get)), Ok(want), "{text:?}");
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
                selector.matches_what(|_| None);
            }
        }
    }
}
