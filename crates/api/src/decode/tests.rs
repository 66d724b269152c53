use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A small kind with one field of every sort that can go wrong.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    metadata: ObjectMeta,
    spec: SampleSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only decoding is tested")]
struct SampleSpec {
    state: State,
    #[serde(default)]
    replicas: i32,
    #[serde(default)]
    stages: Vec<BTreeMap<String, u8>>,
    #[serde(default)]
    tree: Value,
}

#[derive(Debug, Deserialize)]
enum State {
    Run,
    Stop,
}

fn with_spec(spec: &str) -> String {
    format!(r#"{{"kind":"Sample","metadata":{{"name":"web","namespace":"app"}},"spec":{spec}}}"#)
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>, complaint: &str) {
    let said = decode::<Sample>(text.as_ref()).unwrap_err().to_string();
    assert_eq!(said, complaint);
}

#[test]
fn a_good_object_is_read() {
    let sample: Sample = decode(with_spec(r#"{"state":"Run"}"#).as_bytes()).unwrap();
    assert_eq!(sample.metadata.name.as_deref(), Some("web"));
    assert!(matches!(sample.spec.state, State::Run));
}

#[test]
fn a_bad_field_is_named_together_with_its_object() {
    for (spec, complaint) in [
        (
            r#"{"state":"Rum"}"#,
            "Sample app/web: spec.state: unknown variant `Rum`, expected `Run` or `Stop`",
        ),
        ("{}", "Sample app/web: spec: missing field `state`"),
        (
            r#"{"state":"Run","replicas":"3"}"#,
            "Sample app/web: spec.replicas: invalid type: string \"3\", expected i32",
        ),
        (
            r#"{"state":"Run","replicas":2147483648}"#,
            "Sample app/web: spec.replicas: invalid value: integer `2147483648`, expected i32",
        ),
        (
            r#"{"state":"Run","stages":[{},{"a":256}]}"#,
            "Sample app/web: spec.stages[1].a: invalid value: integer `256`, expected u8",
        ),
    ] {
        let said = decode::<Sample>(with_spec(spec).as_bytes()).unwrap_err().to_string();
        let (said, place) = said.rsplit_once(" at line 1 column ").unwrap();
        assert_eq!(said, complaint);
        assert!(place.parse::<usize>().unwrap() >= with_spec("").len());
    }
}

#[test]
fn text_that_breaks_off_still_says_whose_it_is() {
    refused(
        &with_spec(r#"{"state":"Run""#).as_bytes()[..80],
        "Sample app/web: spec.state: EOF while parsing a string at line 1 column 80",
    );
    refused("", "object without a readable name: EOF while parsing a value at line 1 column 0");
    refused(
        "[]",
        "object without a readable name: invalid length 0, expected struct Sample with 2 elements \
         at line 1 column 2",
    );
    refused("{}{}", "object without a readable name: missing field `metadata` at line 1 column 2");
}

#[test]
fn text_behind_an_object_is_refused() {
    let text = with_spec(r#"{"state":"Run"}"#) + "x";
    refused(&text, &format!("Sample app/web: trailing characters at line 1 column {}", text.len()));
}

#[test]
fn invalid_utf_8_is_refused() {
    let mut text = with_spec(r#"{"state":"R!n"}"#).into_bytes();
    let at = text.iter().position(|byte| *byte == b'!').unwrap();
    text[at] = 0xff;
    let said = decode::<Sample>(&text).unwrap_err().to_string();
    assert!(said.starts_with("Sample app/web: spec.state: invalid unicode code point"), "{said}");
}

#[test]
fn nesting_without_end_is_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = with_spec(&format!(r#"{{"state":"Run","tree":{deep}}}"#));
    let said = decode::<Sample>(text.as_bytes()).unwrap_err();
    assert_eq!(said.object.to_string(), "Sample app/web");
    assert!(said.problem.starts_with("recursion limit exceeded"), "{said}");
    assert!(said.path.len() <= LONGEST_PROBLEM + 3);
    // Where nobody looks inside, depth does no harm.
    let ignored = with_spec(&format!(r#"{{"state":"Stop","unknown":{deep}}}"#));
    assert!(decode::<Sample>(ignored.as_bytes()).is_ok());
}

#[test]
fn a_huge_object_is_refused_before_it_is_read() {
    let text = with_spec(&format!(r#"{{"state":"{}"}}"#, "x".repeat(LARGEST_OBJECT)));
    refused(
        &text,
        &format!("Sample app/web: {} bytes are more than the 8388608 allowed", text.len()),
    );
}

#[test]
fn a_huge_value_does_not_make_a_huge_message() {
    let text = with_spec(&format!(r#"{{"state":"{}"}}"#, "x".repeat(1_000_000)));
    let error = decode::<Sample>(text.as_bytes()).unwrap_err();
    assert!(error.to_string().len() < 600, "{}", error.to_string().len());
}

#[test]
fn a_tree_is_read_the_same_way() {
    let good: Sample = decode_value(&json!({"metadata": {}, "spec": {"state": "Stop"}})).unwrap();
    assert!(matches!(good.spec.state, State::Stop));
    let bad = json!({"kind": "Sample", "metadata": {"name": "web"}, "spec": {"state": 7}});
    assert_eq!(
        decode_value::<Sample>(&bad).unwrap_err().to_string(),
        "Sample web: spec.state: invalid type: integer `7`, expected string or map"
    );
}

#[test]
fn an_identity_is_read_around_what_is_wrong_with_it() {
    let read = |text: &str| identity::of_bytes(text.as_bytes()).to_string();
    assert_eq!(read(r#"{"kind":"A","metadata":{"name":7}}"#), "A without a readable name");
    assert_eq!(read(r#"{"metadata":{"name":"n","namespace":""},"kind":"A"}"#), "A n");
    assert_eq!(read(r#"{"metadata":{"name":"n"#), "object without a readable name");
    assert_eq!(read(r#"{"metadata":{"name":"n",,"#), "object n");
    assert_eq!(read("null"), "object without a readable name");
}

#[test]
fn a_list_gives_its_good_objects_and_an_error_for_each_bad_one() {
    let good = with_spec(r#"{"state":"Run"}"#);
    let bad = r#"{"metadata":{"name":"odd"},"spec":{"state":"Walk"}}"#;
    let text = format!(
        r#"{{"kind":"SampleList","metadata":{{"resourceVersion":"42","continue":""}},"items":[{good},{bad},7,{good}]}}"#
    );
    let list = decode_list::<Sample>(text.as_bytes()).unwrap();
    assert_eq!(list.items.len(), 2);
    assert_eq!(list.resource_version.as_deref(), Some("42"));
    assert_eq!(list.continue_token, None);
    let said: Vec<_> = list.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "Sample odd: spec.state: unknown variant `Walk`, expected `Run` or `Stop` at line 1 column 49",
            "Sample without a readable name: invalid type: integer `7`, expected struct Sample at line 1 column 1",
        ]
    );
}

#[test]
fn something_that_is_no_list_is_an_error_as_a_whole() {
    let error = decode_list::<Sample>(br#"{"kind":"Status","metadata":{}}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Status without a readable name: missing field `items` at line 1 column 31"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(decode::<Sample>(&bytes));
        drop(decode_list::<Sample>(&bytes));
    }

    #[test]
    fn a_damaged_object_is_read_or_refused(at in 0usize..120, byte in any::<u8>(), cut in 0usize..200) {
        let mut text = with_spec(r#"{"state":"Run","stages":[{"a":1}],"tree":{"b":[null]}}"#).into_bytes();
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        text.truncate(cut);
        drop(decode::<Sample>(&text));
        drop(decode_list::<Sample>(&text));
    }
}
