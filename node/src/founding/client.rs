//! The one who founds: asks the nodes, makes the plan, and carries it out.

use super::moves::Moves;
use super::plan::{Plan, PlanMember};
use holdfast_core::access::{ApiKeyRow, TenantRow};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::founding_client::FoundingClient;
use holdfast_proto::v1::node_client::NodeClient;
use holdfast_proto::{refusal_of, v1};
use holdfast_transport::{Security, explain, is_final};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};

/// How long one node may take to answer one question.
const ASK_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a founded cluster may be without a leader before its nodes are taken at their word.
const ELECTION_MAX: Duration = Duration::from_secs(5);
/// Time between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(200);

/// A cluster to be founded.
#[derive(Debug, Clone)]
pub struct Founding {
    /// `host:port` of every node, as each of them advertises itself.
    pub seeds: Vec<String>,
    /// Number of shards, 1 to 256.
    pub shards: u16,
    /// The first tenant.
    pub tenant: TenantRow,
    /// Its first key.
    pub key: ApiKeyRow,
    /// Nodes that are elsewhere since the cluster was founded.
    pub moves: Moves,
    /// How the nodes are talked to: as an operator.
    pub security: Security,
    /// How long all of it may take.
    pub timeout: Duration,
}

/// What a founding came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founded {
    /// The cluster's id.
    pub cluster_id: String,
    /// Id and address of every node.
    pub members: Vec<(u64, String)>,
    /// Whether the cluster has the key that was to be its first. False: it was founded before, with
    /// another key, and nothing has changed.
    pub with_this_key: bool,
    /// Whether this call named it, or at least proposed to.
    pub by_this_call: bool,
}

/// Why a cluster is not founded.
#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    /// The seeds or other arguments are wrong.
    #[error("{0}")]
    Arguments(String),
    /// Not every node answered in time.
    #[error("not founded in time: {0}; run it again, it goes on where it stopped")]
    TimedOut(String),
    /// The nodes do not fit together.
    #[error("{0}")]
    Nodes(String),
}

/// Founds a cluster, or carries on a founding that was cut off. A cluster that is founded already
/// is left as it is.
///
/// # Errors
/// [`FoundError`]. Nothing that was begun is undone: it can be run again.
pub async fn found(founding: &Founding) -> Result<Founded, FoundError> {
    let mut run = Run::new(founding)?;
    let plan = match run.agree().await? {
        Agreed::ToBeFounded(plan) => plan,
        Agreed::Named(plan) => {
            let with_this_key = run.has_this_key(&plan).await?;
            return Ok(Founded::of(&plan, &founding.moves, with_this_key, false));
        }
    };
    run.until_running(&plan).await?;
    run.form(&plan).await?;
    run.name(&plan).await
}

impl Founded {
    fn of(plan: &Plan, moves: &Moves, with_this_key: bool, by_this_call: bool) -> Self {
        let members = plan.addresses().into_iter().map(|(id, address)| (id, moves.of(&address).to_owned()));
        let (cluster_id, members) = (plan.cluster_id.clone(), members.collect());
        Self { cluster_id, members, with_this_key, by_this_call }
    }
}

fn timeouts(endpoint: Endpoint) -> Endpoint {
    endpoint.connect_timeout(Duration::from_secs(2)).timeout(ASK_TIMEOUT)
}

/// What the nodes say of themselves, by address.
type Described = BTreeMap<String, v1::DescribeResponse>;

enum Agreed {
    /// Every node has this plan on disk.
    ToBeFounded(Plan),
    /// The cluster of this plan was founded before.
    Named(Plan),
}

struct Run<'a> {
    founding: &'a Founding,
    deadline: Instant,
    channels: BTreeMap<String, Channel>,
    /// What went wrong last, for the message when time is up.
    trouble: String,
}

impl<'a> Run<'a> {
    fn new(founding: &'a Founding) -> Result<Self, FoundError> {
        let seeds: BTreeSet<&String> = founding.seeds.iter().collect();
        if seeds.len() < founding.seeds.len() {
            return Err(FoundError::Arguments("cluster.seeds names a node twice".into()));
        }
        let mut channels = BTreeMap::new();
        for seed in &founding.seeds {
            let channel = founding.security.channel(seed, timeouts);
            channels.insert(seed.clone(), channel.map_err(|error| FoundError::Arguments(error.to_string()))?);
        }
        let deadline = Instant::now() + founding.timeout;
        Ok(Self { founding, deadline, channels, trouble: "no node answered yet".into() })
    }

    /// Where the node is now that a plan reaches at `address`.
    fn place<'b>(&'b self, address: &'b str) -> &'b str {
        self.founding.moves.of(address)
    }

    fn channel(&self, address: &str) -> Result<Channel, FoundError> {
        self.channels.get(self.place(address)).cloned().ok_or_else(|| {
            FoundError::Nodes(format!(
                "the plan that the nodes hold names {address}, which is not among cluster.seeds; found the \
                 cluster with the same seeds as before"
            ))
        })
    }

    fn founding(&self, address: &str) -> Result<FoundingClient<Channel>, FoundError> {
        Ok(FoundingClient::new(self.channel(address)?))
    }

    /// A pause before the next try, or the error that time is up.
    async fn pause(&self) -> Result<(), FoundError> {
        if Instant::now() + PAUSE >= self.deadline {
            return Err(FoundError::TimedOut(self.trouble.clone()));
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// Asks every node who it is. The flag says whether all of them answered.
    ///
    /// # Errors
    /// [`FoundError::Nodes`] if one and the caller do not believe each other: waiting mends nothing.
    async fn describe_all(&mut self) -> Result<(Described, bool), FoundError> {
        let asking = self.channels.iter().map(|(address, channel)| {
            let mut client = FoundingClient::new(channel.clone());
            async move { (address.clone(), client.describe(v1::DescribeRequest {}).await) }
        });
        let mut described = Described::new();
        let mut silent = Vec::new();
        for (address, answer) in futures::future::join_all(asking).await {
            match answer {
                Ok(answer) => drop(described.insert(address, answer.into_inner())),
                Err(status) if is_final(&status) => {
                    return Err(FoundError::Nodes(format!("{address}: {}", explain(&status))));
                }
                Err(status) => silent.push(format!("{address} ({})", explain(&status))),
            }
        }
        if !silent.is_empty() {
            self.trouble = format!("no answer from {}", silent.join(", "));
        }
        Ok((described, silent.is_empty()))
    }

    /// Brings every node to one plan, which all of them have on disk when this returns.
    async fn agree(&mut self) -> Result<Agreed, FoundError> {
        let patient_until = Instant::now() + ELECTION_MAX;
        loop {
            let (described, complete) = self.describe_all().await?;
            // A founded cluster is one, whoever of its nodes is away or has lost its disk.
            if let Some(plan) = self.named(&described).await {
                return Ok(Agreed::Named(plan));
            }
            if complete {
                match self.choose(&described) {
                    Ok(plan) if self.hand_out(&plan).await? => return Ok(Agreed::ToBeFounded(plan)),
                    Ok(_) => {}
                    // A founded cluster that elects a leader just now cannot say that it is one.
                    Err(FoundError::Nodes(detail)) if Instant::now() < patient_until => {
                        self.trouble = detail;
                    }
                    Err(error) => return Err(error),
                }
            }
            self.pause().await?;
        }
    }

    /// The plan of the cluster that these nodes run, if it has its first rows.
    async fn named(&self, described: &Described) -> Option<Plan> {
        for (address, node) in described.iter().filter(|(_, node)| node.running) {
            let Some(plan) = node.plan.clone().and_then(|plan| Plan::try_from(plan).ok()) else { continue };
            let Ok(channel) = self.channel(address) else { continue };
            let what = v1::read_meta_request::What::Cluster(v1::Empty {});
            let answer = NodeClient::new(channel).read_meta(read_meta(what)).await;
            if answer.is_ok_and(|answer| !answer.get_ref().rows.is_empty()) {
                return Some(plan);
            }
        }
        None
    }

    /// The plan that some node holds, else a new one.
    fn choose(&self, described: &Described) -> Result<Plan, FoundError> {
        let mut held: Option<(&String, Plan)> = None;
        for (address, node) in described {
            let Some(plan) = &node.plan else { continue };
            let plan = Plan::try_from(plan.clone()).map_err(|error| {
                FoundError::Nodes(format!("{address} holds a plan that is wrong: {error}"))
            })?;
            match &held {
                Some((other, known)) if *known != plan => {
                    return Err(FoundError::Nodes(format!(
                        "{other} belongs to cluster {}, and {address} to cluster {}; a node changes its \
                         cluster only with an empty disk",
                        known.cluster_id, plan.cluster_id
                    )));
                }
                Some(_) => {}
                None => held = Some((address, plan)),
            }
        }
        let Some((_, plan)) = held else { return self.new_plan(described) };
        for member in &plan.members {
            self.channel(&member.address)?;
            let is_the_one = described
                .get(self.place(&member.address))
                .is_some_and(|node| node.instance == member.instance);
            if !is_the_one {
                return Err(FoundError::Nodes(format!(
                    "node {} of cluster {} is gone: the node at {} has another disk than the one that got \
                     this id. Bring the disk back; a node never gets the id of another",
                    member.id, plan.cluster_id, member.address
                )));
            }
        }
        if let Some(extra) =
            described.keys().find(|seed| !plan.members.iter().any(|m| self.place(&m.address) == *seed))
        {
            return Err(FoundError::Nodes(format!(
                "{extra} is no node of cluster {}, which was founded with other seeds",
                plan.cluster_id
            )));
        }
        Ok(plan)
    }

    /// Ids are given in the order of the seeds.
    fn new_plan(&self, described: &Described) -> Result<Plan, FoundError> {
        let member = |(id, address): (u64, &String)| PlanMember {
            id,
            address: address.clone(),
            instance: described.get(address).map(|node| node.instance.clone()).unwrap_or_default(),
        };
        let plan = Plan {
            cluster_id: format!("{:032x}", rand::random::<u128>()),
            shards: self.founding.shards,
            members: (1..).zip(&self.founding.seeds).map(member).collect(),
        };
        plan.check().map_err(|error| FoundError::Arguments(error.to_string()))?;
        Ok(plan)
    }

    /// Gives the plan to the node that decides, then to the others. False: another plan was first,
    /// or a node did not answer; look again.
    async fn hand_out(&mut self, plan: &Plan) -> Result<bool, FoundError> {
        let mut members: Vec<&PlanMember> = plan.members.iter().collect();
        members.sort_by(|a, b| a.address.cmp(&b.address));
        for member in members {
            let request = v1::AdoptRequest { plan: Some(plan.into()) };
            let Err(status) = self.founding(&member.address)?.adopt(request).await else { continue };
            let refused = refusal_of(&status, false).error;
            self.trouble = format!("{}: {}", member.address, refused.detail);
            match refused.code {
                // Another founding was faster, or the node's disk was changed in between.
                ErrorCode::AlreadyExists | ErrorCode::Conflict | ErrorCode::Unavailable => return Ok(false),
                _ => return Err(FoundError::Nodes(self.trouble.clone())),
            }
        }
        Ok(true)
    }

    async fn until_running(&mut self, plan: &Plan) -> Result<(), FoundError> {
        loop {
            let (described, complete) = self.describe_all().await?;
            if complete {
                let waiting = plan.members.iter().find(|member| {
                    described.get(self.place(&member.address)).is_none_or(|node| !node.running)
                });
                let Some(member) = waiting else { return Ok(()) };
                self.trouble = format!("node {} at {} does not run yet", member.id, member.address);
            }
            self.pause().await?;
        }
    }

    async fn form(&mut self, plan: &Plan) -> Result<(), FoundError> {
        let Some(first) = plan.members.first() else { return Ok(()) };
        loop {
            let request = v1::FormRequest { cluster_id: plan.cluster_id.clone() };
            match self.founding(&first.address)?.form(request).await {
                Ok(_) => return Ok(()),
                Err(status) => self.trouble = refused(&first.address, &status).detail,
            }
            self.pause().await?;
        }
    }

    async fn name(&mut self, plan: &Plan) -> Result<Founded, FoundError> {
        let cluster_id = u128::from_str_radix(&plan.cluster_id, 16)
            .map_err(|error| FoundError::Nodes(format!("the cluster id is damaged: {error}")))?;
        let command = Command::Meta(Box::new(MetaCommand::InitCluster {
            cluster_id,
            shards: plan.shards,
            tenant: self.founding.tenant.clone(),
            key: self.founding.key.clone(),
        }));
        let command = command.encode().map_err(|error| FoundError::Arguments(error.to_string()))?;
        let mut may_be_ours = false;
        loop {
            for member in &plan.members {
                let request =
                    v1::NameRequest { cluster_id: plan.cluster_id.clone(), command: command.clone() };
                match self.founding(&member.address)?.name(request).await {
                    Ok(answer) if answer.get_ref().done => {
                        return Ok(Founded::of(plan, &self.founding.moves, true, true));
                    }
                    Ok(_) => self.trouble = "the nodes elected no leader yet".into(),
                    Err(status) => {
                        let error = refused(&member.address, &status);
                        self.trouble = error.detail.clone();
                        match error.code {
                            ErrorCode::AlreadyExists => {
                                let with_this_key = self.has_this_key(plan).await?;
                                return Ok(Founded::of(
                                    plan,
                                    &self.founding.moves,
                                    with_this_key,
                                    may_be_ours,
                                ));
                            }
                            ErrorCode::InvalidArgument => return Err(FoundError::Arguments(error.detail)),
                            // Whether it was proposed is unknown: what is found later may be ours.
                            ErrorCode::UnknownOutcome => may_be_ours = true,
                            _ => {}
                        }
                    }
                }
            }
            self.pause().await?;
        }
    }

    /// Whether the cluster that exists holds the key that was to be its first.
    async fn has_this_key(&mut self, plan: &Plan) -> Result<bool, FoundError> {
        loop {
            for member in &plan.members {
                let what = v1::read_meta_request::What::ApiKey(self.founding.key.id.clone());
                match NodeClient::new(self.channel(&member.address)?).read_meta(read_meta(what)).await {
                    Ok(answer) => {
                        let Some(row) = answer.into_inner().rows.pop() else { return Ok(false) };
                        let row = ApiKeyRow::decode(&row)
                            .map_err(|error| FoundError::Nodes(format!("a key cannot be read: {error}")))?;
                        return Ok(row.secret_sha256 == self.founding.key.secret_sha256);
                    }
                    Err(status) => self.trouble = refused(&member.address, &status).detail,
                }
            }
            self.pause().await?;
        }
    }
}

fn read_meta(what: v1::read_meta_request::What) -> v1::ReadMetaRequest {
    let read = v1::Read {
        consistency: v1::Consistency::Linearizable.into(),
        at_least: None,
        deadline_ms: u32::try_from(ASK_TIMEOUT.as_millis() / 4).unwrap_or(u32::MAX),
        ..v1::Read::default()
    };
    v1::ReadMetaRequest { read: Some(read), what: Some(what) }
}

/// What a node said, with its address.
fn refused(address: &str, status: &tonic::Status) -> Error {
    let error = refusal_of(status, true).error;
    Error { detail: format!("{address}: {}", error.detail), ..error }
}
