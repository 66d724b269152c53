//! Texts that must not be taken for one another.
//!
//! A placement and its cluster are both a `String` on the wire; in a call with
//! both, a swap would compile. Functions here take these types, and plain text
//! where the caller has nothing better yet. Fields of the API stay strings.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! distinct {
    ($( $(#[$doc:meta])* $Name:ident; )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $Name(String);

        impl $Name {
            /// As it is on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $Name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<&str> for $Name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<&String> for $Name {
            fn from(text: &String) -> Self {
                Self(text.clone())
            }
        }

        impl From<&Self> for $Name {
            fn from(other: &Self) -> Self {
                other.clone()
            }
        }

        impl AsRef<str> for $Name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $Name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    )*};
}

distinct! {
    /// Name of a member cluster.
    ClusterName;
    /// Name of a stage of an update run.
    StageName;
    /// `metadata.uid`, or a random text of the same kind.
    Uid;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_name_is_its_text_on_the_wire_and_in_a_message() {
        let cluster = ClusterName::from("member1");
        assert_eq!(serde_json::to_string(&cluster).unwrap(), r#""member1""#);
        assert_eq!(serde_json::from_str::<ClusterName>(r#""member1""#).unwrap(), cluster);
        assert_eq!((cluster.to_string().as_str(), cluster.as_str()), ("member1", "member1"));
    }

    #[test]
    fn a_map_by_name_is_asked_with_text() {
        let stages = BTreeMap::from([(StageName::from("canary"), 1)]);
        assert_eq!(stages.get("canary"), Some(&1));
    }
}
