//! Passes over a rollout as spans of an OpenTelemetry trace: OTLP over HTTP, in JSON.
//!
//! Off unless a collector is named. Which rollout a pass belongs to is in its span
//! (`flagship_runtime::queue::About`); all passes over one version of a placement, on the hub and
//! on every member, are one trace. A collector that is slow or gone holds nobody up: spans that do
//! not fit are dropped.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use flagship_runtime::env::Env;
use serde_json::{Map, Value, json};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Spans that may wait for the collector.
const WAITING: usize = 4096;
/// Spans in one request.
const AT_ONCE: usize = 512;
/// How long spans are gathered, and how long a request may take.
const GATHERED: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Where traces go: a collector that takes OTLP over plain HTTP, such as one beside the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    host: String,
    path: String,
}

impl Collector {
    /// Reads `http://host:port`, with or without a path.
    pub fn read(url: &str) -> Result<Self, String> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err("must begin with http:// (TLS is for a collector beside the agent)".into());
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err("names no host".into());
        }
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:4318") };
        let path = if path.is_empty() { "v1/traces" } else { path };
        Ok(Self { host, path: format!("/{path}") })
    }

    fn send(&self, body: &str) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(&self.host)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (host, path, length) = (&self.host, &self.path, body.len());
        write!(
            socket,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        let mut head = [0; 12];
        socket.read_exact(&mut head)?;
        match head.get(9) {
            Some(b'2') => Ok(()),
            _ => Err(std::io::Error::other(String::from_utf8_lossy(&head).into_owned())),
        }
    }
}

/// Takes spans of passes and hands them to a thread that sends them.
pub struct Export {
    env: Env,
    ended: SyncSender<Value>,
}

impl Export {
    /// Sends to this collector, as this service.
    pub fn start(collector: Collector, service: &'static str, env: Env) -> std::io::Result<Self> {
        let (ended, spans) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || send_all(&collector, service, &spans))?;
        Ok(Self { env, ended })
    }
}

fn send_all(collector: &Collector, service: &str, spans: &Receiver<Value>) {
    let mut failed = false;
    while let Ok(first) = spans.recv() {
        let mut batch = vec![first];
        while batch.len() < AT_ONCE {
            match spans.recv_timeout(GATHERED) {
                Ok(span) => batch.push(span),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let attributes = attributes(&[("service.name".to_owned(), service.to_owned())]);
        let body = json!({"resourceSpans": [{"resource": {"attributes": attributes},
            "scopeSpans": [{"scope": {"name": "flagship"}, "spans": batch}]}]});
        let sent = collector.send(&body.to_string());
        // Once: a collector that is gone would fill the log.
        if let Err(why) = &sent
            && !failed
        {
            tracing::warn!(%why, "traces cannot be sent to {}; they are dropped", collector.host);
        }
        failed = sent.is_err();
    }
}

fn attributes(fields: &[(String, String)]) -> Vec<Value> {
    let all =
        fields.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}));
    all.collect()
}

/// A span that has begun.
struct Open {
    begun: i128,
    fields: Map<String, Value>,
}

impl Visit for Open {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), json!(value));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Export {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() != "pass" {
            return;
        }
        let begun = self.env.now().as_nanosecond();
        let mut open = Open { begun, fields: Map::new() };
        attributes.record(&mut open);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(open);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(open) = extensions.get_mut::<Open>() {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open { begun, mut fields }) = span.extensions_mut().remove() else { return };
        let Some(trace) = fields.remove("trace") else { return };
        let name = fields.get("controller").and_then(Value::as_str).unwrap_or("pass").to_owned();
        let fields: Vec<(String, String)> = fields
            .into_iter()
            .map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let told = json!({"traceId": trace, "spanId": self.env.entropy.hex(16), "kind": 1,
            "name": name, "startTimeUnixNano": begun.to_string(),
            "endTimeUnixNano": self.env.now().as_nanosecond().to_string(),
            "attributes": attributes(&fields)});
        match self.ended.try_send(told) {
            // There is no room, or no sender: nobody waits for a trace.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use flagship_runtime::queue::About;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_collector_is_named_by_a_url() {
        let read = |url: &str| Collector::read(url).map(|it| (it.host, it.path));
        let own = |host: &str, path: &str| Ok((host.to_owned(), path.to_owned()));
        assert_eq!(read("http://otel"), own("otel:4318", "/v1/traces"));
        assert_eq!(read("http://otel:80/in/v1"), own("otel:80", "/in/v1"));
        assert!(read("https://otel").is_err() && read("http://").is_err());
    }

    /// The body of one request; answered with 200.
    fn take(listener: &TcpListener) -> Value {
        let (mut socket, _) = listener.accept().unwrap();
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

    #[test]
    fn passes_over_a_rollout_are_spans_of_one_trace_and_others_are_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Collector::read(&url).unwrap();
        let export = Export::start(collector, "flagship-hub", Env::simulated(1)).unwrap();
        let trace = "0123456789abcdef0123456789abcdef";
        let log = tracing_subscriber::registry().with(export);
        tracing::subscriber::with_default(log, || {
            for trace in [Some(trace), None, Some(trace)] {
                use tracing::field::Empty;
                let pass = tracing::info_span!(
                    "pass",
                    controller = "work",
                    key = "a",
                    run = Empty,
                    cluster = Empty,
                    trace = Empty
                );
                let _pass = pass.entered();
                About { trace, cluster: Some("east"), run: None }.note();
            }
        });
        let told = take(&listener);
        let resource = &told["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"],
            json!([{"key": "service.name", "value": {"stringValue": "flagship-hub"}}])
        );
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len(), 2);
        for span in spans {
            assert_eq!((&span["traceId"], &span["name"]), (&json!(trace), &json!("work")));
            let cluster = json!({"key": "cluster", "value": {"stringValue": "east"}});
            assert!(span["attributes"].as_array().unwrap().contains(&cluster), "{span}");
        }
        assert_ne!(spans[0]["spanId"], spans[1]["spanId"]);
    }
}
