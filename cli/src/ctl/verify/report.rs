//! What was compared, in words.

use super::answer::{Check, Group, Replica, Verified};
use std::fmt::Write;

/// The whole of it: a line for each group that is well, several for each that is not.
pub(super) fn text(verified: &Verified) -> String {
    let mut text = String::new();
    for group in &verified.groups {
        group_text(&mut text, group);
    }
    let (count, total) =
        (verified.groups.iter().filter(|group| group.equal == Some(true)).count(), verified.groups.len());
    let verdict = match verified.equal {
        Some(true) => "equal",
        Some(false) => "DIFFERENT",
        None => "not compared",
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{verdict}: {count} of {total} groups are equal on all nodes");
    text
}

/// How far the checks of a group are.
pub(super) fn progress(group: &Group) -> String {
    let check = |name: &str, check: &Option<Check>| {
        let check = check.as_ref()?;
        match check.state.as_str() {
            "waiting" => Some(format!("{name} wait")),
            "running" if check.total > 0 => Some(format!("{} of {} {name}", check.done, check.total)),
            "running" => Some(format!("{} {name}", check.done)),
            _ => None,
        }
    };
    let of = |replica: &Replica| {
        let parts: Vec<_> =
            [check("rows", &replica.rows), check("spaces", &replica.spaces)].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("node {}: {}", replica.node, parts.join(", ")))
    };
    group.replicas.iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

fn group_text(text: &mut String, group: &Group) {
    let name = if group.group == 0 { "meta group".to_owned() } else { format!("shard {}", group.group) };
    let at = group.point.map_or_else(|| "at no point".to_owned(), |point| format!("at log index {point}"));
    let verdict = match group.equal {
        Some(true) => "equal",
        Some(false) => "DIFFERENT",
        None => "not compared",
    };
    let _ = write!(text, "{name}: {verdict} {at}");
    if group.equal == Some(true) {
        let _ = writeln!(text, ", {} replicas{}", group.replicas.len(), totals(group));
        return;
    }
    let _ = writeln!(text);
    if let Some(error) = &group.error {
        let _ = writeln!(text, "  {error}");
    }
    let majority = group.majority();
    for replica in &group.replicas {
        let _ = writeln!(text, "  node {}: {}", replica.node, replica_text(replica, majority));
    }
}

fn totals(group: &Group) -> String {
    let sum = |check: fn(&Replica) -> Option<&Check>| {
        group
            .replicas
            .iter()
            .filter_map(check)
            .map(|check| check.done)
            .fold(None, |sum, done| Some(sum.unwrap_or(0) + done))
    };
    let mut text = String::new();
    if let Some(rows) = sum(|replica| replica.rows.as_ref()) {
        let _ = write!(text, ", {rows} rows read");
    }
    if let Some(spaces) = sum(|replica| replica.spaces.as_ref()) {
        let _ = write!(text, ", {spaces} images compared");
    }
    text
}

fn replica_text(replica: &Replica, majority: Option<&str>) -> String {
    if let Some(error) = &replica.error {
        return format!("no answer: {error}");
    }
    let mut parts = Vec::new();
    parts.push(match (&replica.hash, majority) {
        (None, _) => "it has no hash of this point".to_owned(),
        (Some(hash), Some(majority)) if hash != majority => {
            format!("hash {hash}, which differs from the majority's")
        }
        (Some(hash), _) => format!("hash {hash}"),
    });
    if let Some(reason) = &replica.quarantine {
        parts.push(format!("in quarantine ({reason}): it answers no reads"));
    }
    let checks = [
        (&replica.rows, "its rows are not those that were written", "its rows could not be read"),
        (&replica.spaces, "images are not what is stored", "images could not be compared"),
    ];
    for (check, differs, failed) in checks {
        match check {
            Some(check) if check.state == "differs" => parts.push(format!("{differs}: {}", check.detail)),
            Some(check) if check.state == "failed" => parts.push(format!("{failed}: {}", check.detail)),
            Some(check) if check.state != "equal" => parts.push("a check has not ended".to_owned()),
            _ => {}
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: &str, done: u64, detail: &str) -> Option<Check> {
        Some(Check { state: state.into(), done, total: 9, index: 7, detail: detail.into() })
    }

    fn replica(node: u64, hash: &str) -> Replica {
        Replica {
            node,
            index: Some(8),
            hash: Some(hash.into()),
            version: Some("0.1.0".into()),
            ..Replica::default()
        }
    }

    fn group(number: u16, equal: Option<bool>, replicas: Vec<Replica>) -> Group {
        Group { group: number, point: Some(7), equal, done: true, error: None, replicas }
    }

    #[test]
    fn what_is_equal_takes_a_line() {
        let whole = |node| Replica {
            rows: check("equal", 5, ""),
            spaces: check("equal", 1, ""),
            ..replica(node, "aa")
        };
        let groups = vec![
            group(0, Some(true), vec![replica(1, "00"), replica(2, "00"), replica(3, "00")]),
            group(1, Some(true), vec![whole(1), whole(2), whole(3)]),
        ];
        assert_eq!(
            text(&Verified::of(groups)),
            "meta group: equal at log index 7, 3 replicas\n\
             shard 1: equal at log index 7, 3 replicas, 15 rows read, 3 images compared\n\
             equal: 2 of 2 groups are equal on all nodes\n"
        );
    }

    #[test]
    fn what_differs_is_named() {
        let damaged = Replica {
            rows: check("differs", 5, "at log index 7: 5 rows with hash 01"),
            spaces: check("differs", 1, "t/user:ann/0: 1 differences (memory 3 missing)"),
            quarantine: Some("rows_differ".into()),
            ..replica(2, "aa")
        };
        let silent = Replica { node: 3, error: Some("no answer in time".into()), ..Replica::default() };
        let groups = vec![
            group(1, Some(false), vec![replica(1, "aa"), damaged, silent]),
            group(2, Some(false), vec![replica(1, "aa"), replica(2, "bb"), replica(3, "aa")]),
        ];
        assert_eq!(
            text(&Verified::of(groups)),
            "shard 1: DIFFERENT at log index 7\n\
             \x20 node 1: hash aa\n\
             \x20 node 2: hash aa; in quarantine (rows_differ): it answers no reads; its rows are not those that were \
             written: at log index 7: 5 rows with hash 01; images are not what is stored: t/user:ann/0: 1 differences \
             (memory 3 missing)\n\
             \x20 node 3: no answer: no answer in time\n\
             shard 2: DIFFERENT at log index 7\n\
             \x20 node 1: hash aa\n\
             \x20 node 2: hash bb, which differs from the majority's\n\
             \x20 node 3: hash aa\n\
             DIFFERENT: 0 of 2 groups are equal on all nodes\n"
        );
    }

    #[test]
    fn what_could_not_be_compared_is_not_called_equal() {
        let forgot = Replica { hash: None, ..replica(2, "") };
        let unfinished = Replica { rows: check("running", 3, ""), ..replica(3, "aa") };
        let mut none = group(4, None, vec![]);
        (none.point, none.error) = (None, Some("no leader could be found in time".into()));
        let groups = vec![group(3, None, vec![replica(1, "aa"), forgot, unfinished]), none];
        let verified = Verified::of(groups);
        assert_eq!(verified.equal, None);
        assert_eq!(
            text(&verified),
            "shard 3: not compared at log index 7\n\
             \x20 node 1: hash aa\n\
             \x20 node 2: it has no hash of this point\n\
             \x20 node 3: hash aa; a check has not ended\n\
             shard 4: not compared at no point\n\
             \x20 no leader could be found in time\n\
             not compared: 0 of 2 groups are equal on all nodes\n"
        );
        assert_eq!(Verified::of(vec![]).equal, None, "nothing is not equal");
    }

    #[test]
    fn progress_names_what_goes_on() {
        let running =
            Replica { rows: check("running", 3, ""), spaces: check("waiting", 0, ""), ..replica(2, "aa") };
        let group = group(1, None, vec![replica(1, "aa"), running]);
        assert_eq!(progress(&group), "node 2: 3 of 9 rows, spaces wait");
    }

    /// What scripts read: a changed name breaks them.
    #[test]
    fn the_json_is_frozen() {
        let whole = Replica { rows: check("differs", 5, "why"), ..replica(1, "aa") };
        let verified = Verified::of(vec![group(1, Some(false), vec![whole])]);
        let json = serde_json::to_string(&verified).unwrap_or_default();
        assert_eq!(
            json,
            "{\"equal\":false,\"done\":true,\"groups\":[{\"group\":1,\"point\":7,\"equal\":false,\"done\":true,\
             \"replicas\":[{\"node\":1,\"index\":8,\"hash\":\"aa\",\"version\":\"0.1.0\",\
             \"rows\":{\"state\":\"differs\",\"done\":5,\"total\":9,\"index\":7,\"detail\":\"why\"}}]}]}"
        );
        assert_eq!(serde_json::from_str::<Verified>(&json).ok(), Some(verified));
    }
}
