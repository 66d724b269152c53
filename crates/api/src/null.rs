//! Null in a list, a map or a text: the same as nothing.
//!
//! Writers in other languages print an empty list as null where the API says it
//! may be left out. Refusing such an object would stop everything that needs it.

use serde::{Deserialize, Deserializer};

/// For `deserialize_with`: null becomes the default. Whether the field may be
/// missing altogether is said by `default` beside it.
pub(crate) fn or_default<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(input).map(Option::unwrap_or_default)
}
