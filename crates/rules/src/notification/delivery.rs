//! When a message is tried again, when it is given up, and what a channel says of it.

use std::time::Duration;

use flagship_api::condition::{Generation, draft};
use flagship_api::notification_channel::NotificationChannelStatus;
use flagship_base::backoff::Backoff;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Waits between tries.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };

/// How long a message is tried.
pub const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// The condition of a channel.
pub const READY: &str = "Ready";
/// What is told arrives.
pub const DELIVERED: &str = "Delivered";
/// The last try failed; it is tried again.
pub const DELIVERY_FAILED: &str = "DeliveryFailed";
/// The hub may not go where the channel points, or not with that Secret.
pub const REFUSED: &str = "Refused";
/// The hub keeps no records, so there is nothing to tell.
pub const NO_RECORDS: &str = "NoRecords";

/// Why a message did not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Somebody has to change something first.
    Refused(String),
    /// It may work the next time.
    Failed(String),
}

impl Trouble {
    /// In words.
    pub fn told(&self) -> &str {
        match self {
            Self::Refused(why) | Self::Failed(why) => why,
        }
    }
}

/// How long to wait after so many tries in a row that failed.
pub fn wait(failures: u32) -> Duration {
    BACKOFF.after(failures.saturating_sub(1))
}

/// As times are written.
pub fn second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Notes that a message has arrived.
pub fn delivered(status: &mut NotificationChannelStatus, generation: i64, now: Timestamp) {
    status.delivered += 1;
    arrives(status, generation, now);
}

/// Notes that what is sent arrives, whatever it was.
pub fn arrives(status: &mut NotificationChannelStatus, generation: i64, now: Timestamp) {
    (status.last_error, status.failing_since) = (None, None);
    let told = draft(READY).is_true(DELIVERED).because("the last message was taken");
    told.set(&mut status.conditions, Generation(generation), now);
}

/// Notes that a message about something of this time has not arrived. Whether to give it up:
/// it was tried for an hour, or has waited as long behind others that were.
pub fn failed(
    status: &mut NotificationChannelStatus,
    generation: i64,
    why: &Trouble,
    about: Timestamp,
    now: Timestamp,
) -> bool {
    let since = status.failing_since.as_ref().map_or(now, |since| since.0);
    status.failing_since = Some(Time(second(since)));
    let gives_up = now.duration_since(second(since).max(second(about))) >= PATIENCE;
    status.failed += i64::from(gives_up);
    does_not_arrive(status, generation, why, now);
    gives_up
}

/// Notes that what is sent does not arrive, whatever it was.
pub fn does_not_arrive(
    status: &mut NotificationChannelStatus,
    generation: i64,
    why: &Trouble,
    now: Timestamp,
) {
    let text: String = why.told().chars().take(1000).collect();
    let reason = match why {
        Trouble::Refused(_) => REFUSED,
        Trouble::Failed(_) => DELIVERY_FAILED,
    };
    let told = draft(READY).is_false(reason).because(text.clone());
    told.set(&mut status.conditions, Generation(generation), now);
    status.last_error = Some(text);
}

/// Says that there is nothing to tell.
pub fn without_records(status: &mut NotificationChannelStatus, generation: i64, now: Timestamp) {
    let told = draft(READY).is_false(NO_RECORDS);
    let told = told.because(
        "channels tell what rollout records say, and the hub keeps none; start it without --rollout-records=Off",
    );
    told.set(&mut status.conditions, Generation(generation), now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let waits: Vec<u64> = (1..12).map(|failures| wait(failures).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn a_message_is_given_up_after_an_hour_of_tries() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let mut status = NotificationChannelStatus::default();
        let down = Trouble::Failed("connection refused".to_owned());
        // The hub was away for long: what is old is tried for an hour all the same.
        assert!(!failed(&mut status, 1, &down, at(-9999), at(0)));
        assert!(!failed(&mut status, 1, &down, at(-9999), at(3599)));
        assert!(failed(&mut status, 1, &down, at(-9999), at(3600)));
        // What came later gets its hour, too.
        assert!(!failed(&mut status, 1, &down, at(3000), at(3601)));
        assert!(failed(&mut status, 1, &down, at(3000), at(6600)));
        assert_eq!(status.failed, 2);
        assert_eq!(status.conditions[0].reason, DELIVERY_FAILED);
        delivered(&mut status, 1, at(6700));
        assert_eq!((status.delivered, status.last_error, status.failing_since), (1, None, None));
        assert_eq!(status.conditions[0].status, "True");
    }
}
