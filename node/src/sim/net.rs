//! Connections over turmoil's TCP, for tonic on both sides. Every byte that arrives is in the trace.

use super::world::World;
use crate::raft::NodeId;
use crate::raft::sim::Connect;
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::codegen::http::Uri;
use tonic::transport::Endpoint;
use tonic::transport::server::Connected;
use turmoil::net::{TcpListener, TcpStream};
use xxhash_rust::xxh3::xxh3_64;

/// The port of every node.
pub(super) const PORT: u16 = 7_070;

/// The name of a node's host.
pub(super) fn host(node: NodeId) -> String {
    format!("node-{node}")
}

/// The address of a node, for an address book.
pub(super) fn uri(node: NodeId) -> String {
    format!("http://{}:{PORT}", host(node))
}

/// Makes channels whose bytes go over the simulated network.
pub(super) fn connect(world: &Arc<World>) -> Connect {
    let world = Arc::clone(world);
    Arc::new(move |endpoint: &Endpoint| {
        let world = Arc::clone(&world);
        endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
            let world = Arc::clone(&world);
            async move {
                let host = uri.host().ok_or_else(|| io::Error::other("an address without a host"))?;
                let stream = TcpStream::connect((host, PORT)).await?;
                Ok::<_, io::Error>(TokioIo::new(Watched { stream, world }))
            }
        }))
    })
}

/// The connections that a node's host is asked for.
pub(super) async fn listen(
    world: &Arc<World>,
) -> io::Result<impl futures::Stream<Item = io::Result<Watched>> + use<>> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let world = Arc::clone(world);
    Ok(futures::stream::unfold((listener, world), |(listener, world)| async move {
        let accepted = listener.accept().await;
        let watched = accepted.map(|(stream, _)| Watched { stream, world: Arc::clone(&world) });
        Some((watched, (listener, world)))
    }))
}

/// A connection whose arriving bytes are in the trace.
pub(super) struct Watched {
    stream: TcpStream,
    world: Arc<World>,
}

impl Connected for Watched {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            let bytes = &buffer.filled()[before..];
            let ends = (self.stream.peer_addr().ok(), self.stream.local_addr().ok());
            let hash = xxh3_64(bytes);
            self.world.trace(format_args!("{ends:?} carries {} bytes, {hash:016x}", bytes.len()));
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
