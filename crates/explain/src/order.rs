//! The order in which people count: member1, member2, member10.

use std::cmp::Ordering;

/// Compares names so that numbers in them count as numbers.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) else {
            // Equal so far: the shorter comes first, and `01` never equals `1`.
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, rest) = digits(left);
            let (other, other_rest) = digits(right);
            // Without leading zeros the longer number is the larger one.
            let by_value = number.len().cmp(&other.len()).then_with(|| number.cmp(other));
            if by_value != Ordering::Equal {
                return by_value;
            }
            (left, right) = (rest, other_rest);
        } else {
            if first != second {
                return first.cmp(&second);
            }
            left = &left[first.len_utf8()..];
            right = &right[second.len_utf8()..];
        }
    }
}

/// The number in front without leading zeros, and what follows it.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.trim_start_matches('0'), rest)
}

/// Some names in a row: all of a few, else the first ones and how many more there are.
pub fn some_of(names: &[&str], shown: usize) -> String {
    if names.len() <= shown {
        return names.join(", ");
    }
    format!("{} and {} more", names[..shown].join(", "), names.len() - shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_the_order_people_count() {
        let mut names = [
            "member10", "member2", "edge", "member1", "member", "a10b2", "a10b10", "a9", "member01",
        ];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            [
                "a9", "a10b2", "a10b10", "edge", "member", "member01", "member1", "member2",
                "member10"
            ]
        );
    }

    #[test]
    fn a_long_list_says_how_many_more_there_are() {
        assert_eq!(some_of(&["a", "b"], 3), "a, b");
        assert_eq!(some_of(&["a", "b", "c", "d", "e"], 3), "a, b, c and 2 more");
    }
}
