//! The body of an event stream: what changed, as soon as the connection takes it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};

use crate::live::Reader;

/// A comment now and then lets both sides notice that the other is gone.
const ALIVE: Duration = Duration::from_secs(15);

/// Sends what the reader lacks, for ever or for so long; a page comes back by itself then, and
/// goes on where it was.
pub fn body(
    reader: Reader,
    now: Arc<dyn Fn() -> i64 + Send + Sync>,
    lasts: Option<Duration>,
) -> UnsyncBoxBody<Bytes, Infallible> {
    let begun = (reader, now, true);
    let events = stream::unfold(begun, |(mut reader, now, first)| async move {
        let next = tokio::time::timeout(ALIVE, reader.next(&*now)).await;
        let mut bytes = match next {
            Ok(events) if events.len() == 1 && !first => {
                events.into_iter().next().unwrap_or_default()
            }
            Ok(events) => events.concat().into(),
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        if first {
            // Whoever loses the connection comes back soon.
            let mut begin = BytesMut::from(&b"retry: 1000\n\n"[..]);
            begin.extend_from_slice(&bytes);
            bytes = begin.freeze();
        }
        Some((Ok(Frame::data(bytes)), (reader, now, false)))
    });
    let Some(lasts) = lasts else { return StreamBody::new(events).boxed_unsync() };
    let again = stream::once(async { Ok(Frame::data(Bytes::from_static(b"retry: 50\n\n"))) });
    let events = events.take_until(tokio::time::sleep(lasts)).chain(again);
    StreamBody::new(events).boxed_unsync()
}
