//! Which turns stand in the window: the last three to five as they are, more where they are short.

/// Turns that stand in the window whatever their length.
pub const TURNS_MIN: usize = 3;
/// Turns that stand in it as long as they have together at most [`TOKENS`].
pub const TURNS: usize = 5;
/// Most turns: those beyond [`TURNS`] stand in it as long as all have together at most
/// [`TOKENS_SHORT`].
pub const TURNS_MAX: usize = 20;
/// See [`TURNS`].
pub const TOKENS: u64 = 2_000;
/// See [`TURNS_MAX`].
pub const TOKENS_SHORT: u64 = 600;

/// How many of the newest turns stand in the window; `tokens` are those of the newest, oldest first.
///
/// The start never moves back: a further turn makes every sum larger and every place stricter.
pub fn turns(tokens: &[u32]) -> usize {
    let (mut count, mut sum) = (0, 0u64);
    for turn in tokens.iter().rev().take(TURNS_MAX) {
        sum += u64::from(*turn);
        let most = match count {
            0..TURNS_MIN => u64::MAX,
            TURNS_MIN..TURNS => TOKENS,
            _ => TOKENS_SHORT,
        };
        if sum > most {
            break;
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_to_five_and_more_when_short() {
        assert_eq!(turns(&[]), 0);
        assert_eq!(turns(&[9_000]), 1);
        assert_eq!(turns(&[9_000; 7]), 3, "whatever their length");
        assert_eq!(turns(&[500; 7]), 4);
        assert_eq!(turns(&[400; 7]), 5);
        assert_eq!(turns(&[10; 40]), 20);
        assert_eq!(turns(&[60; 40]), 10);
        assert_eq!(turns(&[u32::MAX; 20]), 3);
    }

    proptest! {
        /// A turn that has left the window never comes back to it.
        #[test]
        fn the_start_never_moves_back(tokens in proptest::collection::vec(0u32..1_500, 0..60)) {
            let mut start = 0;
            for end in 0..=tokens.len() {
                let at = end - turns(&tokens[end.saturating_sub(TURNS_MAX)..end]);
                prop_assert!(at >= start);
                start = at;
            }
        }
    }
}
