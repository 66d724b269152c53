//! How much of the past the clusters of a fleet remember.
//!
//! Watches that were cut off go on from it, and old lists are made of it. It is the part of a
//! fleet's memory that grows with time and not with what there is, so it has a budget.

use flagship_store::Limits;

/// Limits of the hub and of each member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLimits {
    /// The hub.
    pub hub: Limits,
    /// Each member.
    pub member: Limits,
}

/// The least a cluster remembers, and the most a member needs: its agent is all that watches it.
const MEMBER: std::ops::RangeInclusive<usize> = 256 << 10..=2 << 20;

impl ClusterLimits {
    /// Shares a budget of bytes: half of it for the members, as far as they need it, the rest
    /// for the hub.
    pub fn within(budget: usize, members: usize) -> Self {
        let share = budget / 2 / members.max(1);
        let member = share.clamp(*MEMBER.start(), *MEMBER.end());
        let hub = budget.saturating_sub(member * members).max(*MEMBER.start());
        let small = Limits::member();
        Self {
            hub: Limits { history_total: hub, ..Limits::default() },
            member: Limits {
                history_total: member,
                // Its agent may still read in bursts.
                queue: Limits::default().queue,
                ..small
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_by_the_hub_and_its_members() {
        const MIB: usize = 1 << 20;
        for (budget, members, hub, member) in [
            (128 * MIB, 0, 128 * MIB, 2 * MIB),
            (128 * MIB, 20, 88 * MIB, 2 * MIB),
            (16 * MIB, 20, 8 * MIB, 8 * MIB / 20),
            // A promise that a fleet of this size cannot keep: everybody gets the least.
            (MIB, 100, MIB / 4, MIB / 4),
        ] {
            let limits = ClusterLimits::within(budget, members);
            let found = (limits.hub.history_total, limits.member.history_total);
            let least = member * members + hub;
            assert!(found.0 + found.1 * members <= budget.max(least), "{budget} {members}");
            assert_eq!((found.1, found.0.abs_diff(hub) < MIB), (member, true), "{found:?}");
        }
    }
}
