//! Who is right: pure, so that every case can be tried.

use crate::raft::{NodeId, ReplicaReport};
use std::collections::{BTreeMap, BTreeSet};

/// What the replicas of one group said, by node; the own replica included.
pub(super) type Reports<'a> = BTreeMap<NodeId, &'a ReplicaReport>;

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is no point that two replicas have both reached.
    Unknown,
    /// A majority agrees, and nobody who was compared differs.
    Equal {
        /// Where.
        index: u64,
    },
    /// A majority agrees, and these differ from it.
    Outvoted {
        /// Where.
        index: u64,
        /// What the majority holds.
        hash: u128,
        /// Who does not.
        by: BTreeSet<NodeId>,
    },
    /// They differ, and no majority agrees: nobody knows who is right.
    Undecided {
        /// Where.
        index: u64,
    },
}

/// How many replicas of `voters` decide.
pub(super) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Compares replicas at the newest point that says anything. Who knows that it is wrong has no vote.
pub(super) fn compare(voters: &BTreeSet<NodeId>, reports: &Reports<'_>) -> Verdict {
    let needed = majority(voters.len());
    for (index, holders) in points(voters, reports).into_iter().rev() {
        if holders.len() < 2 {
            continue;
        }
        let mut votes: BTreeMap<u128, usize> = BTreeMap::new();
        for (node, hash) in &holders {
            let votes = votes.entry(*hash).or_default();
            *votes += usize::from(!reports.get(node).is_some_and(|report| report.quarantined));
        }
        let most = votes.iter().max_by_key(|(_, votes)| **votes).map(|(hash, votes)| (*hash, *votes));
        let Some((hash, count)) = most else { continue };
        let by: BTreeSet<NodeId> =
            holders.iter().filter(|(_, other)| **other != hash).map(|(node, _)| *node).collect();
        match (count >= needed, by.is_empty()) {
            (true, true) => return Verdict::Equal { index },
            (true, false) => return Verdict::Outvoted { index, hash, by },
            (false, false) => return Verdict::Undecided { index },
            // Too few to decide, and of one mind: an older point may tell more.
            (false, true) => {}
        }
    }
    Verdict::Unknown
}

/// From whom a replica that is wrong may be made anew, and what it must come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Permit {
    /// A point at which a majority agrees, with its hash; `None` if there is no other replica.
    pub(super) point: Option<(u64, u128)>,
    /// Those who agree.
    pub(super) donors: Vec<NodeId>,
}

/// Whether `me`, which is wrong, may be made anew: only if enough others agree with each other, none of
/// those that can be compared differs from them, and all who answered have one version. The point is
/// one that `me` has reached as well. Else the reason.
pub(super) fn permit(
    me: NodeId,
    voters: &BTreeSet<NodeId>,
    reports: &Reports<'_>,
    versions: &BTreeMap<NodeId, u32>,
) -> Result<Permit, String> {
    if voters.len() == 1 && voters.contains(&me) {
        return Ok(Permit { point: None, donors: Vec::new() });
    }
    let of_voters = || versions.iter().filter(|(node, _)| voters.contains(node));
    let distinct: BTreeSet<u32> = of_voters().map(|(_, version)| *version).collect();
    if distinct.len() > 1 {
        return Err(format!("the replicas have different versions of the state machine: {versions:?}"));
    }
    let reached = reports.get(&me).and_then(|report| report.visible).unwrap_or(0);
    let needed = majority(voters.len());
    for (index, mut holders) in points(voters, reports).into_iter().rev() {
        holders.retain(|node, _| *node != me && !reports.get(node).is_some_and(|report| report.quarantined));
        if index > reached || holders.len() < needed {
            continue;
        }
        let hashes: BTreeSet<u128> = holders.values().copied().collect();
        return match (hashes.first(), hashes.len()) {
            (Some(hash), 1) => {
                Ok(Permit { point: Some((index, *hash)), donors: holders.into_keys().collect() })
            }
            _ => Err(format!("the other replicas do not agree at log index {index}")),
        };
    }
    Err(format!("fewer than {needed} other replicas can be believed and compared"))
}

/// What each voter holds at each point.
fn points(voters: &BTreeSet<NodeId>, reports: &Reports<'_>) -> BTreeMap<u64, BTreeMap<NodeId, u128>> {
    let mut points: BTreeMap<u64, BTreeMap<NodeId, u128>> = BTreeMap::new();
    for (node, report) in reports.iter().filter(|(node, _)| voters.contains(node)) {
        for (index, hash) in &report.points {
            points.entry(*index).or_default().insert(*node, *hash);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn report(points: &[(u64, u128)]) -> ReplicaReport {
        let visible = points.last().map(|(index, _)| *index);
        ReplicaReport { quarantined: false, visible, points: points.to_vec(), ..ReplicaReport::default() }
    }

    fn bad(points: &[(u64, u128)]) -> ReplicaReport {
        ReplicaReport { quarantined: true, ..report(points) }
    }

    fn voters(count: u64) -> BTreeSet<NodeId> {
        (1..=count).collect()
    }

    fn by_node(reports: &[ReplicaReport]) -> Reports<'_> {
        (1..).zip(reports).collect()
    }

    fn of(count: u64, reports: &[ReplicaReport]) -> Verdict {
        compare(&voters(count), &by_node(reports))
    }

    fn may(count: u64, reports: &[ReplicaReport]) -> Result<Permit, String> {
        let versions = (1..).zip(reports).map(|(node, _)| (node, 1)).collect();
        permit(1, &voters(count), &by_node(reports), &versions)
    }

    #[test]
    fn two_of_three_decide() {
        let (a, b) = (report(&[(5, 10)]), report(&[(5, 11)]));
        let outvoted = |by: u64| Verdict::Outvoted { index: 5, hash: 10, by: [by].into() };
        assert_eq!(of(3, &[a.clone(), a.clone(), a.clone()]), Verdict::Equal { index: 5 });
        assert_eq!(of(3, &[b.clone(), a.clone(), a.clone()]), outvoted(1));
        assert_eq!(of(3, &[a.clone(), a.clone(), b.clone()]), outvoted(3));
        assert_eq!(of(3, &[a.clone(), b.clone()]), Verdict::Undecided { index: 5 }, "one is missing");
        let c = report(&[(5, 12)]);
        assert_eq!(of(3, &[a.clone(), b, c]), Verdict::Undecided { index: 5 }, "three minds");
        assert_eq!(of(3, &[a.clone(), a.clone()]), Verdict::Equal { index: 5 }, "a majority was compared");
        assert_eq!(of(3, &[a]), Verdict::Unknown);
        assert_eq!(of(3, &[]), Verdict::Unknown);
    }

    #[test]
    fn the_newest_point_that_says_anything_counts() {
        let behind = report(&[(5, 11)]);
        let ahead = report(&[(5, 10), (9, 20)]);
        let verdict = of(3, &[behind.clone(), ahead.clone(), ahead.clone()]);
        assert_eq!(verdict, Verdict::Equal { index: 9 }, "who is behind is compared when it gets there");
        let verdict = of(3, &[behind, ahead, report(&[(5, 10)])]);
        assert_eq!(verdict, Verdict::Outvoted { index: 5, hash: 10, by: [1].into() });
    }

    #[test]
    fn who_is_no_voter_or_knows_itself_to_be_wrong_has_no_vote() {
        let (a, b) = (report(&[(5, 10)]), report(&[(5, 11)]));
        let four = [a.clone(), a.clone(), a.clone(), b.clone()];
        assert_eq!(of(3, &four), Verdict::Equal { index: 5 }, "node 4 is not of the group");
        let verdict = of(3, &[bad(&[(5, 11)]), b, a.clone()]);
        assert_eq!(verdict, Verdict::Undecided { index: 5 }, "two of one mind, but one of them is wrong");
        assert_eq!(of(3, &[bad(&[(5, 10)]), a.clone(), a]), Verdict::Equal { index: 5 });
    }

    #[test]
    fn a_rebuild_needs_others_who_agree() {
        let (a, b) = (report(&[(5, 10)]), report(&[(5, 11)]));
        let me = bad(&[(5, 10)]);
        let permit = Permit { point: Some((5, 10)), donors: vec![2, 3] };
        assert_eq!(may(3, &[me.clone(), a.clone(), a.clone()]), Ok(permit));
        assert!(may(3, &[me.clone(), a.clone(), b.clone()]).is_err(), "the others differ");
        assert!(may(3, &[me.clone(), a.clone()]).is_err(), "one is not there");
        assert!(may(3, &[me.clone(), a.clone(), bad(&[(5, 10)])]).is_err(), "two of three are wrong");
        assert!(may(2, &[me.clone(), a.clone()]).is_err(), "one against one");
        assert_eq!(may(1, std::slice::from_ref(&me)), Ok(Permit { point: None, donors: vec![] }));
        let five = [me.clone(), a.clone(), a.clone(), a.clone()];
        assert_eq!(may(5, &five).unwrap().donors, [2, 3, 4], "three of five decide");
        assert!(may(5, &[me, a.clone(), a.clone(), a.clone(), b]).is_err(), "one of the others differs");
    }

    #[test]
    fn a_rebuild_goes_by_a_point_that_the_replica_has_reached() {
        let me = bad(&[(5, 10)]);
        let ahead = report(&[(4, 9), (5, 10), (8, 20)]);
        assert_eq!(may(3, &[me.clone(), ahead.clone(), ahead]).unwrap().point, Some((5, 10)));
        let far = report(&[(8, 20)]);
        assert!(may(3, &[me, far.clone(), far]).is_err(), "it first has to get there");
    }

    #[test]
    fn no_rebuild_while_versions_differ() {
        let reports = [bad(&[(5, 10)]), report(&[(5, 11)]), report(&[(5, 11)])];
        let versions = BTreeMap::from([(1, 2), (2, 1), (3, 1)]);
        let refused = permit(1, &voters(3), &by_node(&reports), &versions).unwrap_err();
        assert!(refused.contains("versions"), "{refused}");
        let versions = BTreeMap::from([(1, 1), (2, 1), (3, 1), (9, 7)]);
        assert!(permit(1, &voters(3), &by_node(&reports), &versions).is_ok(), "node 9 is not of the group");
    }
}
