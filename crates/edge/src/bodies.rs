//! How much of the bodies of requests the server holds at a time.
//!
//! A body is read before it is looked at. One is bounded by `rest`; but requests are many,
//! and whoever sends theirs slowly makes the server hold them long. So bytes are counted as
//! they come, for each user and for all: past the bound the request is refused with 429,
//! and clients try again. One user cannot use up what there is for all.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use flagship_base::machinery::status::ApiError;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// The bodies that are held now.
pub(super) struct Bodies {
    /// Bytes for all users together.
    most: usize,
    /// Bytes for one user.
    most_each: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    total: usize,
    by_user: BTreeMap<Arc<str>, usize>,
}

/// What one request holds, until it is dropped.
pub(super) struct BodyQuota {
    bodies: Arc<Bodies>,
    user: Arc<str>,
    bytes: AtomicUsize,
}

impl Bodies {
    pub(super) fn new(most: usize, most_each: usize) -> Arc<Self> {
        Arc::new(Self { most, most_each, held: Mutex::default() })
    }

    /// The share of a request of this user, nothing so far.
    pub(super) fn share(self: &Arc<Self>, user: &Arc<str>) -> Arc<BodyQuota> {
        let (bodies, user) = (self.clone(), user.clone());
        Arc::new(BodyQuota { bodies, user, bytes: AtomicUsize::new(0) })
    }
}

impl BodyQuota {
    /// Counts more bytes; 429 when there is no room for them.
    pub(super) fn take(&self, bytes: usize) -> Result<(), ApiError> {
        let mut held = self.bodies.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.by_user.get(&self.user).copied().unwrap_or_default();
        if own + bytes > self.bodies.most_each || held.total + bytes > self.bodies.most {
            let says = "too many requests are being sent at a time, please try again later";
            return Err(ApiError::new(429, "TooManyRequests", says).retry_after(1));
        }
        held.total += bytes;
        held.by_user.insert(self.user.clone(), own + bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for BodyQuota {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        let mut held = self.bodies.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.total = held.total.saturating_sub(bytes);
        let left = held.by_user.get(&self.user).map_or(0, |own| own.saturating_sub(bytes));
        match left {
            0 => held.by_user.remove(&self.user),
            left => held.by_user.insert(self.user.clone(), left),
        };
    }
}

/// A body whose bytes are counted as they come.
pub(super) struct Counted {
    pub(super) body: Incoming,
    pub(super) share: Arc<BodyQuota>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            this.share.take(frame.data_ref().map_or(0, Bytes::len))?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_use_up_what_there_is_for_all() {
        let bodies = Bodies::new(100, 60);
        let share = |user: &str| bodies.share(&user.into());
        let (first, second, other) = (share("eve"), share("eve"), share("bob"));
        assert_eq!(first.take(50), Ok(()));
        let refused = second.take(11).unwrap_err();
        assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
        assert_eq!(second.take(10), Ok(()));
        assert_eq!(other.take(40), Ok(()));
        assert_eq!(share("carol").take(1).map_err(|error| error.code), Err(429));
        drop(first);
        assert_eq!(second.take(50), Ok(()));
        drop((second, other));
        let held = bodies.held.lock().unwrap();
        assert!(held.total == 0 && held.by_user.is_empty());
    }
}
