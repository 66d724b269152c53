//! Response bodies on their way out: they end when the server does, make way for each other,
//! and are counted while nobody reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::spawn_blocking;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::audit::Record;
use super::fair_queue::FairQueue;
use super::unread::Held;
use flagship_apiserver::rest::{Body, UnderWay, slow_watch};

/// After so many bytes a body lets other tasks of its thread run: a long list that is read fast
/// would otherwise keep them waiting until its end. No frame is longer, for a connection
/// encrypts and writes a frame in one go.
const PIECE: usize = 64 * 1024;

/// A body of `rest`; a watch ends cleanly, between two events, when the server ends.
pub(super) struct Outgoing {
    /// `None` while a piece of it is made elsewhere, and when that failed.
    body: Option<Body>,
    /// For a list whose pieces take long to make.
    pieces: Option<Pieces>,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Bytes since others could run.
    since_others: usize,
    /// What is left of a frame that is longer than a piece.
    left: Bytes,
    /// What a watch holds for its client.
    held: Option<Held>,
    /// Whether a watch was ended early.
    ended: bool,
    /// A watch is under way as long as this is here.
    _under_way: Option<UnderWay>,
    /// Written when the answer has ended.
    record: Option<Box<Record>>,
}

/// A list whose pieces are made off the async threads, each in a turn of its user: tables and
/// the like, for which every object is read.
struct Pieces {
    queue: Arc<FairQueue>,
    user: Arc<str>,
    making: Option<Making>,
}

/// A piece in the making; `None` if whoever made it did not come to an end.
type Making = Pin<Box<dyn Future<Output = Option<(Body, Option<Bytes>)>> + Send>>;

impl Pieces {
    fn poll_next(
        &mut self,
        body: &mut Option<Body>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Bytes>> {
        let making = match (&mut self.making, body.take()) {
            (Some(making), _) => making,
            (None, Some(body)) => {
                let made = make_piece(self.queue.clone(), self.user.clone(), body);
                self.making.insert(Box::pin(made))
            }
            (None, None) => return Poll::Ready(None),
        };
        let made = ready!(making.as_mut().poll(context));
        self.making = None;
        let (rest, piece) = made.map_or((None, None), |(rest, piece)| (Some(rest), piece));
        *body = rest;
        Poll::Ready(piece)
    }
}

async fn make_piece(
    queue: Arc<FairQueue>,
    user: Arc<str>,
    mut body: Body,
) -> Option<(Body, Option<Bytes>)> {
    let slot = queue.take_another(&user).await;
    let making = spawn_blocking(move || {
        let _slot = slot;
        let piece = body.next_piece();
        (body, piece)
    });
    let made = making.await;
    made.inspect_err(|why| tracing::error!(%why, "a list could not be put together")).ok()
}

/// What goes along with an answer.
#[derive(Default)]
pub(super) struct ResponseGuards {
    /// Whose turns the pieces of a costly list take, and whose list it is.
    pub(super) queue: Option<(Arc<FairQueue>, Arc<str>)>,
    pub(super) under_way: Option<UnderWay>,
    pub(super) held: Option<Held>,
    pub(super) record: Option<Box<Record>>,
}

impl Outgoing {
    /// The body of an answer that has begun.
    pub(super) fn new(body: Body, closing: &CancellationToken, along: ResponseGuards) -> Self {
        let closing = body.is_watch().then(|| Box::pin(closing.clone().cancelled_owned()));
        let ResponseGuards { queue, under_way, held, record } = along;
        let held = held.filter(|_| body.is_watch());
        Self {
            body: Some(body),
            pieces: queue.map(|(queue, user)| Pieces { queue, user, making: None }),
            closing,
            since_others: 0,
            left: Bytes::new(),
            held,
            ended: false,
            _under_way: under_way,
            record,
        }
    }

    /// Counts what goes out. A watch whose user leaves too much unread gets its last event.
    fn pass_on(&mut self, mut bytes: Bytes) -> Bytes {
        if let Some(held) = &mut self.held
            && !held.give(bytes.len())
        {
            self.ended = true;
            bytes = slow_watch();
        }
        if let Some(record) = &mut self.record {
            record.more(&bytes);
        }
        self.left = bytes;
        self.cut()
    }

    /// The next piece of the frame that is under way.
    fn cut(&mut self) -> Bytes {
        let piece = self.left.split_to(self.left.len().min(PIECE));
        self.since_others += piece.len();
        piece
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
        if this.since_others >= PIECE {
            this.since_others = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !this.left.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(this.cut()))));
        }
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
        let frame = match (&mut this.pieces, &mut this.body) {
            (Some(pieces), body) => pieces
                .poll_next(body, context)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
            (None, Some(body)) => Pin::new(body).poll_frame(context),
            (None, None) => Poll::Ready(None),
        };
        frame.map(|frame| {
            frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| this.pass_on(bytes))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && (self.ended || self.body.as_ref().is_some_and(Body::is_end_stream))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint);
        let left = self.left.len() as u64;
        // The upper bound first, which must not be below the lower one.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + left);
        }
        hint.set_lower(hint.lower() + left);
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_long_answer_goes_out_in_pieces_between_which_others_run() {
        let text = "x".repeat(3 * PIECE + 7);
        let body = flagship_apiserver::rest::text(text.clone()).into_body();
        let closing = CancellationToken::new();
        let mut outgoing = Outgoing::new(body, &closing, ResponseGuards::default());
        let (mut read, mut waits) = (Vec::new(), 0);
        loop {
            let mut outgoing = Pin::new(&mut outgoing);
            let hint = http_body::Body::size_hint(&*outgoing).exact();
            assert_eq!(hint, Some((text.len() - read.len()) as u64));
            let frame = poll_fn(|context| {
                let polled = http_body::Body::poll_frame(outgoing.as_mut(), context);
                waits += usize::from(polled.is_pending());
                polled
            });
            let Some(Ok(frame)) = frame.await else { break };
            let piece = frame.into_data().unwrap();
            assert!(piece.len() <= PIECE, "{}", piece.len());
            read.extend_from_slice(&piece);
            let ended = http_body::Body::is_end_stream(&*outgoing);
            assert_eq!(ended, read.len() == text.len());
        }
        assert!(read == text.as_bytes());
        assert_eq!(waits, 3);
    }
}
