//! The arithmetic of a rolling update: how many pods may be added or missed.
//!
//! Surge rounds up and unavailability rounds down, so that percentages of small
//! numbers can stop neither progress nor service.

use serde_json::Value;

/// What a deployment allows while it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// `spec.replicas`.
    pub desired: i64,
    /// Pods allowed above `desired`.
    pub surge: i64,
    /// Pods allowed to be unavailable.
    pub unavailable: i64,
}

impl Budget {
    /// Resolves both limits of a RollingUpdate.
    pub fn rolling(desired: i64, max_surge: &Value, max_unavailable: &Value) -> Self {
        let surge = resolve(max_surge, desired, Round::Up);
        let mut unavailable = resolve(max_unavailable, desired, Round::Down);
        if surge == 0 && unavailable == 0 {
            // Validation forbids both zero, but percentages can round to it.
            unavailable = 1;
        }
        Self { desired, surge, unavailable: unavailable.min(desired) }
    }

    /// Recreate: everything may be missing, nothing is added.
    pub fn recreate(desired: i64) -> Self {
        Self { desired, surge: 0, unavailable: 0 }
    }

    /// The least number of available pods.
    pub fn floor(self) -> i64 {
        self.desired - self.unavailable
    }

    /// The greatest number of pods.
    pub fn ceiling(self) -> i64 {
        self.desired + self.surge
    }

    /// The size of the new set, when all sets together now ask for `total` pods.
    pub fn grown(self, new_size: i64, total: i64) -> i64 {
        if total >= self.ceiling() {
            return new_size;
        }
        new_size + (self.ceiling() - total).min(self.desired - new_size)
    }
}

/// How a fraction of a pod is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// A part is a whole.
    Up,
    /// A part is nothing.
    Down,
}

/// A number, or a percentage of `total`. Anything unreadable is zero.
pub fn resolve(value: &Value, total: i64, round: Round) -> i64 {
    let text = match value {
        Value::Number(n) => return n.as_i64().unwrap_or(0).clamp(0, MOST),
        Value::String(text) => text,
        _ => return 0,
    };
    let Some(percent) = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok()) else {
        return 0;
    };
    let product = percent.max(0).saturating_mul(total);
    let resolved = match round {
        Round::Up => product.saturating_add(99) / 100,
        Round::Down => product / 100,
    };
    resolved.min(MOST)
}

/// No number of pods is larger.
const MOST: i64 = i32::MAX as i64;

/// Where pods of old sets can go: per set (spec, available), how many to take away.
/// Unhealthy pods go first, at most `limit`; then healthy ones, while more than
/// `floor` pods are available in all.
pub fn shrink_old(old: &[(i64, i64)], limit: i64, floor: i64, available: i64) -> Vec<i64> {
    let mut sizes: Vec<i64> = old.iter().map(|(spec, _)| *spec).collect();
    let mut left = limit;
    for (size, (spec, available)) in sizes.iter_mut().zip(old) {
        let sick = left.min(spec - available).max(0);
        *size -= sick;
        left -= sick;
    }
    let mut spare = (available - floor).max(0);
    for size in &mut sizes {
        let healthy = spare.min(*size);
        *size -= healthy;
        spare -= healthy;
    }
    sizes
}

/// Proportional scaling: each active set as (size, the ceiling it was sized under),
/// largest first, gets its share of the change; what rounding leaves goes to the first.
pub fn spread(sets: &[(i64, i64)], budget: Budget) -> Vec<i64> {
    let total: i64 = sets.iter().map(|(size, _)| size).sum();
    let allowed = if budget.desired > 0 { budget.ceiling() } else { 0 };
    let change = allowed - total;
    let mut given = 0;
    let mut sizes = Vec::with_capacity(sets.len());
    for (size, ceiling) in sets {
        let share = if *size == 0 || change == given {
            0
        } else {
            let fair = fraction(*size, *ceiling, budget);
            if change > 0 { fair.min(change - given) } else { fair.max(change - given) }
        };
        given += share;
        sizes.push(size + share);
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + change - given).max(0);
    }
    sizes
}

/// By how much a set of `size` under `ceiling` changes under the new ceiling.
fn fraction(size: i64, ceiling: i64, budget: Budget) -> i64 {
    if budget.desired == 0 {
        return -size;
    }
    if ceiling == 0 {
        return 0;
    }
    // Rounded half away from zero; all three are positive here.
    let scaled = size.saturating_mul(budget.ceiling());
    (2 * scaled + ceiling) / (2 * ceiling) - size
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn surge_rounds_up_and_unavailability_down() {
        for (desired, surge, unavailable, expected) in [
            (3, json!("25%"), json!("25%"), (1, 0)),
            (4, json!("25%"), json!("25%"), (1, 1)),
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (3, json!(0), json!("25%"), (0, 1)),
            (3, json!(0), json!(5), (0, 3)),
            (0, json!("25%"), json!("25%"), (0, 0)),
            (5, json!(2), json!(1), (2, 1)),
            (5, json!("100%"), json!(0), (5, 0)),
            (5, json!("x"), json!(null), (0, 1)),
        ] {
            let budget = Budget::rolling(desired, &surge, &unavailable);
            assert_eq!(
                (budget.surge, budget.unavailable),
                expected,
                "{desired} {surge} {unavailable}"
            );
        }
    }

    #[test]
    fn the_new_set_grows_into_the_free_room() {
        let budget = Budget { desired: 10, surge: 3, unavailable: 2 };
        for (size, total, expected) in
            [(0, 10, 3), (3, 13, 3), (3, 8, 8), (8, 10, 10), (0, 0, 10), (10, 15, 10)]
        {
            assert_eq!(budget.grown(size, total), expected, "{size} of {total}");
        }
    }

    #[test]
    fn sick_old_pods_go_before_healthy_ones() {
        // 10 desired, 2 may be missing; (spec, available) of the old sets.
        for (old, limit, floor, available, expected) in [
            (vec![(10, 10)], 2, 8, 10, vec![8]),
            (vec![(10, 7)], 2, 8, 7, vec![8]),
            (vec![(3, 0), (7, 7)], 5, 8, 7, vec![0, 7]),
            (vec![(4, 4), (6, 6)], 0, 8, 10, vec![2, 6]),
            (vec![(4, 4)], 4, 0, 4, vec![0]),
        ] {
            assert_eq!(shrink_old(&old, limit, floor, available), expected, "{old:?}");
        }
    }

    #[test]
    fn scaling_in_the_middle_of_a_rollout_is_proportional() {
        // The documented example: 10 replicas, surge 3, 8 old and 5 new, scaled to 15.
        let budget = Budget { desired: 15, surge: 3, unavailable: 2 };
        assert_eq!(spread(&[(8, 13), (5, 13)], budget), vec![11, 7]);
        let down = Budget { desired: 0, surge: 3, unavailable: 2 };
        assert_eq!(spread(&[(8, 13), (5, 13)], down), vec![0, 0]);
        let same = Budget { desired: 10, surge: 3, unavailable: 2 };
        assert_eq!(spread(&[(8, 13), (5, 13)], same), vec![8, 5]);
    }
}
