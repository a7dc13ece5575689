//! From files to what connections are made with, and everything that can be wrong on the way.

use crate::address::HostPort;
use crate::explain::certificate_error;
use crate::files::{Contents, Fault, Part, TlsFiles};
use crate::identity::{Identity, Role};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Most certificates in one file.
const CERTIFICATES_MAX: usize = 100;
/// The protocol inside of TLS: HTTP/2.
const ALPN: &[u8] = b"h2";

/// Whom the certificate of a process must name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The node that the cluster knows by this address.
    Node(HostPort),
    /// Anybody of this role.
    Role(Role),
    /// Anybody of any role.
    Anybody,
}

/// Certificates and key, checked: those of a process that others will believe.
pub struct Material {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) digest: u128,
    identity: Identity,
    expires_s: i64,
    ca_expires_s: i64,
}

impl Material {
    /// Reads and checks the files as of now.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load(files: &TlsFiles, wanted: &Wanted) -> Result<Self, Vec<Fault>> {
        Self::new(files, &files.read()?, wanted)
    }

    /// Whom the certificate names.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// When the certificate expires, in seconds since 1970; or what links it to the CA, if earlier.
    pub fn expires_s(&self) -> i64 {
        self.expires_s
    }

    /// When the CA that issued it expires, in seconds since 1970.
    pub fn ca_expires_s(&self) -> i64 {
        self.ca_expires_s
    }

    pub(crate) fn new(files: &TlsFiles, contents: &Contents, wanted: &Wanted) -> Result<Self, Vec<Fault>> {
        let mut check = Check { files, faults: Vec::new(), provider: Arc::new(ring::default_provider()) };
        let (authorities, chain) = (check.authorities(&contents.ca), check.chain(&contents.cert));
        let key = check.key(&contents.key);
        let identity = chain.as_ref().and_then(|chain| check.identity(chain, wanted));
        if let (Some(chain), Some(key)) = (&chain, &key) {
            check.fits(chain, key);
        }
        let verifiers = authorities.as_ref().and_then(|authorities| check.verifiers(authorities));
        if let (Some(verifiers), Some(chain)) = (&verifiers, &chain) {
            check.believed(verifiers, chain, identity.as_ref());
        }
        let Check { faults, provider, .. } = check;
        let (Some(authorities), Some(chain), Some(key)) = (authorities, chain, key) else {
            return Err(faults);
        };
        let (Some(identity), Some(verifiers)) = (identity, verifiers) else { return Err(faults) };
        if !faults.is_empty() {
            return Err(faults);
        }
        let (expires_s, ca_expires_s) = expiry(&chain, &authorities);
        let configs = configs(provider, verifiers, chain, key);
        let (client, server) =
            configs.map_err(|error| vec![files.fault(Part::Cert, format!("TLS refuses it: {error}"))])?;
        let digest = contents.digest();
        Ok(Self { client, server, digest, identity, expires_s, ca_expires_s })
    }
}

type Chain = Vec<CertificateDer<'static>>;

struct Verifiers {
    of_nodes: Arc<WebPkiServerVerifier>,
    of_callers: Arc<dyn ClientCertVerifier>,
}

struct Check<'a> {
    files: &'a TlsFiles,
    faults: Vec<Fault>,
    provider: Arc<CryptoProvider>,
}

impl Check<'_> {
    fn fail(&mut self, part: Part, detail: impl std::fmt::Display) {
        self.faults.push(self.files.fault(part, detail));
    }

    fn certificates(&mut self, part: Part, bytes: &[u8]) -> Option<Chain> {
        let found: Result<Chain, pem::Error> =
            CertificateDer::pem_slice_iter(bytes).take(CERTIFICATES_MAX + 1).collect();
        match found {
            Ok(found) if found.is_empty() => {
                self.fail(part, "holds no certificate; expected PEM, \"-----BEGIN CERTIFICATE-----\"");
            }
            Ok(found) if found.len() > CERTIFICATES_MAX => {
                self.fail(part, format!("holds more than {CERTIFICATES_MAX} certificates"));
            }
            Ok(found) => return Some(found),
            Err(error) => self.fail(part, format!("is damaged: {error}")),
        }
        None
    }

    fn chain(&mut self, bytes: &[u8]) -> Option<Chain> {
        self.certificates(Part::Cert, bytes)
    }

    fn authorities(&mut self, bytes: &[u8]) -> Option<Chain> {
        let authorities = self.certificates(Part::Ca, bytes)?;
        let mut good = true;
        for (number, authority) in (1..).zip(&authorities) {
            let is_ca = X509Certificate::from_der(authority).is_ok_and(|(_, parsed)| parsed.is_ca());
            if !is_ca {
                good = false;
                // Believing it would be believing whoever has its key.
                self.fail(Part::Ca, format!("certificate {number} in it is not that of a CA"));
            }
        }
        good.then_some(authorities)
    }

    fn key(&mut self, bytes: &[u8]) -> Option<PrivateKeyDer<'static>> {
        match PrivateKeyDer::from_pem_slice(bytes) {
            Ok(key) => return Some(key),
            Err(pem::Error::NoItemsFound) => {
                self.fail(Part::Key, "holds no private key; expected PEM, \"-----BEGIN PRIVATE KEY-----\"");
            }
            Err(error) => self.fail(Part::Key, format!("is damaged: {error}")),
        }
        None
    }

    fn fits(&mut self, chain: &Chain, key: &PrivateKeyDer<'static>) {
        match CertifiedKey::from_der(chain.clone(), key.clone_key(), &self.provider) {
            Ok(_) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                let cert = self.files.cert.display().to_string();
                self.fail(Part::Key, format!("does not fit the certificate in {cert}"));
            }
            Err(error) => self.fail(Part::Key, format!("cannot be used: {error}")),
        }
    }

    /// Whom the certificate names, if it is who is wanted.
    fn identity(&mut self, chain: &Chain, wanted: &Wanted) -> Option<Identity> {
        let found = match Identity::of(chain.first()?) {
            Ok(found) => found,
            Err(error) => {
                self.fail(Part::Cert, error);
                return None;
            }
        };
        let problem = match (wanted, &found) {
            (Wanted::Anybody, _) => None,
            (Wanted::Role(role), found) => (found.role() != *role)
                .then(|| format!("it names {found}, but the role of this process is {role}")),
            (Wanted::Node(address), Identity::Node(named)) => (address != named).then(|| {
                format!(
                    "it names {found}, but this node is {address} to the cluster; it needs the alternative \
                     name (URI) {}",
                    Identity::Node(address.clone()).uri()
                )
            }),
            (Wanted::Node(_), found) => {
                Some(format!("it names {found}, but the role of this process is node"))
            }
        };
        if let Some(problem) = problem {
            self.fail(Part::Cert, problem);
            return None;
        }
        Some(found)
    }

    fn verifiers(&mut self, authorities: &Chain) -> Option<Verifiers> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            if let Err(error) = roots.add(authority.clone()) {
                self.fail(Part::Ca, format!("holds a CA that cannot be used: {error}"));
                return None;
            }
        }
        let roots = Arc::new(roots);
        let of_nodes =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), self.provider.clone()).build();
        let of_callers = WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone()).build();
        match (of_nodes, of_callers) {
            (Ok(of_nodes), Ok(of_callers)) => Some(Verifiers { of_nodes, of_callers }),
            (Err(error), _) | (_, Err(error)) => {
                self.fail(Part::Ca, format!("cannot be used: {error}"));
                None
            }
        }
    }

    /// Whether others, who believe the same CAs, will believe this certificate.
    fn believed(&mut self, verifiers: &Verifiers, chain: &Chain, identity: Option<&Identity>) {
        let Some((own, links)) = chain.split_first() else { return };
        let now = UnixTime::now();
        let ca = self.files.ca.display().to_string();
        if let Err(error) = verifiers.of_callers.verify_client_cert(own, links, now) {
            self.fail(Part::Cert, certificate_error(&error, &format!("in {ca}")));
            return;
        }
        let Some(Identity::Node(address)) = identity else { return };
        let Ok(name) = server_name(address) else {
            return self.fail(Part::Cert, format!("it names the host {:?}, which is none", address.host()));
        };
        if let Err(error) = verifiers.of_nodes.verify_server_cert(own, links, &name, &[], now) {
            let detail = match error {
                rustls::Error::InvalidCertificate(
                    rustls::CertificateError::NotValidForName
                    | rustls::CertificateError::NotValidForNameContext { .. },
                ) => format!(
                    "it does not cover the host {}, under which this node is reached; it needs it as an \
                     alternative name (DNS or IP)",
                    address.host()
                ),
                other => certificate_error(&other, &format!("in {ca}")),
            };
            self.fail(Part::Cert, detail);
        }
    }
}

/// The host of an address, as TLS names it.
pub(crate) fn server_name(
    address: &HostPort,
) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    match address.ip() {
        Some(ip) => Ok(ServerName::IpAddress(ip.into())),
        None => ServerName::try_from(address.host()),
    }
}

type Configs = (Arc<ClientConfig>, Arc<ServerConfig>);

fn configs(
    provider: Arc<CryptoProvider>,
    verifiers: Verifiers,
    chain: Chain,
    key: PrivateKeyDer<'static>,
) -> Result<Configs, rustls::Error> {
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        // "Dangerous" is any verifier given by hand; this one is the usual.
        .with_custom_certificate_verifier(verifiers.of_nodes)
        .with_client_auth_cert(chain.clone(), key.clone_key())?;
    client.alpn_protocols = vec![ALPN.to_vec()];
    client.resumption = Resumption::disabled();
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifiers.of_callers)
        .with_single_cert(chain, key)?;
    server.alpn_protocols = vec![ALPN.to_vec()];
    server.send_tls13_tickets = 0;
    Ok((Arc::new(client), Arc::new(server)))
}

/// When the chain and when its CA expires, in seconds since 1970.
fn expiry(chain: &Chain, authorities: &Chain) -> (i64, i64) {
    fn parse<'a>(list: &'a Chain) -> impl Iterator<Item = X509Certificate<'a>> {
        list.iter().filter_map(|der| X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed))
    }
    let ends = |certificate: &X509Certificate<'_>| certificate.validity().not_after.timestamp();
    let own = parse(chain).map(|certificate| ends(&certificate)).min().unwrap_or(0);
    let issued_by = |authority: &X509Certificate<'_>| {
        parse(chain).any(|certificate| certificate.issuer() == authority.subject())
    };
    let of_issuers = parse(authorities).filter(issued_by).map(|authority| ends(&authority)).max();
    let any = || parse(authorities).map(|authority| ends(&authority)).max();
    (own, of_issuers.or_else(any).unwrap_or(0))
}
