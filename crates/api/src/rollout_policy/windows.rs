//! The section `windows` of a policy: when clusters may begin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rules;

/// A time at which clusters may begin, or may not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "has(self.allow) != has(self.deny)",
        "a window either allows or denies: set allow or deny, and not both",
    ),
    (
        "!has(self.timeZone) || !has(self.timeZoneLabel)",
        "a window is read in one time zone: set timeZone or timeZoneLabel, and not both",
    ),
])))]
pub struct Window {
    /// When clusters may begin, such as Mon-Thu 09:00-16:00 or 2026-12-20/2027-01-03.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = rules(WINDOW)))]
    pub allow: Option<String>,

    /// No cluster may begin within this time, whatever allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = rules(WINDOW)))]
    pub deny: Option<String>,

    /// The time zone by its IANA name, such as Europe/Berlin; left out, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,

    /// The label of MemberClusters with the zone of each, such as Europe.Berlin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub time_zone_label: Option<String>,
}

const WINDOW: &[(&str, &str)] = &[(
    "self.matches('^(((Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?(,(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?)*)( ([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00))?|([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00))$') || self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}(T([01][0-9]|2[0-3]):[0-5][0-9])?/[0-9]{4}-[0-9]{2}-[0-9]{2}(T([01][0-9]|2[0-3]):[0-5][0-9])?$')",
    "must be days, hours or both, such as Mon-Thu 09:00-16:00, 22:00-04:00 or Sat,Sun, or two days of the calendar, such as 2026-12-20/2027-01-03",
)];
