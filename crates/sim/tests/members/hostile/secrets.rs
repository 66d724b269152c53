//! What Secrets hold is looked for everywhere it must not be: statuses, events, logs and
//! metrics, through everything that can happen to a Secret on its way.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;

use flagship_apiserver::rest::Review;
use flagship_sim::fleet::FleetConfig;
use flagship_store::Scope;
use serde_json::{Value, json};

use crate::hostile::scene::*;

/// On the hub, on the member, in an override; each as text and in base64.
const CANARIES: [&str; 6] = [
    "hub-canary",
    "aHViLWNhbmFyeQ==",
    "member-canary",
    "bWVtYmVyLWNhbmFyeQ==",
    "override-canary",
    "b3ZlcnJpZGUtY2FuYXJ5",
];

thread_local! {
    /// What this thread logs; a story under paused time is told on one thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Everything that is logged on this thread, at every level.
struct Log;

impl Log {
    fn listen() {
        static ON: Once = Once::new();
        ON.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(tracing::Level::TRACE)
                .with_ansi(false)
                .with_writer(|| Log)
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
    }

    fn text() -> String {
        LOG.with_borrow(|log| String::from_utf8_lossy(log).into_owned())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn secret(namespace: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "vault", "namespace": namespace}, "data": {"password": value}})
}

/// Every place a canary was found in.
fn found(scene: &Scene) -> Vec<String> {
    let mut seen = Vec::new();
    let mut look = |place: String, text: &str| {
        seen.extend(
            CANARIES
                .iter()
                .filter(|one| text.contains(**one))
                .map(|one| format!("{one} in {place}")),
        );
    };
    for cluster in ["hub", "member1", "member2"] {
        let store = scene.fleet.handle(cluster).store();
        for resource in store.resources() {
            for stored in store.list(&resource, Scope::All).items {
                let object: Value = serde_json::from_slice(&stored.json).unwrap();
                let place = format!("{cluster} {resource} {}", object["metadata"]["name"]);
                let text = match &*resource {
                    // They are about something, all of them.
                    "events" | "events.events.k8s.io" => object.to_string(),
                    // The member keeps what it applied, and nothing else.
                    "appliedworks.placement.kubernetes-fleet.io" => object.to_string(),
                    _ => object["status"].to_string(),
                };
                look(place, &text);
            }
        }
    }
    let log = Log::text();
    for line in log.lines() {
        look(format!("the log: {line}"), line);
    }
    look("metrics".to_owned(), &scene.fleet.metrics.render());
    seen
}

// laws S15
#[tokio::test(start_paused = true)]
async fn what_a_secret_holds_appears_nowhere_else() {
    Log::listen();
    let scene = Scene::with(FleetConfig::of(2)).await;
    let member = scene.member("member1");
    let spaces =
        ["applied", "drifted", "full", "differs", "taken", "wrong-path", "wrong-value", "denied"];
    for name in spaces {
        scene.namespace(name).await;
        scene.hub().apply_object(&secret(name, "aHViLWNhbmFyeQ==")).await;
    }
    for name in ["differs", "taken"] {
        member
            .apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"))
            .await;
        member.apply_object(&secret(name, "bWVtYmVyLWNhbmFyeQ==")).await;
    }
    let place = async |name: &str, strategy: Value| {
        scene.place(name, &[selector("", "v1", "Namespace", name)], strategy).await;
    };
    // Applied, and edited on the member where edits are undone.
    place("applied", json!({})).await;
    scene.becomes("applied", "Available", "True").await;
    member.apply_object(&secret("applied", "bWVtYmVyLWNhbmFyeQ==")).await;

    // Edited where edits stay, and where every field counts.
    place("drifted", json!({"whenToApply": "IfNotDrifted"})).await;
    scene.becomes("drifted", "Available", "True").await;
    member.apply_object(&secret("drifted", "bWVtYmVyLWNhbmFyeQ==")).await;
    place("full", json!({"comparisonOption": "FullComparison"})).await;
    scene.becomes("full", "Available", "True").await;
    let extra = json!({"data": {"more": "bWVtYmVyLWNhbmFyeQ=="}});
    member.patch("secrets", "full", "vault", extra).await;

    // Compared, and not taken over because it differs.
    place("differs", json!({"type": "ReportDiff", "whenToTakeOver": "Never"})).await;
    place("taken", json!({"whenToTakeOver": "IfNoDiff"})).await;

    // Overrides that cannot be applied.
    let value = json!("b3ZlcnJpZGUtY2FuYXJ5 ${MEMBER-CLUSTER-LABEL-KEY-x");
    for (name, path) in
        [("wrong-path", "/data/missing/password"), ("wrong-value", "/data/password")]
    {
        let text = if name == "wrong-path" { json!("override-canary") } else { value.clone() };
        let patch = json!([{"op": "replace", "path": path, "value": text}]);
        let rule =
            json!({"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patch});
        scene
            .hub()
            .apply_object(&json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": "ResourceOverride", "metadata": {"name": "wrong", "namespace": name},
                "spec": {"placement": {"name": name},
                    "resourceSelectors": [{"group": "", "version": "v1", "kind": "Secret", "name": "vault"}],
                    "policy": {"overrideRules": [rule]}}}))
            .await;
        scene.fleet.pass(2).await;
        place(name, json!({})).await;
    }

    // A member that quotes the Secret it refuses, in every way it may be written.
    let secrets = |review: &Review<'_>| {
        let concerned = review.resource == "secrets" && review.namespace == "denied";
        concerned.then(|| format!("I do not like {}, nor hub-canary", review.object))
    };
    scene.hook("member1", Hook { refuses: Some(Box::new(secrets)), ..Hook::default() });
    place("denied", json!({})).await;
    let told = scene.failing_on("denied", "member1").await;
    assert!(told.contains("I do not like"), "{told}");
    assert!(told.contains("(redacted for security reasons)"), "{told}");

    let told = scene.failing_on("drifted", "member1").await;
    let redacted =
        "/data/password member=(redacted for security reasons) hub=(redacted for security reasons)";
    assert!(told.contains(redacted), "{told}");
    let told = scene.failing_on("taken", "member1").await;
    assert!(told.contains(redacted), "{told}");
    scene.becomes("differs", "DiffReported", "True").await;
    assert!(scene.told("differs", "member1").await.contains(redacted));
    scene.becomes("wrong-path", "Overridden", "False").await;
    scene.becomes("wrong-value", "Overridden", "False").await;
    let told = scene.told("wrong-value", "member1").await;
    assert!(told.contains("input (redacted for security reasons) is missing"), "{told}");

    // A hub that quotes the Work it refuses.
    let works = |review: &Review<'_>| {
        let concerned = review.kind == "Work" && review.subresource.is_empty();
        (concerned && review.name == "denied-work")
            .then(|| format!("I do not like {}, nor hub-canary", review.object))
    };
    scene.hook("hub", Hook { refuses: Some(Box::new(works)), ..Hook::default() });
    scene.map("denied", "new", json!({})).await;
    scene.becomes("denied", "WorkSynchronized", "False").await;
    let told = scene.told("denied", "member1").await;
    assert!(told.contains("I do not like"), "{told}");

    // Gone again, with what is left over and what was refused.
    scene.hook("hub", Hook::default());
    scene.hub().delete("secrets", "applied", "vault").await;
    member.goes("secrets", "applied", "vault").await;
    for name in spaces {
        scene.hub().delete(CRP, "", name).await;
    }
    scene.fleet.pass(120).await;
    assert_eq!(found(&scene), Vec::<String>::new());
    // The log was on, and told of everything.
    for said in
        ["mirroring a type", "waiting until somebody changes something", "trying again later"]
    {
        assert!(Log::text().contains(said), "{said}");
    }
}
