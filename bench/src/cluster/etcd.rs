//! etcd beside it: three processes on the same disk with its default settings, and a client of its
//! gRPC interface.
//!
//! The client speaks to the leader alone, which spares etcd the forwarding by a follower. Of its
//! interface only the messages and fields that are used here are declared; the numbers are those of
//! etcd's `rpc.proto`. A client library would need protoc at build time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use prost::Message;
use tokio::process::Command;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::process::{Server, free_addresses};

/// How long the cluster may take to elect its leader on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);
/// Time between two looks at it.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(bool, tag = "9")]
    count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(int64, tag = "4")]
    count: i64,
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(uint64, tag = "2")]
    member_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(uint64, tag = "4")]
    leader: u64,
}

/// The program on PATH, else where `scripts/fetch-etcd.sh` puts it.
pub(super) fn find() -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let tools = std::env::var_os("HOLDFAST_TOOLS_DIR").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        Some(cache?.join("holdfast/tools"))
    });
    let folders = on_path.unwrap_or_default().into_iter().chain(tools);
    folders.map(|folder| folder.join("etcd")).find(|program| program.is_file())
}

/// A running cluster.
pub(super) struct Etcd {
    servers: Vec<Server>,
    /// Where the leader is reached.
    leader: String,
    pub(super) version: String,
}

impl Etcd {
    /// Starts three members in `folder` and waits for their leader.
    pub(super) async fn start(program: &Path, folder: &Path) -> Result<Self> {
        let addresses: Vec<String> =
            free_addresses(6)?.into_iter().map(|address| format!("http://{address}")).collect();
        let (clients, peers) = addresses.split_at(3);
        let cluster: Vec<String> =
            peers.iter().enumerate().map(|(index, peer)| format!("m{index}={peer}")).collect();
        let mut servers = Vec::new();
        for (index, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let mut command = Command::new(program);
            for (name, _) in
                std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_"))
            {
                command.env_remove(name);
            }
            command.args(["--name", &format!("m{index}"), "--data-dir"]);
            command.arg(folder.join(format!("etcd-{index}")));
            command.args(["--listen-client-urls", client, "--advertise-client-urls", client]);
            command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
            command.args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"]);
            servers.push(Server::start(&format!("etcd-{index}"), command, folder)?);
        }
        let begin = Instant::now();
        let (leader, version) = loop {
            if let Some(found) = leader_of(clients).await {
                break found;
            }
            let said = || servers.first().map(Server::log_end).unwrap_or_default();
            ensure!(
                begin.elapsed() < START_MAX,
                "etcd has no leader within {START_MAX:?}; it says:\n{}",
                said()
            );
            tokio::time::sleep(LOOK_PAUSE).await;
        };
        Ok(Self { servers, leader, version })
    }

    /// Processor time of all its processes.
    pub(super) fn cpu(&self) -> Result<Duration> {
        self.servers.iter().map(Server::cpu).sum()
    }

    /// A client with a connection of its own.
    pub(super) async fn client(&self) -> Result<Client> {
        Client::connect(&self.leader).await.context("cannot connect to etcd")
    }

    /// Ends all processes.
    pub(super) async fn stop(self) {
        for server in self.servers {
            server.stop().await;
        }
    }
}

/// The member that calls itself the leader, and its version.
async fn leader_of(clients: &[String]) -> Option<(String, String)> {
    for client in clients {
        let Ok(connected) = Client::connect(client).await else { continue };
        let path = "/etcdserverpb.Maintenance/Status";
        let Ok(status) = connected.call::<_, StatusResponse>(path, StatusRequest {}).await else { continue };
        if status.leader != 0 && status.header.is_some_and(|header| header.member_id == status.leader) {
            return Some((client.clone(), status.version));
        }
    }
    None
}

/// One client.
pub(super) struct Client(Channel);

impl Client {
    async fn connect(address: &str) -> Result<Self> {
        let endpoint =
            Endpoint::from_shared(address.to_owned())?.timeout(ANSWER_MAX).connect_timeout(ANSWER_MAX);
        Ok(Self(endpoint.connect().await?))
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, tonic::Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        Ok(grpc.unary(tonic::Request::new(request), path, codec).await?.into_inner())
    }

    /// Stores a value; the code of the fault if it was not acknowledged.
    pub(super) async fn write(&self, key: &str, value: Vec<u8>) -> Result<(), String> {
        let put = PutRequest { key: key.as_bytes().to_vec(), value };
        let done = self.call::<_, PutResponse>("/etcdserverpb.KV/Put", put).await;
        done.map(drop).map_err(|status| format!("{:?}", status.code()).to_lowercase())
    }

    /// How many keys there are.
    pub(super) async fn count(&self) -> Result<u64> {
        // From the smallest key on, without an end.
        let all = RangeRequest { key: vec![0], range_end: vec![0], count_only: true };
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", all).await?;
        Ok(u64::try_from(answer.count)?)
    }
}
