//! `holdfast ctl certs`: a CA for one cluster, and certificates for its processes.

mod authority;
mod order;

use crate::client::print;
use crate::config::{ClusterSection, SourceArgs};
use anyhow::{Context, Result, bail};
use authority::Authority;
use clap::Args;
use holdfast_bench::client::ClientError;
use holdfast_transport::{HostPort, Identity, Role};
use order::Order;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Arguments of `holdfast ctl certs`.
#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    #[command(flatten)]
    sources: SourceArgs,
    /// Folder of the CA and the certificates; made if it is missing
    #[arg(long, value_name = "DIR", default_value = "certs")]
    out: PathBuf,
    /// Make a certificate for the node with this address, its node.advertise; may be repeated. Without
    /// --node, --router and --operator: one for each of cluster.seeds, one router and one operator
    #[arg(long, value_name = "HOST:PORT")]
    node: Vec<String>,
    /// Make a certificate for routers under this name; may be repeated
    #[arg(long, value_name = "NAME")]
    router: Vec<String>,
    /// Make a certificate for an operator under this name; may be repeated
    #[arg(long, value_name = "NAME")]
    operator: Vec<String>,
    /// How long the certificates are valid, in days; never longer than the CA
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=825))]
    days: u32,
    /// How long a new CA is valid, in days
    #[arg(long, value_name = "DAYS", default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=7300))]
    ca_days: u32,
}

/// Makes what is asked for, or nothing.
pub(super) fn run(args: &CertsArgs) -> Result<()> {
    let orders = orders(args)?;
    for order in &orders {
        for file in [order.certificate(&args.out), order.key(&args.out)] {
            if file.try_exists().with_context(|| format!("cannot look at {}", file.display()))? {
                bail!(
                    "already_exists: {} is there already, and nothing was changed; move it away to replace it, or \
                     choose another --out",
                    file.display()
                );
            }
        }
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let authority = match Authority::open(&args.out)? {
        Some(authority) => authority,
        None => {
            let authority = Authority::create(&args.out, args.ca_days)?;
            tell("CA", &Authority::certificate(&args.out))?;
            authority
        }
    };
    for order in &orders {
        let issued = authority.issue(&order.identity, args.days)?;
        order::write(&order.key(&args.out), issued.key.as_bytes(), 0o600)?;
        order::write(&order.certificate(&args.out), issued.certificate.as_bytes(), 0o644)?;
        order.check(&args.out).context("a certificate was made that is of no use")?;
        tell(&order.identity.to_string(), &order.certificate(&args.out))?;
    }
    Ok(())
}

fn tell(what: &str, file: &Path) -> Result<()> {
    Ok(print(&format!("made {} for {what}\n", file.display()))?)
}

/// What is asked for: by name, or everything that the cluster in the configuration needs.
fn orders(args: &CertsArgs) -> Result<Vec<Order>> {
    let usage = |text: String| anyhow::Error::from(ClientError::Usage(text));
    let all = args.node.is_empty() && args.router.is_empty() && args.operator.is_empty();
    let seeds = if all { args.sources.load_cluster()? } else { ClusterSection::default() }.seeds;
    if all && seeds.is_empty() {
        return Err(usage(
            "nothing is asked for: give --node HOST:PORT, --router NAME or --operator NAME, or name the nodes in \
             cluster.seeds (--config FILE)"
                .to_owned(),
        ));
    }
    let name = || vec!["1".to_owned()];
    let (routers, operators) =
        if all { (name(), name()) } else { (args.router.clone(), args.operator.clone()) };
    let mut orders = Vec::new();
    for address in args.node.iter().chain(&seeds) {
        let address: HostPort = address.parse().map_err(|error| usage(format!("--node: {error}")))?;
        orders.push(Order::new(Identity::Node(address)));
    }
    for (role, names) in [(Role::Router, routers), (Role::Operator, operators)] {
        for name in names {
            let identity = Identity::named(role, &name).ok_or_else(|| {
                usage(format!("--{role} {name:?}: a name has 1 to 100 letters, digits, dots and hyphens"))
            })?;
            orders.push(Order::new(identity));
        }
    }
    let mut files = BTreeSet::new();
    for order in &orders {
        if !files.insert(order.file.clone()) {
            return Err(usage(format!("{} is asked for twice", order.identity)));
        }
    }
    Ok(orders)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;
    use holdfast_transport::{Material, TlsFiles, Wanted};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: CertsArgs,
    }

    fn certs(out: &Path, args: &[&str]) -> Result<()> {
        let line = ["certs", "--out", out.to_str().unwrap()].into_iter().chain(args.iter().copied());
        run(&Line::try_parse_from(line)?.args)
    }

    fn load(out: &Path, ca: &Path, name: &str, wanted: &Wanted) -> Result<Material, String> {
        let path = |end: &str| out.join(format!("{name}.{end}"));
        let files = TlsFiles { ca: ca.join("ca.pem"), cert: path("pem"), key: path("key") };
        Material::load(&files, wanted).map_err(|faults| format!("{faults:?}"))
    }

    #[test]
    fn a_cluster_gets_what_it_needs_and_one_more_node_later() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("证书/new");
        let seeds = "cluster.seeds=node-0.example:7800,[2001:db8::1]:7800,10.0.0.1:7801";
        certs(&out, &["--set", seeds]).unwrap();
        let node = |text: &str| Wanted::Node(text.parse().unwrap());
        for (name, wanted) in [
            ("node-node-0.example-7800", node("node-0.example:7800")),
            ("node-2001_db8__1-7800", node("[2001:db8::1]:7800")),
            ("node-10.0.0.1-7801", node("10.0.0.1:7801")),
            ("router-1", Wanted::Role(Role::Router)),
            ("operator-1", Wanted::Role(Role::Operator)),
        ] {
            let material = load(&out, &out, name, &wanted).unwrap();
            assert!(material.expires_s() <= material.ca_expires_s());
            let mode = |file: &str| fs::metadata(out.join(file)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&format!("{name}.key")), 0o600);
            assert_eq!(mode(&format!("{name}.pem")), 0o644);
            assert_eq!(mode("ca.key"), 0o600);
        }
        assert_eq!(fs::read_dir(&out).unwrap().count(), 12, "and nothing is left behind");
        certs(&out, &["--node", "Node-3.example:7800", "--days", "1"]).unwrap();
        let later = load(&out, &out, "node-node-3.example-7800", &node("node-3.example:7800")).unwrap();
        let first = load(&out, &out, "router-1", &Wanted::Role(Role::Router)).unwrap();
        assert_eq!(later.ca_expires_s(), first.ca_expires_s(), "it comes from the same CA");
        assert!(later.expires_s() < first.expires_s());
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_is_made_by_halves() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path();
        certs(out, &["--router", "a"]).unwrap();
        let files = |out: &Path| {
            let mut files: Vec<_> = fs::read_dir(out)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .map(|path| (path.clone(), fs::read(path).unwrap()))
                .collect();
            files.sort();
            files
        };
        let before = files(out);
        let error = certs(out, &["--router", "b", "--router", "a"]).unwrap_err().to_string();
        assert!(error.starts_with("already_exists: ") && error.contains("router-a.pem"), "{error}");
        for (args, why) in [
            (&["--node", "a:1", "--node", "A.:01"][..], "is asked for twice"),
            (&["--node", "a"], "\"a\" is no host:port"),
            (&["--operator", "a/../b"], "a name has 1 to 100"),
            (&["--router", ""], "a name has 1 to 100"),
            (&[], "nothing is asked for"),
            (&["--set", "cluster.seeds=a"], "has no port"),
        ] {
            let error = certs(out, args).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
        assert_eq!(files(out), before);
        // A CA of which a half is lost is not replaced by another under the same name.
        fs::remove_file(out.join("ca.key")).unwrap();
        let error = format!("{:#}", certs(out, &["--router", "b"]).unwrap_err());
        assert!(error.contains("ca.key") && error.contains("cannot issue"), "{error}");
        fs::write(out.join("ca.key"), "no key").unwrap();
        assert!(certs(out, &["--router", "b"]).is_err());
        // Nor is the key of another one used with it.
        let other = tempfile::tempdir().unwrap();
        certs(other.path(), &["--router", "a"]).unwrap();
        fs::copy(other.path().join("ca.key"), out.join("ca.key")).unwrap();
        let error = format!("{:#}", certs(out, &["--router", "b"]).unwrap_err());
        assert!(error.contains("does not fit"), "{error}");
        assert!(!out.join("router-b.pem").exists() && !out.join("router-b.key").exists());
        assert!(load(out, other.path(), "router-a", &Wanted::Anybody).is_err(), "CAs are told apart");
    }
}
