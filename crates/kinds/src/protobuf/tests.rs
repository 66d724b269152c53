use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    protobuf: String,
    json: Value,
}

/// Objects of every kind as Go writes them both ways.
fn cases() -> Vec<Case> {
    let packed = include_bytes!("../../tests/golden/protobuf.jsonl.gz");
    let mut plain = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut plain).unwrap();
    plain.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Nulls say nothing, and on the wire an empty list is none.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
            kept.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        // Lists keep theirs: they hold places.
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn every_kind_reads_as_the_json_that_go_would_have_sent() {
    let cases = cases();
    assert!(cases.len() > 200);
    for case in cases {
        let body = STANDARD.decode(&case.protobuf).unwrap();
        let got = decode(&body).unwrap();
        let want = without_nulls(case.json);
        assert_eq!(without_nulls(got), want, "{}", want["kind"]);
    }
}

#[test]
fn every_kind_that_is_served_can_come_in_protobuf() {
    // Kubernetes itself has no protobuf for API services in client-go's types.
    for row in crate::catalog().iter().filter(|row| row.kind != "APIService") {
        for (group, version) in row.served() {
            assert!(
                TABLE.kind(group, version, row.kind).is_some(),
                "{group}/{version} {}",
                row.kind
            );
        }
    }
    for kind in ["DeleteOptions", "Binding", "Status"] {
        assert!(TABLE.kind("", "v1", kind).is_some(), "{kind}");
    }
}

fn enclosed(kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = vec![0x0a, 2, b'v', b'1', 0x12, u8::try_from(kind.len()).unwrap()];
    meta.extend_from_slice(kind.as_bytes());
    let mut body = b"k8s\0\x0a".to_vec();
    body.push(u8::try_from(meta.len()).unwrap());
    body.extend_from_slice(&meta);
    body.push(0x12);
    let mut length = raw.len();
    while length > 0x7f {
        body.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    body.push(u8::try_from(length).unwrap());
    body.extend_from_slice(raw);
    body
}

#[test]
fn what_is_not_understood_is_refused() {
    let malformed = |body: &[u8]| matches!(decode(body), Err(ProtobufError::Malformed(_)));
    assert!(malformed(b"") && malformed(b"{}") && malformed(b"k8s\0\x0a\xff"));
    assert!(malformed(&enclosed("Pod", b"\x0a\x7f")));
    assert!(malformed(&enclosed("Pod", b"\x0b")));
    let error = decode(&enclosed("Gadget", b"")).unwrap_err();
    assert_eq!(error.to_string(), r#"no kind "Gadget" is registered for version "v1""#);
}

#[test]
fn few_bytes_do_not_unfold_into_a_mountain() {
    // A pod's status (3) full of empty container statuses (8): two bytes each.
    let empty: Vec<u8> = [0x42, 0].repeat(1_000_000);
    let mut raw = vec![0x1a];
    let mut length = empty.len();
    while length > 0x7f {
        raw.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    raw.push(u8::try_from(length).unwrap());
    raw.extend_from_slice(&empty);
    let refused = decode(&enclosed("Pod", &raw)).unwrap_err();
    assert_eq!(refused, ProtobufError::Malformed("it has too many values"));
}

proptest! {
    #[test]
    fn no_bytes_panic(raw in proptest::collection::vec(any::<u8>(), 0..64)) {
        for kind in ["Pod", "Secret", "Event"] {
            let read = decode(&enclosed(kind, &raw));
            prop_assert!(read.is_ok() || read.is_err());
        }
    }
}
