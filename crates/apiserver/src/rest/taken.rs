//! Which addresses and node ports the services of a cluster have taken.
//!
//! What each service takes is remembered with its revision, so that a write parses only the
//! services that changed since the last one. The store stays the truth: whatever was
//! written past this is noticed by its revision.

use std::collections::BTreeMap;
use std::net::IpAddr;

use flagship_kinds::addresses::{Addresses, ServiceRanges};
use flagship_store::{ObjectKey, Scope, Store};
use serde_json::Value;

/// What is taken, by whom.
#[derive(Debug, Default)]
pub(super) struct Taken {
    services: BTreeMap<ObjectKey, (u64, ServiceRanges)>,
    parsed: u64,
}

impl Taken {
    /// Everything that is taken now.
    pub(super) fn ranges(&mut self, store: &Store) -> ServiceRanges {
        self.refresh(store);
        self.without(None)
    }

    /// Whether another service took an address or port of this one since it was drafted.
    pub(super) fn is_allocated(&mut self, store: &Store, key: &ObjectKey, service: &Value) -> bool {
        self.refresh(store);
        let mut taken = self.without(Some(key));
        let spec = &service["spec"];
        let ip = spec["clusterIP"].as_str().filter(|ip| ip.parse::<IpAddr>().is_ok());
        let ports = spec["ports"].as_array().into_iter().flatten();
        let mut ports = ports.filter_map(|port| u16::try_from(port["nodePort"].as_u64()?).ok());
        ip.is_some_and(|ip| taken.claim_ip(ip).is_err())
            || ports.any(|port| port != 0 && taken.claim_port(port).is_err())
    }

    fn refresh(&mut self, store: &Store) {
        let mut before = std::mem::take(&mut self.services);
        for service in store.list("services", Scope::All).items {
            let known = before.remove(&service.key).filter(|(at, _)| *at == service.revision);
            let entry = known.unwrap_or_else(|| {
                self.parsed += 1;
                let mut ranges = ServiceRanges::default();
                if let Ok(object) = serde_json::from_slice(&service.json) {
                    ranges.observe(&object);
                }
                (service.revision, ranges)
            });
            self.services.insert(service.key.clone(), entry);
        }
    }

    fn without(&self, key: Option<&ObjectKey>) -> ServiceRanges {
        let mut all = ServiceRanges::default();
        let others = self.services.iter().filter(|(other, _)| Some(*other) != key);
        others.for_each(|(_, (_, ranges))| all.add(ranges));
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::rest::Server;
    use flagship_store::env::Env;

    #[tokio::test]
    async fn a_write_parses_only_the_services_that_changed() {
        let server = Server::new(Env::simulated(1));
        let handle = server.add_cluster("hub");
        let local = handle.local("x");
        let first = handle.cluster.allocating.lock().unwrap().parsed;
        for n in 0..50 {
            let spec = json!({"ports": [{"port": 80}], "selector": {"a": "b"}});
            let service = json!({"metadata": {"name": format!("s{n}")}, "spec": spec});
            local.create("services", "default", service).await.unwrap();
        }
        let parsed = handle.cluster.allocating.lock().unwrap().parsed - first;
        assert!(parsed <= 51, "{parsed} services were parsed for 50 writes");
    }
}
