//! Watch streams: events, bookmarks and the end, as lines of JSON.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use flagship_base::machinery::status::ApiError;
use flagship_store::{
    Filter, OwnedScope, Selects, Store, Subscription, WatchEnd, WatchEvent, WatchFrom,
};
use futures::Stream;
use serde_json::json;
use tokio::time::{Instant, Sleep};

use super::cluster::Ctx;
use super::options::ListOptions;
use super::present::Presenter;
use super::read;

/// Frames are filled up to about this many bytes while events are waiting.
const FRAME: usize = 64 * 1024;
/// And so many bytes of objects are read for one.
const READ: usize = 256 * 1024;
/// How often a client that wants bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch that names no timeout ends after one to two of these.
const DEFAULT_TIMEOUT: u64 = 1800;

/// A running watch.
pub(crate) struct WatchStream {
    /// `None` once the watch has ended.
    subscription: Option<Subscription>,
    presenter: Presenter,
    /// Tables have their columns with the first event only.
    begun: bool,
    /// Wakes at the deadline or for the next bookmark, whichever is sooner.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    bookmarks: bool,
    /// The client asked to be told when the initial state is complete.
    announces_end: bool,
    /// Sent before anything else: the error of a watch that could not begin.
    first: Option<Bytes>,
}

/// Begins a watch. A revision that is too old is an event, not a refusal.
pub(crate) fn start(
    ctx: &Ctx<'_>,
    options: &ListOptions,
    presenter: Presenter,
) -> Result<WatchStream, ApiError> {
    read::check_fields(ctx, options)?;
    let store = &ctx.cluster.store;
    let from = match (options.revision.unwrap_or_default(), options.initial_events) {
        (0, Some(false)) => WatchFrom::Now,
        (0, _) => WatchFrom::CurrentThenLive,
        (oldest, Some(true)) => {
            read::check_future(store, oldest)?;
            WatchFrom::CurrentNotOlderThan(oldest)
        }
        (after, _) => WatchFrom::After(after),
    };
    let seconds = match options.timeout_seconds {
        // As in Kubernetes, nothing is the default, and what is over before it begins is over.
        None | Some(0) => DEFAULT_TIMEOUT + ctx.cluster.env.entropy.u64() % DEFAULT_TIMEOUT,
        Some(seconds) => u64::try_from(seconds).unwrap_or_default(),
    };
    let deadline = Instant::now() + Duration::from_secs(seconds.min(u64::from(u32::MAX)));
    let known = match from {
        WatchFrom::After(after) => check_future(store, after),
        WatchFrom::Now | WatchFrom::CurrentThenLive | WatchFrom::CurrentNotOlderThan(_) => Ok(()),
    };
    let begun = known.and_then(|()| {
        let resource = &ctx.place.served.kind.resource;
        let begun = store.watch_as(resource, from, filter(ctx, options), &ctx.call());
        begun.map_err(|why| ApiError::expired(why.to_string()))
    });
    let (subscription, first) = match begun {
        Ok(subscription) => (Some(subscription), None),
        Err(error) => (None, Some(error_event(&error))),
    };
    let mut stream = WatchStream {
        subscription,
        presenter,
        begun: false,
        timer: Box::pin(tokio::time::sleep_until(deadline)),
        deadline,
        bookmarks: options.bookmarks,
        announces_end: options.initial_events == Some(true) && options.bookmarks,
        first,
    };
    stream.schedule();
    Ok(stream)
}

/// A revision that was never handed out here is of another incarnation of the cluster,
/// which was wiped since. Kubernetes would wait for it; listing again heals.
pub(super) fn check_future(store: &Store, after: u64) -> Result<(), ApiError> {
    let current = store.revision();
    if after > current {
        return Err(ApiError::expired(format!("too new resource version: {after} ({current})")));
    }
    Ok(())
}

/// What the subscription lets through.
pub(super) fn filter(ctx: &Ctx<'_>, options: &ListOptions) -> Filter {
    let scope = match read::only_object(ctx, options) {
        Some(key) => OwnedScope::Object(key),
        None if ctx.place.namespace.is_empty() => OwnedScope::All,
        None => OwnedScope::Namespace(ctx.place.namespace.clone()),
    };
    let (labels, fields) = (options.labels.clone(), options.fields.clone());
    let selects = (!labels.is_everything() || !fields.is_everything()).then(|| {
        let selects: Selects = Arc::new(move |key, head| {
            labels.matches_what(|label| head.labels.get(label))
                && fields.matches(&key.namespace, &key.name, |path| head.fields.get(path))
        });
        selects
    });
    Filter { scope, selects }
}

impl WatchStream {
    fn schedule(&mut self) {
        let next = Instant::now() + BOOKMARK_EVERY;
        let at = if self.bookmarks { next.min(self.deadline) } else { self.deadline };
        self.timer.as_mut().reset(at);
    }

    /// The next piece of the stream; `None` at its end.
    pub(super) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let (mut frame, mut read) = (BytesMut::new(), 0);
        while let Some(subscription) = &mut self.subscription {
            match Pin::new(&mut *subscription).poll_next(context) {
                Poll::Ready(Some(seen)) => {
                    self.write(&mut frame, &seen);
                    // A row of a table is short, but the object is read for it.
                    read += seen.object().map_or(0, |object| object.json.len());
                    if frame.len() >= FRAME || read >= READ {
                        break;
                    }
                }
                Poll::Ready(None) => {
                    // Clients that hear nothing would go on from where they are, and be as slow.
                    if subscription.why_closed() == Some(WatchEnd::Lagged) {
                        frame.extend_from_slice(&slow());
                    }
                    self.subscription = None;
                }
                Poll::Pending if !frame.is_empty() => break,
                Poll::Pending => {
                    if self.timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.tick(&mut frame);
                }
            }
        }
        // A watch whose events never cease must get its bookmarks and end all the same.
        if Instant::now() >= self.timer.deadline() {
            self.tick(&mut frame);
        }
        if frame.is_empty() { Poll::Ready(None) } else { Poll::Ready(Some(frame.freeze())) }
    }

    /// What is due now: a bookmark, and perhaps the end.
    fn tick(&mut self, frame: &mut BytesMut) {
        let Some(subscription) = &mut self.subscription else { return };
        if self.bookmarks
            && let Some(revision) = subscription.bookmark()
        {
            self.write_bookmark(frame, revision, false);
        }
        if Instant::now() >= self.deadline {
            self.subscription = None;
        } else {
            self.schedule();
        }
    }

    fn write(&mut self, frame: &mut BytesMut, seen: &WatchEvent) {
        let (kind, object) = match seen {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::InitialDone(revision) => {
                if self.announces_end {
                    self.write_bookmark(frame, *revision, true);
                }
                return;
            }
        };
        let first = !std::mem::replace(&mut self.begun, true);
        match self.presenter.event(&object.json, object.revision, first) {
            Ok(json) => event(frame, kind, &json),
            Err(error) => frame.extend_from_slice(&error_event(&error)),
        }
    }

    fn write_bookmark(&self, frame: &mut BytesMut, revision: u64, initial_end: bool) {
        let mut metadata =
            json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        event(frame, "BOOKMARK", self.presenter.bookmark(&metadata).as_bytes());
    }
}

fn event(frame: &mut BytesMut, kind: &str, object: &[u8]) {
    frame.reserve(kind.len() + object.len() + 24);
    frame.put_slice(b"{\"type\":\"");
    frame.put_slice(kind.as_bytes());
    frame.put_slice(b"\",\"object\":");
    frame.put_slice(object);
    frame.put_slice(b"}\n");
}

/// The last event of a watch that is read too slowly.
pub fn slow() -> Bytes {
    let says = "the watch is read too slowly, and what it has missed is no longer kept for it";
    error_event(&ApiError::expired(says))
}

fn error_event(error: &ApiError) -> Bytes {
    let mut frame = BytesMut::new();
    event(&mut frame, "ERROR", error.to_status().to_string().as_bytes());
    frame.freeze()
}
