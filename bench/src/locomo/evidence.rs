//! Reads the evidence strings of LoCoMo, some of which are malformed: `D8:6; D9:17`,
//! `D9:1 D4:4`, `D:11:26`, `D30:05`, or just `D`.

/// What the evidence strings of one question name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Turns that exist, without repetition, in order.
    pub turns: Vec<String>,
    /// Pieces that name no turn.
    pub unresolved: Vec<String>,
}

/// Splits, repairs and looks up every string; `exists` says whether a turn id is known.
pub(super) fn resolve(strings: &[String], exists: impl Fn(&str) -> bool) -> Evidence {
    let mut evidence = Evidence::default();
    let pieces = strings
        .iter()
        .flat_map(|text| text.split(|c: char| c.is_whitespace() || matches!(c, ';' | ',')))
        .filter(|piece| !piece.is_empty());
    for piece in pieces {
        match canonical(piece).filter(|turn| exists(turn)) {
            Some(turn) if evidence.turns.contains(&turn) => {}
            Some(turn) => evidence.turns.push(turn),
            None => evidence.unresolved.push(piece.to_owned()),
        }
    }
    evidence
}

/// `D<session>:<turn>` without leading zeros and without a colon behind the D.
fn canonical(piece: &str) -> Option<String> {
    let numbers = piece.strip_prefix('D')?;
    let numbers = numbers.strip_prefix(':').unwrap_or(numbers);
    let (session, turn) = numbers.split_once(':')?;
    let session: u32 = session.parse().ok()?;
    let turn: u32 = turn.parse().ok()?;
    Some(format!("D{session}:{turn}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(strings: &[&str]) -> Evidence {
        let strings: Vec<String> = strings.iter().map(|s| (*s).to_owned()).collect();
        resolve(&strings, |turn| ["D1:3", "D8:6", "D9:17", "D11:26", "D30:5"].contains(&turn))
    }

    #[test]
    fn every_kind_of_malformed_string_is_read() {
        assert_eq!(resolved(&["D1:3"]).turns, ["D1:3"]);
        assert_eq!(resolved(&["D8:6; D9:17"]).turns, ["D8:6", "D9:17"]);
        assert_eq!(resolved(&["D8:6 D9:17", "D1:3,D8:6"]).turns, ["D8:6", "D9:17", "D1:3"]);
        assert_eq!(resolved(&["D:11:26"]).turns, ["D11:26"]);
        assert_eq!(resolved(&["D30:05"]).turns, ["D30:5"]);
    }

    #[test]
    fn what_names_no_turn_is_told_and_not_guessed() {
        let found = resolved(&["D", "D10:19", "8:6", "D8:", "D8:6:1", "D-1:3", "证据", "", " ; "]);
        assert!(found.turns.is_empty(), "{found:?}");
        assert_eq!(found.unresolved, ["D", "D10:19", "8:6", "D8:", "D8:6:1", "D-1:3", "证据"]);
    }
}
