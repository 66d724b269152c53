//! The running number of a snapshot and the place of an object in its group, as
//! labels and annotations carry them.

use std::fmt;
use std::str::FromStr;

use flagship_base::go_number::{NotANumber, atoi};
use thiserror::Error;

/// Index of a snapshot, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotIndex(i64);

/// Why a text is not an index, a sub-index or a count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// Not a whole number.
    #[error(transparent)]
    NotANumber(#[from] NotANumber),
    /// A whole number below 0.
    #[error("must not be negative")]
    Negative,
}

impl SnapshotIndex {
    /// The first index.
    pub const FIRST: Self = Self(0);

    /// The index of the next snapshot.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// As a number, never negative.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for SnapshotIndex {
    type Error = IndexError;

    fn try_from(index: i64) -> Result<Self, IndexError> {
        if index < 0 { Err(IndexError::Negative) } else { Ok(Self(index)) }
    }
}

impl From<u32> for SnapshotIndex {
    fn from(index: u32) -> Self {
        Self(i64::from(index))
    }
}

impl FromStr for SnapshotIndex {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        atoi(text)?.try_into()
    }
}

impl fmt::Display for SnapshotIndex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Place of a resource snapshot in its group, counted from 0 at the second
/// object: a number like an index, and never one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubIndex(SnapshotIndex);

impl SubIndex {
    /// Of the second object.
    pub const FIRST: Self = Self(SnapshotIndex::FIRST);

    /// Of the next object.
    pub const fn next(self) -> Self {
        Self(self.0.next())
    }

    /// As a number, never negative.
    pub const fn get(self) -> i64 {
        self.0.get()
    }
}

/// Any number from 0 that the caller says is a place in a group.
impl From<SnapshotIndex> for SubIndex {
    fn from(number: SnapshotIndex) -> Self {
        Self(number)
    }
}

impl From<u32> for SubIndex {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

impl FromStr for SubIndex {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for SubIndex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_group_is_read_like_an_index() {
        assert_eq!("0".parse(), Ok(SubIndex::FIRST));
        assert_eq!(SubIndex::FIRST.next(), SubIndex::from(1));
        assert_eq!(SubIndex::from(SnapshotIndex::from(12)).to_string(), "12");
        assert_eq!("-1".parse::<SubIndex>(), Err(IndexError::Negative));
    }

    #[test]
    fn an_index_is_a_number_from_zero() {
        assert_eq!("0".parse(), Ok(SnapshotIndex::FIRST));
        assert_eq!("+5".parse(), Ok(SnapshotIndex::from(5)));
        assert_eq!("10".parse::<SnapshotIndex>().unwrap().next().to_string(), "11");
    }

    #[test]
    fn anything_else_says_why() {
        for (text, why) in [
            ("", r#"strconv.Atoi: parsing "": invalid syntax"#),
            ("x", r#"strconv.Atoi: parsing "x": invalid syntax"#),
            ("-1", "must not be negative"),
            (
                "9223372036854775808",
                r#"strconv.Atoi: parsing "9223372036854775808": value out of range"#,
            ),
        ] {
            assert_eq!(text.parse::<SnapshotIndex>().unwrap_err().to_string(), why);
        }
    }
}
