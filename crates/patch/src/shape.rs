//! What a strategic merge must know about a place in an object.

/// One place in the schema of a kind: a field, or the elements of a list.
pub trait Shape: Copy {
    /// The place of a field below this one; none if nothing is known of it.
    fn field(self, name: &str) -> Option<Self>;

    /// The place of each element, if this is a list.
    fn items(self) -> Option<Self>;

    /// Whether a list here is joined with what is there instead of replacing it.
    fn merges(self) -> bool;

    /// Whether a map here loses what `$retainKeys` does not name.
    fn retains_keys(self) -> bool;

    /// The field by which elements of a list are told apart.
    fn merge_key(&self) -> Option<&str>;
}
