//! A rollout as one OpenTelemetry trace, from the hub to the member, and what agents log of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::process::{STEP, STEPS};
use super::{CRP, Scene};

/// A collector: which services and controllers were seen in each trace.
type Traces = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

fn collect() -> (String, Traces) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let traces = Traces::default();
    let seen = traces.clone();
    // It ends with the process: nobody can tell it to stop accepting.
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            note(&take(socket.unwrap()), &seen);
        }
    });
    (url, traces)
}

fn take(mut socket: TcpStream) -> Value {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(number) = line.strip_prefix("Content-Length: ") {
            length = number.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn note(told: &Value, traces: &Traces) {
    let resource = &told["resourceSpans"][0];
    let service = resource["resource"]["attributes"][0]["value"]["stringValue"].as_str().unwrap();
    for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
        let (trace, name) = (span["traceId"].as_str().unwrap(), span["name"].as_str().unwrap());
        assert!(span["startTimeUnixNano"].as_str() <= span["endTimeUnixNano"].as_str(), "{span}");
        let mut traces = traces.lock().unwrap();
        traces.entry(trace.to_owned()).or_default().insert(format!("{service} {name}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_one_trace_from_the_hub_to_the_member() {
    let scene = Scene::named("traces").await;
    let (url, traces) = collect();
    let flags = format!("--otlp-endpoint={url} --log-format=json --v=4");
    let mut agent = scene.start_hub_with(&flags);
    agent.is_ready().await;
    scene.invite().await;
    let token = scene.token("member1").await;
    let member = scene.start_member_with(&token, &flags);
    let hub = scene.hub();
    hub.becomes("memberclusters", "", "member1", "Joined", "True").await;
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    hub.apply_object(&json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "app"},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"}},
    }))
    .await;
    hub.becomes(CRP, "", "app", "ClusterResourcePlacementAvailable", "True").await;

    // Sent a second after they were seen.
    let whole = |found: &BTreeSet<String>| {
        let of = |service: &str| found.iter().any(|span| span.starts_with(service));
        of("flagship-hub cluster-resource-placement") && of("flagship-member ")
    };
    let mut last = BTreeMap::new();
    for _ in 0..STEPS {
        last = traces.lock().unwrap().clone();
        if last.values().any(whole) {
            break;
        }
        tokio::time::sleep(STEP).await;
    }
    let found = last.iter().find(|(_, spans)| whole(spans));
    let Some((trace, _)) = found else { panic!("no trace is whole: {last:?}") };

    // The logs of both bear the same id, and the member's its cluster.
    for (process, cluster) in [(&agent, None), (&member, Some("member1"))] {
        let said = process.said();
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_trace = |line: &Value| {
            let is_its = line["span"]["trace"] == json!(trace);
            is_its && cluster.is_none_or(|cluster| line["span"]["cluster"] == cluster)
        };
        assert!(lines.filter(of_trace).count() > 0, "{trace}: {said}");
    }
}
