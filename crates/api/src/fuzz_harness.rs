//! What the fuzzers call: each function takes any bytes and asserts laws.
//!
//! They live here and not in `fuzz/`, so that the same laws run on a fixed
//! corpus and on random bytes in `cargo test`; a target of `cargo fuzz` is one
//! line that calls one of them. They panic when a law is broken, and only then.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

use flagship_base::duration::{GoDuration, matches_wait_time_pattern};
use flagship_base::quantity::Quantity;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::go_json::{self, Sorted};
use crate::int_or_string::{Amount, max_concurrency, of_target};
use crate::printed::PrintedSelector;
use crate::selector;
use crate::{decode, hash, names};

/// Durations: what is printed reads back, and a wait time keeps its pattern.
pub fn durations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(duration) = text.parse::<GoDuration>() else { return };
    assert_eq!(duration.to_string().parse(), Ok(duration), "{text:?}");
    assert_eq!(duration.as_wait_time().parse(), Ok(duration), "{text:?}");
    if duration >= GoDuration::ZERO {
        assert!(matches_wait_time_pattern(&duration.as_wait_time()), "{text:?}");
    }
}

/// Quantities: what is printed reads back, unless it stands at the limit.
pub fn quantities(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(quantity) = Quantity::from_str(text) else { return };
    assert_eq!(quantity.to_string().parse(), Ok(quantity), "{text:?}");
    assert!(quantity.as_f64().is_finite(), "{text:?}");
}

/// Numbers and percentages: up is never below down, and a share never exceeds
/// its total.
pub fn int_or_string(data: &[u8]) {
    let as_json = serde_json::from_slice::<IntOrString>(data).ok();
    let as_text = std::str::from_utf8(data).ok().map(|text| IntOrString::String(text.to_owned()));
    for value in as_json.into_iter().chain(as_text) {
        let Ok(amount) = Amount::try_from(&value) else {
            assert!(of_target(&value, 10).is_err() && max_concurrency(&value, 10).is_err());
            continue;
        };
        for total in [0, 1, 3, 7, 100, u32::MAX] {
            let (down, up) = (amount.rounded_down(total), amount.rounded_up(total));
            assert!(down <= up, "{value:?} of {total}");
            assert!(matches!(amount, Amount::Count(_)) || up <= total, "{value:?} of {total}");
            assert!(max_concurrency(&value, total).is_ok_and(|most| most >= 1));
        }
    }
}

/// Label selectors: an accepted one has an answer for any labels, and a refused
/// one says where it is wrong.
pub fn selectors(data: &[u8]) {
    let Ok(selector) = decode::decode::<LabelSelector>(data) else { return };
    assert!(PrintedSelector(Some(&selector)).to_string().starts_with("&LabelSelector{"));
    match selector::read(Some(&selector)) {
        Ok(valid) => {
            let wanted = selector.match_labels.clone().unwrap_or_default();
            let only_labels = selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
            assert!(!only_labels || valid.matches(&wanted));
            assert!(!wanted.is_empty() || !only_labels || valid.matches(&BTreeMap::new()));
        }
        Err(error) => assert!(error.field().starts_with("match"), "{error}"),
    }
}

/// Object decoding: what is read can be written and read again to the same, and
/// what is refused says so in a message of bounded length. The `kind` in the
/// bytes decides what they are read as.
pub fn objects(data: &[u8]) {
    let kind = match decode::decode::<Kinded>(data) {
        Ok(kinded) => kinded.kind,
        Err(_) => String::new(),
    };
    reader_of(kind.strip_suffix("List").unwrap_or(&kind)).unwrap_or(survives::<ConfigMap>)(data);
    if let Ok(tree) = serde_json::from_slice(data) {
        let text = go_json::to_string(&Sorted(&tree)).expect("a tree can be written");
        let again = serde_json::from_str(&text).expect("what is written is JSON");
        assert_eq!(go_json::to_string(&Sorted(&again)).ok(), Some(text));
        assert_eq!(hash::spec_hash(&tree).map(|hash| hash.len()).ok(), Some(64));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        drop(text.parse::<names::ObjectKey>());
        drop(text.parse::<names::SnapshotIndex>());
    }
}

#[derive(serde::Deserialize)]
struct Kinded {
    #[serde(default)]
    kind: String,
}

/// Checks the laws of decoding for one kind, if it is one of ours.
pub fn reader_of(kind: &str) -> Option<fn(&[u8])> {
    macro_rules! readers {
        ($($module:ident::$Kind:ident),*) => {
            match kind {
                $(stringify!($Kind) => survives::<crate::$module::$Kind>,)*
                _ => return None,
            }
        };
    }
    Some(crate::every_kind!(readers))
}

fn survives<K: DeserializeOwned + Serialize + PartialEq + Debug>(data: &[u8]) {
    match decode::decode::<K>(data) {
        Ok(object) => {
            let text = serde_json::to_vec(&object).expect("what was read can be written");
            assert_eq!(decode::decode::<K>(&text).as_ref(), Ok(&object));
        }
        Err(error) => assert!(error.to_string().len() < LONGEST_MESSAGE),
    }
    if let Ok(list) = decode::decode_list::<K>(data) {
        assert!(list.errors.iter().all(|error| error.to_string().len() < LONGEST_MESSAGE));
    }
}

/// No message may carry the whole of what it complains about.
const LONGEST_MESSAGE: usize = 10_000;
