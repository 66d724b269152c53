//! What Kubernetes accepts as a name, a label key or a label value.
//!
//! Each function returns what is wrong, in the words of Kubernetes because they
//! surface in admission messages; an empty list means all is well.

/// Longest DNS label and longest label value.
pub const LONGEST_LABEL: usize = 63;

/// Longest object name and longest prefix of a label key.
pub const LONGEST_NAME: usize = 253;

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
    for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A DNS label: namespaces, and every name that becomes one.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LONGEST_LABEL {
        problems.push(too_long(LONGEST_LABEL));
    }
    if !is_dns_label(text) {
        problems.push(DNS_LABEL.to_owned());
    }
    problems
}

/// A DNS subdomain: names of most objects, prefixes of label keys.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LONGEST_NAME {
        problems.push(too_long(LONGEST_NAME));
    }
    if !text.split('.').all(is_dns_label) {
        problems.push(DNS_SUBDOMAIN.to_owned());
    }
    problems
}

/// A label key, annotation key or property name: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {QUALIFIED} {hint}")];
        }
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let found = dns_subdomain(prefix);
            problems.extend(found.into_iter().map(|problem| format!("prefix part {problem}")));
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_LABEL {
        problems.push(format!("name part {}", too_long(LONGEST_LABEL)));
    }
    if !is_qualified(name) {
        problems.push(format!("name part {QUALIFIED}"));
    }
    problems
}

/// A label value, which may be empty.
pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LONGEST_LABEL {
        problems.push(too_long(LONGEST_LABEL));
    }
    if !text.is_empty() && !is_qualified(text) {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    framed(text, inner, |byte| inner(byte) || byte == b'-')
}

fn is_qualified(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric();
    framed(text, inner, |byte| inner(byte) || matches!(byte, b'-' | b'_' | b'.'))
}

/// First and last byte satisfy `ends`, all satisfy `all`.
fn framed(text: &str, ends: impl Fn(u8) -> bool, all: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| ends(*first))
        && bytes.last().is_some_and(|last| ends(*last))
        && bytes.iter().all(|byte| all(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn good_names_have_no_problems() {
        assert!(dns_label("a-1").is_empty());
        assert!(dns_subdomain("a.b-1.c").is_empty());
        for key in ["env", "kubernetes-fleet.io/parent-CRP", "a.b/C_d.e"] {
            assert!(qualified_name(key).is_empty(), "{key}");
        }
        for value in ["", "v1", "My_Value.1"] {
            assert!(label_value(value).is_empty(), "{value}");
        }
    }

    #[test]
    fn a_bad_label_key_is_explained_in_kubernetes_words() {
        let first = |text: &str| qualified_name(text).remove(0);
        assert_eq!(
            first("key!"),
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
             regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        );
        assert_eq!(first(""), "name part must be non-empty");
        assert_eq!(first("a/"), "name part must be non-empty");
        assert_eq!(first("/a"), "prefix part must be non-empty");
        assert_eq!(first(&"a".repeat(64)), "name part must be no more than 63 characters");
        assert!(first("A/b").starts_with("prefix part a lowercase RFC 1123 subdomain must"));
        assert!(first("a/b/c").starts_with("a qualified name must consist of"));
    }

    #[test]
    fn a_bad_label_value_is_explained_in_kubernetes_words() {
        assert_eq!(
            label_value("a b"),
            ["a valid label must be an empty string or consist of alphanumeric characters, '-', \
              '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  \
              or 'my_value',  or '12345', regex used for validation is \
              '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]
        );
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_scanners_agree_with_the_patterns_they_quote(text in "[-a-zA0-9._!]{0,8}") {
            let matches = |pattern: &str| {
                Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(&text)
            };
            prop_assert_eq!(dns_label(&text).is_empty(), matches("[a-z0-9]([-a-z0-9]*[a-z0-9])?"));
            prop_assert_eq!(
                dns_subdomain(&text).is_empty(),
                matches(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
            );
            prop_assert_eq!(
                label_value(&text).is_empty(),
                matches("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
            );
            prop_assert_eq!(
                qualified_name(&text).is_empty(),
                matches("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
            );
        }
    }
}
