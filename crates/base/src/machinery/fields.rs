//! Field selectors: `metadata.name=x,status.phase!=Running`.

/// A conjunction of comparisons; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Such as `status.phase`.
    pub path: Box<str>,
    /// The value compared with.
    pub value: Box<str>,
    /// `!=` instead of `=`.
    pub negated: bool,
}

impl Selector {
    /// Reads the query form. A backslash keeps `,`, `=` or itself from having a meaning.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let term = term(part)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            terms.push(term);
        }
        Ok(Self { terms })
    }

    /// A selector for one object by name.
    pub fn named(name: &str) -> Self {
        let term = Term { path: "metadata.name".into(), value: name.into(), negated: false };
        Self { terms: vec![term] }
    }

    /// The same about fields that go by other names; `Err` with the first that has none.
    pub fn renamed(mut self, name: impl Fn(&str) -> Option<String>) -> Result<Self, Box<str>> {
        for term in self.terms.iter_mut().filter(|term| !term.path.starts_with("metadata.")) {
            term.path = name(&term.path).ok_or_else(|| term.path.clone())?.into();
        }
        Ok(self)
    }

    /// Whether it lets everything through.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The comparisons.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The name this selector pins down, if it does.
    pub fn exact_name(&self) -> Option<&str> {
        let term = self.terms.iter().find(|t| !t.negated && &*t.path == "metadata.name")?;
        Some(&term.value)
    }

    /// Whether an object passes. `get` looks other fields up; an absent one is empty.
    pub fn matches<'a>(
        &self,
        namespace: &str,
        name: &str,
        get: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        self.terms.iter().all(|term| {
            let value = match &*term.path {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                path => get(path).unwrap_or_default(),
            };
            (value == &*term.value) != term.negated
        })
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(part: &str) -> Option<Term> {
    let at = part.find(['=', '!'])?;
    let (path, rest) = part.split_at(at);
    let (negated, value) = if let Some(value) = rest.strip_prefix("!=") {
        (true, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (false, value)
    } else {
        (false, rest.strip_prefix('=')?)
    };
    Some(Term { path: path.into(), value: unescape(value)?.into(), negated })
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next()? {
                escaped @ ('\\' | ',' | '=') => plain.push(escaped),
                _ => return None,
            },
            '=' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selectors_match_as_written() {
        let get = |path: &str| (path == "status.phase").then_some("Running");
        let table = [
            ("", true),
            ("metadata.name=web", true),
            ("metadata.name==web,metadata.namespace=default", true),
            ("metadata.name!=web", false),
            ("status.phase!=Pending", true),
            ("spec.nodeName=", true),
            ("status.phase=Running,", true),
        ];
        for (text, want) in table {
            let got = Selector::parse(text).map(|s| s.matches("default", "web", get));
            assert_eq!(got, Ok(want), "{text:?}");
        }
        assert_eq!(Selector::parse("metadata.name=web").unwrap().exact_name(), Some("web"));
        assert_eq!(Selector::parse(r"a=x\,y\=z").unwrap().terms()[0].value, "x,y=z".into());
    }

    #[test]
    fn mistakes_are_named() {
        for text in ["name", "a=b=c", r"a=\x"] {
            let want = format!("invalid selector: '{text}'; can't understand '{text}'");
            assert_eq!(Selector::parse(text), Err(want));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r"[a-z=!,\\.]{0,20}") {
            if let Ok(selector) = Selector::parse(&text) {
                selector.matches("", "", |_| None);
            }
        }
    }
}
