//! The fence an update run leaves on every binding it writes.
//!
//! Two hubs may carry out one run for a moment, the old leader and the new. The
//! one that has read an older generation of the run must not write over the
//! other. A binding without a fence was last written by KubeFleet or by nobody.
//!
//! Which run may take a binding from another run is not decided here.

use flagship_base::go_number::atoi;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::condition::Generation;
use crate::keys::own;
use crate::names::Uid;

/// Which run wrote, and which generation of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The run; its name may be used again, its UID may not.
    pub run: Uid,
    /// Generation of the run that was carried out.
    pub generation: Generation,
}

impl Fence {
    /// The fence of a run as read; none if it was never stored.
    pub fn of(run: &ObjectMeta) -> Option<Self> {
        Some(Self { run: run.uid.as_ref()?.into(), generation: Generation::of(run) })
    }

    /// The fence on a binding, if it has one that can be read.
    pub fn on(binding: &ObjectMeta) -> Option<Self> {
        let annotations = binding.annotations.as_ref()?;
        let generation = atoi(annotations.get(own::UPDATE_RUN_GENERATION)?).ok()?;
        let run = annotations.get(own::UPDATE_RUN_UID)?.into();
        Some(Self { run, generation: Generation(generation) })
    }

    /// Leaves it on a binding.
    pub fn leave_on(&self, binding: &mut ObjectMeta) {
        let annotations = binding.annotations.get_or_insert_default();
        annotations.insert(own::UPDATE_RUN_UID.to_owned(), self.run.to_string());
        annotations.insert(own::UPDATE_RUN_GENERATION.to_owned(), self.generation.0.to_string());
    }

    /// Whether somebody who has read a later generation of the same run was here
    /// before: then nothing may be written with this fence.
    pub fn is_behind(&self, found: &Self) -> bool {
        self.run == found.run && self.generation < found.generation
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn fence(run: &str, generation: i64) -> Fence {
        let uid = Some(run.to_owned());
        let meta = ObjectMeta { uid, generation: Some(generation), ..Default::default() };
        Fence::of(&meta).unwrap()
    }

    #[test]
    fn a_fence_is_found_where_it_was_left() {
        let mut binding = ObjectMeta::default();
        assert_eq!(Fence::on(&binding), None);
        fence("u-1", 3).leave_on(&mut binding);
        assert_eq!(
            binding.annotations,
            Some(BTreeMap::from([
                ("flagship.dev/update-run-uid".to_owned(), "u-1".to_owned()),
                ("flagship.dev/update-run-generation".to_owned(), "3".to_owned()),
            ]))
        );
        assert_eq!(Fence::on(&binding), Some(fence("u-1", 3)));
    }

    #[test]
    fn half_a_fence_is_none() {
        for (key, value) in [
            (own::UPDATE_RUN_UID, "u-1"),
            (own::UPDATE_RUN_GENERATION, "3"),
            (own::UPDATE_RUN_GENERATION, "three"),
        ] {
            let annotations = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
            let binding = ObjectMeta { annotations, ..Default::default() };
            assert_eq!(Fence::on(&binding), None);
        }
        assert_eq!(Fence::of(&ObjectMeta::default()), None);
    }

    #[test]
    fn only_a_later_generation_of_the_same_run_keeps_a_writer_out() {
        assert!(fence("u-1", 3).is_behind(&fence("u-1", 4)));
        assert!(!fence("u-1", 4).is_behind(&fence("u-1", 4)));
        assert!(!fence("u-1", 5).is_behind(&fence("u-1", 4)));
        assert!(!fence("u-1", 3).is_behind(&fence("u-2", 9)));
    }
}
