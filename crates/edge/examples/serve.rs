//! A server for stock `kubectl`: `cargo run -p flagship-edge --example serve -- [port] [cluster…]`.
//!
//! Writes `kubeconfig` beside itself and runs until interrupted. Nothing is kept.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use flagship_apiserver::rest::Server;
use flagship_edge::{Authority, Config, Edge};
use flagship_store::env::Env;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let port: u16 = words.next().map_or(Ok(0), |word| word.parse())?;
    let mut names: Vec<String> = words.collect();
    if names.is_empty() {
        names.push("hub".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let env = Env::system();
        let server = Server::new(env.clone());
        for name in &names {
            server.add_cluster(name);
        }
        let config = Config::local(port, Authority::create(env.clock.now())?);
        let edge = Edge::start(&server, &env, config).await?;
        edge.kubeconfig()?.with_current(&names[0]).write(Path::new("kubeconfig"))?;
        writeln!(
            std::io::stdout(),
            "export KUBECONFIG=$PWD/kubeconfig  # {}",
            edge.url(&names[0])
        )?;
        std::future::pending().await
    })
}
