//! Connections: accepted, proven, served, and ended when the server ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::request::{self, Door};
use crate::auth::{User, certificate_user};

/// How long to wait when accepting fails, as it does without free file descriptors.
const BREATH: Duration = Duration::from_millis(100);

/// Accepts connections until the server ends.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener, door: Arc<Door>) {
    let closing = shared.closing.clone();
    let accepting = async {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(why) => {
                    tracing::warn!(%why, "cannot accept a connection");
                    sleep(BREATH).await;
                    continue;
                }
            };
            // Bounds what strangers can hold: while there is no room, others wait in the
            // listen queue.
            let Ok(permit) = shared.room.clone().acquire_owned().await else { return };
            let (task, door) = (shared.clone(), door.clone());
            shared.tasks.spawn(async move {
                let aborting = task.aborting.clone();
                aborting.run_until_cancelled(serve(&task, stream, door)).await;
                drop(permit);
            });
        }
    };
    closing.run_until_cancelled(accepting).await;
}

/// One connection from handshake to end.
async fn serve(shared: &Arc<Shared>, stream: TcpStream, door: Arc<Door>) {
    // Events of watches are small and must not wait for each other.
    if let Err(why) = stream.set_nodelay(true) {
        tracing::debug!(%why, "cannot turn off Nagle's algorithm");
    }
    let stream = match timeout(shared.limits.handshake, shared.tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return tracing::debug!(%why, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let user: Option<Arc<User>> = certificate.and_then(|der| certificate_user(der)).map(Arc::new);
    let http2 = session.alpn_protocol() == Some(b"h2");
    let service =
        service_fn(|request| request::answer(shared.clone(), door.clone(), user.clone(), request));
    let (io, limits) = (TokioIo::new(stream), &shared.limits);
    let ended = if http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_pending_accept_reset_streams(limits.resets)
            .max_header_list_size(limits.head_bytes)
            .keep_alive_interval(limits.ping_every)
            .keep_alive_timeout(limits.ping_wait);
        let mut connection = pin!(builder.serve_connection(io, service));
        match shared.closing.run_until_cancelled(connection.as_mut()).await {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_wait)
            .max_buf_size(usize::try_from(limits.head_bytes).unwrap_or(usize::MAX).max(8192));
        let mut connection = pin!(builder.serve_connection(io, service));
        match shared.closing.run_until_cancelled(connection.as_mut()).await {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(why) = ended {
        tracing::debug!(%why, "a connection ended early");
    }
}
