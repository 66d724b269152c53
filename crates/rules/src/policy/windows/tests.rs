//! Windows as tables: each row is a moment in UTC, and whether a cluster may begin.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::policy::Labels;

fn policy(name: &str, windows: Value) -> Policy {
    let spec = serde_json::from_value(json!({"windows": windows})).unwrap();
    Policy { name: name.to_owned(), spec }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn shown(opening: &Opening) -> String {
    match opening {
        Opening::Open { until: None } => "open".to_owned(),
        Opening::Open { until: Some(until) } => format!("open until {until}"),
        Opening::Closed { opens: None, told } => told.clone(),
        Opening::Closed { opens: Some(opens), told } => format!("{told} = {opens}"),
    }
}

fn seen(windows: &Value, now: &str) -> String {
    let policy = policy("p", windows.clone());
    shown(&opening(&[&policy], &|_| None, "m1", at(now)))
}

#[test]
fn days_and_hours_of_a_week() {
    let berlin = json!([{"allow": "Mon-Thu 09:00-16:00", "timeZone": "Europe/Berlin"}]);
    let table = [
        // Monday in winter, an hour ahead of UTC.
        (
            &berlin,
            "2026-11-16T07:59:59Z",
            "closed until Mon 09:00 Europe/Berlin (policy p) = 2026-11-16T08:00:00Z",
        ),
        (&berlin, "2026-11-16T08:00:00Z", "open until 2026-11-16T15:00:00Z"),
        (
            &berlin,
            "2026-11-16T15:00:00Z",
            "closed until Tue 09:00 Europe/Berlin (policy p) = 2026-11-17T08:00:00Z",
        ),
        // Thursday evening to Monday.
        (
            &berlin,
            "2026-11-19T16:00:00Z",
            "closed until Mon 09:00 Europe/Berlin (policy p) = 2026-11-23T08:00:00Z",
        ),
    ];
    for (windows, now, told) in table {
        assert_eq!(seen(windows, now), told, "{now}");
    }
}

#[test]
fn a_window_over_midnight_belongs_to_the_day_it_begins() {
    let night = json!([{"allow": "Fri 22:00-04:00"}]);
    let table = [
        ("2026-11-20T21:59:00Z", "closed until Fri 22:00 UTC (policy p) = 2026-11-20T22:00:00Z"),
        ("2026-11-20T22:00:00Z", "open until 2026-11-21T04:00:00Z"),
        ("2026-11-21T03:59:59Z", "open until 2026-11-21T04:00:00Z"),
        (
            "2026-11-21T04:00:00Z",
            "closed until Fri 2026-11-27 22:00 UTC (policy p) = 2026-11-27T22:00:00Z",
        ),
        // Thursday's night does not count.
        ("2026-11-20T03:00:00Z", "closed until Fri 22:00 UTC (policy p) = 2026-11-20T22:00:00Z"),
    ];
    for (now, told) in table {
        assert_eq!(seen(&night, now), told, "{now}");
    }
    // Over the end of the week and of the year.
    let turn = json!([{"allow": "Sun 23:00-01:00"}]);
    assert_eq!(seen(&turn, "2026-11-23T00:30:00Z"), "open until 2026-11-23T01:00:00Z");
    let sylvester = json!([{"allow": "23:00-01:00", "timeZone": "Asia/Tokyo"}]);
    assert_eq!(seen(&sylvester, "2026-12-31T15:30:00Z"), "open until 2026-12-31T16:00:00Z");
}

/// What a window of each night says around the hours at which clocks are set.
#[test]
fn both_nights_of_daylight_saving_in_three_zones() {
    let table = [
        // Berlin leaves out 02:00 to 03:00 on 29 March and repeats it on 25 October 2026.
        ("Europe/Berlin", "01:30-02:30", "2026-03-29T00:30:00Z", "open until 2026-03-29T01:00:00Z"),
        (
            "Europe/Berlin",
            "01:30-02:30",
            "2026-03-29T01:00:00Z",
            "closed until Mon 01:30 Europe/Berlin (policy p) = 2026-03-29T23:30:00Z",
        ),
        (
            "Europe/Berlin",
            "02:30-04:00",
            "2026-03-29T00:59:59Z",
            "closed until Sun 03:00 Europe/Berlin (policy p) = 2026-03-29T01:00:00Z",
        ),
        ("Europe/Berlin", "02:30-04:00", "2026-03-29T01:00:00Z", "open until 2026-03-29T02:00:00Z"),
        (
            "Europe/Berlin",
            "02:10-02:50",
            "2026-03-28T22:00:00Z",
            "closed until Mon 02:10 Europe/Berlin (policy p) = 2026-03-30T00:10:00Z",
        ),
        ("Europe/Berlin", "02:10-02:50", "2026-10-25T00:10:00Z", "open until 2026-10-25T00:50:00Z"),
        (
            "Europe/Berlin",
            "02:10-02:50",
            "2026-10-25T00:50:00Z",
            "closed until Sun 02:10 Europe/Berlin (policy p) = 2026-10-25T01:10:00Z",
        ),
        (
            "Europe/Berlin",
            "02:10-02:50",
            "2026-10-25T01:50:00Z",
            "closed until Mon 02:10 Europe/Berlin (policy p) = 2026-10-26T01:10:00Z",
        ),
        ("Europe/Berlin", "01:00-03:00", "2026-10-24T23:00:00Z", "open until 2026-10-25T02:00:00Z"),
        // New York: 8 March and 1 November 2026.
        (
            "America/New_York",
            "01:00-05:00",
            "2026-03-08T06:00:00Z",
            "open until 2026-03-08T09:00:00Z",
        ),
        (
            "America/New_York",
            "02:15-02:45",
            "2026-03-08T06:30:00Z",
            "closed until Mon 02:15 America/New_York (policy p) = 2026-03-09T06:15:00Z",
        ),
        (
            "America/New_York",
            "00:30-01:30",
            "2026-11-01T04:30:00Z",
            "open until 2026-11-01T05:30:00Z",
        ),
        (
            "America/New_York",
            "00:30-01:30",
            "2026-11-01T05:30:00Z",
            "closed until Sun 01:00 America/New_York (policy p) = 2026-11-01T06:00:00Z",
        ),
        (
            "America/New_York",
            "00:30-01:30",
            "2026-11-01T06:00:00Z",
            "open until 2026-11-01T06:30:00Z",
        ),
        // Lord Howe sets its clocks by half an hour: 5 April and 4 October 2026.
        (
            "Australia/Lord_Howe",
            "01:00-02:00",
            "2026-04-04T14:00:00Z",
            "open until 2026-04-04T15:30:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "02:00-02:30",
            "2026-10-03T15:00:00Z",
            "closed until Mon 02:00 Australia/Lord_Howe (policy p) = 2026-10-04T15:00:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "02:15-03:00",
            "2026-10-03T15:30:00Z",
            "open until 2026-10-03T16:00:00Z",
        ),
    ];
    for (zone, hours, now, told) in table {
        let windows = json!([{"allow": hours, "timeZone": zone}]);
        assert_eq!(seen(&windows, now), told, "{zone} {hours} at {now}");
        // What is denied is open where what is allowed is closed.
        let denied = json!([{"deny": hours, "timeZone": zone}]);
        assert_eq!(
            seen(&denied, now).starts_with("open"),
            !told.starts_with("open"),
            "{zone} {now}"
        );
    }
}

#[test]
fn days_of_the_calendar_and_a_leap_day() {
    let leap = json!([{"allow": "2028-02-28/2028-02-29", "timeZone": "Europe/Berlin"}]);
    let holidays = json!([{"allow": "Mon-Fri 09:00-16:00", "timeZone": "Europe/Berlin"},
        {"deny": "2026-12-20/2027-01-03", "timeZone": "Europe/Berlin"}]);
    let hours = json!([{"deny": "2026-12-24T12:00/2026-12-24T18:30"}]);
    let table = [
        (
            &leap,
            "2028-02-27T22:59:59Z",
            "closed until Mon 00:00 Europe/Berlin (policy p) = 2028-02-27T23:00:00Z",
        ),
        (&leap, "2028-02-29T12:00:00Z", "open until 2028-02-29T23:00:00Z"),
        (&leap, "2028-02-29T23:00:00Z", "closed, and no window opens again (policy p)"),
        (&holidays, "2026-12-18T14:00:00Z", "open until 2026-12-18T15:00:00Z"),
        (
            &holidays,
            "2026-12-18T15:00:00Z",
            "closed until Mon 2027-01-04 09:00 Europe/Berlin (policy p) = 2027-01-04T08:00:00Z",
        ),
        (
            &holidays,
            "2027-01-03T22:59:59Z",
            "closed until Mon 09:00 Europe/Berlin (policy p) = 2027-01-04T08:00:00Z",
        ),
        (&hours, "2026-12-24T11:00:00Z", "open until 2026-12-24T12:00:00Z"),
        (
            &hours,
            "2026-12-24T12:00:00Z",
            "closed until Thu 18:30 UTC (policy p) = 2026-12-24T18:30:00Z",
        ),
        (&hours, "2026-12-24T18:30:00Z", "open"),
    ];
    for (windows, now, told) in table {
        assert_eq!(seen(windows, now), told, "{now}");
    }
    // The 29th of February is every day's neighbour in such a year only.
    let weekly = json!([{"allow": "Tue 22:00-02:00"}]);
    assert_eq!(seen(&weekly, "2028-02-29T23:00:00Z"), "open until 2028-03-01T02:00:00Z");
    assert!(mistakes(&policy("p", json!([{"allow": "2027-02-28/2027-02-29"}]))).is_some());
}

#[test]
fn clusters_have_zones_of_their_own() {
    let local = json!([{"allow": "02:00-05:00", "timeZoneLabel": "example.com/zone"}]);
    let policy = policy("night", local);
    let cluster = |name: &str, zone: Option<&str>| {
        let labels = zone.map(|zone| ("example.com/zone".to_owned(), zone.to_owned()));
        Arc::new(Cluster {
            name: name.to_owned(),
            labels: labels.into_iter().collect(),
            ..Cluster::default()
        })
    };
    let adopted = Adopted::of([&policy], &Labels::default(), &["prod"]).unwrap();
    let now = at("2026-11-16T02:30:00Z");
    let mut calendar = Calendar::of(Some(&adopted), "prod", now).unwrap();
    let table = [
        (cluster("fra", Some("Europe.Berlin")), "open until 2026-11-16T04:00:00Z"),
        (
            cluster("nyc", Some("America.New_York")),
            "closed until Mon 02:00 America/New_York (policy night) = 2026-11-16T07:00:00Z",
        ),
        (
            cluster("tyo", Some("Asia.Tokyo")),
            "closed until Tue 02:00 Asia/Tokyo (policy night) = 2026-11-16T17:00:00Z",
        ),
        (cluster("utc", Some("UTC")), "open until 2026-11-16T05:00:00Z"),
        (
            cluster("odd", Some("Mars.Olympus")),
            "closed: label example.com/zone of cluster `odd` is `Mars.Olympus`, which is not a time zone; write its IANA name with . for /, such as Europe.Berlin (policy night)",
        ),
        (
            cluster("new", None),
            "closed: cluster `new` has no label example.com/zone with its time zone (policy night)",
        ),
    ];
    for (cluster, told) in &table {
        assert_eq!(shown(calendar.opening(&cluster.name, Some(cluster))), *told);
    }
    let fleet: Vec<_> = table.iter().map(|(cluster, _)| cluster.clone()).collect();
    assert!(calendar.is_open("fra", &fleet) && !calendar.is_open("nyc", &fleet));
    assert!(!calendar.is_open("unknown", &fleet), "one that is not known is closed");
}

#[test]
fn the_week_to_come_has_its_openings_night_of_daylight_saving_included() {
    // The night of 2026-10-25 is an hour longer in Berlin, and its window, too.
    let policy = policy(
        "night",
        json!([{"allow": "01:00-04:00", "timeZone": "Europe/Berlin"},
               {"deny": "2026-10-26/2026-10-28"}]),
    );
    let adopted = Adopted::of([&policy], &Labels::default(), &["prod"]).unwrap();
    let calendar = Calendar::of(Some(&adopted), "prod", at("2026-10-24T00:00:00Z")).unwrap();
    let shown = |days| -> Vec<String> {
        let spans = calendar.openings("fra", None, days);
        spans.iter().map(|span| format!("{} {}", span.from, span.until)).collect()
    };
    assert_eq!(
        shown(6),
        [
            "2026-10-24T00:00:00Z 2026-10-24T02:00:00Z",
            "2026-10-24T23:00:00Z 2026-10-25T03:00:00Z",
            "2026-10-29T00:00:00Z 2026-10-29T03:00:00Z",
        ]
    );
    assert_eq!(shown(0), [] as [String; 0]);
}

#[test]
fn of_several_policies_all_must_be_open() {
    let day = policy("day", json!([{"allow": "Mon-Fri 09:00-17:00"}]));
    let late = policy("late", json!([{"allow": "16:00-20:00"}, {"deny": "Fri"}]));
    let told = |now| shown(&opening(&[&day, &late], &|_| None, "m1", at(now)));
    assert_eq!(
        told("2026-11-16T10:00:00Z"),
        "closed until Mon 16:00 UTC (policy late) = 2026-11-16T16:00:00Z"
    );
    assert_eq!(told("2026-11-16T16:30:00Z"), "open until 2026-11-16T17:00:00Z");
    // On Thursday evening both are closed, and Friday is nobody's.
    assert_eq!(
        told("2026-11-19T21:00:00Z"),
        "closed until Mon 16:00 UTC (policy day, late) = 2026-11-23T16:00:00Z"
    );
    let night = policy("night", json!([{"allow": "22:00-04:00"}]));
    let refused = Adopted::of([&day, &night], &Labels::default(), &["prod"]).unwrap_err();
    assert_eq!(
        refused,
        "the windows of rollout policies `day` and `night` have no moment in common for stage `prod`; change one of them, or what it selects"
    );
}

#[test]
fn what_cannot_be_followed_is_refused_with_a_sentence() {
    let never = "spec.windows: no moment is open, what allows is denied by the rest; leave one of them out or change its hours";
    let table = [
        (json!([{"allow": "Mon-Thu 09:00-16:00", "timeZone": "Europe/Berlin"}]), ""),
        (json!([{"allow": "Sat,Sun"}, {"deny": "12:00-13:00"}]), ""),
        (json!([{"deny": "2026-12-20/2027-01-03"}]), ""),
        (json!([{"allow": "02:00-05:00", "timeZoneLabel": "zone"}]), ""),
        (json!([{"allow": "Mon 09:00-10:00"}, {"deny": "Mon"}]), never),
        (json!([{"deny": "Mon-Sun"}]), never),
        (
            json!([{"allow": "09:00-10:00", "timeZone": "Europe/Berlin"}, {"deny": "07:00-09:00"}]),
            never,
        ),
        (json!([{"allow": "2026-12-24/2026-12-26"}, {"deny": "2026-12-20/2027-01-03"}]), never),
        (
            json!([{"allow": "09:00-10:00", "timeZone": "Europe/Atlantis"}]),
            "spec.windows[0]: `Europe/Atlantis` is not a time zone; write its IANA name, such as Europe/Berlin",
        ),
        (
            json!([{"deny": "Sat"}, {"allow": "morning"}]),
            "spec.windows[1]: `morning` cannot be read; write days, hours or both, such as Mon-Thu 09:00-16:00, or two days of the calendar, such as 2026-12-20/2027-01-03",
        ),
    ];
    for (windows, told) in table {
        let found = mistakes(&policy("p", windows.clone())).unwrap_or_default();
        assert_eq!(found, told, "{windows}");
    }
    for text in [
        "25:00-26:00",
        "09:00",
        "Mon-",
        "2026-12-20",
        "2027-01-03/2026-12-20",
        "24:00-01:00",
        "9:00-10:00",
        "",
    ] {
        assert_eq!(hours(text), None, "{text}");
    }
}

#[test]
fn a_rollback_waits_for_no_window() {
    let policy = policy("day", json!([{"allow": "Mon"}]));
    let mut adopted = Adopted::of([&policy], &Labels::default(), &["prod"]).unwrap();
    let now = at("2026-11-17T12:00:00Z");
    assert!(Calendar::of(Some(&adopted), "prod", now).is_some());
    adopted.undoes = Some(crate::policy::Undoes { run: "r".into(), uid: "u".into() });
    assert!(Calendar::of(Some(&adopted), "prod", now).is_none());
}
