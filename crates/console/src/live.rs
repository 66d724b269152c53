//! A view that somebody looks at: made anew when the hub changes, and sent as what changed.
//!
//! All pages on one view share one [`Live`]. It keeps the last changes by revision, so that
//! a reader who was away goes on where it was; one who was away too long, or reads slower
//! than things change, gets the whole view again. Nothing is queued for anybody: readers
//! fetch what they lack when their connection takes it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use flagship_explain::printable::printable_json;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::session::Inner;
use crate::view::{Model, View};

/// Changes are gathered for so long before the view is made anew.
const GATHER: Duration = Duration::from_millis(25);
/// Times pass although nothing happens: a member becomes silent, "for 5m" becomes "for 6m".
const TICK: Duration = Duration::from_secs(5);
/// How long a view without readers is kept, for those who come back.
const KEPT: Duration = Duration::from_secs(60);
/// Most changes that are kept, and most bytes of them.
const MOST_CHANGES: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// A view that somebody looks at.
pub struct Live {
    /// Tells revisions of this process from those of another.
    epoch: String,
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    revision: u64,
    model: Model,
    /// Changes, each with the revision that it leads to.
    changes: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The whole view at this revision, once somebody has asked for it.
    whole: Option<Bytes>,
    over: bool,
}

/// Where a reader is.
pub struct Reader {
    live: Arc<Live>,
    at: Option<u64>,
    revisions: watch::Receiver<u64>,
}

impl Live {
    /// Makes the view, and makes it anew until nobody reads it.
    pub(crate) fn start(session: &Arc<Inner>, view: View) -> Arc<Self> {
        let epoch = format!("{:x}", session.now().as_microsecond());
        let live = Arc::new(Self::new(epoch, session.model(&view)));
        tokio::spawn(follow(Arc::downgrade(session), live.clone(), view));
        live
    }

    fn new(epoch: String, model: Model) -> Self {
        let state = State { revision: 1, model, ..State::default() };
        Self { epoch, state: Mutex::new(state), revision: watch::Sender::new(1) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is no longer made anew.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Puts the next model in place; nothing happens if it is the same.
    fn publish(&self, next: Model, now: i64) {
        let mut state = self.state();
        let Some(change) = change(&state.model, &next) else {
            // Other rows than before: everybody gets the whole view.
            state.changes.clear();
            state.bytes = 0;
            self.advance(&mut state, next);
            return;
        };
        if change.is_empty() {
            return;
        }
        let mut change = change;
        change.insert("at".to_owned(), json!(now));
        let revision = state.revision + 1;
        let event = self.event("change", revision, &printable_json(&change));
        state.bytes += event.len();
        state.changes.push_back((revision, event));
        while state.changes.len() > MOST_CHANGES || state.bytes > MOST_BYTES {
            let Some((_, oldest)) = state.changes.pop_front() else { break };
            state.bytes -= oldest.len();
        }
        self.advance(&mut state, next);
    }

    fn advance(&self, state: &mut State, next: Model) {
        state.revision += 1;
        state.model = next;
        state.whole = None;
        self.revision.send_replace(state.revision);
    }

    fn event(&self, name: &str, revision: u64, data: &str) -> Bytes {
        let epoch = &self.epoch;
        Bytes::from(format!("event: {name}\nid: {epoch}.{revision}\ndata: {data}\n\n"))
    }

    /// A reader that goes on after an event it has seen, or begins.
    pub fn reader(self: &Arc<Self>, last_seen: Option<&str>) -> Reader {
        let at = last_seen.and_then(|id| {
            let (epoch, revision) = id.split_once('.')?;
            (epoch == self.epoch).then(|| revision.parse().ok()).flatten()
        });
        Reader { live: self.clone(), at, revisions: self.revision.subscribe() }
    }

    /// What a reader at that revision lacks, and where it is then.
    fn since(&self, at: Option<u64>, now: i64) -> (Vec<Bytes>, u64) {
        let mut state = self.state();
        let revision = state.revision;
        let at = at.filter(|at| *at <= revision);
        if at == Some(revision) {
            return (Vec::new(), revision);
        }
        let whole = state.whole.as_ref().map_or(usize::MAX, Bytes::len);
        let missed = at.and_then(|at| {
            let oldest = state.changes.front().map(|(to, _)| *to)?;
            let missed = state.changes.iter().filter(|(to, _)| *to > at);
            let missed: Vec<Bytes> = missed.map(|(_, event)| event.clone()).collect();
            let bytes: usize = missed.iter().map(Bytes::len).sum();
            // More to read than the view itself is no short cut.
            (oldest <= at + 1 && bytes <= whole).then_some(missed)
        });
        if let Some(missed) = missed {
            return (missed, revision);
        }
        let whole = match &state.whole {
            Some(whole) => whole.clone(),
            None => {
                let whole = self.event("whole", revision, &whole_text(&state.model, now));
                state.whole = Some(whole.clone());
                whole
            }
        };
        (vec![whole], revision)
    }
}

impl Reader {
    /// The next events. Cancelling it loses nothing.
    pub async fn next(&mut self, now: impl Fn() -> i64) -> Vec<Bytes> {
        loop {
            self.revisions.borrow_and_update();
            let (events, revision) = self.live.since(self.at, now());
            self.at = Some(revision);
            if !events.is_empty() {
                return events;
            }
            // The sender lives in `live`, so the channel cannot be closed.
            self.revisions.changed().await.ok();
        }
    }
}

/// Makes the view anew whenever something changed, as long as somebody reads it.
async fn follow(session: Weak<Inner>, live: Arc<Live>, view: View) {
    let Some(mut changes) = session.upgrade().map(|session| session.mirror.changes()) else {
        return;
    };
    let mut read = Instant::now();
    loop {
        // An error means that the session is over, which the next step sees.
        drop(tokio::time::timeout(TICK, changes.changed()).await);
        tokio::time::sleep(GATHER).await;
        let Some(session) = session.upgrade() else { break };
        if live.revision.receiver_count() > 0 {
            read = Instant::now();
        } else if read.elapsed() > KEPT {
            break;
        } else {
            continue;
        }
        changes.borrow_and_update();
        let begun = Instant::now();
        let next = session.model(&view);
        live.publish(next, session.now().as_millisecond());
        drop(session);
        // A large fleet in motion must not take a whole processor for its picture.
        tokio::time::sleep(begun.elapsed()).await;
    }
    live.state().over = true;
}

/// What differs; `None` if the rows are others.
fn change(old: &Model, new: &Model) -> Option<Map<String, Value>> {
    let same = old.rows.len() == new.rows.len()
        && old.rows.iter().zip(&new.rows).all(|(old, new)| old.key == new.key);
    if !same {
        return None;
    }
    let mut head = Map::new();
    for (field, value) in &new.head {
        if old.head.get(field) != Some(value) {
            head.insert(field.clone(), value.clone());
        }
    }
    for field in old.head.keys().filter(|field| !new.head.contains_key(*field)) {
        head.insert(field.clone(), Value::Null);
    }
    let pairs = old.rows.iter().zip(&new.rows).enumerate();
    let rows: Vec<Value> = pairs
        .filter(|(_, (old, new))| old.value != new.value)
        .map(|(at, (_, new))| json!([at, value(&new.value)]))
        .collect();
    let mut change = Map::new();
    if !head.is_empty() {
        change.insert("head".to_owned(), Value::Object(head));
    }
    if !rows.is_empty() {
        change.insert("rows".to_owned(), Value::Array(rows));
    }
    Some(change)
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// The whole view as JSON. Rows are text already.
pub fn whole_text(model: &Model, now: i64) -> String {
    let keys: Vec<&str> = model.rows.iter().map(|row| row.key.as_str()).collect();
    let rows: Vec<&str> = model.rows.iter().map(|row| &*row.value).collect();
    let (head, keys) = (printable_json(&model.head), printable_json(&keys));
    format!(r#"{{"at":{now},"head":{head},"keys":{keys},"rows":[{}]}}"#, rows.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Row;

    fn model(phase: &str, cells: &[(&str, &str)]) -> Model {
        let mut model = Model::default();
        model.head.insert("phase".into(), json!(phase));
        model.head.insert("name".into(), json!("demo-run"));
        model.rows = cells
            .iter()
            .map(|(key, value)| Row { key: (*key).to_owned(), value: (*value).into() })
            .collect();
        model
    }

    fn live() -> Arc<Live> {
        Arc::new(Live::new("e".into(), model("running", &[("a", "[1]"), ("b", "[0]")])))
    }

    fn text(events: &[Bytes]) -> String {
        events.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect()
    }

    async fn read(reader: &mut Reader) -> String {
        text(&reader.next(|| 7).await)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_event_is_whole_and_the_next_is_only_what_changed() {
        let live = live();
        let mut reader = live.reader(None);
        assert_eq!(
            read(&mut reader).await,
            "event: whole\nid: e.1\ndata: {\"at\":7,\"head\":{\"name\":\"demo-run\",\"phase\":\"running\"},\"keys\":[\"a\",\"b\"],\"rows\":[[1],[0]]}\n\n"
        );
        live.publish(model("running", &[("a", "[2]"), ("b", "[0]")]), 8);
        assert_eq!(
            read(&mut reader).await,
            "event: change\nid: e.2\ndata: {\"at\":8,\"rows\":[[0,[2]]]}\n\n"
        );
        live.publish(model("running", &[("a", "[2]"), ("b", "[0]")]), 9);
        live.publish(model("stuck", &[("a", "[2]"), ("b", "[0]")]), 9);
        assert_eq!(
            read(&mut reader).await,
            "event: change\nid: e.3\ndata: {\"at\":9,\"head\":{\"phase\":\"stuck\"}}\n\n"
        );
    }

    // `admin` would stand there, and a terminal that somebody pastes into would obey.
    #[tokio::test(start_paused = true)]
    async fn what_members_wrote_is_shown_as_they_wrote_it() {
        let said = |more: &str| {
            let mut model = Model::default();
            model.set("because", &format!("\u{202e}nimda\u{202c}{more}"));
            model.push("a".to_owned(), &[format!("\u{1b}[2J{more}")]);
            model
        };
        let live = Arc::new(Live::new("e".into(), said("")));
        let mut reader = live.reader(None);
        let first = read(&mut reader).await;
        live.publish(said(" again"), 8);
        for text in [first, read(&mut reader).await] {
            let data: Value = value(text.trim().rsplit("data: ").next().unwrap());
            let row = data["rows"][0].to_string();
            assert!(row.contains(r"\\u001b[2J"), "{text}");
            let because = data["head"]["because"].as_str().unwrap();
            assert!(because.starts_with(r"\u202enimda\u202c"), "{text}");
        }
        let refused = crate::http::said(http::StatusCode::OK, &json!({"error": "\u{202e}x"}));
        let body = http_body_util::BodyExt::collect(refused.into_body()).await.unwrap();
        assert_eq!(body.to_bytes(), r#"{"error":"\\u202ex"}"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_was_away_goes_on_where_it_was() {
        let live = live();
        live.publish(model("running", &[("a", "[2]"), ("b", "[0]")]), 8);
        live.publish(model("running", &[("a", "[2]"), ("b", "[1]")]), 8);
        let missed = read(&mut live.reader(Some("e.1"))).await;
        assert_eq!(missed.matches("event: change").count(), 2, "{missed}");
        assert!(missed.ends_with("id: e.3\ndata: {\"at\":8,\"rows\":[[1,[1]]]}\n\n"), "{missed}");
        let missed = read(&mut live.reader(Some("e.2"))).await;
        assert_eq!(missed.matches("event: change").count(), 1, "{missed}");
    }

    #[tokio::test(start_paused = true)]
    async fn revisions_of_another_process_of_the_future_and_of_nobody_begin_anew() {
        let live = live();
        for seen in [None, Some("other.1"), Some("e.99"), Some("e.x"), Some("nonsense")] {
            let first = read(&mut live.reader(seen)).await;
            assert!(first.starts_with("event: whole\nid: e.1\n"), "{seen:?}: {first}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_rows_are_sent_whole() {
        let live = live();
        let mut reader = live.reader(Some("e.1"));
        live.publish(model("running", &[("a", "[2]")]), 8);
        assert!(read(&mut reader).await.starts_with("event: whole\nid: e.2\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_the_whole_view_and_holds_up_nobody() {
        let live = live();
        let mut slow = live.reader(Some("e.1"));
        for step in 0..10_000_u64 {
            let cell = format!("[{step}]");
            live.publish(model("running", &[("a", cell.as_str()), ("b", "[0]")]), 8);
        }
        let kept = live.state().changes.len();
        assert!(kept <= MOST_CHANGES && live.state().bytes <= MOST_BYTES, "{kept}");
        let got = read(&mut slow).await;
        assert!(got.starts_with("event: whole\nid: e.10001\n"), "{}", got.len());
    }
}
