//! Completed indexes of a Job, written as `0-3,5,7-8`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<i64>);

impl Indexes {
    /// Reads the text form. Parts that make no sense are left out.
    pub fn parse(text: &str) -> Self {
        let mut all = BTreeSet::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>())
                && to - from < 100_000
            {
                all.extend(from..=to);
            }
        }
        Self(all)
    }

    /// Adds an index; whether it was new.
    pub fn insert(&mut self, index: i64) -> bool {
        self.0.insert(index)
    }

    pub fn contains(&self, index: i64) -> bool {
        self.0.contains(&index)
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for index in &self.0 {
            match runs.last_mut() {
                Some((_, end)) if *end + 1 == *index => *end = *index,
                _ => runs.push((*index, *index)),
            }
        }
        let text = |(from, to): &(i64, i64)| match to - from {
            0 => from.to_string(),
            // Two neighbours are written as a list, as Kubernetes does.
            1 => format!("{from},{to}"),
            _ => format!("{from}-{to}"),
        };
        f.write_str(&runs.iter().map(text).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_read_and_write_as_runs() {
        for (text, canonical) in
            [("", ""), ("0-3,5", "0-3,5"), ("0,1,2,7,8", "0-2,7,8"), ("x,3,9-y", "3"), ("4-2", "")]
        {
            assert_eq!(Indexes::parse(text).to_string(), canonical, "{text}");
        }
    }
}
