//! An object that cannot be read, told so that its owner can mend it.

use flagship_api::decode::DecodeError;
use flagship_api::names::ObjectKey;
use thiserror::Error;

/// One object that cannot be read as its type. The others are not affected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind} {}: {}{why}", self.place(), if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct Malformed {
    /// Its kind, or the kind it should have.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name; empty if even that cannot be read.
    pub name: String,
    /// Its uid; empty if that cannot be read.
    pub uid: String,
    /// Which version of it; empty if that cannot be read.
    pub resource_version: String,
    /// Which field, such as `spec.stages[0].name`; empty if it is the whole.
    pub field: String,
    /// What is wrong there.
    pub why: String,
}

impl Malformed {
    /// `kind` is what it should have been, for objects that do not say.
    pub(crate) fn new(kind: &str, error: DecodeError) -> Self {
        let object = *error.object;
        let (namespace, name) =
            object.key.map_or((None, String::new()), |key| (key.namespace, key.name));
        Self {
            kind: object.kind.unwrap_or_else(|| kind.to_owned()),
            namespace,
            name,
            uid: object.uid.unwrap_or_default(),
            resource_version: object.resource_version.unwrap_or_default(),
            field: error.path,
            why: error.problem,
        }
    }

    /// Where it stands, if that can be read.
    pub fn key(&self) -> Option<ObjectKey> {
        (!self.name.is_empty()).then(|| ObjectKey::new(self.namespace.as_deref(), &self.name))
    }

    fn place(&self) -> String {
        self.key().map_or_else(|| "without a readable name".to_owned(), |key| key.to_string())
    }
}
