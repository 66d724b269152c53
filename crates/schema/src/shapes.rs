//! Schemas as strategic merges see them.

use flagship_patch::Shape;

use crate::NodeRef;

impl Shape for NodeRef<'_> {
    fn field(self, name: &str) -> Option<Self> {
        NodeRef::field(self, name)
    }

    fn items(self) -> Option<Self> {
        NodeRef::items(self)
    }

    fn merges(self) -> bool {
        self.node().patch_strategy.merge
    }

    fn retains_keys(self) -> bool {
        self.node().patch_strategy.retain_keys
    }

    fn merge_key(&self) -> Option<&str> {
        self.node().patch_merge_key.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flagship_patch::{Builtin, builtin};

    use super::*;

    fn told<S: Shape>(shape: Option<S>) -> (bool, bool, Option<String>) {
        let key = shape.as_ref().and_then(Shape::merge_key).map(str::to_owned);
        let is = |ask: fn(S) -> bool| shape.is_some_and(ask);
        (is(S::merges), is(S::retains_keys), key)
    }

    /// Whether the table of merge keys says the same as the schema, at every place. `seen`
    /// holds the types on the way, as some contain themselves.
    fn agree(node: NodeRef<'_>, table: Option<Builtin>, path: &str, seen: &mut BTreeSet<usize>) {
        assert_eq!(told(Some(node)), told(table), "{path}");
        let place = std::ptr::from_ref(node.node()) as usize;
        if !seen.insert(place) {
            return;
        }
        for (name, below) in node.fields() {
            let known = table.and_then(|t| t.field(name));
            agree(below, known, &format!("{path}.{name}"), seen);
        }
        if let Some(items) = NodeRef::items(node) {
            agree(items, table.and_then(Shape::items), &format!("{path}[]"), seen);
        }
        if let Some(values) = node.values() {
            agree(values, None, &format!("{path}{{}}"), seen);
        }
        seen.remove(&place);
    }

    #[test]
    fn the_table_of_merge_keys_says_what_the_schemas_say() {
        let mut compared = 0;
        for (group, version, kind) in crate::builtin_kinds() {
            let Some(table) = builtin(group, version, kind) else { continue };
            let schema = crate::builtin(group, version, kind).unwrap();
            agree(schema.root(), Some(table), kind, &mut BTreeSet::new());
            compared += 1;
        }
        assert!(compared > 60, "{compared}");
    }
}
