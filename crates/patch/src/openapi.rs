//! OpenAPI schemas as shapes, for tests that need lists no built-in kind has.

use serde_json::Value;

use crate::shape::Shape;

/// A place in a schema without references.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a>(pub(crate) &'a Value);

impl Node<'_> {
    fn has(self, strategy: &str) -> bool {
        let all = self.0["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
        all.split(',').any(|one| one == strategy)
    }
}

impl Shape for Node<'_> {
    fn field(self, name: &str) -> Option<Self> {
        let known = self.0.get("properties").and_then(|fields| fields.get(name));
        known.or_else(|| self.0.get("additionalProperties")).map(Self)
    }

    fn items(self) -> Option<Self> {
        self.0.get("items").map(Self)
    }

    fn merges(self) -> bool {
        self.has("merge")
    }

    fn retains_keys(self) -> bool {
        self.has("retainKeys")
    }

    fn merge_key(&self) -> Option<&str> {
        self.0.get("x-kubernetes-patch-merge-key")?.as_str()
    }
}
