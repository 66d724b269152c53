//! Windows of policies on a hub with all its controllers, over a week.

use flagship_fleet::HubAdmission;
use serde_json::{Value, json};

use super::clusters::policy;
use super::records::told;
use crate::update_run::story::{CLUSTER, SCOPES, Story};
use flagship_sim::testing::TestHub;

const ZONE: &str = "example.com/zone";

async fn zone(story: &Story, cluster: &str, zone: &str) {
    let labels = json!({"metadata": {"labels": {ZONE: zone}}});
    story.patch("memberclusters.cluster.kubernetes-fleet.io", "", cluster, labels).await;
}

/// When a cluster of a stage began, to the minute.
fn begun(story: &Story, stage: &str, cluster: &str) -> String {
    let stage = story.stage("r", stage);
    let mut clusters = stage["clusters"].as_array().into_iter().flatten();
    let found = clusters.find(|found| found["clusterName"] == cluster).expect("it is planned");
    let mut told = found["conditions"].as_array().into_iter().flatten();
    let started = told.find(|told| told["type"] == "Started");
    let at = started.and_then(|told| told["lastTransitionTime"].as_str()).unwrap_or_default();
    at.chars().take(16).collect()
}

/// Lets the hub be away until a moment: what is to be done then is in what is stored.
async fn away_until(story: &mut Story, moment: &str) {
    story.kill("hub").await;
    let moment: jiff::Timestamp = moment.parse().expect("a moment");
    let left = moment.duration_since(story.env.now()).as_secs();
    story.pass(u64::try_from(left).expect("it is to come")).await;
    story.start_as("hub").await;
}

/// Before dawn of one day of the week, where each cluster is. A story begins on a Thursday.
#[tokio::test(start_paused = true)]
async fn a_week_in_which_each_cluster_begins_when_its_own_clock_says_so() {
    let mut story = Story::begin(CLUSTER).await;
    for (cluster, name) in
        [("m1", "America.New_York"), ("m2", "Asia.Tokyo"), ("m3", "Europe.Berlin")]
    {
        zone(&story, cluster, name).await;
    }
    let windows = json!([{"allow": "Wed 02:00-05:00", "timeZoneLabel": ZONE}]);
    policy(&story, "night", json!({"windows": windows})).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    let closed = |zone: &str| {
        format!("False UpdateRunWindowClosed: closed until Wed 02:00 {zone} (policy night)")
    };
    assert_eq!(story.said("r", "Progressing"), closed("Asia/Tokyo"));
    away_until(&mut story, "2026-01-06T16:58:00Z").await;
    assert_eq!(story.said("r", "Progressing"), closed("Asia/Tokyo"));
    assert_eq!(story.holds()[1], "m2 Scheduled");
    story.pass(180).await;
    assert_eq!(begun(&story, "canary", "m2"), "2026-01-06T17:00", "at once when it opens");
    story.works("m2").await;
    story.settle().await;
    assert_eq!(story.said("r", "Progressing"), closed("Europe/Berlin"));
    away_until(&mut story, "2026-01-07T00:58:00Z").await;
    story.pass(180).await;
    // One at a time, and New York is first by name: who waits for a window holds no slot.
    assert_eq!(begun(&story, "prod", "m3"), "2026-01-07T01:00");
    assert_eq!(story.holds()[0], "m1 Scheduled");
    story.works("m3").await;
    story.settle().await;
    assert_eq!(story.said("r", "Progressing"), closed("America/New_York"));
    away_until(&mut story, "2026-01-07T06:58:00Z").await;
    story.pass(180).await;
    assert_eq!(begun(&story, "prod", "m1"), "2026-01-07T07:00");
    story.works("m1").await;
    story.settle().await;
    assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.said("r", "Succeeded"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_known_zone_waits_and_a_label_lets_it_go_on() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let windows = json!([{"deny": "2020-01-01/2020-01-02", "timeZoneLabel": ZONE}]);
        policy(&story, "local", json!({"windows": windows})).await;
        zone(&story, "m2", "Mars.Olympus").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(
            story.said("r", "Progressing"),
            "False UpdateRunWindowClosed: closed: label example.com/zone of cluster `m2` is `Mars.Olympus`, which is not a time zone; write its IANA name with . for /, such as Europe.Berlin (policy local)"
        );
        assert_eq!(story.holds()[1], "m2 Scheduled", "never open because nobody knows");
        for cluster in ["m1", "m2", "m3"] {
            zone(&story, cluster, "UTC").await;
        }
        story.pass(600).await;
        assert!(story.holds()[1].starts_with("m2 Bound"), "{:?}", story.holds());
    }
}

/// Clusters under way finish, whatever closes meanwhile; an edit changes no run under way.
#[tokio::test(start_paused = true)]
async fn what_was_begun_finishes_after_the_window_has_closed() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        let soon = story.env.now().saturating_add(jiff::SignedDuration::from_mins(5)).unwrap();
        let closes = soon.to_string()[..16].to_owned();
        let windows = json!([{"deny": format!("{closes}/2100-01-01")}]);
        policy(&story, "short", json!({"windows": windows})).await;
        story.run("r", json!({"state": "Run"})).await;
        assert!(story.holds()[1].starts_with("m2 Bound"));
        story.pass(600).await;
        story.works("m2").await;
        assert!(story.stage("r", "canary")["endTime"].is_string(), "what was begun finishes");
        assert_eq!(
            story.said("r", "Progressing"),
            "False UpdateRunWindowClosed: closed until Sat 2100-01-02 00:00 UTC (policy short)"
        );
        let open = json!({"spec": {"windows": []}});
        story.patch("rolloutpolicies.flagship.dev", "", "short", open).await;
        story.pass(900).await;
        assert_eq!(story.holds()[0], "m1 Scheduled", "the run keeps the policy it began with");
    }
}

/// The record tells when no window was open, and when one was again: once each, however often
/// the hub looks, and not again after a stop in between.
#[tokio::test(start_paused = true)]
async fn a_record_tells_each_closing_and_each_opening_once() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let windows = json!([{"allow": "02:00-05:00"}]);
        policy(&story, "night", json!({"windows": windows})).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let closed = "False UpdateRunWindowClosed: closed until Thu 02:00 UTC (policy night)";
        assert_eq!(story.said("r", "Progressing"), closed);
        story.set_state("r", "Stop").await;
        story.set_state("r", "Run").await;
        story.pass(3600).await;
        let begins = "1 Planned  by user ManagedFields\n2 Started  by user ManagedFields\n3 WindowClosed \n4 Stopped  by user ManagedFields\n5 Resumed  by user ManagedFields\n";
        assert_eq!(told(&story, "r"), begins);
        // A story begins at midnight of a Thursday.
        let opens: jiff::Timestamp = "2026-01-01T02:00:10Z".parse().expect("a moment");
        let left = opens.duration_since(story.env.now()).as_secs();
        story.pass(u64::try_from(left).expect("it is to come")).await;
        let opened =
            format!("{begins}6 WindowOpened \n7 StageBegan canary\n8 ClusterBegan canary m2\n");
        assert_eq!(told(&story, "r"), opened);
    }
}

#[tokio::test(start_paused = true)]
async fn windows_that_cannot_be_followed_are_refused() {
    let hub = TestHub::new(1).await;
    HubAdmission::install(&hub.hub, &hub.options);
    let refused = "admission webhook \"flagship.rolloutpolicy.validating\" denied the request: ";
    let table: [(Value, &str); 8] = [
        (
            json!([{"allow": "Mon-Thu 09:00-16:00", "timeZone": "Europe/Berlin"},
            {"deny": "2026-12-20/2027-01-03"},
            {"allow": "02:00-05:00", "timeZoneLabel": ZONE}]),
            "",
        ),
        (json!([{"allow": "Sat,Sun"}, {"allow": "Mon-Fri 22:00-04:00"}]), ""),
        (json!([{"allow": "Mon", "deny": "Tue"}]), "set allow or deny, and not both"),
        (json!([{}]), "set allow or deny, and not both"),
        (
            json!([{"allow": "Mon", "timeZone": "UTC", "timeZoneLabel": "z"}]),
            "set timeZone or timeZoneLabel, and not both",
        ),
        (
            json!([{"allow": "at night"}]),
            "must be days, hours or both, such as Mon-Thu 09:00-16:00",
        ),
        (
            json!([{"allow": "Mon 09:00-10:00"}, {"deny": "Mon"}]),
            &format!(
                "{refused}spec.windows: no moment is open, what allows is denied by the rest; leave one of them out or change its hours"
            ),
        ),
        (
            json!([{"allow": "Mon", "timeZone": "Europe/Atlantis"}]),
            &format!(
                "{refused}spec.windows[0]: `Europe/Atlantis` is not a time zone; write its IANA name, such as Europe/Berlin"
            ),
        ),
    ];
    for (at, (windows, why)) in table.into_iter().enumerate() {
        let told =
            super::api::made(&hub.user, "rpol", &format!("p{at}"), json!({"windows": windows}))
                .await
                .err()
                .unwrap_or_default();
        assert!(told.contains(why) && told.is_empty() == why.is_empty(), "{windows}\n{told}");
    }
}
