//! The way to a real API server: the layers that `kube` has, over TCP without Nagle's algorithm.
//!
//! After a TLS handshake the first request is one more small segment. With Nagle's algorithm it
//! waits until the server has acknowledged the handshake, and a server that has nothing to send
//! in between, such as one without session tickets, does so only after 40 ms. Go's clients turn
//! the algorithm off, too; `kube` has no switch for it.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::config::Config;
use tower::{BoxError, ServiceBuilder};

/// A client of this server.
pub(super) fn to(config: Config) -> kube::Result<kube::Client> {
    if config.proxy_url.is_some() {
        // Whatever is to be said about proxies, `kube` says.
        return kube::Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: Http<_, Body> = Http::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, config.default_namespace))
}
