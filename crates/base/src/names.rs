//! Which names, label keys and label values are allowed, and what is said of the others.
//!
//! Each check returns the complaints in Kubernetes' words; an empty list is a
//! good name. [`generate`] makes the suffix of `generateName`.

use crate::env::Entropy;

/// Longest DNS label and longest label value.
pub const LONGEST_LABEL: usize = 63;

/// Longest object name and longest prefix of a label key.
pub const LONGEST_NAME: usize = 253;

/// Letters of generated suffixes: no vowels, nothing that looks like a digit.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of a generated suffix.
const SUFFIX_LENGTH: usize = 5;
/// What a name may have before the suffix, so that the whole fits a label.
const MAX_GENERATED_BASE: usize = LONGEST_LABEL - SUFFIX_LENGTH;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    framed(text, is_lower, |b| is_lower(b) || b == b'-')
}

/// Not empty, the ends of one class and the middle of another.
fn framed(text: &str, end: fn(u8) -> bool, middle: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => end(first) && end(last) && bytes.iter().all(|&b| middle(b)),
        _ => false,
    }
}

/// Complaints about a DNS-1123 label, such as the name of a namespace.
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.len() > LONGEST_LABEL {
        complaints.push(too_long(LONGEST_LABEL));
    }
    if !is_label(name) {
        let dotted = is_subdomain(name);
        complaints.push(if dotted { "must not contain dots".into() } else { LABEL.into() });
    }
    complaints
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

/// Complaints about a DNS-1123 subdomain, the rule for most objects.
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.len() > LONGEST_NAME {
        complaints.push(too_long(LONGEST_NAME));
    }
    if !is_subdomain(name) {
        complaints.push(SUBDOMAIN.into());
    }
    complaints
}

/// Complaints about a DNS-1035 label, such as the name of a service.
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.len() > LONGEST_LABEL {
        complaints.push(too_long(LONGEST_LABEL));
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        complaints.push(LABEL_1035.into());
    }
    complaints
}

/// Complaints about a name that must only fit into a URL, such as that of a role.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|&c| name.contains(c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// Complaints about a label or annotation key: `[prefix/]name`.
pub fn qualified_name(key: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".into());
            } else {
                let found = dns1123_subdomain(prefix);
                complaints.extend(found.into_iter().map(|c| format!("prefix part {c}")));
            }
            name
        }
        _ => return vec![QUALIFIED.into()],
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".into());
    } else if name.len() > LONGEST_LABEL {
        complaints.push(format!("name part {}", too_long(LONGEST_LABEL)));
    }
    if !is_label_text(name) {
        complaints.push(NAME_PART.into());
    }
    complaints
}

fn is_label_text(text: &str) -> bool {
    framed(
        text,
        |b| b.is_ascii_alphanumeric(),
        |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'),
    )
}

/// Complaints about a label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > LONGEST_LABEL {
        complaints.push(too_long(LONGEST_LABEL));
    }
    if !value.is_empty() && !is_label_text(value) {
        complaints.push(LABEL_VALUE.into());
    }
    complaints
}

/// A name from `metadata.generateName`: the base, cut to fit, and five letters.
pub fn generate(base: &str, entropy: &Entropy) -> String {
    let mut end = base.len().min(MAX_GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    let mut bits = entropy.u64();
    for _ in 0..SUFFIX_LENGTH {
        let letter = SUFFIX_LETTERS[(bits % SUFFIX_LETTERS.len() as u64) as usize];
        name.push(char::from(letter));
        bits /= SUFFIX_LETTERS.len() as u64;
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn good_names_pass() {
        for name in ["a", "1", "my-name", "a--b"] {
            assert!(dns1123_label(name).is_empty(), "{name}");
        }
        for name in ["a.b", "kube-root-ca.crt", "1.2.3"] {
            assert!(dns1123_subdomain(name).is_empty(), "{name}");
        }
        assert!(dns1035_label("web-1").is_empty());
        for key in ["app", "a/b", "example.com/My_Name.1", "k8s-app"] {
            assert!(qualified_name(key).is_empty(), "{key}");
        }
        for value in ["", "x", "MyValue_1.2-3"] {
            assert!(label_value(value).is_empty(), "{value}");
        }
        for name in ["system:node", "a b", "Ü"] {
            assert!(path_segment(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn bad_names_are_told_why() {
        for name in ["", "-a", "a-", "A", "a_b", "a..b", ".a", "a."] {
            assert_eq!(dns1123_subdomain(name), [SUBDOMAIN], "{name:?}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns1035_label("1a"), [LABEL_1035]);
        assert_eq!(qualified_name("a/b/c"), [QUALIFIED]);
        assert_eq!(qualified_name("/b"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name(""), ["name part must be non-empty", NAME_PART]);
        assert_eq!(label_value("-"), [LABEL_VALUE]);
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(path_segment("a/%"), ["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn good_names_have_no_problems() {
        assert!(dns1123_label("a-1").is_empty());
        assert!(dns1123_subdomain("a.b-1.c").is_empty());
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
            prop_assert_eq!(dns1123_label(&text).is_empty(), matches("[a-z0-9]([-a-z0-9]*[a-z0-9])?"));
            prop_assert_eq!(
                dns1123_subdomain(&text).is_empty(),
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

    proptest! {
        #[test]
        fn generated_names_are_good_names(base in "[a-z][a-z0-9-]{0,80}", seed: u64) {
            let name = generate(&base, &Entropy::seeded(seed));
            prop_assert!(dns1123_label(&name).is_empty(), "{}", name);
            let tail = &name.as_bytes()[name.len() - SUFFIX_LENGTH..];
            prop_assert!(tail.iter().all(|b| SUFFIX_LETTERS.contains(b)));
        }

        #[test]
        fn no_text_makes_a_check_panic(text in ".{0,80}") {
            dns1123_label(&text);
            dns1123_subdomain(&text);
            dns1035_label(&text);
            qualified_name(&text);
            label_value(&text);
            generate(&text, &Entropy::seeded(1));
        }
    }
}
