//! Response bodies: one piece, a list put together as it is read, or a watch.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use bytes::{Bytes, BytesMut};
use flagship_store::Stored;
use http_body::{Frame, SizeHint};
use serde_json::Value;

use super::present::Presenter;
use super::watch::WatchStream;

/// Pieces of a list have about this many bytes.
const PIECE: usize = 64 * 1024;
/// For a row of a table a whole object is read; after so many bytes the piece is cut.
const READ: usize = 256 * 1024;
/// An item of this many bytes that is sent as it lies is not copied into a piece: a client
/// that reads nothing then costs nothing.
const LARGE: usize = 16 * 1024;

/// The body of a response. Watches stream until they end.
pub struct Body(Inner);

enum Inner {
    Whole(Option<Bytes>),
    List(Box<ListBody>),
    Watch(Box<WatchStream>),
}

struct ListBody {
    head: Option<Bytes>,
    items: vec::IntoIter<Arc<Stored>>,
    presenter: Presenter,
    /// What goes out next, as it lies.
    large: VecDeque<Bytes>,
    first: bool,
    done: bool,
    yaml: bool,
}

impl Body {
    /// A body that is known already.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into())))
    }

    /// A list: its head up to the opening bracket, then the stored bytes of each item.
    pub(super) fn list(head: Bytes, items: Vec<Arc<Stored>>, presenter: Presenter) -> Self {
        let items = items.into_iter();
        Self(Inner::List(Box::new(ListBody {
            head: Some(head),
            items,
            presenter,
            large: VecDeque::new(),
            first: true,
            done: false,
            yaml: false,
        })))
    }

    /// The same in YAML. A watch is left as it is.
    pub(super) fn in_yaml(self) -> Self {
        match self.0 {
            Inner::Whole(Some(json)) => Self::whole(yaml(&json).unwrap_or(json)),
            Inner::List(list) => Self(Inner::List(Box::new(list.in_yaml()))),
            other => Self(other),
        }
    }

    /// Whether this is a list whose objects have to be read, and so much of it that whoever
    /// sends it should let others work between two pieces: [`Body::next_piece`] makes one.
    pub fn is_costly(&self) -> bool {
        let Inner::List(list) = &self.0 else { return false };
        let as_it_lies = list.presenter.as_it_lies() && !list.yaml;
        let mut sizes = list.items.as_slice().iter().map(|item| item.json.len());
        let mut read = 0;
        !as_it_lies
            && sizes.any(|size| {
                read += size;
                read > READ
            })
    }

    /// The next piece of a list; nothing after the last, and of other bodies.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        match &mut self.0 {
            Inner::List(list) if list.yaml => list.next_yaml(),
            Inner::List(list) => list.next(),
            Inner::Whole(_) | Inner::Watch(_) => None,
        }
    }

    /// Whether the body streams until somebody ends it.
    pub fn is_watch(&self) -> bool {
        matches!(self.0, Inner::Watch(_))
    }

    /// A watch.
    pub(super) fn watch(stream: WatchStream) -> Self {
        Self(Inner::Watch(Box::new(stream)))
    }
}

/// JSON as YAML; `None` if it is none.
fn yaml(json: &[u8]) -> Option<Bytes> {
    let value: Value = serde_json::from_slice(json).ok()?;
    serde_saphyr::to_string(&value).ok().map(Bytes::from)
}

impl ListBody {
    /// The same in YAML: what stands before the items, then each as a sequence of one, which
    /// one after the other are a sequence.
    fn in_yaml(mut self) -> Self {
        let Some(head) = self.head.take() else { return self };
        // Whatever the form, the key of the items is the last.
        let key = if head.ends_with(b"\"rows\":[") { "rows" } else { "items" };
        let mut begun: Value =
            serde_json::from_slice(&[&head, &b"]}"[..]].concat()).unwrap_or_default();
        if let Some(fields) = begun.as_object_mut() {
            fields.remove(key);
        }
        let Ok(text) = serde_saphyr::to_string(&begun) else {
            self.head = Some(head);
            return self;
        };
        let none = self.items.as_slice().is_empty();
        self.head = Some(format!("{text}{key}:{}\n", if none { " []" } else { "" }).into());
        self.yaml = true;
        self
    }

    /// The next piece in YAML.
    fn next_yaml(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut piece = BytesMut::from(&*self.head.take().unwrap_or_default());
        while piece.len() < PIECE {
            let Some(item) = self.items.next() else {
                self.done = true;
                break;
            };
            let shown = self.presenter.item(&item.json, item.revision).ok();
            let text = shown.and_then(|json| {
                let [version, kind] = self.presenter.type_in(&json);
                let (first, second) = (&json[..version.start], &json[version.end..kind.start]);
                yaml(&[b"[", first, second, &json[kind.end..], b"]"].concat())
            });
            let Some(text) = text else {
                tracing::error!(name = %item.key.name, "a stored object cannot be shown");
                continue;
            };
            piece.extend_from_slice(&text);
        }
        Some(piece.freeze()).filter(|piece| !piece.is_empty())
    }

    /// Room for the next piece, so that it is not moved while it grows.
    fn size_of_piece(&self) -> usize {
        let mut size = self.head.as_ref().map_or(2, |head| head.len() + 2);
        for item in self.items.as_slice() {
            size += 1;
            if item.json.len() >= LARGE || size > PIECE {
                break;
            }
            size += item.json.len();
        }
        size
    }

    fn next(&mut self) -> Option<Bytes> {
        if self.done || !self.large.is_empty() {
            return self.large.pop_front();
        }
        let mut piece = BytesMut::with_capacity(self.size_of_piece());
        if let Some(head) = self.head.take() {
            piece.extend_from_slice(&head);
        }
        let mut read = 0;
        while piece.len() < PIECE && read < READ {
            let Some(item) = self.items.next() else {
                piece.extend_from_slice(b"]}");
                self.done = true;
                break;
            };
            // What the server stored, it can also show; an item that it cannot is left out
            // rather than breaking the whole list.
            let Ok(json) = self.presenter.item(&item.json, item.revision) else {
                tracing::error!(name = %item.key.name, "a stored object cannot be shown");
                continue;
            };
            read += item.json.len();
            if !std::mem::take(&mut self.first) {
                piece.extend_from_slice(b",");
            }
            let [version, kind] = self.presenter.type_in(&json);
            let parts = [0..version.start, version.end..kind.start, kind.end..json.len()];
            if matches!(json, Cow::Borrowed(_)) && json.len() >= LARGE {
                let whole = item.body();
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                self.large.extend(parts.map(|part| whole.slice(part)));
                break;
            }
            parts.into_iter().for_each(|part| piece.extend_from_slice(&json[part]));
        }
        if piece.is_empty() {
            return self.large.pop_front();
        }
        Some(piece.freeze())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let next = match &mut this.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty())),
            Inner::List(_) => Poll::Ready(this.next_piece()),
            Inner::Watch(stream) => stream.poll_bytes(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Inner::List(list) => list.done,
            Inner::Watch(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Inner::List(_) | Inner::Watch(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Whole(_) => "Body::Whole",
            Inner::List(_) => "Body::List",
            Inner::Watch(_) => "Body::Watch",
        })
    }
}
