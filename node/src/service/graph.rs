//! The graph as routers ask for it: one entity, what is around it, a way between two.

use super::{NodeService, refusals};
use holdfast_core::Error;
use holdfast_core::access::Rights;
use holdfast_proto::{Refused, check_graph, graph_of, v1};
use std::sync::Arc;

impl NodeService {
    pub(super) async fn read_graph(&self, request: v1::GraphRequest) -> Result<v1::GraphResponse, Refused> {
        let owner = request.read.and_then(|read| read.owner);
        let (space, group, replica) =
            self.enter(request.access.clone(), request.space.clone(), Rights::READ, owner)?;
        let what = request.what.ok_or_else(|| Error::invalid("what", "the call asks for nothing"))?;
        check_graph(&what)?;
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        let sight = request.sight.unwrap_or_default();
        self.on_search_pool(deadline, move || {
            let answer = graph_of(&state.reader(), &space, &what, &sight);
            let response = answer.map_err(|fault| refusals::corrupted(&fault))?;
            Ok(v1::GraphResponse { seen, ..response })
        })
        .await
    }
}
