//! Finds out what a broken object calls itself.
//!
//! The text is read as far as it goes and whatever was met before the break
//! counts. Skipped parts do not recurse, so depth is no limit here. What is
//! longer than Kubernetes allows is cut, as it ends up in messages.

use std::fmt;

use flagship_base::names as rule;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{Identity, cut};

use crate::names::ObjectKey;

pub(super) fn of_bytes(bytes: &[u8]) -> Identity {
    let mut found = Found::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // Broken is what it is supposed to be; what was found before is the answer.
    drop(Root(&mut found).deserialize(&mut reader));
    found.into_identity()
}

pub(super) fn of_value(value: &Value) -> Identity {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let found = Found {
        kind: text("/kind"),
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        uid: text("/metadata/uid"),
        version: text("/metadata/resourceVersion"),
    };
    found.into_identity()
}

#[derive(Default)]
struct Found {
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    version: Option<String>,
}

impl Found {
    fn into_identity(self) -> Identity {
        let namespace = self.namespace.map(|namespace| cut(namespace, rule::LONGEST_LABEL));
        let name = self.name.map(|name| cut(name, rule::LONGEST_NAME));
        let key = name.map(|name| ObjectKey::new(namespace.as_deref(), &name));
        let short = |text: String| cut(text, rule::LONGEST_LABEL);
        let (uid, resource_version) = (self.uid.map(short), self.version.map(short));
        Identity { kind: self.kind.map(kind), key, uid, resource_version }
    }
}

/// A kind as far as it fits the label it must be.
pub(super) fn kind(text: String) -> String {
    cut(text, rule::LONGEST_LABEL)
}

struct Root<'a>(&'a mut Found);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => self.0.kind = Some(map.next_value()?),
                "metadata" => map.next_value_seed(Metadata(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Metadata<'a>(&'a mut Found);

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("metadata")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => self.0.name = Some(map.next_value()?),
                "namespace" => self.0.namespace = Some(map.next_value()?),
                "uid" => self.0.uid = Some(map.next_value()?),
                "resourceVersion" => self.0.version = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}
