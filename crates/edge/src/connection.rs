//! Connections: accepted, proven, served, and ended when the server ends.

use std::future::{Future, pending};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use futures::poll;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::busy_users::RequestExecutor;
use super::connection_limit::{ConnectionSlot, Step};
use super::outgoing::Outgoing;
use super::request::{self, Listener};
use super::socket::Socket;
use flagship_apiserver::auth::{User, certificate_user};
use flagship_apiserver::rest::Disconnected;

type Io = TokioIo<TlsStream<Socket>>;

/// How long to wait when accepting fails, as it does without free file descriptors.
const BREATH: Duration = Duration::from_millis(10);
/// How often an HTTP/2 connection may break the rules within one request before it is cut.
const BROKEN: usize = 100;
/// How much of an answer may wait for one HTTP/2 request that is not read.
const SEND_BUFFER: usize = 64 * 1024;

/// What whoever does not speak TLS is told, as by programs written in Go.
const NOT_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Accepts connections until the server ends.
pub(super) async fn accept(shared: Arc<Shared>, socket: TcpListener, listener: Arc<Listener>) {
    let closing = shared.closing.clone();
    let accepting = async {
        loop {
            let (stream, peer) = match socket.accept().await {
                Ok(came) => came,
                Err(why) if why.kind() == ErrorKind::ConnectionAborted => continue,
                Err(why) => {
                    tracing::warn!(%why, "cannot accept a connection");
                    shared.connections.evict_some();
                    sleep(BREATH).await;
                    continue;
                }
            };
            let slot = Arc::new(shared.connections.slot(peer.ip()));
            let (task, listener) = (shared.clone(), listener.clone());
            let of_slot = slot.clone();
            let serving = shared.tasks.track_future(async move {
                // Boxed here and below, for a future keeps memory for all it ever waits for: a
                // silent connection would cost as much as a busy one, many times over.
                let serving = Box::pin(welcome(&task, stream, listener, slot.clone()));
                task.aborting.run_until_cancelled(until_evicted(&slot, serving)).await;
            });
            shared.busy_users.spawn(&of_slot, serving);
        }
    };
    closing.run_until_cancelled(accepting).await;
}

/// Serves until the connection is evicted.
async fn until_evicted(slot: &ConnectionSlot, mut serving: impl Future<Output = ()> + Unpin) {
    while let Either::Right(_) = select(&mut serving, pin!(slot.evicted())).await {
        // What it takes to go on may lie there unread, for others are served as well; once the
        // sockets have been looked at it is read.
        yield_now().await;
        if poll!(&mut serving).is_ready() || !slot.is_held() {
            return;
        }
    }
}

/// One connection from its first word to its end.
async fn welcome(
    shared: &Arc<Shared>,
    stream: TcpStream,
    listener: Arc<Listener>,
    slot: Arc<ConnectionSlot>,
) {
    let mut word = [0; 5];
    let heard = timeout(shared.limits.handshake, stream.peek(&mut word)).await;
    let Ok(Ok(length @ 1..)) = heard else { return };
    // Events of watches are small and must not wait for each other.
    if let Err(why) = stream.set_nodelay(true) {
        tracing::debug!(%why, "cannot turn off Nagle's algorithm");
    }
    let stream = Socket::new(stream, shared.limits.stalled);
    match &word[..length] {
        b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO" => {
            // Whoever does not read this has not been promised anything.
            timeout(shared.limits.handshake, Box::pin(say(stream, NOT_TLS))).await.ok();
        }
        _ => Box::pin(serve(shared, stream, listener, slot)).await,
    }
}

async fn say(mut stream: Socket, words: &[u8]) -> io::Result<()> {
    stream.write_all(words).await?;
    stream.shutdown().await
}

/// One connection from handshake to end.
async fn serve(
    shared: &Arc<Shared>,
    stream: Socket,
    listener: Arc<Listener>,
    slot: Arc<ConnectionSlot>,
) {
    let handshake = Box::pin(handshake(shared, stream, &slot));
    let stream = match timeout(shared.limits.handshake, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return tracing::debug!(%why, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let user: Option<Arc<User>> = certificate.and_then(|der| certificate_user(der)).map(Arc::new);
    if let Some(user) = &user {
        slot.authenticated(&user.name);
        shared.busy_users.belongs_to(&slot, &user.name);
    }
    slot.reached(Step::Secured);
    let http2 = session.alpn_protocol() == Some(b"h2");
    let service = service_fn(|request| {
        slot.spoken.cancel();
        slot.reached(Step::Asked);
        request::answer(shared.clone(), listener.clone(), user.clone(), slot.clone(), request)
    });
    let io = TokioIo::new(stream);
    let ended = match http2 {
        true => Box::pin(serve_http2(shared, io, service, &slot)).await,
        false => Box::pin(serve_http1(shared, io, service)).await,
    };
    if let Err(why) = ended {
        tracing::debug!(%why, "a connection ended early");
    }
}

async fn handshake(
    shared: &Shared,
    stream: Socket,
    slot: &ConnectionSlot,
) -> io::Result<TlsStream<Socket>> {
    let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    // Only a whole greeting makes the server work.
    slot.reached(Step::Greeted);
    begun.into_stream(shared.tls.clone()).await
}

async fn serve_http1<S>(shared: &Shared, io: Io, service: S) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Outgoing, Error = Disconnected>,
{
    let limits = &shared.limits;
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
}

async fn serve_http2<S>(
    shared: &Shared,
    io: Io,
    service: S,
    slot: &Arc<ConnectionSlot>,
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Outgoing, Error = Disconnected>,
    S::Future: Send + 'static,
{
    let limits = &shared.limits;
    let mut builder = http2::Builder::new(RequestExecutor {
        users: shared.busy_users.clone(),
        slot: slot.clone(),
    });
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(limits.resets)
        .max_local_error_reset_streams(BROKEN)
        .max_header_list_size(limits.head_bytes)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.ping_wait);
    let mut connection = pin!(builder.serve_connection(io, service));
    let serving = until_silent(connection.as_mut(), slot, limits.head_wait);
    match shared.closing.run_until_cancelled(serving).await {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// Serves an HTTP/2 connection, but gives up one that sends no request: hyper's own clock
/// starts only once the client has greeted.
async fn until_silent<E>(
    connection: impl Future<Output = Result<(), E>> + Unpin,
    slot: &ConnectionSlot,
    wait: Duration,
) -> Result<(), E> {
    let silent = pin!(async {
        if timeout(wait, slot.spoken.cancelled()).await.is_ok() {
            pending::<()>().await;
        }
    });
    match select(connection, silent).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            tracing::debug!("a connection sent no request");
            Ok(())
        }
    }
}
