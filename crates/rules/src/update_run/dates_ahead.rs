//! Dates in a run's record that are later than the hub's clock: the clock has been set back
//! since, or another hub that led before, or still does, has one that is ahead.
//!
//! How long ago such a moment was, nobody can tell by the date, so a wait counts from when this
//! hub first saw it. Each date is noticed for itself: a cluster that is done later may be dated
//! ahead as well, and a date that is ahead says nothing about one that is not.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::lifecycle::done_dates;

/// Dates that are ahead, and when this hub first saw each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DatesAhead(BTreeMap<Timestamp, Timestamp>);

impl DatesAhead {
    /// Takes note of what a record says now. A hub that started again notices everything anew,
    /// which makes a wait longer, never shorter.
    pub fn notice(&mut self, status: &UpdateRunStatus, now: Timestamp) {
        let dates = status.stages_status.iter().flat_map(done_dates);
        let ahead: BTreeSet<Timestamp> = dates.filter(|date| *date > now).collect();
        self.0.retain(|date, _| ahead.contains(date));
        for date in ahead {
            let noticed = self.0.entry(date).or_insert(now);
            // The clock may have been set back once more.
            *noticed = now.min(*noticed);
        }
    }

    /// Whether no date is ahead.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The moment from which a wait counts that began at a recorded date.
    pub(super) fn counted_from(&self, date: Timestamp, now: Timestamp) -> Timestamp {
        let noticed = self.0.get(&date).filter(|_| date > now);
        noticed.copied().unwrap_or(date)
    }
}

#[cfg(test)]
mod tests {
    use flagship_api::staged_update_status::UpdateRunStatus;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + second).unwrap()
    }

    /// A run whose clusters were done at these seconds.
    fn done(seconds: &[i64]) -> UpdateRunStatus {
        let cluster = |second: &i64| {
            json!({"clusterName": format!("m{second}"), "conditions": [
                {"type": "Succeeded", "status": "True", "reason": "R", "message": "",
                 "lastTransitionTime": at(*second).to_string()}]})
        };
        let clusters: Vec<_> = seconds.iter().map(cluster).collect();
        let stages = json!([{"stageName": "all", "clusters": clusters}]);
        serde_json::from_value(json!({ "stagesStatus": stages })).unwrap()
    }

    #[test]
    fn each_date_that_is_ahead_counts_from_when_it_was_first_seen() {
        let mut ahead = DatesAhead::default();
        ahead.notice(&done(&[5, 100]), at(10));
        ahead.notice(&done(&[5, 100, 130]), at(40));
        let counted = [5, 100, 130].map(|date| ahead.counted_from(at(date), at(50)));
        assert_eq!(counted, [at(5), at(10), at(40)]);
    }

    #[test]
    fn what_is_ahead_no_more_counts_by_its_date_and_is_forgotten() {
        let mut ahead = DatesAhead::default();
        ahead.notice(&done(&[100]), at(10));
        assert_eq!(ahead.counted_from(at(100), at(101)), at(100));
        ahead.notice(&done(&[100]), at(101));
        assert!(ahead.is_empty());
        // The clock is set back again.
        ahead.notice(&done(&[100]), at(20));
        assert_eq!(ahead.counted_from(at(100), at(21)), at(20));
    }

    #[test]
    fn a_clock_that_is_set_back_twice_makes_no_wait_begin_in_the_future() {
        let mut ahead = DatesAhead::default();
        ahead.notice(&done(&[100]), at(50));
        ahead.notice(&done(&[100]), at(10));
        assert_eq!(ahead.counted_from(at(100), at(10)), at(10));
    }
}
