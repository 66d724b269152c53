//! Keeps one copy of equal values, for what thousands of objects say in the same words.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The values that are known. Each is kept for as long as anybody holds it, and a while longer.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    /// How many may be known before those that nobody holds any more are looked for.
    enough: usize,
}

/// Below this many, nobody looks whether all are still held.
const FEW: usize = 1_024;

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), enough: FEW }
    }
}

impl<T: ?Sized + Ord> Interner<T> {
    /// Lets the holder refer to the equal value that is known already; else this one is known
    /// from now on.
    pub fn intern(&mut self, value: &mut Arc<T>) {
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
        let mut interner = Interner::default();
        let mut held: [Arc<str>; 3] = ["a", "a", "b"].map(Arc::from);
        held.iter_mut().for_each(|value| interner.intern(value));
        assert_eq!(held.each_ref().map(|value| &**value), ["a", "a", "b"]);
        assert!(Arc::ptr_eq(&held[0], &held[1]));
        assert!(!Arc::ptr_eq(&held[0], &held[2]));
    }

    #[test]
    fn values_that_nobody_holds_any_more_are_forgotten() {
        let mut interner = Interner::default();
        let mut kept = Arc::new(0);
        interner.intern(&mut kept);
        for number in 1..10 * FEW {
            interner.intern(&mut Arc::new(number));
            assert!(interner.known.len() <= FEW);
        }
        let mut again = Arc::new(0);
        interner.intern(&mut again);
        assert!(Arc::ptr_eq(&kept, &again));
    }

    #[test]
    fn values_that_are_held_are_looked_through_ever_more_seldom() {
        let mut interner = Interner::default();
        let held: Vec<_> = (0..10 * FEW).map(Arc::new).collect();
        held.iter().for_each(|value| interner.intern(&mut value.clone()));
        assert_eq!((interner.known.len(), interner.enough), (10 * FEW, 16 * FEW));
    }
}
