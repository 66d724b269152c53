//! Response bodies that end when the server does.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use flagship_apiserver::rest::{Body, UnderWay};

/// A body of `rest`; a watch ends cleanly, between two events, when the server ends.
pub(super) struct Outgoing {
    body: Body,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// A watch is under way as long as this is here.
    _under_way: Option<UnderWay>,
}

impl Outgoing {
    /// The body of an answer that has begun.
    pub(super) fn new(
        body: Body,
        closing: &CancellationToken,
        under_way: Option<UnderWay>,
    ) -> Self {
        let closing = body.is_watch().then(|| Box::pin(closing.clone().cancelled_owned()));
        Self { body, closing, _under_way: under_way }
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
        if let Some(closing) = &mut this.closing
            && closing.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
