//! Listening: handshakes beside each other, and who it is that calls.

use crate::explain::{self, WANTS_TLS};
use crate::identity::{Identity, IdentityError};
use crate::metrics::Reason;
use crate::security::{Security, Tls};
use futures::stream::BoxStream;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsStream};
use tonic::transport::server::Connected;

/// Connections that are being opened at the same time; more wait in the queue of the system.
const OPENING_MAX: usize = 256;
/// How long the opening of one may take.
const OPENING_TIME: Duration = Duration::from_secs(5);
/// The pause after the system refused a connection, for want of file descriptors perhaps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long someone who is turned away may take to hear why.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
/// The first byte of every TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// What to tell a caller with TLS. It is no TLS, and so the caller knows.
const WANTS_PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Accepted connections.
pub type Incoming = BoxStream<'static, io::Result<Stream>>;

/// Who calls: in the extensions of every request.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where the call comes from.
    pub address: Option<SocketAddr>,
    /// Whom the caller's certificate names; `None` without TLS.
    pub identity: Option<Arc<Result<Identity, IdentityError>>>,
}

/// A connection between two processes.
pub struct Stream {
    io: Io,
    security: Security,
    /// Who is at the other end, for the log.
    who: String,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Security {
    /// The connections that come in on `listener`. Those that cannot be opened are turned away, and
    /// the log says why.
    pub fn incoming(&self, listener: TcpListener) -> Incoming {
        let state = (self.clone(), listener, JoinSet::new());
        Box::pin(futures::stream::unfold(state, |(security, listener, mut opening)| async move {
            loop {
                tokio::select! {
                    accepted = listener.accept(), if opening.len() < OPENING_MAX => match accepted {
                        Ok((tcp, from)) => {
                            opening.spawn(security.clone().open(tcp, from));
                        }
                        Err(error) => {
                            security.warn(&format!("a connection cannot be accepted: {error}"));
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    },
                    Some(opened) = opening.join_next(), if !opening.is_empty() => {
                        if let Ok(Some(stream)) = opened {
                            return Some((Ok(stream), (security, listener, opening)));
                        }
                    }
                }
            }
        }))
    }

    async fn open(self, tcp: TcpStream, from: SocketAddr) -> Option<Stream> {
        let opened = tokio::time::timeout(OPENING_TIME, self.handshake(tcp, from));
        // Who says nothing is not worth a line: balancers probe so.
        opened.await.ok().flatten()
    }

    async fn handshake(&self, tcp: TcpStream, from: SocketAddr) -> Option<Stream> {
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps Nagle's algorithm");
        }
        let mut first = [0];
        let speaks_tls = match tcp.peek(&mut first).await {
            Ok(1..) => first == [HANDSHAKE],
            Ok(0) | Err(_) => return None,
        };
        match &self.tls {
            None if speaks_tls => {
                self.warn(&format!(
                    "{} was turned away: it speaks TLS, and tls.mode of this node is off",
                    from.ip().to_canonical()
                ));
                turn_away(tcp, WANTS_PLAIN).await;
                None
            }
            None => Some(Stream::plain(tcp)),
            Some(tls) if speaks_tls => self.secure(tls, tcp, from).await,
            Some(tls) => {
                tls.metrics.refused_connection(Reason::Plain);
                self.warn(&format!(
                    "{} was turned away: it does not speak TLS, and this node speaks nothing else; set [tls] \
                     there",
                    from.ip().to_canonical()
                ));
                turn_away(tcp, &go_away(WANTS_TLS)).await;
                None
            }
        }
    }

    async fn secure(&self, tls: &Tls, tcp: TcpStream, from: SocketAddr) -> Option<Stream> {
        let acceptor = TlsAcceptor::from(tls.current().server.clone());
        match acceptor.accept(tcp).into_fallible().await {
            Ok(stream) => Some(Stream::tls(stream.into(), self.clone(), from.to_string())),
            Err((error, tcp)) => {
                let of_certificate = matches!(
                    explain::tls_error(&error),
                    Some(
                        rustls::Error::InvalidCertificate(_)
                            | rustls::Error::NoCertificatesPresented
                            | rustls::Error::AlertReceived(_)
                    )
                );
                let reason = if of_certificate { Reason::Certificate } else { Reason::Handshake };
                tls.metrics.refused_connection(reason);
                self.warn(&format!(
                    "{} was turned away: {}",
                    from.ip().to_canonical(),
                    explain::handshake(&error)
                ));
                turn_away(tcp, &[]).await;
                None
            }
        }
    }
}

/// The end of an HTTP/2 connection that never began, with the reason.
fn go_away(why: &str) -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const INADEQUATE_SECURITY: u8 = 0xc;
    let length = u8::try_from(8 + why.len()).unwrap_or(u8::MAX);
    let mut frames = SETTINGS.to_vec();
    frames.extend([0, 0, length, 7, 0, 0, 0, 0, 0]);
    frames.extend([0, 0, 0, 0, 0, 0, 0, INADEQUATE_SECURITY]);
    frames.extend(why.bytes().take(usize::from(length) - 8));
    frames
}

/// Says the last word and listens until it is heard: closing with something unread would take the
/// word back.
async fn turn_away(mut tcp: TcpStream, last_word: &[u8]) {
    let farewell = async {
        tcp.write_all(last_word).await?;
        tcp.shutdown().await?;
        let mut unread = [0; 4096];
        while tcp.read(&mut unread).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    // He may be gone already.
    let _ = tokio::time::timeout(FAREWELL_TIME, farewell).await;
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream) -> Self {
        Self { io: Io::Plain(tcp), security: Security::plain(), who: String::new() }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, security: Security, who: String) -> Self {
        Self { io: Io::Tls(Box::new(stream)), security, who }
    }

    /// An alert in words. With TLS 1.3 the caller hears only after the handshake that its certificate
    /// was not believed.
    fn in_words(&self, error: io::Error) -> io::Error {
        let Some(rustls::Error::AlertReceived(alert)) = explain::tls_error(&error) else { return error };
        let text = format!("{}: {}", self.who, explain::alert(*alert));
        self.security.warn(&text);
        io::Error::new(io::ErrorKind::ConnectionAborted, text)
    }
}

impl Connected for Stream {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let (tcp, identity) = match &self.io {
            Io::Plain(tcp) => (tcp, None),
            Io::Tls(stream) => {
                let (tcp, session) = stream.get_ref();
                let certificate = session.peer_certificates().and_then(|chain| chain.first());
                let identity = certificate.map_or(Err(IdentityError::Missing), Identity::of);
                (tcp, Some(Arc::new(identity)))
            }
        };
        Peer { address: tcp.peer_addr().ok(), identity }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match &mut self.io {
            Io::Plain(tcp) => return Pin::new(tcp).poll_read(cx, buffer),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        };
        read.map_err(|error| self.in_words(error))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, pieces),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(tcp) => tcp.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
