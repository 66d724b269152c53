//! What is kept of freezes and notification channels. Policies are read from the server when a
//! run is initialized.

use flagship_api::freeze;
use flagship_api::keys::own;
use flagship_api::notification_channel::{
    NotificationChannel, NotificationChannelSpec, NotificationChannelStatus,
};
use flagship_rules::policy::Freeze;
use flagship_runtime::client::Precondition;
use flagship_runtime::reflector::Store;
use jiff::Timestamp;

use super::Set;

/// What is kept of a notification channel.
#[derive(Debug, PartialEq)]
pub(crate) struct Channel {
    pub precondition: Precondition,
    pub created: Timestamp,
    pub generation: i64,
    /// Names the message that somebody wants by way of a test.
    pub asked: Option<String>,
    pub spec: NotificationChannelSpec,
    pub status: NotificationChannelStatus,
}

impl Channel {
    /// What people ask of it.
    pub fn asks(&self) -> (&str, i64, Option<&str>) {
        (&self.precondition.uid, self.generation, self.asked.as_deref())
    }
}

pub(super) fn mirror(set: &mut Set<'_>) -> Store<Freeze> {
    let freezes = set.mirror(|object: freeze::Freeze| Some(Freeze::read(&object)));
    set.add(freezes)
}

pub(super) fn channels(set: &mut Set<'_>) -> Store<Channel> {
    let channels = set.mirror(|object: NotificationChannel| {
        let meta = &object.metadata;
        let annotations = meta.annotations.as_ref();
        Some(Channel {
            precondition: Precondition::of(&object)?,
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            generation: meta.generation.unwrap_or_default(),
            asked: annotations.and_then(|all| all.get(own::TEST_NOTIFICATION)).cloned(),
            spec: object.spec,
            status: object.status.unwrap_or_default(),
        })
    });
    set.add(channels)
}
