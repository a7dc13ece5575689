//! Two processes that meet, with every way in which they should not.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::accept::Stream;
use futures::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use std::fs;
use std::net::IpAddr;
use std::time::Duration;
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::server::Connected;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// What is asked of a CA; changed where a test wants it wrong.
struct Order {
    uris: Vec<String>,
    host: Option<String>,
    from_s: i64,
    to_s: i64,
    purposes: Vec<ExtendedKeyUsagePurpose>,
}

const HOUR_S: i64 = 3600;

impl Order {
    fn new(identity: &Identity) -> Self {
        let host = match identity {
            Identity::Node(address) => Some(address.host()),
            _ => None,
        };
        let purposes = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Self { uris: vec![identity.uri()], host, from_s: -HOUR_S, to_s: HOUR_S, purposes }
    }
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// PEM of certificate and key.
    fn issue(&self, order: &Order) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        for uri in &order.uris {
            params.subject_alt_names.push(SanType::URI(uri.as_str().try_into().unwrap()));
        }
        if let Some(host) = &order.host {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName(host.as_str().try_into().unwrap()),
            });
        }
        let now = OffsetDateTime::now_utc();
        params.not_before = now + time::Duration::seconds(order.from_s);
        params.not_after = now + time::Duration::seconds(order.to_s);
        params.extended_key_usages = order.purposes.clone();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// The files of one process.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(ca: &str, (cert, key): &(String, String)) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        place.write(ca, cert, key);
        place
    }

    fn write(&self, ca: &str, cert: &str, key: &str) {
        let files = self.files();
        fs::write(files.ca, ca).unwrap();
        fs::write(files.cert, cert).unwrap();
        fs::write(files.key, key).unwrap();
    }

    fn files(&self) -> TlsFiles {
        let path = |name| self.dir.path().join(name);
        TlsFiles { ca: path("ca.pem"), cert: path("证书.pem"), key: path("a.key") }
    }

    fn security(&self) -> Security {
        Security::tls(self.files(), Wanted::Anybody).unwrap()
    }

    fn faults(&self, wanted: &Wanted) -> String {
        let Err(faults) = Material::load(&self.files(), wanted) else { return String::new() };
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        texts.join("\n").replace(self.dir.path().to_str().unwrap(), "D")
    }
}

fn router() -> Identity {
    Identity::named(Role::Router, "router").unwrap()
}

/// A listener, its address, and the identity that belongs to it.
async fn listener() -> (TcpListener, HostPort, Identity) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: HostPort = listener.local_addr().unwrap().to_string().parse().unwrap();
    (listener, address.clone(), Identity::Node(address))
}

/// Sends a word there and back.
async fn talk(mut caller: Stream, called: &mut Stream) {
    caller.write_all(b"ping").await.unwrap();
    caller.flush().await.unwrap();
    let mut word = [0; 4];
    called.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"ping");
    called.write_all(b"pong").await.unwrap();
    called.flush().await.unwrap();
    caller.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"pong");
}

async fn next(incoming: &mut Incoming) -> Stream {
    let next = tokio::time::timeout(Duration::from_secs(20), incoming.next()).await;
    next.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn both_ends_know_each_other() {
    let authority = Authority::new("ca");
    let (listener, address, identity) = listener().await;
    let of_node = Place::new(&authority.pem, &authority.issue(&Order::new(&identity)));
    let of_router = Place::new(&authority.pem, &authority.issue(&Order::new(&router())));
    let mut incoming = of_node.security().incoming(listener);
    let (caller, mut called) =
        tokio::join!(async { of_router.security().connect(&address).await.unwrap() }, next(&mut incoming));
    assert_eq!(called.connect_info().identity.unwrap().as_ref(), &Ok(router()));
    assert_eq!(caller.connect_info().identity.unwrap().as_ref(), &Ok(identity));
    talk(caller, &mut called).await;
}

#[tokio::test]
async fn a_plain_pair_talks_without_names() {
    let (listener, address, _) = listener().await;
    let mut incoming = Security::plain().incoming(listener);
    let mut caller = Security::plain().connect(&address).await.unwrap();
    // Nobody is let in before he has said something.
    caller.write_all(b"!").await.unwrap();
    let mut called = next(&mut incoming).await;
    assert!(called.connect_info().identity.is_none());
    assert_eq!(called.read_u8().await.unwrap(), b'!');
    talk(caller, &mut called).await;
}

/// Lets callers in until it is dropped; counts them.
struct Host {
    address: HostPort,
    task: tokio::task::JoinHandle<()>,
    let_in: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Host {
    fn start(security: &Security, listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let let_in = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let (mut incoming, counter) = (security.incoming(listener), let_in.clone());
        let task = tokio::spawn(async move {
            let mut streams = Vec::new();
            while let Some(Ok(stream)) = incoming.next().await {
                counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                streams.push(stream);
            }
        });
        Self { address, task, let_in }
    }

    /// What a caller hears who is turned away.
    async fn turns_away(&self, caller: &Security) -> String {
        let error = match caller.connect(&self.address).await {
            Err(error) => error.to_string(),
            Ok(mut stream) => {
                let heard = tokio::time::timeout(Duration::from_secs(20), stream.read_u8()).await;
                heard.unwrap().unwrap_err().to_string()
            }
        };
        assert_eq!(self.let_in.load(std::sync::atomic::Ordering::SeqCst), 0, "{error}");
        error
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn who_listens_must_be_who_was_dialled() {
    let authority = Authority::new("ca");
    let stranger = Authority::new("stranger");
    let caller = Place::new(&authority.pem, &authority.issue(&Order::new(&router()))).security();
    let another = Identity::Node("127.0.0.1:1".parse().unwrap());
    let mut router_here = Order::new(&router());
    router_here.host = Some("127.0.0.1".into());
    for (of, order, why) in [
        (&authority, Order::new(&another), "shows the certificate of the node 127.0.0.1:1"),
        (&authority, router_here, "shows the certificate of the router"),
        (&authority, Order::new(&router()), "the certificate is not valid: "),
        (&stranger, Order::new(&another), "was not issued by a CA of tls.ca"),
    ] {
        let (listener, ..) = listener().await;
        let host = Host::start(&Place::new(&of.pem, &of.issue(&order)).security(), listener);
        let error = host.turns_away_caller(&caller).await;
        assert!(error.contains(why), "{why}: {error}");
    }
}

impl Host {
    /// Why a caller does not take this one for the node at its address.
    async fn turns_away_caller(&self, caller: &Security) -> String {
        caller.connect(&self.address).await.err().unwrap().to_string()
    }
}

#[tokio::test]
async fn a_caller_must_be_believed() {
    let authority = Authority::new("ca");
    let stranger = Authority::new("stranger");
    let (listener, _, identity) = listener().await;
    let node = Place::new(&authority.pem, &authority.issue(&Order::new(&identity))).security();
    let host = Host::start(&node, listener);
    let both = format!("{}{}", authority.pem, stranger.pem);
    let foreign = Place::new(&both, &stranger.issue(&Order::new(&router()))).security();
    let error = host.turns_away(&foreign).await;
    assert!(error.contains("not issued by a CA that the other side believes"), "{error}");

    let mut short = Order::new(&router());
    short.to_s = 2;
    let expiring = Place::new(&authority.pem, &authority.issue(&short)).security();
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    let error = host.turns_away(&expiring).await;
    assert!(error.contains("it has expired, by the clock of the other side"), "{error}");
}

#[tokio::test]
async fn plain_and_tls_do_not_mix_and_say_so() {
    let authority = Authority::new("ca");
    let (listener, _, identity) = listener().await;
    let node = Place::new(&authority.pem, &authority.issue(&Order::new(&identity))).security();
    let host = Host::start(&node, listener);
    let mut tcp = TcpStream::connect(host.address.to_string()).await.unwrap();
    tcp.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and what follows").await.unwrap();
    let mut heard = Vec::new();
    tcp.read_to_end(&mut heard).await.unwrap();
    assert_eq!(&heard[..9], [0, 0, 0, 4, 0, 0, 0, 0, 0], "first come the settings");
    assert!(String::from_utf8_lossy(&heard).ends_with("certificates of the cluster's CA"));
    assert_eq!(usize::from(heard[11]), heard.len() - 18, "the frame is as long as it says");

    let (plain, ..) = self::listener().await;
    let plain = Host::start(&Security::plain(), plain);
    let error = plain.turns_away_caller(&node).await;
    assert!(error.contains("it does not speak TLS; its tls.mode is off"), "{error}");
    assert_eq!(plain.let_in.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let node = Identity::Node("node-0.example:7800".parse().unwrap());
    let wanted = Wanted::Node("Node-0.example.:7800".parse().unwrap());
    let (cert, key) = authority.issue(&Order::new(&node));
    let good = Place::new(&authority.pem, &(cert.clone(), key.clone()));
    assert_eq!(good.faults(&wanted), "");
    assert_eq!(good.faults(&Wanted::Role(Role::Node)), "");
    let fault = |order: &Order| Place::new(&authority.pem, &authority.issue(order)).faults(&wanted);
    let changed = |change: fn(&mut Order)| {
        let mut order = Order::new(&node);
        change(&mut order);
        fault(&order)
    };
    for (found, expected) in [
        (
            good.faults(&Wanted::Role(Role::Router)),
            "it names the node node-0.example:7800, but the role of this process is router",
        ),
        (
            fault(&Order::new(&router())),
            "it names the router \"router\", but the role of this process is node",
        ),
        (
            good.faults(&Wanted::Node("node-0.example:7801".parse().unwrap())),
            "but this node is node-0.example:7801 to the cluster; it needs the alternative name (URI) \
             holdfast-node://node-0.example:7801",
        ),
        (changed(|order| order.uris.clear()), "it names no role in a Holdfast cluster"),
        (changed(|order| order.uris.push(router().uri())), "it names several roles"),
        (
            changed(|order| order.host = Some("other.example".into())),
            "it does not cover the host node-0.example",
        ),
        (changed(|order| (order.from_s, order.to_s) = (-10, -5)), "the certificate has expired"),
        (changed(|order| order.from_s = 600), "the certificate is not valid yet"),
        (changed(|order| drop(order.purposes.pop())), "extended key usages serverAuth and clientAuth"),
        (changed(|order| drop(order.purposes.remove(0))), "extended key usages serverAuth and clientAuth"),
        (
            Place::new(&stranger.pem, &(cert.clone(), key.clone())).faults(&wanted),
            "not issued by a CA in D/ca.pem",
        ),
        (
            Place::new(&authority.pem, &(cert.clone(), authority.issue(&Order::new(&node)).1))
                .faults(&wanted),
            "tls.key: D/a.key: does not fit the certificate in D/证书.pem",
        ),
        (
            Place::new(&cert, &(cert.clone(), key.clone())).faults(&wanted),
            "tls.ca: D/ca.pem: certificate 1 in it is not",
        ),
        (Place::new("", &(String::new(), String::new())).faults(&wanted), "holds no certificate"),
        (Place::new(&authority.pem, &(key.clone(), cert.clone())).faults(&wanted), "holds no private key"),
    ] {
        assert!(found.contains(expected), "{expected}\n{found}");
    }
    let missing = Place { dir: tempfile::tempdir().unwrap() };
    fs::create_dir(missing.files().key).unwrap();
    let found = missing.faults(&wanted);
    let expected = "tls.ca: D/ca.pem: there is no such file\ntls.cert: D/证书.pem: there is no such file\n\
                    tls.key: D/a.key: this is a directory; give the file in it";
    assert_eq!(found, expected);
    let huge = "x".repeat((1 << 20) + 1);
    assert!(Place::new(&huge, &(cert, key)).faults(&wanted).contains("larger than 1048576 bytes"));
}

/// One metric without labels, or with one.
fn metric(security: &Security, name: &str, label: &str) -> i64 {
    let families = security.registry().unwrap().gather();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    let has = |metric: &&prometheus::proto::Metric| {
        label.is_empty() || metric.get_label().iter().any(|pair| pair.value() == label)
    };
    let metric = family.get_metric().iter().find(has).unwrap();
    (metric.get_gauge().get_value() + metric.get_counter().get_value()) as i64
}

async fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn changed_files_are_taken_and_bad_ones_are_not() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (listener, address, identity) = listener().await;
    let place = Place::new(&old.pem, &old.issue(&Order::new(&identity)));
    let node = Security::tls(place.files(), Wanted::Node(address.clone())).unwrap();
    let watched = node.clone();
    let watching = tokio::spawn(async move { watched.watch(Duration::from_millis(20)).await });
    let mut incoming = node.incoming(listener);
    let old_router = Place::new(&old.pem, &old.issue(&Order::new(&router()))).security();
    let (first, mut called) =
        tokio::join!(async { old_router.connect(&address).await.unwrap() }, next(&mut incoming));

    // Half written, of another node, with another key: none of it is taken.
    let files = place.files();
    let (cert, key) = old.issue(&Order::new(&Identity::Node("127.0.0.1:1".parse().unwrap())));
    for (number, (bad_cert, bad_key)) in
        (1..).zip([(cert.as_str(), key.as_str()), ("-----BEGIN CERT", key.as_str()), (cert.as_str(), "")])
    {
        fs::write(&files.cert, bad_cert).unwrap();
        fs::write(&files.key, bad_key).unwrap();
        wait("refused", || metric(&node, "holdfast_tls_reloads_total", "refused") >= number).await;
        assert_eq!(metric(&node, "holdfast_tls_files_refused", ""), 1);
        assert_eq!(node.identity(), Some(identity.clone()));
    }

    // A longer certificate of a new CA; both CAs are believed.
    let mut order = Order::new(&identity);
    order.to_s = 10 * HOUR_S;
    let before = metric(&node, "holdfast_tls_certificate_expiry_timestamp_seconds", "own");
    let (cert, key) = new.issue(&order);
    place.write(&format!("{}{}", old.pem, new.pem), &cert, &key);
    wait("taken", || metric(&node, "holdfast_tls_reloads_total", "taken") == 1).await;
    assert_eq!(metric(&node, "holdfast_tls_files_refused", ""), 0);
    let after = metric(&node, "holdfast_tls_certificate_expiry_timestamp_seconds", "own");
    // The two were issued a moment apart.
    assert!((9 * HOUR_S..9 * HOUR_S + 60).contains(&(after - before)), "{}", after - before);

    // The connection that there was goes on; new ones are checked by the new files.
    talk(first, &mut called).await;
    let refused = tokio::select! {
        connected = old_router.connect(&address) => connected.is_err(),
        // Accepts meanwhile: a connection that the caller refuses is none.
        _ = incoming.next() => false,
    };
    assert!(refused, "it does not believe the new CA");
    let both = format!("{}{}", old.pem, new.pem);
    let turned = Place::new(&both, &old.issue(&Order::new(&router()))).security();
    let (second, mut called) =
        tokio::join!(async { turned.connect(&address).await.unwrap() }, next(&mut incoming));
    talk(second, &mut called).await;
    watching.abort();
}
