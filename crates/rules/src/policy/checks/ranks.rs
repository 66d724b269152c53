//! Whether one group of clusters is worse than another: medians, and how likely ranks like
//! these are by chance.
//!
//! The test is Mann and Whitney's on ranks, one-sided. It asks nothing of how answers are
//! distributed, and one cluster that is far off counts as one. Up to [`EXACT`] clusters the
//! chance is counted over all ways to pick the updated ones, ties included; above that the
//! normal approximation is used, corrected for ties and for continuity.

/// A difference that chance makes more often than this proves nothing.
pub const ALPHA: f64 = 0.05;
/// Fewer clusters than these are nothing to compare with.
pub const FEWEST_OTHERS: usize = 3;
/// Up to so many clusters in all the chance is counted.
const EXACT: usize = 40;

/// The value in the middle; nothing of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        1 => Some(high),
        _ => Some(f64::midpoint(*sorted.get(sorted.len() / 2 - 1)?, high)),
    }
}

/// Whether the test could tell a difference between groups of these sizes at all: the most
/// uneven of all ways to pick must be rare enough.
pub fn enough(first: usize, others: usize) -> bool {
    first > 0 && others >= FEWEST_OTHERS && 1.0 / ways(first + others, first) <= ALPHA
}

/// How many others so many need to be compared with.
pub fn others_needed(first: usize) -> usize {
    (FEWEST_OTHERS..=usize::MAX).find(|others| enough(first.max(1), *others)).unwrap_or_default()
}

/// How many ways there are to pick so many of all.
fn ways(all: usize, pick: usize) -> f64 {
    let pick = pick.min(all - pick.min(all));
    (0..pick).map(|at| (all - at) as f64 / (at + 1) as f64).product()
}

/// How likely the first group has ranks this high, or higher, if both are alike.
pub fn chance_of_higher(first: &[f64], others: &[f64]) -> f64 {
    let (n, all) = (first.len(), first.len() + others.len());
    if n == 0 || others.is_empty() {
        return 1.0;
    }
    let ranks = doubled_ranks(first, others);
    let found: usize = ranks.iter().take(n).sum();
    if all <= EXACT { counted(&ranks, n, found) } else { approximated(&ranks, n, found) }
}

/// Twice the rank of each, the first group first: those that are equal share their ranks, which
/// may be halves.
fn doubled_ranks(first: &[f64], others: &[f64]) -> Vec<usize> {
    let values = || first.iter().chain(others);
    let rank = |value: &f64| {
        let less = values().filter(|other| *other < value).count();
        let same = values().filter(|other| *other == value).count();
        2 * less + same + 1
    };
    values().map(rank).collect()
}

/// Over all ways to pick `n` of the ranks: how many have a sum as high as this, or higher.
fn counted(ranks: &[usize], n: usize, found: usize) -> f64 {
    let highest: usize = ranks.iter().sum();
    // By how many are picked, and what their sum is.
    let mut picks = vec![vec![0.0_f64; highest + 1]; n + 1];
    if let Some(none) = picks.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for rank in ranks {
        for size in (1..=n).rev() {
            for sum in (*rank..=highest).rev() {
                picks[size][sum] += picks[size - 1][sum - rank];
            }
        }
    }
    let Some(sums) = picks.last() else { return 1.0 };
    sums.iter().skip(found).sum::<f64>() / sums.iter().sum::<f64>()
}

fn approximated(ranks: &[usize], n: usize, found: usize) -> f64 {
    let (n, all) = (n as f64, ranks.len() as f64);
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties =
        sorted.chunk_by(|a, b| a == b).map(|same| (same.len() as f64).powi(3) - same.len() as f64);
    let ties: f64 = ties.sum();
    let variance = n * (all - n) / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let above = found as f64 / 2.0 - n * (all + 1.0) / 2.0 - 0.5;
    1.0 - normal(above / variance.sqrt())
}

/// How likely a normally distributed value is below this, within 0.0000002.
fn normal(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = terms.iter().fold(0.0, |sum, term| (sum + term) * t);
    let tail = sum * (-x * x).exp() / 2.0;
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The chances of 3 and 3, 4 and 5 are those of published tables of U: 1/20, 2/20, 1/126.
    #[test]
    fn chances_of_small_groups_are_those_of_the_tables() {
        let table: &[(&[f64], &[f64], f64)] = &[
            (&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], 0.05),
            (&[3.0, 5.0, 6.0], &[1.0, 2.0, 4.0], 0.10),
            (&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 1.0),
            (&[6.0, 7.0, 8.0, 9.0], &[1.0, 2.0, 3.0, 4.0, 5.0], 1.0 / 126.0),
            (&[7.0, 7.0], &[7.0, 7.0, 7.0], 1.0),
            // One of the ten ways to pick two of 1, 2, 2, 3, 4 has a sum of ranks as high, then three.
            (&[3.0, 4.0], &[1.0, 2.0, 2.0], 0.1),
            (&[2.0, 4.0], &[1.0, 2.0, 3.0], 0.3),
        ];
        for (first, others, chance) in table {
            let found = chance_of_higher(first, others);
            assert!((found - chance).abs() < 1e-9, "{first:?} {others:?}: {found}");
        }
    }

    #[test]
    fn so_many_others_are_needed() {
        let table = [(1, 19), (2, 5), (3, 3), (4, 3), (10, 3)];
        for (first, others) in table {
            assert_eq!(others_needed(first), others, "{first}");
            assert!(enough(first, others) && !enough(first, others - 1));
        }
        assert!(!enough(0, 100) && !enough(100, 2));
    }

    #[test]
    fn the_value_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    // By R: 1 - pnorm(c(0, 1, 1.644854, 3)).
    #[test]
    fn the_normal_distribution() {
        for (z, tail) in [(0.0, 0.5), (1.0, 0.158_655_25), (1.644_854, 0.05), (3.0, 0.001_349_9)] {
            assert!((1.0 - normal(z) - tail).abs() < 1e-6, "{z}");
            assert!((normal(-z) - tail).abs() < 1e-6, "-{z}");
        }
    }

    fn group(most: usize) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((0..12_i32).prop_map(f64::from), 1..most)
    }

    proptest! {
        /// Both directions together cover everything, and what is equal twice.
        #[test]
        fn chances_are_chances(first in group(12), others in group(12)) {
            let higher = chance_of_higher(&first, &others);
            let lower = chance_of_higher(&others, &first);
            prop_assert!(higher > 0.0 && higher <= 1.0 + 1e-9);
            prop_assert!(higher + lower >= 1.0 - 1e-9);
        }

        /// What is added to every answer changes nothing: only the order counts.
        #[test]
        fn a_rise_of_all_is_nobodys_fault(first in group(12), others in group(12), by in 1..100_i32) {
            let raised = |all: &[f64]| -> Vec<f64> { all.iter().map(|v| v + f64::from(by)).collect() };
            let before = chance_of_higher(&first, &others);
            let after = chance_of_higher(&raised(&first), &raised(&others));
            prop_assert!((before - after).abs() < 1e-9);
        }

        /// Worse answers are never less suspicious.
        #[test]
        fn higher_answers_are_less_likely_chance(first in group(12), others in group(12)) {
            let raised: Vec<f64> = first.iter().map(|value| value + 3.0).collect();
            let (before, after) =
                (chance_of_higher(&first, &others), chance_of_higher(&raised, &others));
            prop_assert!(after <= before + 1e-9);
        }

        /// Where both can be had, the approximation is near what is counted.
        #[test]
        fn the_approximation_is_near(first in prop::collection::vec(0..1000_i32, 8..12),
            others in prop::collection::vec(0..1000_i32, 8..12)) {
            let of = |all: &[i32]| -> Vec<f64> { all.iter().map(|v| f64::from(*v)).collect() };
            let (first, others) = (of(&first), of(&others));
            let ranks = doubled_ranks(&first, &others);
            let found: usize = ranks.iter().take(first.len()).sum();
            let (exact, near) =
                (counted(&ranks, first.len(), found), approximated(&ranks, first.len(), found));
            prop_assert!((exact - near).abs() < 0.03, "{exact} {near}");
        }
    }
}
