//! Values that are there once, however many hold them.
//!
//! For what thousands of objects say in the same words: equal values become one that all of
//! them refer to.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The values that are known. Each is kept for as long as anybody holds it, and a while longer.
#[derive(Debug)]
pub struct Shared<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    /// How many may be known before those that nobody holds any more are looked for.
    enough: usize,
}

/// Below this many, nobody looks whether all are still held.
const FEW: usize = 1_024;

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), enough: FEW }
    }
}

impl<T: ?Sized + Ord> Shared<T> {
    /// Lets the holder refer to the equal value that is known already; else this one is known
    /// from now on.
    pub fn share(&mut self, value: &mut Arc<T>) {
        if let Some(known) = self.known.get(value) {
            *value = known.clone();
            return;
        }
        if self.known.len() >= self.enough {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.enough = FEW.max(2 * self.known.len());
        }
        self.known.insert(value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_become_one() {
        let mut shared = Shared::default();
        let mut held: [Arc<str>; 3] = ["a", "a", "b"].map(Arc::from);
        held.iter_mut().for_each(|value| shared.share(value));
        assert_eq!(held.each_ref().map(|value| &**value), ["a", "a", "b"]);
        assert!(Arc::ptr_eq(&held[0], &held[1]));
        assert!(!Arc::ptr_eq(&held[0], &held[2]));
    }

    #[test]
    fn values_that_nobody_holds_any_more_are_forgotten() {
        let mut shared = Shared::default();
        let mut kept = Arc::new(0);
        shared.share(&mut kept);
        for number in 1..10 * FEW {
            shared.share(&mut Arc::new(number));
            assert!(shared.known.len() <= FEW);
        }
        let mut again = Arc::new(0);
        shared.share(&mut again);
        assert!(Arc::ptr_eq(&kept, &again));
    }

    #[test]
    fn values_that_are_held_are_looked_through_ever_more_seldom() {
        let mut shared = Shared::default();
        let held: Vec<_> = (0..10 * FEW).map(Arc::new).collect();
        held.iter().for_each(|value| shared.share(&mut value.clone()));
        assert_eq!((shared.known.len(), shared.enough), (10 * FEW, 16 * FEW));
    }
}
