//! Connecting to a node: the one place where a channel is made.

use crate::accept::Stream;
use crate::address::{AddressError, HostPort};
use crate::explain;
use crate::identity::{Identity, IdentityError};
use crate::material::server_name;
use crate::security::Security;
use hyper_util::rt::TokioIo;
use std::io;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

/// An address cannot be dialled.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DialError {
    /// It is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The transport refuses it.
    #[error("{0:?} cannot be used as an address: {1}")]
    Endpoint(String, String),
}

/// Why there is no connection. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no such place.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody answers there.
    #[error("{0} cannot be reached: {1}")]
    Tcp(HostPort, #[source] io::Error),
    /// There is no common ground, or one of both is not believed.
    #[error("no TLS with {0}: {1}")]
    Tls(HostPort, String),
    /// Another one answers there.
    #[error("{0} shows the certificate of {1}; the address leads to another process than it should")]
    Other(HostPort, Identity),
    /// The one who answers names nobody.
    #[error("the certificate of {0} is of no use: {1}")]
    Nobody(HostPort, IdentityError),
}

impl Security {
    /// The connection to the node that the cluster knows by `address`. It is made when first used,
    /// and again whenever it is lost. `tune` sets its timeouts.
    ///
    /// # Errors
    /// [`DialError`] if the address is none.
    pub fn channel(
        &self,
        address: &str,
        tune: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, DialError> {
        let to: HostPort = address.parse()?;
        let endpoint = Endpoint::from_shared(format!("http://{to}"))
            .map_err(|error| DialError::Endpoint(address.to_owned(), error.to_string()))?;
        Ok(self.connect_lazy(&tune(endpoint)))
    }

    /// As [`Security::channel`], to the host and port of an endpoint.
    pub fn connect_lazy(&self, endpoint: &Endpoint) -> Channel {
        let authority = endpoint.uri().authority().map_or("", |authority| authority.as_str());
        let (security, to) = (self.clone(), authority.parse::<HostPort>());
        let connector = tower::service_fn(move |_uri: tonic::codegen::http::Uri| {
            let (security, to) = (security.clone(), to.clone());
            async move { security.connect(&to?).await.map(TokioIo::new) }
        });
        endpoint.connect_with_connector_lazy(connector)
    }

    pub(crate) async fn connect(&self, to: &HostPort) -> Result<Stream, ConnectError> {
        let connected = self.try_connect(to).await;
        if let Err(error) = &connected
            && !matches!(error, ConnectError::Tcp(..))
        {
            self.warn(&error.to_string());
        }
        connected
    }

    async fn try_connect(&self, to: &HostPort) -> Result<Stream, ConnectError> {
        let unreachable = |error| ConnectError::Tcp(to.clone(), error);
        let tcp = TcpStream::connect((to.host().as_str(), to.port())).await.map_err(unreachable)?;
        tcp.set_nodelay(true).map_err(unreachable)?;
        let Some(tls) = &self.tls else { return Ok(Stream::plain(tcp)) };
        let refused = |why: String| ConnectError::Tls(to.clone(), why);
        let name = server_name(to).map_err(|error| refused(format!("{}: {error}", to.host())))?;
        let connector = TlsConnector::from(tls.current().client.clone());
        let stream = match connector.connect(name, tcp).await {
            Ok(stream) => stream,
            Err(error) => return Err(refused(explain::handshake(&error))),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let certificate = certificate.ok_or_else(|| refused("it showed no certificate".to_owned()))?;
        match Identity::of(certificate) {
            Ok(Identity::Node(named)) if named == *to => {}
            Ok(other) => return Err(ConnectError::Other(to.clone(), other)),
            Err(error) => return Err(ConnectError::Nobody(to.clone(), error)),
        }
        Ok(Stream::tls(stream.into(), self.clone(), to.to_string()))
    }
}
