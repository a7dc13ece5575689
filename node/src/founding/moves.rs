use holdfast_transport::HostPort;
use std::collections::HashMap;

/// Nodes that are reached at another address than the plan of their cluster says. The plan never
/// changes; every process of the cluster must be told the same moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves(HashMap<HostPort, String>);

impl Moves {
    /// Pairs of an address in the plan and the one that takes its place.
    pub fn new(pairs: impl IntoIterator<Item = (HostPort, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Where the node is that the plan reaches at `address`.
    pub fn of<'a>(&'a self, address: &'a str) -> &'a str {
        let moved = address.parse().ok().and_then(|address: HostPort| self.0.get(&address));
        moved.map_or(address, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn who_has_not_moved_stays() {
        let moves = Moves::new([("a:1".parse().unwrap(), "b:2".to_owned())]);
        assert_eq!(moves.of("a:1"), "b:2");
        assert_eq!(moves.of("A.:01"), "b:2");
        assert_eq!(moves.of("b:2"), "b:2");
        assert_eq!(moves.of("无:1"), "无:1");
    }
}
