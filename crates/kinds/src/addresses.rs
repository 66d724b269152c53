//! Which addresses and node ports a service gets.
//!
//! [`Addresses`] is what preparation asks; [`ServiceRanges`] answers from the services
//! that exist. It takes the lowest free one, so that a replayed run gets the same.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::Value;

use super::json::at;

/// Hands out what is unique within a cluster. Nothing has to be given back: whoever
/// writes the service builds a new view from what is stored.
pub trait Addresses {
    /// A free cluster address; `None` when the range is used up.
    fn take_ip(&mut self) -> Option<String>;

    /// Marks an address as used, or says why it cannot be.
    ///
    /// # Errors
    /// If it is taken or out of range, in the words that follow `failed to allocate IP`.
    fn claim_ip(&mut self, ip: &str) -> Result<(), String>;

    /// A free node port; `None` when the range is used up.
    fn take_port(&mut self) -> Option<u16>;

    /// Marks a node port as used, or says why it cannot be.
    ///
    /// # Errors
    /// If it is taken or out of range.
    fn claim_port(&mut self, port: u16) -> Result<(), String>;
}

const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const PREFIX: u32 = 12;
/// Generated addresses start here; those below are left to people, as Kubernetes does.
const FIRST_GENERATED: u32 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;
/// Generated ports start here, for the same reason.
const FIRST_GENERATED_PORT: u16 = 30086;

/// The usual ranges: 10.96.0.0/12 and ports 30000 to 32767.
#[derive(Debug, Clone, Default)]
pub struct ServiceRanges {
    ips: BTreeSet<u32>,
    ports: BTreeSet<u16>,
}

impl ServiceRanges {
    /// Counts what others use.
    pub fn add(&mut self, others: &Self) {
        self.ips.extend(&others.ips);
        self.ports.extend(&others.ports);
    }

    /// Counts what a stored service uses.
    pub fn observe(&mut self, service: &Value) {
        let spec = at(service, &["spec"]);
        let listed = at(spec, &["clusterIPs"]).as_array().into_iter().flatten();
        for ip in listed.chain([at(spec, &["clusterIP"])]) {
            if let Some(Ok(ip)) = ip.as_str().map(str::parse::<Ipv4Addr>) {
                self.ips.insert(ip.to_bits());
            }
        }
        let ports = at(spec, &["ports"]).as_array().into_iter().flatten();
        let numbers = ports.map(|port| at(port, &["nodePort"]));
        for number in numbers.chain([at(spec, &["healthCheckNodePort"])]) {
            if let Some(Ok(port)) = number.as_u64().map(u16::try_from) {
                self.ports.insert(port);
            }
        }
    }
}

impl Addresses for ServiceRanges {
    fn take_ip(&mut self) -> Option<String> {
        let network = NETWORK.to_bits();
        let size = 1_u32 << (32 - PREFIX);
        let mut all = (FIRST_GENERATED..size - 1).chain(1..FIRST_GENERATED);
        let free = all.find(|offset| !self.ips.contains(&(network + offset)))?;
        self.ips.insert(network + free);
        Some(Ipv4Addr::from_bits(network + free).to_string())
    }

    fn claim_ip(&mut self, ip: &str) -> Result<(), String> {
        let bits = ip.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits).unwrap_or_default();
        if bits >> (32 - PREFIX) != NETWORK.to_bits() >> (32 - PREFIX) {
            return Err(format!(
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {NETWORK}/{PREFIX}"
            ));
        }
        if !self.ips.insert(bits) {
            return Err("provided IP is already allocated".to_owned());
        }
        Ok(())
    }

    fn take_port(&mut self) -> Option<u16> {
        let mut all =
            (FIRST_GENERATED_PORT..=*PORTS.end()).chain(*PORTS.start()..FIRST_GENERATED_PORT);
        let free = all.find(|port| !self.ports.contains(port))?;
        self.ports.insert(free);
        Some(free)
    }

    fn claim_port(&mut self, port: u16) -> Result<(), String> {
        if !PORTS.contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                PORTS.start(),
                PORTS.end()
            ));
        }
        if !self.ports.insert(port) {
            return Err("provided port is already allocated".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_service_uses_is_not_given_out_again() {
        let mut ranges = ServiceRanges::default();
        ranges.observe(
            &json!({"spec": {"clusterIPs": ["10.96.1.0"], "ports": [{"nodePort": 30086}]}}),
        );
        assert_eq!(ranges.take_ip().as_deref(), Some("10.96.1.1"));
        assert_eq!(ranges.take_port(), Some(30087));
        assert_eq!(
            ranges.claim_ip("10.96.1.0"),
            Err("provided IP is already allocated".to_owned())
        );
        assert_eq!(
            ranges.claim_ip("192.168.0.1"),
            Err("the provided IP (192.168.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/12".to_owned())
        );
        assert_eq!(
            ranges.claim_port(80),
            Err("provided port is not in the valid range. The range of valid ports is 30000-32767"
                .to_owned())
        );
    }
}
