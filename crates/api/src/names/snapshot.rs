//! Names of policy, resource and override snapshots.
//!
//! A placement may itself end in `-3` or `-3-snapshot`, so a name alone does not
//! say whose snapshot it is: reading back needs the placement's name.

use std::cmp::Ordering;

use super::{SnapshotIndex, SubIndex};

/// Policy snapshot: `{placement}-{index}`.
pub fn policy_snapshot(placement: &str, index: SnapshotIndex) -> String {
    format!("{placement}-{index}")
}

/// First object of a resource snapshot group: `{placement}-{index}-snapshot`.
pub fn master_snapshot(placement: &str, index: SnapshotIndex) -> String {
    format!("{placement}-{index}-snapshot")
}

/// Further objects of the group: `{placement}-{index}-{subindex}`; sub-index 0
/// is the second object.
pub fn sub_snapshot(
    placement: &str,
    index: SnapshotIndex,
    subindex: impl Into<SubIndex>,
) -> String {
    format!("{placement}-{index}-{}", subindex.into())
}

/// Snapshot of an override: `{override}-{index}`.
pub fn override_snapshot(name: &str, index: SnapshotIndex) -> String {
    format!("{name}-{index}")
}

/// What a resource snapshot's name says about it. The greatest is the master of
/// the newest group; within a group the master is greater than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotName {
    /// One of the further objects of a group.
    Sub {
        /// The group.
        index: SnapshotIndex,
        /// Its place, counted from 0 at the second object.
        subindex: SubIndex,
    },
    /// The first object of a group.
    Master {
        /// The group.
        index: SnapshotIndex,
    },
}

impl SnapshotName {
    /// Reads the name of a resource snapshot of this placement. Only names this
    /// module would have made are read: no signs, no leading zeros.
    pub fn read(placement: &str, name: &str) -> Option<Self> {
        let (index, last) = name.strip_prefix(placement)?.strip_prefix('-')?.split_once('-')?;
        let index: SnapshotIndex = index.parse().ok()?;
        let (read, again) = if last == "snapshot" {
            (Self::Master { index }, master_snapshot(placement, index))
        } else {
            let subindex: SubIndex = last.parse().ok()?;
            (Self::Sub { index, subindex }, sub_snapshot(placement, index, subindex))
        };
        (again == name).then_some(read)
    }

    /// Group, then master or not, then place in the group.
    const fn rank(self) -> (SnapshotIndex, bool, SubIndex) {
        match self {
            Self::Sub { index, subindex } => (index, false, subindex),
            Self::Master { index } => (index, true, SubIndex::FIRST),
        }
    }
}

impl Ord for SnapshotName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for SnapshotName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seven() -> SnapshotIndex {
        SnapshotIndex::from(7)
    }

    #[test]
    fn snapshots_are_named_after_their_placement() {
        let first = SnapshotIndex::FIRST;
        assert_eq!(policy_snapshot("example-placement", first), "example-placement-0");
        assert_eq!(master_snapshot("example-placement", first), "example-placement-0-snapshot");
        assert_eq!(sub_snapshot("example-placement", first, first), "example-placement-0-0");
        assert_eq!(override_snapshot("cro-1", first), "cro-1-0");
    }

    #[test]
    fn a_name_is_read_back_with_the_placement_in_hand() {
        let index = seven();
        let read = SnapshotName::read;
        assert_eq!(read("web", "web-7-snapshot"), Some(SnapshotName::Master { index }));
        let subindex = SubIndex::from(SnapshotIndex::from(12));
        assert_eq!(read("web", "web-7-12"), Some(SnapshotName::Sub { index, subindex }));
        assert_eq!(read("web-7", "web-7-7-snapshot"), Some(SnapshotName::Master { index }));
    }

    #[test]
    fn snapshots_are_ordered_by_group_and_the_master_is_the_greatest_of_its_own() {
        let ascending = [
            "web-6-0",
            "web-6-12",
            "web-6-snapshot",
            "web-7-0",
            "web-7-2",
            "web-7-10",
            "web-7-snapshot",
            "web-10-0",
            "web-10-snapshot",
        ];
        let read = ascending.map(|name| SnapshotName::read("web", name).unwrap());
        assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
    }

    #[test]
    fn foreign_names_are_not_read() {
        for name in [
            "web",
            "web-7",
            "web-7-",
            "web--7-0",
            "web-07-snapshot",
            "web-+7-0",
            "web-7-00",
            "web-7-snapshots",
            "web-x-snapshot",
            "web2-7-snapshot",
            "web-7-0-0",
            "",
        ] {
            assert_eq!(SnapshotName::read("web", name), None, "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_name_made_is_read_back(
            placement in "[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?",
            index in 0..=i64::MAX,
            subindex in 0..=i64::MAX,
        ) {
            let index = SnapshotIndex::try_from(index).unwrap();
            let subindex = SubIndex::from(SnapshotIndex::try_from(subindex).unwrap());
            let master = master_snapshot(&placement, index);
            prop_assert_eq!(SnapshotName::read(&placement, &master), Some(SnapshotName::Master { index }));
            let sub = sub_snapshot(&placement, index, subindex);
            prop_assert_eq!(SnapshotName::read(&placement, &sub), Some(SnapshotName::Sub { index, subindex }));
        }
    }
}
