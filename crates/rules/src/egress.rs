//! Where the hub may call: URLs of notification channels and checks are written by people who
//! may not reach every place that the hub can reach.
//!
//! Nothing is allowed that `--allow-egress` does not list. A name is judged before it is
//! resolved and its addresses after it, each of them, and the connection goes to an address
//! that was judged: a name that answers differently the second time gains nothing. Addresses
//! of the machine itself, of its link and of cloud metadata services are refused unless they
//! are listed as such; metadata services always.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// What `--allow-egress` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pattern {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Host {
    /// Every name.
    Any,
    /// This name.
    Name(String),
    /// Every name below this one, with its dot before it.
    Below(String),
    /// Addresses with the same first bits.
    Net(IpAddr, u8),
}

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether to speak TLS.
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

impl Target {
    /// What the Host header says.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// Reads a URL; an error says what is wrong with it. Secrets may be in it, so it is not repeated.
pub fn target(url: &str) -> Result<Target, String> {
    let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err("the URL must begin with http:// or https://".to_owned()),
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '\\']) {
        return Err("the URL has a character that no URL may have here".to_owned());
    }
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority.contains('@') {
        return Err("the URL must not name a user: put credentials into a Secret".to_owned());
    }
    let (host, port) = split_port(authority).ok_or("the URL has a port that is none")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    if host.is_empty() {
        return Err("the URL names no host".to_owned());
    }
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Target { tls, host, port, path })
}

/// `host:port`, `[::1]:port` or without a port; `None` for a port that is none.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let bare = text.rsplit_once(':').filter(|(host, _)| {
        // More colons without brackets are an address.
        !host.contains(':') || (host.starts_with('[') && host.ends_with(']'))
    });
    match bare {
        None => Some((text, None)),
        Some((host, port)) => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            Some((host, Some(port.parse().ok().filter(|port| digits && *port > 0)?)))
        }
    }
}

impl FromStr for Allowed {
    type Err = String;

    /// Patterns between commas: `hooks.example.com`, `*.example.com:443`, `10.0.0.0/8`,
    /// `[fd00::/8]:9090`, `*`.
    fn from_str(text: &str) -> Result<Self, String> {
        let patterns = text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
        Ok(Self(patterns.map(Pattern::read).collect::<Result<_, _>>()?))
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no place to call: want a host, *.host, an address or a network, each with or without :port, such as hooks.example.com:443 or 10.0.0.0/8"
            )
        };
        let (host, port) = split_port(text).ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let host = match host.split_once('/') {
            Some((address, bits)) => {
                let address: IpAddr = address.parse().map_err(|_| wrong())?;
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
                Host::Net(address, bits)
            }
            None => match host.parse::<IpAddr>() {
                Ok(address) => Host::Net(address, if address.is_ipv4() { 32 } else { 128 }),
                Err(_) if host == "*" => Host::Any,
                Err(_) => {
                    let below = host.strip_prefix("*.");
                    let name = below.unwrap_or(&host);
                    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                    if name.is_empty() || !name.bytes().all(fits) {
                        return Err(wrong());
                    }
                    match below {
                        Some(name) => Host::Below(format!(".{name}")),
                        None => Host::Name(host.clone()),
                    }
                }
            },
        };
        Ok(Self { host, port })
    }

    fn is_for(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }

    fn names(&self, host: &str) -> bool {
        match &self.host {
            Host::Any => true,
            Host::Name(name) => name == host,
            Host::Below(name) => host.ends_with(name.as_str()) && host.len() > name.len(),
            Host::Net(..) => false,
        }
    }
}

impl Allowed {
    /// Whether nothing may be called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the name is worth resolving: it is listed, or addresses are that it may have.
    pub fn may_resolve(&self, target: &Target) -> Result<(), String> {
        if target.host.parse().is_ok_and(|address| is_metadata(unwrapped(address))) {
            return Err(never_called(&target.host));
        }
        let mut all = self.0.iter().filter(|pattern| pattern.is_for(target.port));
        let listed =
            all.any(|pattern| pattern.names(&target.host) || matches!(pattern.host, Host::Net(..)));
        if listed { Ok(()) } else { Err(self.not_listed(target)) }
    }

    /// Judges every address of a host; an error says what to change. The first is where to
    /// connect to.
    pub fn judge(&self, target: &Target, addresses: &[IpAddr]) -> Result<IpAddr, String> {
        let first = addresses.first().ok_or_else(|| format!("{} has no address", target.host))?;
        for address in addresses {
            self.judge_one(target, *address)?;
        }
        Ok(*first)
    }

    fn judge_one(&self, target: &Target, address: IpAddr) -> Result<(), String> {
        let (host, port) = (&target.host, target.port);
        let inner = unwrapped(address);
        let at = match host.parse::<IpAddr>() {
            Ok(_) => host.clone(),
            Err(_) => format!("{host}, which is {inner},"),
        };
        if is_metadata(inner) {
            return Err(never_called(&at));
        }
        let patterns = || self.0.iter().filter(|pattern| pattern.is_for(port));
        let in_net = |least: u8| {
            patterns().any(|pattern| match pattern.host {
                Host::Net(net, bits) => bits >= least && contains(net, bits, inner),
                _ => false,
            })
        };
        if let Some((what, bits)) = special(inner) {
            let by_name = what == LOOPBACK
                && host == "localhost"
                && patterns().any(|pattern| pattern.host == Host::Name(host.clone()));
            if by_name || in_net(bits) {
                return Ok(());
            }
            return Err(format!(
                "{at} is {what}, which is refused unless it is listed itself; change the URL, or add {inner} to --allow-egress of the hub"
            ));
        }
        if in_net(0) || patterns().any(|pattern| pattern.names(host)) {
            return Ok(());
        }
        Err(self.not_listed(target))
    }

    fn not_listed(&self, target: &Target) -> String {
        let Target { host, port, .. } = target;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        format!(
            "the hub may not call {host}:{port}; add {host}:{port} to its flag --allow-egress, or change the URL"
        )
    }
}

const LOOPBACK: &str = "an address of the hub's own machine";

/// The IPv4 address inside an IPv6 one: what is reached counts, not how it is spelled.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(wide) = address else { return address };
    let parts = wide.segments();
    let last = || {
        let [.., a, b, c, d] = wide.octets();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    if let Some(mapped) = wide.to_ipv4_mapped() {
        return IpAddr::V4(mapped);
    }
    match parts {
        // NAT64, and the old form of mapped addresses.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => last(),
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => last(),
        // 6to4.
        [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

/// Where clouds serve credentials to whoever asks from inside.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

fn never_called(at: &str) -> String {
    format!("{at} is a metadata service of a cloud, which is never called; change the URL")
}

fn is_metadata(address: IpAddr) -> bool {
    METADATA.contains(&address)
}

/// What is special about an address, and how many bits a network must have at least to be
/// about it and not about everything.
fn special(address: IpAddr) -> Option<(&'static str, u8)> {
    match address {
        IpAddr::V4(short) => match short.octets() {
            [127, ..] => Some((LOOPBACK, 8)),
            [0, ..] => Some((LOOPBACK, 32)),
            [169, 254, ..] => Some(("a link-local address", 16)),
            [224..=255, ..] => Some(("an address of no single machine", 32)),
            _ => None,
        },
        IpAddr::V6(wide) => match wide.segments() {
            _ if wide.is_loopback() || wide.is_unspecified() => Some((LOOPBACK, 128)),
            [first, ..] if first & 0xffc0 == 0xfe80 => Some(("a link-local address", 10)),
            [first, ..] if first & 0xff00 == 0xff00 => {
                Some(("an address of no single machine", 128))
            }
            _ => None,
        },
    }
}

fn contains(net: IpAddr, bits: u8, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let free = width.saturating_sub(u32::from(bits));
        a.checked_shr(free).unwrap_or(0) == b.checked_shr(free).unwrap_or(0)
    };
    match (net, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            same(u128::from(u32::from(a)), u128::from(u32::from(b)), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => same(u128::from(a), u128::from(b), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> Allowed {
        text.parse().unwrap()
    }

    fn judged(list: &str, url: &str, addresses: &[&str]) -> Result<String, String> {
        let (list, target) = (allowed(list), target(url)?);
        list.may_resolve(&target)?;
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        list.judge(&target, &addresses).map(|to| to.to_string())
    }

    #[test]
    fn what_is_listed_may_be_called() {
        let table: &[(&str, &str, &[&str])] = &[
            ("hooks.example.com", "https://hooks.example.com/x", &["203.0.113.7"]),
            ("hooks.example.com:443", "https://HOOKS.example.com", &["203.0.113.7", "2001:db8::1"]),
            ("*.example.com", "http://a.b.example.com:8080/?q=1", &["203.0.113.7"]),
            ("prometheus.monitoring:9090", "http://prometheus.monitoring:9090", &["10.1.2.3"]),
            ("10.0.0.0/8", "http://prometheus.monitoring:9090", &["10.1.2.3"]),
            ("10.0.0.0/8:9090", "http://10.1.2.3:9090", &["10.1.2.3"]),
            ("[fd00::/8]:9090", "http://[fd00::7]:9090", &["fd00::7"]),
            ("*", "https://anything.example", &["203.0.113.7"]),
            ("127.0.0.1", "http://127.0.0.1:9090", &["127.0.0.1"]),
            ("127.0.0.0/8", "http://localhost:9090", &["127.0.0.1"]),
            ("localhost:9090", "http://localhost:9090", &["127.0.0.1", "::1"]),
            ("169.254.10.0/24", "http://169.254.10.1", &["169.254.10.1"]),
        ];
        for (list, url, addresses) in table {
            assert_eq!(judged(list, url, addresses).as_deref(), Ok(addresses[0]), "{list} {url}");
        }
    }

    // The hostile table: each is refused, and the words say what to change.
    #[test]
    fn what_is_not_listed_or_special_is_refused_with_what_to_change() {
        let table: &[(&str, &str, &[&str], &str)] = &[
            (
                "",
                "https://hooks.example.com",
                &["203.0.113.7"],
                "add hooks.example.com:443 to its flag --allow-egress",
            ),
            ("example.com", "https://hooks.example.com", &["203.0.113.7"], "may not call"),
            ("*.example.com", "https://example.com", &["203.0.113.7"], "may not call"),
            ("*.example.com", "https://example.com.evil.net", &["203.0.113.7"], "may not call"),
            (
                "hooks.example.com:443",
                "http://hooks.example.com",
                &["203.0.113.7"],
                "may not call hooks.example.com:80",
            ),
            (
                "10.0.0.0/8",
                "http://web.internal",
                &["10.0.0.1", "192.168.0.1"],
                "may not call web.internal:80",
            ),
            // Names that lead elsewhere, also by one of several addresses.
            (
                "hooks.example.com",
                "https://hooks.example.com",
                &["169.254.169.254"],
                "metadata service",
            ),
            (
                "hooks.example.com",
                "https://hooks.example.com",
                &["203.0.113.7", "127.0.0.1"],
                "hub's own machine",
            ),
            ("*", "http://metadata.google.internal", &["169.254.169.254"], "metadata service"),
            ("*", "http://[fd00:ec2::254]/", &["fd00:ec2::254"], "metadata service"),
            ("0.0.0.0/0", "http://169.254.169.254/", &["169.254.169.254"], "metadata service"),
            ("169.254.169.254", "http://169.254.169.254/", &["169.254.169.254"], "never called"),
            // Nobody is told to list what is refused always.
            ("", "http://169.254.169.254/", &["169.254.169.254"], "never called; change the URL"),
            ("hooks.example.com", "http://[fd00:ec2::254]/", &["fd00:ec2::254"], "never called"),
            ("169.254.0.0/16", "http://169.254.170.2/", &["169.254.170.2"], "metadata service"),
            ("*", "http://100.100.100.200/", &["100.100.100.200"], "metadata service"),
            // Other spellings of the same.
            (
                "*",
                "http://[::ffff:169.254.169.254]/",
                &["::ffff:169.254.169.254"],
                "metadata service",
            ),
            ("*", "http://[64:ff9b::a9fe:a9fe]/", &["64:ff9b::a9fe:a9fe"], "metadata service"),
            ("*", "http://[2002:a9fe:a9fe::1]/", &["2002:a9fe:a9fe::1"], "metadata service"),
            (
                "*",
                "http://[::ffff:127.0.0.1]/",
                &["::ffff:127.0.0.1"],
                "add 127.0.0.1 to --allow-egress",
            ),
            ("*", "http://2130706433/", &["127.0.0.1"], "hub's own machine"),
            ("*", "http://0x7f.1/", &["127.0.0.1"], "hub's own machine"),
            ("*", "http://0/", &["0.0.0.0"], "hub's own machine"),
            ("*", "http://localhost/", &["127.0.0.1"], "hub's own machine"),
            ("0.0.0.0/0", "http://127.0.0.1/", &["127.0.0.1"], "hub's own machine"),
            ("::/0", "http://[::1]/", &["::1"], "hub's own machine"),
            ("*", "http://[fe80::1]/", &["fe80::1"], "link-local"),
            ("*", "http://169.254.1.1/", &["169.254.1.1"], "link-local"),
            ("*", "http://224.0.0.1/", &["224.0.0.1"], "no single machine"),
            ("*", "http://255.255.255.255/", &["255.255.255.255"], "no single machine"),
            ("*", "http://nowhere.example/", &[], "has no address"),
            // URLs that are not what they seem.
            (
                "hooks.example.com",
                "https://hooks.example.com@evil.net/",
                &["203.0.113.7"],
                "must not name a user",
            ),
            (
                "hooks.example.com",
                "https://evil.net\\@hooks.example.com/",
                &["203.0.113.7"],
                "no URL may have",
            ),
            (
                "hooks.example.com",
                "https://evil.net#hooks.example.com",
                &["203.0.113.7"],
                "no URL may have",
            ),
            ("*", "https://hooks.example.com/\r\nHost: x", &["203.0.113.7"], "no URL may have"),
            ("*", "file:///etc/passwd", &[], "must begin with http"),
            ("*", "gopher://127.0.0.1:6379/", &[], "must begin with http"),
            ("*", "http:///x", &[], "names no host"),
            ("*", "http://a:0/", &[], "port that is none"),
            ("*", "http://a:99999/", &[], "port that is none"),
        ];
        for (list, url, addresses, why) in table {
            let told = judged(list, url, addresses).unwrap_err();
            assert!(told.contains(why), "{list} {url}: {told}");
        }
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_refused() {
        for wrong in ["10.0.0.0/33", "a b", "https://x", "x:", "x:0", "*.", "10.0.0/8", "::/129"] {
            let told = wrong.parse::<Allowed>().unwrap_err();
            assert!(told.contains("is no place to call"), "{wrong}: {told}");
        }
        assert!(allowed(" , ").is_empty());
    }

    #[test]
    fn a_target_says_what_a_request_needs() {
        let read = target("http://[2001:db8::1]:8080?x=1").unwrap();
        assert_eq!(
            (read.authority().as_str(), read.path.as_str()),
            ("[2001:db8::1]:8080", "/?x=1")
        );
        assert_eq!(target("https://Example.com").unwrap().authority(), "example.com");
    }
}
