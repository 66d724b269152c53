//! Numbers that may be given as a percentage: `3`, `25%`.
//!
//! Who asks decides how a percentage is rounded: rollouts and disruption budgets
//! round up, the concurrency of a stage rounds down but never to zero.

use flagship_base::go_number::{NotANumber, atoi, quoted};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;

/// A number, or a share of some total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// So many, whatever the total.
    Count(u32),
    /// So many of a hundred, at most all of them.
    Percent(u8),
}

/// Why a value is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AmountError {
    /// A string that does not end in a percent sign; digits do not help.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// A percent sign behind something that is not a number.
    #[error("invalid value for IntOrString: invalid value {}: {source}", quoted(.text))]
    NotANumber {
        /// The whole string.
        text: String,
        /// What is wrong before the percent sign.
        source: NotANumber,
    },
    /// A number below zero.
    #[error("{0} is negative")]
    Negative(i32),
    /// A percentage that is not a part of the whole.
    #[error("{0}% is not between 0% and 100%")]
    OutOfRange(i64),
}

impl TryFrom<&IntOrString> for Amount {
    type Error = AmountError;

    fn try_from(value: &IntOrString) -> Result<Self, AmountError> {
        let text = match value {
            IntOrString::Int(count) => {
                let amount = u32::try_from(*count).map(Self::Count);
                return amount.map_err(|_| AmountError::Negative(*count));
            }
            IntOrString::String(text) => text,
        };
        let number = text.strip_suffix('%').ok_or(AmountError::NotAPercentage)?;
        let percent = atoi(number)
            .map_err(|source| AmountError::NotANumber { text: text.clone(), source })?;
        match u8::try_from(percent) {
            Ok(percent) if percent <= 100 => Ok(Self::Percent(percent)),
            _ => Err(AmountError::OutOfRange(percent)),
        }
    }
}

impl Amount {
    /// How many of `total`, parts rounded up. A count may exceed the total.
    pub fn rounded_up(self, total: u32) -> u32 {
        self.scaled(total, 99)
    }

    /// How many of `total`, parts rounded down. A count may exceed the total.
    pub fn rounded_down(self, total: u32) -> u32 {
        self.scaled(total, 0)
    }

    fn scaled(self, total: u32, add: u64) -> u32 {
        match self {
            Self::Count(count) => count,
            // At most 100 percent, so the result fits what the total fits.
            Self::Percent(percent) => {
                let scaled = (u64::from(total) * u64::from(percent) + add) / 100;
                u32::try_from(scaled).unwrap_or(total)
            }
        }
    }
}

/// Resolves `maxUnavailable`, `maxSurge` or `minAvailable` against the number of
/// clusters wanted: percentages are rounded up.
pub fn of_target(value: &IntOrString, target: u32) -> Result<u32, AmountError> {
    Ok(Amount::try_from(value)?.rounded_up(target))
}

/// Resolves `maxConcurrency` against the number of clusters in the stage:
/// percentages are rounded down, but one cluster may always be updated.
pub fn max_concurrency(value: &IntOrString, clusters: u32) -> Result<u32, AmountError> {
    let amount = Amount::try_from(value)?;
    Ok(amount.rounded_down(clusters).max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: &str) -> IntOrString {
        IntOrString::String(value.to_owned())
    }

    /// The arithmetic of rolling updates and disruption budgets.
    #[test]
    fn a_share_of_the_target_is_rounded_up() {
        for (value, target, resolved) in [
            ("25%", 3, 1),
            ("25%", 2, 1),
            ("25%", 4, 1),
            ("25%", 5, 2),
            ("20%", 5, 1),
            ("25%", 0, 0),
            ("0%", 7, 0),
            ("1%", 1, 1),
            ("100%", 7, 7),
            ("007%", 100, 7),
        ] {
            assert_eq!(of_target(&text(value), target), Ok(resolved), "{value} of {target}");
        }
        assert_eq!(of_target(&IntOrString::Int(0), 5), Ok(0));
        assert_eq!(of_target(&IntOrString::Int(9), 5), Ok(9));
        assert_eq!(of_target(&text("100%"), u32::MAX), Ok(u32::MAX));
    }

    /// The arithmetic of stages.
    #[test]
    fn a_share_of_a_stage_is_rounded_down_to_one_at_least() {
        for (value, clusters, resolved) in [
            ("50%", 10, 5),
            ("50%", 1, 1),
            ("1%", 1, 1),
            ("33%", 10, 3),
            ("100%", 10, 10),
            ("25%", 7, 1),
            ("70%", 3, 2),
            ("50%", 0, 1),
        ] {
            assert_eq!(
                max_concurrency(&text(value), clusters),
                Ok(resolved),
                "{value} of {clusters}"
            );
        }
        for (count, clusters) in [(1, 10), (10, 10), (200, 10), (3, 0)] {
            let resolved = max_concurrency(&IntOrString::Int(count), clusters);
            assert_eq!(resolved, Ok(count.unsigned_abs()));
        }
    }

    #[test]
    fn anything_else_says_why() {
        let not_a_percentage =
            "invalid value for IntOrString: invalid type: string is not a percentage";
        for (value, complaint) in [
            ("", not_a_percentage),
            ("50", not_a_percentage),
            ("50% ", not_a_percentage),
            ("50％", not_a_percentage),
            (
                "%",
                r#"invalid value for IntOrString: invalid value "%": strconv.Atoi: parsing "": invalid syntax"#,
            ),
            (
                "abc%",
                r#"invalid value for IntOrString: invalid value "abc%": strconv.Atoi: parsing "abc": invalid syntax"#,
            ),
            (
                "５０%",
                r#"invalid value for IntOrString: invalid value "５０%": strconv.Atoi: parsing "５０": invalid syntax"#,
            ),
            (
                "2.5%",
                r#"invalid value for IntOrString: invalid value "2.5%": strconv.Atoi: parsing "2.5": invalid syntax"#,
            ),
            (
                "9223372036854775808%",
                r#"invalid value for IntOrString: invalid value "9223372036854775808%": strconv.Atoi: parsing "9223372036854775808": value out of range"#,
            ),
            ("101%", "101% is not between 0% and 100%"),
            ("-1%", "-1% is not between 0% and 100%"),
        ] {
            assert_eq!(of_target(&text(value), 5).unwrap_err().to_string(), complaint, "{value}");
            let of_stage = max_concurrency(&text(value), 5).unwrap_err();
            assert_eq!(of_stage.to_string(), complaint, "{value}");
        }
        assert_eq!(of_target(&IntOrString::Int(-1), 5).unwrap_err().to_string(), "-1 is negative");
        assert!(serde_json::from_str::<IntOrString>("9223372036854775808").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_larger_share_is_never_fewer(a in 0u8..=100, b in 0u8..=100, total in any::<u32>()) {
            let (low, high) = (Amount::Percent(a.min(b)), Amount::Percent(a.max(b)));
            prop_assert!(low.rounded_up(total) <= high.rounded_up(total));
            prop_assert!(low.rounded_down(total) <= high.rounded_down(total));
        }

        #[test]
        fn a_larger_total_is_never_fewer(percent in 0u8..=100, a in any::<u32>(), b in any::<u32>()) {
            let amount = Amount::Percent(percent);
            prop_assert!(amount.rounded_up(a.min(b)) <= amount.rounded_up(a.max(b)));
            prop_assert!(amount.rounded_down(a.min(b)) <= amount.rounded_down(a.max(b)));
        }

        #[test]
        fn the_two_ways_to_round_differ_by_one_at_most(percent in 0u8..=100, total in any::<u32>()) {
            let amount = Amount::Percent(percent);
            let (down, up) = (amount.rounded_down(total), amount.rounded_up(total));
            prop_assert!(down <= up && up - down <= 1 && up <= total);
        }
    }
}
