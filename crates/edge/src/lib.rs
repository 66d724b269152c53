//! The server on the network: HTTP/1.1 and HTTP/2 over TLS, all clusters behind one port.
//!
//! [`Edge::start`] listens; every cluster is at `https://<address>/clusters/<name>`, and
//! [`Edge::open`] gives one a port of its own, for tools that cannot put a path into a
//! server's address. [`Edge::kubeconfig`] writes what `kubectl` needs.
//!
//! A connection shows who it is by a client certificate or a token; what that allows is
//! `auth`'s matter. Everything an unauthenticated client can make the server keep or wait for is bounded
//! by [`Limits`]. Verbs, objects and watches are `rest`'s: this is only the way in.

mod audit;
mod authority;
mod bodies;
mod busy_users;
mod connection;
mod connection_limit;
mod eviction;
mod fair_queue;
mod gzip;
mod kept;
mod kubeconfig;
mod limits;
mod outgoing;
mod request;
mod requested;
mod root_paths;
mod socket;
mod tls;
mod unread;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use flagship_store::env::Env;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use audit::{Audit, AuditConfig, AuditError};
pub use authority::{Authority, AuthorityError, Credentials};
pub use kubeconfig::Kubeconfig;
pub use limits::Limits;

use bodies::Bodies;
use busy_users::BusyUsers;
use connection_limit::ConnectionLimit;
use fair_queue::FairQueue;
use flagship_apiserver::auth::{Access, group};
use flagship_apiserver::rest::{Server, Signer};
use request::Listener;
use unread::Unread;

/// Connections that may wait to be accepted, as far as the machine allows: a client that finds
/// no place there tries again a second later.
const BACKLOG: u32 = 4096;

/// How to listen.
pub struct Config {
    /// Where all clusters are served; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Names and addresses, besides those of this machine, that clients may use.
    pub names: Vec<String>,
    /// Who signs the server's certificate and those of its clients.
    pub authority: Authority,
    /// The certificate that the server shows; without it one of the authority.
    pub shown: Option<Credentials>,
    /// Authorities, as PEM, whose client certificates are good besides our own's.
    pub client_authorities: Vec<String>,
    /// Who may do what.
    pub access: Access,
    /// How much unauthenticated clients may make the server keep and wait for.
    pub limits: Limits,
    /// Where it is logged who did what, if it is.
    pub audit: Option<Audit>,
    /// What an administrator who posts to `/backup` sets off, if it is served.
    pub backup: Option<Backup>,
}

/// Makes a copy of everything that is kept, and says in JSON what was made; or why it cannot.
pub type Backup = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// A server that listens. Dropping it closes it at once; [`Edge::shutdown`] is gentler.
pub struct Edge {
    shared: Arc<Shared>,
    address: SocketAddr,
    names: Vec<String>,
    authority: Authority,
    env: Env,
    /// Clusters that have a port of their own.
    own_ports: Mutex<BTreeMap<String, SocketAddr>>,
}

/// What every connection needs.
struct Shared {
    server: Server,
    access: Arc<Access>,
    limits: Limits,
    /// Who signs certificates here, for the clusters.
    authority: Arc<dyn Signer>,
    tls: Arc<ServerConfig>,
    connections: Arc<ConnectionLimit>,
    bodies: Arc<Bodies>,
    busy_users: Arc<BusyUsers>,
    /// Whose small request is next.
    light: Arc<FairQueue>,
    /// Whose small read is.
    reads: Arc<FairQueue>,
    /// Whose large one is.
    heavy: Arc<FairQueue>,
    unread: Arc<Unread>,
    audit: Option<Arc<Audit>>,
    backup: Option<Backup>,
    env: Env,
    /// Told when the server is to end: no new requests, watches end.
    closing: CancellationToken,
    /// Told when waiting has an end, too.
    aborting: CancellationToken,
    tasks: TaskTracker,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The address is taken, or not of this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The certificates do not make a working TLS server.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

impl Config {
    /// All clusters on a port of this machine only, with the default rules and bounds.
    pub fn local(port: u16, authority: Authority) -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, port).into(),
            names: Vec::new(),
            authority,
            shown: None,
            client_authorities: Vec::new(),
            access: Access::default(),
            limits: Limits::default(),
            audit: None,
            backup: None,
        }
    }
}

impl Edge {
    /// Listens from now on. The environment's clock dates certificates; it should tell
    /// the true time where clients do.
    pub async fn start(server: &Server, env: &Env, config: Config) -> Result<Self, EdgeError> {
        let Config {
            listen,
            names,
            authority,
            shown,
            client_authorities,
            access,
            limits,
            audit,
            backup,
        } = config;
        let shown = match shown {
            Some(shown) => shown,
            None => authority.server(&server_names(listen.ip(), &names), env.clock.now())?,
        };
        let tls = tls::config(&authority, &client_authorities, &shown, env.clock.clone())?;
        let shared = Arc::new(Shared {
            server: server.clone(),
            access: Arc::new(access),
            authority: Arc::new(authority.clone()),
            tls,
            connections: ConnectionLimit::new(&limits),
            bodies: Bodies::new(limits.bodies, limits.bodies_each),
            busy_users: BusyUsers::new(),
            light: FairQueue::new(limits.requests, limits.requests_each, limits.waiting_each),
            reads: FairQueue::new(limits.requests, limits.reads_each, limits.waiting_each),
            heavy: FairQueue::new(limits.heavy, limits.heavy, limits.waiting_each),
            unread: Unread::new(limits.unread_each),
            audit: audit.map(Arc::new),
            backup,
            env: env.clone(),
            limits,
            closing: CancellationToken::new(),
            aborting: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let address = listen_at(&shared, listen, Listener::All).await?;
        let (env, own_ports) = (env.clone(), Mutex::default());
        Ok(Self { shared, address, names, authority, env, own_ports })
    }

    /// Gives a cluster a port of its own, where it is served without a path in front.
    /// The address that was taken.
    pub async fn open(&self, cluster: &str, at: SocketAddr) -> Result<SocketAddr, EdgeError> {
        let address = listen_at(&self.shared, at, Listener::Only(cluster.into())).await?;
        let mut own_ports = self.own_ports.lock().unwrap_or_else(PoisonError::into_inner);
        own_ports.insert(cluster.to_owned(), address);
        Ok(address)
    }

    /// Where all clusters are served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a cluster is served: its own port if it has one.
    pub fn url(&self, cluster: &str) -> String {
        let own_ports = self.own_ports.lock().unwrap_or_else(PoisonError::into_inner);
        match own_ports.get(cluster) {
            Some(own) => format!("https://{}", self.reachable(*own)),
            None => format!("https://{}/clusters/{cluster}", self.reachable(self.address)),
        }
    }

    /// An address that clients can connect to: the first extra name, if there is one, in
    /// place of "all addresses of this machine".
    fn reachable(&self, at: SocketAddr) -> String {
        if !at.ip().is_unspecified() {
            return at.to_string();
        }
        match self.names.first() {
            Some(name) => match name.parse::<IpAddr>() {
                Ok(ip) => SocketAddr::new(ip, at.port()).to_string(),
                Err(_) => format!("{name}:{}", at.port()),
            },
            None => SocketAddr::new(loopback(at.ip()), at.port()).to_string(),
        }
    }

    /// Who signs certificates here.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A kubeconfig with one context for every cluster there is now, named like it, and the
    /// administrator's certificate.
    pub fn kubeconfig(&self) -> Result<Kubeconfig, EdgeError> {
        let now = self.env.clock.now();
        let admin = self.authority.kept_client("flagship-admin", group::MASTERS, now)?;
        let clusters = self.shared.server.clusters();
        let contexts = clusters.iter().map(|name| (name.to_string(), self.url(name))).collect();
        Ok(Kubeconfig::new(self.authority.certificate_pem(), "flagship-admin", admin, contexts))
    }

    /// Stops listening, ends watches as if their time were over, lets requests under way
    /// finish for as long as the limits say, and then cuts what is left.
    pub async fn shutdown(self) {
        self.shared.closing.cancel();
        self.shared.tasks.close();
        let grace = self.shared.limits.shutdown;
        if tokio::time::timeout(grace, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!(left = self.shared.tasks.len(), "connections are cut");
            self.shared.aborting.cancel();
            self.shared.tasks.wait().await;
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.shared.aborting.cancel();
    }
}

async fn listen_at(
    shared: &Arc<Shared>,
    address: SocketAddr,
    listener: Listener,
) -> Result<SocketAddr, EdgeError> {
    let failed = |source| EdgeError::Listen { address, source };
    let socket = bind(address).map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    shared.tasks.spawn(connection::accept(shared.clone(), socket, Arc::new(listener)));
    Ok(address)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // So that a server that ends can be followed by another at once.
    socket.set_reuseaddr(!cfg!(windows))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// What clients may call this server.
fn server_names(listen: IpAddr, extra: &[String]) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    .map(str::to_owned)
    .into();
    if !listen.is_unspecified() {
        names.push(listen.to_string());
    }
    names.extend(extra.iter().cloned());
    names.sort();
    names.dedup();
    names
}
