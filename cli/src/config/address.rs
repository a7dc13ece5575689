//! Addresses: what peers connect to (`host:port`), and what a process listens on.

use std::net::{IpAddr, SocketAddr};

/// Longest DNS name.
const NAME_LEN_MAX: usize = 253;
/// Longest part of a DNS name.
const LABEL_LEN_MAX: usize = 63;

/// Checks an address that others connect to: a DNS name or an IP address, and a port.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn check_host_port(text: &str) -> Result<(), String> {
    let shown = format!("{text:?}");
    let wanted = "expected host:port, such as \"node-0.example:7800\"";
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(format!("{shown} has no port; {wanted}"));
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(port.parse::<u16>(), Ok(1..)) {
        return Err(format!("{shown}: the port must be 1 to 65535; {wanted}"));
    }
    let ip = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => Some(
            inner
                .parse()
                .map(IpAddr::V6)
                .map_err(|_| format!("{shown}: what is in brackets is not an IPv6 address; {wanted}"))?,
        ),
        None if host.contains(':') => {
            return Err(format!("{shown}: an IPv6 address needs brackets, such as \"[2001:db8::1]:7800\""));
        }
        None => host.parse().ok(),
    };
    match ip {
        Some(ip) if ip.is_unspecified() => {
            Err(format!("{shown}: {ip} means every address of this machine; others cannot connect to it"))
        }
        Some(_) => Ok(()),
        None => check_name(host).map_err(|why| format!("{shown}: {why}; {wanted}")),
    }
}

/// Checks where a node was and where it is: two addresses with `=` between.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn check_moved(text: &str) -> Result<(), String> {
    let Some((old, new)) = text.split_once('=') else {
        return Err(format!("{text:?} has no \"=\"; expected old-host:port=new-host:port"));
    };
    check_host_port(old).and_then(|()| check_host_port(new))
}

fn check_name(host: &str) -> Result<(), &'static str> {
    if host.is_empty() {
        return Err("the host is missing");
    }
    // A dot at the end marks a name that is complete.
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.len() > NAME_LEN_MAX {
        return Err("the host name is longer than 253 characters");
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_LEN_MAX
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if !host.split('.').all(is_label) {
        return Err("the host is not a DNS name or an IP address");
    }
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err("the host is not an IP address, and a name cannot be all digits");
    }
    Ok(())
}

/// Checks an address to listen on.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn check_ip_port(text: &str) -> Result<(), String> {
    text.parse::<SocketAddr>().map(|_| ()).map_err(|_| {
        format!(
            "{text:?} is not an IP address with a port; expected one such as \"0.0.0.0:7800\" (every \
             address of this machine) or \"[::1]:7800\"; names are not resolved here"
        )
    })
}

/// Whether two listeners cannot have both addresses.
pub(super) fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let is_wide = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && (is_wide || a.ip() == b.ip())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_addresses_that_others_can_reach_are_taken() {
        for good in [
            "node-0.example:7800",
            "node-0.holdfast.default.svc.cluster.local.:1",
            "10.0.0.1:65535",
            "[2001:db8::1]:7800",
            "under_score:7800",
            "a:1",
            "1a.example:80",
        ] {
            assert_eq!(check_host_port(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_nobody_can_connect_to_is_refused_with_the_reason() {
        let long = format!("{}:1", "a.".repeat(150));
        let label = format!("{}:1", "a".repeat(64));
        for (bad, why) in [
            ("", "has no port"),
            ("node-0", "has no port"),
            ("node-0:", "the port must be"),
            ("node-0:0", "the port must be"),
            ("node-0:65536", "the port must be"),
            ("node-0:+80", "the port must be"),
            ("node-0:80a", "the port must be"),
            (":7800", "the host is missing"),
            ("0.0.0.0:7800", "every address"),
            ("[::]:7800", "every address"),
            ("::1:7800", "needs brackets"),
            ("[fe80]:7800", "not an IPv6 address"),
            ("http://node-0:7800", "needs brackets"),
            ("a b:1", "not a DNS name"),
            ("-a:1", "not a DNS name"),
            ("a..b:1", "not a DNS name"),
            (".:1", "not a DNS name"),
            ("节点:7800", "not a DNS name"),
            ("999.0.0.1:1", "not an IP address"),
            (&long, "longer than 253"),
            (&label, "not a DNS name"),
        ] {
            let error = check_host_port(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn listeners_need_an_ip_address() {
        for good in ["0.0.0.0:0", "127.0.0.1:7800", "[::]:7800"] {
            assert_eq!(check_ip_port(good), Ok(()));
        }
        for bad in ["", "localhost:7800", "127.0.0.1", "127.0.0.1:99999", ":7800"] {
            assert!(check_ip_port(bad).unwrap_err().contains("names are not resolved"), "{bad}");
        }
    }

    #[test]
    fn a_wildcard_takes_its_port_on_every_address() {
        let clash = |a: &str, b: &str| clash(a.parse().unwrap(), b.parse().unwrap());
        assert!(clash("127.0.0.1:1", "127.0.0.1:1"));
        assert!(clash("0.0.0.0:1", "127.0.0.1:1"));
        assert!(clash("127.0.0.1:1", "[::]:1"));
        assert!(!clash("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!clash("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!clash("0.0.0.0:0", "0.0.0.0:0"), "two free ports are two");
    }
}
