use super::founder::{Founder, InitError};
use super::plan::Plan;
use super::volume::{AdoptError, Volume};
use crate::guard::Guard;
use crate::raft::ProposeError;
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::founding_server::{Founding, FoundingServer};
use holdfast_proto::{Refused, v1};
use holdfast_transport::Security;
use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// Largest message of a founding: a plan and a few rows.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// How long naming the cluster may take.
const NAME_TIMEOUT: Duration = Duration::from_secs(5);
/// How long open connections may take to end when the node turns from waiting to running.
const TURN_TIME_MAX: Duration = Duration::from_secs(1);

/// Answers those who found a cluster. Cheap to clone.
#[derive(Clone)]
pub struct FoundingService(Arc<Inner>);

struct Inner {
    volume: Arc<Volume>,
    /// How the others reach this node, as its configuration says.
    advertise: String,
    plan: watch::Sender<Option<Plan>>,
    founder: OnceLock<Founder>,
}

impl FoundingService {
    /// The service of the node with this volume, which the others reach at `advertise`.
    pub fn new(volume: Arc<Volume>, advertise: &str) -> Self {
        let (plan, _) = watch::channel(volume.plan());
        Self(Arc::new(Inner { volume, advertise: advertise.to_owned(), plan, founder: OnceLock::new() }))
    }

    /// The node runs: from now on its groups can be formed.
    pub fn set_running(&self, founder: Founder) {
        // The second of two would be the same node.
        let _ = self.0.founder.set(founder);
    }

    /// Waits until the volume has a plan.
    pub async fn planned(&self) -> Plan {
        let mut plan = self.0.plan.subscribe();
        loop {
            if let Some(plan) = plan.borrow_and_update().clone() {
                return plan;
            }
            // The sender lives as long as this service.
            let _ = plan.changed().await;
        }
    }

    pub(crate) fn into_server(self) -> FoundingServer<Self> {
        FoundingServer::new(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    async fn take(&self, plan: Option<v1::Plan>) -> Result<(), Refused> {
        let plan = plan.ok_or_else(|| Error::invalid("plan", "the call has no plan"))?;
        let plan = Plan::try_from(plan).map_err(|error| Error::invalid("plan", error.to_string()))?;
        let inner = Arc::clone(&self.0);
        if let Some(member) = plan.member(&inner.volume.instance())
            && member.address != inner.advertise
        {
            let detail = format!(
                "the plan reaches this node at {:?}, but its node.advertise is {:?}; use the same name in \
                 cluster.seeds everywhere",
                member.address, inner.advertise
            );
            return Err(Error::invalid("plan", detail).into());
        }
        let taken = plan.clone();
        let adopt = tokio::task::spawn_blocking(move || inner.volume.adopt(&taken)).await;
        match adopt {
            Ok(Ok(())) => {}
            Ok(Err(error @ AdoptError::Taken(_))) => {
                return Err(Error::new(ErrorCode::AlreadyExists, error.to_string()).into());
            }
            Ok(Err(error @ AdoptError::NotNamed(_))) => {
                return Err(Error::new(ErrorCode::Conflict, error.to_string()).into());
            }
            Ok(Err(error @ AdoptError::Volume(_))) => return Err(internal(&error)),
            Err(error) => return Err(internal(&error)),
        }
        self.0.plan.send_replace(Some(plan));
        Ok(())
    }

    /// The running node, if it belongs to this cluster.
    fn founder(&self, cluster_id: &str) -> Result<&Founder, Refused> {
        let plan = self.0.volume.plan();
        if plan.is_none_or(|plan| plan.cluster_id != cluster_id) {
            let detail = format!("this node has no plan of cluster {cluster_id}");
            return Err(Error::new(ErrorCode::Conflict, detail).into());
        }
        self.0.founder.get().ok_or_else(|| {
            let detail = "this node is still starting; ask again after a moment";
            Error::new(ErrorCode::Unavailable, detail).into()
        })
    }

    async fn form_groups(&self, request: v1::FormRequest) -> Result<(), Refused> {
        let formed = self.founder(&request.cluster_id)?.form_groups().await;
        formed.map_err(|error| Error::new(ErrorCode::Unavailable, error.to_string()).into())
    }

    async fn name_cluster(&self, request: v1::NameRequest) -> Result<bool, Refused> {
        let founder = self.founder(&request.cluster_id)?;
        let command = Command::decode(&request.command)
            .map_err(|error| Error::invalid("command", format!("the command cannot be read: {error}")))?;
        let Command::Meta(command) = command else {
            return Err(
                Error::invalid("command", "a founding proposes the cluster's first rows alone").into()
            );
        };
        match founder.name_cluster(*command, NAME_TIMEOUT).await {
            Ok(done) => Ok(done),
            Err(InitError::Refused(error)) => Err(error.into()),
            Err(InitError::Propose(ProposeError::UnknownOutcome)) => {
                let detail = "the cluster may or may not have been named; ask again";
                Err(Error::new(ErrorCode::UnknownOutcome, detail).into())
            }
            Err(error) => Err(Error::new(ErrorCode::Unavailable, error.to_string()).into()),
        }
    }
}

fn internal(error: &dyn std::fmt::Display) -> Refused {
    Error::new(ErrorCode::Internal, error.to_string()).into()
}

#[tonic::async_trait]
impl Founding for FoundingService {
    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        Ok(Response::new(v1::DescribeResponse {
            instance: self.0.volume.instance(),
            plan: self.0.volume.plan().as_ref().map(Into::into),
            running: self.0.founder.get().is_some(),
        }))
    }

    async fn adopt(&self, request: Request<v1::AdoptRequest>) -> Result<Response<v1::AdoptResponse>, Status> {
        self.take(request.into_inner().plan).await?;
        Ok(Response::new(v1::AdoptResponse {}))
    }

    async fn form(&self, request: Request<v1::FormRequest>) -> Result<Response<v1::FormResponse>, Status> {
        self.form_groups(request.into_inner()).await?;
        Ok(Response::new(v1::FormResponse {}))
    }

    async fn name(&self, request: Request<v1::NameRequest>) -> Result<Response<v1::NameResponse>, Status> {
        let done = self.name_cluster(request.into_inner()).await?;
        Ok(Response::new(v1::NameResponse { done }))
    }
}

/// Serves the founding alone on `listener` until the volume has a plan, and answers it; `None` if
/// `stop` ended first.
///
/// # Errors
/// What the listener reports.
pub async fn wait_for_plan(
    listener: TcpListener,
    service: FoundingService,
    security: &Security,
    stop: impl Future<Output = ()>,
) -> io::Result<Option<Plan>> {
    let (turn, turned) = tokio::sync::oneshot::channel::<()>();
    let incoming = security.incoming(listener);
    let server = tonic::transport::Server::builder()
        .layer(Guard::new(security))
        .add_service(service.clone().into_server())
        .serve_with_incoming_shutdown(incoming, async move {
            // An error means that this function has ended.
            let _ = turned.await;
        });
    let mut server = tokio::spawn(server);
    let plan = tokio::select! {
        plan = service.planned() => Some(plan),
        () = stop => None,
        ended = &mut server => {
            let detail = match ended {
                Ok(Ok(())) => "the listener ended".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            return Err(io::Error::other(detail));
        }
    };
    // The answer to the one who brought the plan goes out first.
    let _ = turn.send(());
    if tokio::time::timeout(TURN_TIME_MAX, &mut server).await.is_err() {
        server.abort();
    }
    Ok(plan)
}
