use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address that processes connect to, in one spelling: two that are equal lead to one place.
///
/// The host is an IP address or a name in lower case without the dot that may end it; the port is
/// not 0. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

/// A text is no `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host:port")]
pub struct AddressError(String);

impl HostPort {
    /// The host, as certificates name it: an IP address without brackets, or a name.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Ip(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }

    /// The host, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.chars().take(300).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0).ok_or_else(wrong)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or_else(wrong)?;
                Host::Ip(IpAddr::V6(inner.parse().map_err(|_| wrong())?).to_canonical())
            }
            None => match host.parse() {
                Ok(IpAddr::V4(ip)) => Host::Ip(IpAddr::V4(ip)),
                _ => Host::Name(name(host).ok_or_else(wrong)?),
            },
        };
        Ok(Self { host, port })
    }
}

/// A DNS name in its one spelling. Whether it is one by every rule is for those who resolve it.
fn name(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let fits = !host.is_empty()
        && host.len() <= 253
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    fits.then(|| host.to_ascii_lowercase())
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            Host::Ip(ip) => write!(f, "{ip}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn spellings_of_one_address_are_equal() {
        let parse = |text: &str| text.parse::<HostPort>().unwrap();
        for (one, other, shown) in [
            ("Node-0.Example:7800", "node-0.example.:07800", "node-0.example:7800"),
            ("[2001:DB8:0::1]:1", "[2001:db8::1]:01", "[2001:db8::1]:1"),
            ("[::ffff:10.0.0.1]:65535", "10.0.0.1:65535", "10.0.0.1:65535"),
        ] {
            assert_eq!(parse(one), parse(other));
            assert_eq!(parse(one).to_string(), shown);
            assert_eq!(parse(shown), parse(one), "what is shown is read again");
        }
        assert_ne!(parse("a:1"), parse("a:2"));
        assert_ne!(parse("a:1"), parse("a.b:1"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("{}:1", "a".repeat(254));
        for bad in [
            "", "a", ":1", ".:1", "a:0", "a:+1", "a:65536", "[::1:1", "[::g]:1", "::1:1", "a b:1", "节点:1",
            &long,
        ] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad}");
        }
    }
}
