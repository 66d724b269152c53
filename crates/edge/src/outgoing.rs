//! Response bodies on their way out: they end when the server does, make way for each other,
//! and are counted while nobody reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::audit::Record;
use super::unread::Held;
use flagship_apiserver::rest::{Body, UnderWay, slow_watch};

/// After so many bytes a body lets other tasks of its thread run: a long list that is read fast
/// would otherwise keep them waiting until its end.
const PIECE: usize = 128 * 1024;

/// A body of `rest`; a watch ends cleanly, between two events, when the server ends.
pub(super) struct Outgoing {
    body: Body,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Bytes since others could run.
    since_others: usize,
    /// What a watch holds for its client.
    held: Option<Held>,
    /// Whether a watch was ended early.
    ended: bool,
    /// A watch is under way as long as this is here.
    _under_way: Option<UnderWay>,
    /// Written when the answer has ended.
    record: Option<Box<Record>>,
}

/// What goes along with an answer.
#[derive(Default)]
pub(super) struct Along {
    pub(super) under_way: Option<UnderWay>,
    pub(super) held: Option<Held>,
    pub(super) record: Option<Box<Record>>,
}

impl Outgoing {
    /// The body of an answer that has begun.
    pub(super) fn new(body: Body, closing: &CancellationToken, along: Along) -> Self {
        let closing = body.is_watch().then(|| Box::pin(closing.clone().cancelled_owned()));
        let Along { under_way, held, record } = along;
        let held = held.filter(|_| body.is_watch());
        Self { body, closing, since_others: 0, held, ended: false, _under_way: under_way, record }
    }

    /// Counts what goes out. A watch whose user leaves too much unread gets its last event.
    fn pass_on(&mut self, mut bytes: Bytes) -> Bytes {
        if let Some(held) = &mut self.held
            && !held.give(bytes.len())
        {
            self.ended = true;
            bytes = slow_watch();
        }
        self.since_others += bytes.len();
        if let Some(record) = &mut self.record {
            record.more(&bytes);
        }
        bytes
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(held) = &mut this.held {
            held.sent();
        }
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(closing) = &mut this.closing
            && closing.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        if this.since_others >= PIECE {
            this.since_others = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = Pin::new(&mut this.body).poll_frame(context);
        frame.map(|frame| {
            frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| this.pass_on(bytes))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
