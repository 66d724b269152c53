//! Status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A namespaced object by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacedName {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
}
