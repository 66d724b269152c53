//! What an API server was asked meanwhile, by its own metrics.

use std::collections::BTreeMap;

use flagship_runtime::client::Client;
use serde::Serialize;

/// What the server has counted since it started.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By verb, resource with subresource, and status code.
    requests: BTreeMap<(String, String, String), u64>,
    cpu_seconds: Option<f64>,
}

/// What it was asked, by whoever it was, between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// Creations, updates, patches, applies and deletions, refused ones too.
    pub writes: u64,
    /// Writes that met another.
    pub conflicts: u64,
    /// Gets and lists, and watches that ended.
    pub reads: u64,
    /// Processor time of the server, if it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// By verb and resource.
    pub by: BTreeMap<String, u64>,
}

impl Counters {
    /// What the server says now; nothing if it does not say, or not to us.
    pub async fn read(client: &Client) -> Option<Self> {
        let request = http::Request::get("/metrics").body(Vec::new()).ok()?;
        client.kube().request_text(request).await.ok().map(|text| Self::of(&text))
    }

    fn of(text: &str) -> Self {
        let mut counters = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if name == "process_cpu_seconds_total" {
                counters.cpu_seconds = Some(value);
            }
            let Some(labels) = name.strip_prefix("apiserver_request_total{") else { continue };
            let label = |key: &str| {
                let mut all = labels.trim_end_matches('}').split(',');
                let found = all.find_map(|pair| pair.strip_prefix(key)?.strip_prefix("=\""));
                found.unwrap_or_default().trim_end_matches('"').to_owned()
            };
            let resource = match label("subresource") {
                none if none.is_empty() => label("resource"),
                path => format!("{}/{path}", label("resource")),
            };
            // A counter is a whole number, far below the limit.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            *counters.requests.entry((label("verb"), resource, label("code"))).or_default() +=
                value;
        }
        counters
    }

    /// What came since an earlier look.
    pub fn since(&self, before: &Self) -> Requests {
        let mut found = Requests {
            cpu_seconds: self.cpu_seconds.zip(before.cpu_seconds).map(|(now, then)| now - then),
            ..Requests::default()
        };
        for (key, now) in &self.requests {
            let count = now.saturating_sub(before.requests.get(key).copied().unwrap_or_default());
            let (verb, resource, code) = key;
            if count == 0 {
                continue;
            }
            if matches!(verb.as_str(), "GET" | "LIST" | "WATCH") {
                found.reads += count;
            } else {
                found.writes += count;
                if code == "409" {
                    found.conflicts += count;
                }
            }
            // Discovery and the like.
            let resource = if resource.is_empty() { "of no resource" } else { resource };
            *found.by.entry(format!("{verb} {resource}")).or_default() += count;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_by_verb_and_conflicts_apart() {
        let text = |gets: u64, patches: u64, conflicts: u64, cpu: f64| {
            let line = |verb: &str, code: u16, below: &str, count: u64| {
                format!(
                    "apiserver_request_total{{code=\"{code}\",group=\"\",resource=\"works\",subresource=\"{below}\",verb=\"{verb}\"}} {count}\n"
                )
            };
            [
                line("GET", 200, "", gets),
                line("PATCH", 200, "status", patches),
                line("PATCH", 409, "status", conflicts),
                format!("process_cpu_seconds_total {cpu}\n# HELP nothing\n"),
            ]
            .concat()
        };
        let (before, after) = (text(1, 2, 0, 1.5), text(4, 7, 2, 3.75));
        let found = Counters::of(&after).since(&Counters::of(&before));
        let by = [("GET works", 3), ("PATCH works/status", 7)];
        let by = by.map(|(what, count)| (what.to_owned(), count)).into_iter().collect();
        let wanted = Requests { writes: 7, conflicts: 2, reads: 3, cpu_seconds: Some(2.25), by };
        assert_eq!(found, wanted);
    }
}
