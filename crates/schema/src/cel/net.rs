//! Addresses: `url(..)`, `ip(..)`, `cidr(..)` and what can be asked of them.

#![allow(clippy::needless_pass_by_value, reason = "overloads take their arguments by value")]

use std::net::IpAddr;

use cel::common::functions::Function;
use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::library::{Answer, Args, Boxed, Native, failed, native, number, text, truth, words};

static URL: Type = Type::new_unspecified_type("kubernetes.URL");
static IP: Type = Type::new_unspecified_type("net.IP");
static CIDR: Type = Type::new_unspecified_type("net.CIDR");

/// The parts of an absolute URL or an absolute path.
#[derive(Debug, Clone, PartialEq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Ip(IpAddr);

#[derive(Debug, Clone, PartialEq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Native for Url {
    const TYPE: &'static Type = &URL;
}

impl Native for Ip {
    const TYPE: &'static Type = &IP;
}

impl Native for Cidr {
    const TYPE: &'static Type = &CIDR;
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
            return None;
        }
        let without_fragment = text.split('#').next()?;
        let body = without_fragment.split('?').next()?;
        if body.starts_with('/') {
            return Some(Self {
                scheme: String::new(),
                host: String::new(),
                path: body.to_owned(),
            });
        }
        let (scheme, rest) = body.split_once("://")?;
        let mut letters = scheme.chars();
        let good = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let host = authority.rsplit('@').next()?;
        let port = host.rsplit_once(':').filter(|(_, p)| !p.contains(']')).map(|(_, p)| p);
        let good_port = port.is_none_or(|p| p.bytes().all(|b| b.is_ascii_digit()));
        let scheme = scheme.to_ascii_lowercase();
        (good && good_port).then(|| Self { scheme, host: host.to_owned(), path: path.to_owned() })
    }

    fn host_and_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (&self.host, ""),
        }
    }
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        if !crate::format::is_cidr(text) {
            return None;
        }
        let (address, bits) = text.split_once('/')?;
        Some(Self { address: address.parse().ok()?, bits: bits.parse().ok()? })
    }

    fn masked(&self) -> Self {
        let bits = u32::from(self.bits);
        let address = match self.address {
            IpAddr::V4(a) => {
                IpAddr::V4((a.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into())
            }
            IpAddr::V6(a) => {
                IpAddr::V6((a.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into())
            }
        };
        Self { address, bits: self.bits }
    }

    fn contains(&self, other: &Cidr) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && other.bits >= self.bits
            && Cidr { address: other.address, bits: self.bits }.masked() == self.masked()
    }
}

/// Adds the types' functions.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    type Op = Function;
    let of_text: [(&str, Op); 7] = [
        ("url", |args| {
            made(Url::parse(text(&args, 0)?), "URL parse error during conversion from string")
        }),
        ("isURL", |args| truth(Url::parse(text(&args, 0)?).is_some())),
        ("ip", |args| {
            made(
                text(&args, 0)?.parse().ok().map(Ip),
                "IP Address parse error during conversion from string",
            )
        }),
        ("isIP", |args| truth(text(&args, 0)?.parse::<IpAddr>().is_ok())),
        ("ip.isCanonical", |args| {
            let source = text(&args, 0)?;
            let address: IpAddr = source
                .parse()
                .map_err(|_| failed("IP Address parse error during conversion from string"))?;
            truth(address.to_string() == source)
        }),
        ("cidr", |args| {
            made(
                Cidr::parse(text(&args, 0)?),
                "network address parse error during conversion from string",
            )
        }),
        ("isCIDR", |args| truth(Cidr::parse(text(&args, 0)?).is_some())),
    ];
    for (name, op) in of_text {
        env.add_overload(name, &format!("{name}_string"), vec![STRING_TYPE], op)?;
    }
    let of_url: [(&str, Op); 5] = [
        ("getScheme", |args| words(native::<Url>(&args, 0)?.scheme.as_str())),
        ("getHost", |args| words(native::<Url>(&args, 0)?.host.as_str())),
        ("getHostname", |args| {
            let host = native::<Url>(&args, 0)?.host_and_port().0;
            words(host.trim_start_matches('[').trim_end_matches(']'))
        }),
        ("getPort", |args| words(native::<Url>(&args, 0)?.host_and_port().1)),
        ("getEscapedPath", |args| words(native::<Url>(&args, 0)?.path.as_str())),
    ];
    for (name, op) in of_url {
        env.add_member_overload(name, &format!("url_{name}"), URL.to_owned(), vec![], op)?;
    }
    let of_ip: [(&str, Op); 6] = [
        ("family", |args| number(if native::<Ip>(&args, 0)?.0.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", |args| truth(native::<Ip>(&args, 0)?.0.is_unspecified())),
        ("isLoopback", |args| truth(native::<Ip>(&args, 0)?.0.is_loopback())),
        ("isLinkLocalMulticast", |args| truth(is_link_local_multicast(native::<Ip>(&args, 0)?.0))),
        ("isLinkLocalUnicast", |args| truth(is_link_local(native::<Ip>(&args, 0)?.0))),
        ("isGlobalUnicast", |args| {
            let address = native::<Ip>(&args, 0)?.0;
            let broadcast = matches!(address, IpAddr::V4(a) if a.is_broadcast());
            truth(
                !(address.is_unspecified()
                    || address.is_loopback()
                    || address.is_multicast()
                    || is_link_local(address)
                    || broadcast),
            )
        }),
    ];
    for (name, op) in of_ip {
        env.add_member_overload(name, &format!("ip_{name}"), IP.to_owned(), vec![], op)?;
    }
    let of_cidr: [(&str, Op); 3] = [
        ("ip", |args| Ok(CowVal::owned(Boxed(Ip(native::<Cidr>(&args, 0)?.address))))),
        ("prefixLength", |args| number(i64::from(native::<Cidr>(&args, 0)?.bits))),
        ("masked", |args| Ok(CowVal::owned(Boxed(native::<Cidr>(&args, 0)?.masked())))),
    ];
    for (name, op) in of_cidr {
        env.add_member_overload(name, &format!("cidr_{name}"), CIDR.to_owned(), vec![], op)?;
    }
    let op: Op = |args| words(native::<Ip>(&args, 0)?.0.to_string());
    env.add_overload("string", "ip_to_string", vec![IP.to_owned()], op)?;
    let op: Op = |args| {
        let cidr = native::<Cidr>(&args, 0)?;
        words(format!("{}/{}", cidr.address, cidr.bits))
    };
    env.add_overload("string", "cidr_to_string", vec![CIDR.to_owned()], op)?;
    for (name, inner) in [("containsIP", &IP), ("containsCIDR", &CIDR)] {
        let op: Op = contains;
        let id = format!("cidr_{name}");
        env.add_member_overload(name, &id, CIDR.to_owned(), vec![inner.to_owned()], op)?;
        let id = format!("{id}_string");
        env.add_member_overload(name, &id, CIDR.to_owned(), vec![STRING_TYPE], op)?;
    }
    Ok(())
}

fn made<'b, 'v, T: Native>(value: Option<T>, or: &str) -> Answer<'b, 'v> {
    value.map(|v| CowVal::owned(Boxed(v))).ok_or_else(|| failed(or))
}

/// A network holds an address, another network, or either as text.
fn contains<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let single = |address: IpAddr| Cidr { address, bits: if address.is_ipv4() { 32 } else { 128 } };
    let outer = native::<Cidr>(&args, 0)?;
    let inner: Result<Cidr, ExecutionError> = if let Ok(ip) = native::<Ip>(&args, 1) {
        Ok(single(ip.0))
    } else if let Ok(cidr) = native::<Cidr>(&args, 1) {
        Ok(cidr.clone())
    } else {
        let source = text(&args, 1)?;
        let parsed = source.parse().ok().map(single).or_else(|| Cidr::parse(source));
        parsed.ok_or_else(|| failed("network address parse error during conversion from string"))
    };
    truth(outer.contains(&inner?))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.octets()[..3] == [224, 0, 0],
        IpAddr::V6(a) => a.segments()[0] & 0xff0f == 0xff02,
    }
}
