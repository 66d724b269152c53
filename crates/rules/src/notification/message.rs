//! What is sent: a CloudEvent, a text for Slack, or plain JSON.

use flagship_api::names::ObjectKey;
use flagship_api::notification_channel::{ChannelType, RunEvent};
use flagship_api::rollout_record::RecordEntry;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AboutRun, Notice};

/// What is sent, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same for the same transition, however often it is sent.
    pub id: String,
    /// The Content-Type.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

/// How a channel wants its messages, and where people find the console.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// The form.
    pub kind: ChannelType,
    /// The text, with fields.
    pub template: Option<&'a str>,
    /// Where the console is, such as `https://flagship.example.com`.
    pub console: Option<&'a str>,
}

/// The fields that a template may have, in the order of the documentation.
const FIELDS: [&str; 10] =
    ["event", "run", "placement", "snapshot", "stage", "cluster", "text", "who", "next", "link"];

/// What is sent for a transition of a run.
pub fn message(form: Form<'_>, about: &AboutRun, notice: &Notice) -> Message {
    let key = about.key.clone().unwrap_or_else(|| ObjectKey::cluster(""));
    let entry = &notice.entry;
    let id = format!("{}-{}", about.uid, entry.n);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let fields = json!({
        "event": notice.event,
        "n": entry.n,
        "time": time(entry.time.0),
        "run": key.to_string(),
        "uid": about.uid,
        "placement": about.placement,
        "strategy": about.strategy,
        "snapshot": about.snapshot,
        "stage": text(&entry.stage),
        "cluster": text(&entry.cluster),
        "gate": text(&entry.gate),
        "cause": text(&entry.cause),
        "text": text(&entry.text),
        "who": entry.who.as_ref().map_or("", |who| &who.name),
        "next": next(&key, notice.event, entry),
        "link": form.console.map_or_else(String::new, |base| link(base, &key)),
    });
    let kind = format!("dev.flagship.run.{}", kebab(notice.event));
    written(form, id, &kind, &source(&key), &key.to_string(), entry.time.0, fields)
}

/// What is sent when somebody wants to know whether a channel works.
pub fn test(form: Form<'_>, channel: &str, id: &str, now: Timestamp) -> Message {
    let fields = json!({
        "event": "Test",
        "time": time(now),
        "text": format!("Flagship tests notification channel {channel}; nothing has happened"),
        "next": format!("kubectl --context hub get notificationchannel {channel}"),
        "link": form.console.unwrap_or_default(),
    });
    let source = format!("/apis/flagship.dev/v1alpha1/notificationchannels/{channel}");
    let id = format!("test-{id}");
    written(form, id, "dev.flagship.channel.test", &source, channel, now, fields)
}

fn written(
    form: Form<'_>,
    id: String,
    kind: &str,
    source: &str,
    subject: &str,
    at: Timestamp,
    mut fields: Value,
) -> Message {
    if let Some(all) = fields.as_object_mut() {
        all.retain(|_, value| value != "");
    }
    let told = match form.template {
        Some(template) => filled(template, &fields),
        None => in_words(&fields, form.kind == ChannelType::Slack),
    };
    let (content_type, body) = match form.kind {
        ChannelType::CloudEvents => (
            "application/cloudevents+json; charset=UTF-8",
            json!({
                "specversion": "1.0",
                "id": id,
                "source": source,
                "type": kind,
                "subject": subject,
                "time": time(at),
                "datacontenttype": "application/json",
                "data": fields,
            }),
        ),
        ChannelType::Slack => ("application/json", json!({"text": told})),
        ChannelType::Webhook => {
            fields["id"] = json!(id);
            fields["message"] = json!(told);
            ("application/json", fields)
        }
    };
    Message { id, content_type, body: body.to_string() }
}

/// RFC 3339, to the second.
fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// The run as a URI reference on the hub.
fn source(key: &ObjectKey) -> String {
    let group = "/apis/placement.kubernetes-fleet.io/v1beta1";
    match &key.namespace {
        None => format!("{group}/clusterstagedupdateruns/{}", key.name),
        Some(space) => format!("{group}/namespaces/{space}/stagedupdateruns/{}", key.name),
    }
}

/// Where the console shows the run.
fn link(base: &str, key: &ObjectKey) -> String {
    let space = key.namespace.as_ref().map_or_else(String::new, |space| format!("{space}/"));
    format!("{}/#/run/{space}{}", base.trim_end_matches('/'), key.name)
}

/// `gate-waiting`.
fn kebab(event: RunEvent) -> String {
    let mut out = String::new();
    for letter in format!("{event:?}").chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// The command that whoever reads it may want next.
fn next(key: &ObjectKey, event: RunEvent, entry: &RecordEntry) -> String {
    let of = |verb: &str| match &key.namespace {
        Some(space) => format!("flagship {verb} -n {space} {}", key.name),
        None => format!("flagship {verb} {}", key.name),
    };
    match event {
        RunEvent::GateWaiting => {
            format!("{} {}", of("approve"), entry.stage.as_deref().unwrap_or_default())
        }
        RunEvent::Stopped => of("resume"),
        RunEvent::Frozen => "flagship unfreeze".to_owned(),
        RunEvent::ClusterFailed | RunEvent::Stuck | RunEvent::BudgetSpent | RunEvent::Failed => {
            of("why")
        }
        RunEvent::RunStarted => of("watch"),
        _ => of("status"),
    }
}

fn field<'a>(fields: &'a Value, name: &str) -> &'a str {
    fields[name].as_str().unwrap_or_default()
}

/// `GateWaiting: web-3 (snapshot 7 of web), stage prod. …`
fn in_words(fields: &Value, is_slack: bool) -> String {
    let of = |name: &str| match is_slack {
        true => escaped(field(fields, name)),
        false => field(fields, name).to_owned(),
    };
    let mut told = of("event");
    if !of("run").is_empty() {
        told += &format!(": {} (snapshot {} of {})", of("run"), of("snapshot"), of("placement"));
    }
    for name in ["stage", "cluster"] {
        if !of(name).is_empty() {
            told += &format!(", {name} {}", of(name));
        }
    }
    if !of("who").is_empty() {
        told += &format!(", by {}", of("who"));
    }
    if !of("text").is_empty() {
        told += &format!("\n{}", of("text"));
    }
    if !of("next").is_empty() {
        let tick = if is_slack { "`" } else { "" };
        told += &format!("\nnext: {tick}{}{tick}", of("next"));
    }
    if !of("link").is_empty() {
        told += &match is_slack {
            true => format!("\n<{}|open in the console>", of("link")),
            false => format!("\n{}", of("link")),
        };
    }
    told
}

/// What Slack asks to be written otherwise, so that nobody's text is taken for a link or a
/// mention.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A template with its fields filled. What is filled in is not looked at again.
fn filled(template: &str, fields: &Value) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        out += before;
        let known = FIELDS.iter().find(|name| from[2..].starts_with(&format!("{name}}}}}")));
        rest = match known {
            Some(name) => {
                out += field(fields, name);
                &from[name.len() + 4..]
            }
            None => {
                out += "{{";
                &from[2..]
            }
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn notice(event: RunEvent, more: Value) -> Notice {
        let mut entry = json!({"n": 12, "time": "2026-11-16T20:00:01Z", "what": "GateWaits",
            "previousHash": "", "hash": ""});
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        Notice { event, entry: serde_json::from_value(entry).unwrap() }
    }

    fn about(key: ObjectKey) -> AboutRun {
        AboutRun {
            key: Some(key),
            uid: "4f1".to_owned(),
            placement: "web".to_owned(),
            strategy: "plan".to_owned(),
            snapshot: "7".to_owned(),
            takes_back: false,
        }
    }

    fn form(kind: ChannelType) -> Form<'static> {
        Form { kind, template: None, console: Some("https://flagship.example.com/") }
    }

    #[test]
    fn a_cloud_event_has_every_attribute_of_the_specification() {
        let waits =
            notice(RunEvent::GateWaiting, json!({"stage": "prod", "gate": "before-Approval"}));
        let run = about(ObjectKey::namespaced("team", "web-3"));
        let sent = message(form(ChannelType::CloudEvents), &run, &waits);
        let read: Value = serde_json::from_str(&sent.body).unwrap();
        expect![[r#"
            {
              "data": {
                "event": "GateWaiting",
                "gate": "before-Approval",
                "link": "https://flagship.example.com/#/run/team/web-3",
                "n": 12,
                "next": "flagship approve -n team web-3 prod",
                "placement": "web",
                "run": "team/web-3",
                "snapshot": "7",
                "stage": "prod",
                "strategy": "plan",
                "time": "2026-11-16T20:00:01Z",
                "uid": "4f1"
              },
              "datacontenttype": "application/json",
              "id": "4f1-12",
              "source": "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/team/stagedupdateruns/web-3",
              "specversion": "1.0",
              "subject": "team/web-3",
              "time": "2026-11-16T20:00:01Z",
              "type": "dev.flagship.run.gate-waiting"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&read).unwrap());
        assert_eq!(sent.content_type, "application/cloudevents+json; charset=UTF-8");
        assert_eq!(sent.id, "4f1-12");
    }

    #[test]
    fn slack_gets_text_with_the_next_command_and_a_link_and_no_mention_of_others() {
        let failed = notice(
            RunEvent::ClusterFailed,
            json!({"stage": "prod", "cluster": "m1", "text": "<!channel> & IMAGE_NOT_FOUND"}),
        );
        let sent = message(form(ChannelType::Slack), &about(ObjectKey::cluster("web-3")), &failed);
        let read: Value = serde_json::from_str(&sent.body).unwrap();
        expect![[r#"
            ClusterFailed: web-3 (snapshot 7 of web), stage prod, cluster m1
            &lt;!channel&gt; &amp; IMAGE_NOT_FOUND
            next: `flagship why web-3`
            <https://flagship.example.com/#/run/web-3|open in the console>"#]]
        .assert_eq(read["text"].as_str().unwrap());
        assert_eq!(read.as_object().unwrap().len(), 1);
    }

    #[test]
    fn a_template_has_fields_and_nothing_else() {
        let failed =
            notice(RunEvent::ClusterFailed, json!({"cluster": "m1", "text": "has {{run}} in it"}));
        let template = "{{event}} {{run}}/{{cluster}}{{stage}}: {{text}} {{nobody}} {x} {{next}}";
        let form = Form { template: Some(template), ..form(ChannelType::Webhook) };
        let sent = message(form, &about(ObjectKey::cluster("web-3")), &failed);
        let read: Value = serde_json::from_str(&sent.body).unwrap();
        assert_eq!(
            read["message"],
            "ClusterFailed web-3/m1: has {{run}} in it {{nobody}} {x} flagship why web-3"
        );
        assert_eq!((&read["id"], &read["n"]), (&json!("4f1-12"), &json!(12)));
    }

    #[test]
    fn a_test_says_that_nothing_has_happened() {
        let now = "2026-11-16T20:00:01Z".parse().unwrap();
        let sent = test(form(ChannelType::CloudEvents), "ops", "1", now);
        let read: Value = serde_json::from_str(&sent.body).unwrap();
        assert_eq!(
            (&read["id"], &read["type"]),
            (&json!("test-1"), &json!("dev.flagship.channel.test"))
        );
        assert!(read["data"]["text"].as_str().unwrap().contains("nothing has happened"));
    }
}
