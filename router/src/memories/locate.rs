//! Where a memory lies: in a collection its id does not tell the partition, so all are asked.

use super::get::not_found;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use futures::future::try_join_all;
use futures::stream::{FuturesOrdered, StreamExt};
use holdfast_core::access::Access;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_proto::v1;
use std::collections::HashMap;
use std::future::Future;

/// In which partitions memories lie, or lay until they were deleted; by their places among the partitions.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// In ascending order; more than one where an id was added to two partitions at the same moment.
    there: HashMap<String, Vec<usize>>,
    deleted: HashMap<String, Vec<usize>>,
    /// When it was recorded, or deleted, in a partition, as far as that was told.
    at_us: HashMap<(String, usize), i64>,
}

impl Places {
    /// Where a memory lies.
    pub(crate) fn of(&self, id: &str) -> Option<usize> {
        self.all_of(id).first().copied()
    }

    /// All places where an id lies.
    pub(crate) fn all_of(&self, id: &str) -> &[usize] {
        self.there.get(id).map_or(&[], Vec::as_slice)
    }

    /// All places where an id was deleted and is not there again.
    pub(crate) fn buried(&self, id: &str) -> &[usize] {
        self.deleted.get(id).map_or(&[], Vec::as_slice)
    }

    /// When a memory was recorded in a partition where it lies, or deleted in one where it lay; `None` if it was
    /// not asked for, or the node does not tell.
    pub(crate) fn at_us(&self, id: &str, partition: usize) -> Option<i64> {
        self.at_us.get(&(id.to_owned(), partition)).copied()
    }

    /// Where a memory lies, or else where it was deleted: what concerns it belongs there.
    pub(crate) fn of_any(&self, id: &str) -> Option<usize> {
        self.of(id).or_else(|| self.buried(id).first().copied())
    }

    /// Takes what one partition said.
    fn take(&mut self, partition: usize, ids: &[String], response: &v1::LocateResponse) {
        let named = |places: &[u32]| -> Vec<String> {
            places.iter().filter_map(|at| ids.get(*at as usize).cloned()).collect()
        };
        let (there, deleted) = (named(&response.there), named(&response.deleted));
        let times = there.iter().zip(&response.created_us).chain(deleted.iter().zip(&response.deleted_us));
        for (id, at_us) in times {
            self.at_us.insert((id.clone(), partition), *at_us);
        }
        for id in there {
            self.there.entry(id).or_default().push(partition);
        }
        for id in deleted {
            self.deleted.entry(id).or_default().push(partition);
        }
    }
}

/// Asks all partitions for some memories, at most
/// [`LOCATE_IDS_MAX`](holdfast_core::limits::LOCATE_IDS_MAX).
///
/// # Errors
/// If one of them does not answer: what it holds is not known then.
pub(crate) async fn locate(
    shared: &Shared,
    access: &Access,
    spaces: &[SpaceKey],
    ids: &[String],
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<Places> {
    ask_all(shared, access, spaces, (ids, false), wish, deadline).await
}

/// As [`locate`], for one memory, and when it was recorded or deleted there.
///
/// # Errors
/// As [`locate`].
pub(super) async fn locate_with_times(
    shared: &Shared,
    access: &Access,
    spaces: &[SpaceKey],
    id: &str,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<Places> {
    ask_all(shared, access, spaces, (&[id.to_owned()], true), wish, deadline).await
}

async fn ask_all(
    shared: &Shared,
    access: &Access,
    spaces: &[SpaceKey],
    (ids, times): (&[String], bool),
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<Places> {
    let ask = |space: SpaceKey| async move {
        let ask = |mut client: Client, read| {
            let request = v1::LocateRequest {
                access: Some(access.clone().into()),
                space: Some((&space).into()),
                read: Some(read),
                ids: ids.to_vec(),
                times,
            };
            async move { client.locate(request).await }
        };
        let response = shared.nodes.read_space(ReadKind::Point, &space, wish, deadline, ask).await?;
        shared.nodes.observe(response.seen);
        Ok::<_, Problem>(response)
    };
    let mut places = Places::default();
    let answers = try_join_all(spaces.iter().cloned().map(ask)).await?;
    for (partition, response) in answers.iter().enumerate() {
        places.take(partition, ids, response);
    }
    Ok(places)
}

/// What one partition answers: what was found there, if anything, and what was seen.
pub(super) type Looked<T> = (Option<T>, Option<Seen>);

/// Looks in all partitions at once, and answers what the first of them holds that holds it.
///
/// # Errors
/// `not_found` if all of them answered that there is nothing. If one of them did not answer, it may be
/// there: then that partition's problem is the answer.
pub(super) async fn look<T, F>(
    spaces: &[SpaceKey],
    ask: impl Fn(SpaceKey) -> F,
) -> Answer<(T, SpaceKey, Vec<Seen>)>
where
    F: Future<Output = Answer<Looked<T>>>,
{
    let mut asked: FuturesOrdered<_> = spaces
        .iter()
        .map(|space| {
            let looking = ask(space.clone());
            async move { (space, looking.await) }
        })
        .collect();
    let mut seen = Vec::new();
    let mut problem: Option<Problem> = None;
    while let Some((space, looked)) = asked.next().await {
        match looked {
            Ok((found, at)) => {
                seen.extend(at);
                if let Some(found) = found {
                    return Ok((found, space.clone(), seen));
                }
            }
            Err(failed) => {
                problem.get_or_insert(failed);
            }
        }
    }
    Err(problem.unwrap_or_else(not_found))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::ErrorCode;

    #[tokio::test]
    async fn nothing_is_denied_before_all_have_answered() {
        let spaces: Vec<SpaceKey> = (0..3).map(|at| SpaceKey::shared("t", "c", at).unwrap()).collect();
        let silent = || Problem::new(ErrorCode::Unavailable, "no leader");
        let answer = |space: SpaceKey, there: Option<u8>, down: Option<u8>| async move {
            match space.partition() {
                at if Some(at) == down => Err(silent()),
                at => Ok((there.filter(|there| *there == at), None)),
            }
        };
        let look = async |there, down| {
            let found = super::look(&spaces, |space| answer(space, there, down)).await;
            found.map(|(found, space, _)| (found, space.partition())).map_err(|problem| problem.error.code)
        };
        assert_eq!(look(Some(2), None).await, Ok((2, 2)));
        assert_eq!(look(Some(1), Some(2)).await, Ok((1, 1)));
        assert_eq!(look(None, None).await, Err(ErrorCode::NotFound));
        assert_eq!(look(None, Some(0)).await, Err(ErrorCode::Unavailable));
        assert_eq!(look(Some(2), Some(2)).await, Err(ErrorCode::Unavailable));
    }
}
