//! TLS of the client: TLS 1.3 by rustls with ring, as between the processes of a cluster.
//!
//! ureq has a connector of its own; it asks rustls for TLS 1.2 as well, which would put that into every
//! connection of the program that does not say otherwise.

use super::settings::RemoteError;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::sync::Arc;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Wraps connections of `https` in TLS, and no others.
#[derive(Debug)]
pub(super) struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// Trusts those whose certificates stand in `ca`, in PEM; without it, those that browsers trust.
    ///
    /// # Errors
    /// If `ca` holds no certificate, or what is none.
    pub(super) fn new(ca: Option<&[u8]>) -> Result<Self, RemoteError> {
        let roots = match ca {
            Some(pem) => roots(pem)?,
            None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| RemoteError::of("url", format!("TLS cannot be used: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config) })
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, RemoteError> {
    let of = |what: String| RemoteError::of("ca", what);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| of(format!("it is no PEM: {error}")))?;
        roots.add(certificate).map_err(|error| of(format!("a certificate cannot be used: {error}")))?;
    }
    if roots.is_empty() {
        return Err(of("it holds no certificate in PEM".to_owned()));
    }
    Ok(roots)
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().ok_or(Error::Tls("the url names no host"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::Tls("the url's host is no name that a certificate can have"))?;
        let failed = |error: rustls::Error| std::io::Error::other(error);
        let mut conn = ClientConnection::new(Arc::clone(&self.config), name).map_err(failed)?;
        let mut sock = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned { conn, sock } })))
    }
}

/// A connection in TLS.
pub(super) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl std::fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output =
            self.buffers.output().get(..amount).ok_or(Error::Tls("more was written than there is"))?;
        self.stream.write_all(output)?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let input = self.buffers.input_append_buf();
        let amount = self.stream.read(input)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
