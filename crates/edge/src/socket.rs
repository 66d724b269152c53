//! The socket of a connection, which waits for its peer but not for ever.
//!
//! A peer that does not read what it asked for is given up after a while. A peer that is
//! still sending when it is refused is given a moment before the socket closes: closing
//! with bytes unread resets the connection, and the refusal could be lost with it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a peer that was refused in the middle of its request may take to notice.
const FAREWELL: Duration = Duration::from_millis(500);

/// A TCP connection.
pub(super) struct Socket {
    stream: TcpStream,
    /// How long nothing may be read by the peer while there is something for it.
    patience: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    farewell: Farewell,
}

enum Farewell {
    NotYet,
    /// Our side is closed.
    Said,
    Waiting(Pin<Box<Sleep>>),
}

impl Socket {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, stalled: None, farewell: Farewell::NotYet }
    }

    /// What a write came to; one that waits too long is an error.
    fn patiently(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.patiently(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.patiently(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.farewell {
                Farewell::NotYet => {
                    ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
                    this.farewell = Farewell::Said;
                }
                Farewell::Said => {
                    let mut unread = [0; 64];
                    let mut unread = ReadBuf::new(&mut unread);
                    let read = Pin::new(&mut this.stream).poll_read(context, &mut unread);
                    if unread.filled().is_empty() || !matches!(read, Poll::Ready(Ok(()))) {
                        return Poll::Ready(Ok(()));
                    }
                    this.farewell = Farewell::Waiting(Box::pin(sleep(FAREWELL)));
                }
                Farewell::Waiting(moment) => {
                    ready!(moment.as_mut().poll(context));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}
