//! Which index was chosen for which space, as far as recalls have told.

use super::super::settings::IndexChoice;
use holdfast_core::space::SpaceKey;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Spaces for which a choice is remembered. For others the number of vectors decides.
const CHOICES_MAX: usize = 1 << 16;

/// The choices, each with its version.
#[derive(Debug, Default)]
pub(in crate::index) struct Choices(Mutex<HashMap<SpaceKey, (IndexChoice, u64)>>);

impl Choices {
    /// What was chosen for a space.
    pub(in crate::index) fn of(&self, space: &SpaceKey) -> IndexChoice {
        self.0.lock().get(space).map_or(IndexChoice::Auto, |(choice, _)| *choice)
    }

    /// Takes note of a choice, unless a later one is known. Whether it changes anything.
    pub(in crate::index) fn note(&self, space: &SpaceKey, choice: IndexChoice, version: u64) -> bool {
        let mut choices = self.0.lock();
        let is_full = choices.len() >= CHOICES_MAX;
        match choices.get_mut(space) {
            Some((_, known)) if *known >= version => false,
            Some(known) => {
                let before = std::mem::replace(known, (choice, version));
                before.0 != choice
            }
            None if is_full => false,
            None => {
                choices.insert(space.clone(), (choice, version));
                choice != IndexChoice::Auto
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_choice_counts_whoever_tells_it() {
        let choices = Choices::default();
        let space = |n: u8| SpaceKey::shared("t", "商品", n).expect("valid");
        assert_eq!(choices.of(&space(0)), IndexChoice::Auto);
        assert!(!choices.note(&space(0), IndexChoice::Auto, 0), "nothing else than it was");
        assert!(choices.note(&space(0), IndexChoice::Graph, 5));
        assert!(!choices.note(&space(0), IndexChoice::Graph, 6));
        for late in [IndexChoice::Auto, IndexChoice::Lists] {
            assert!(!choices.note(&space(0), late, 4), "a router that does not know yet");
        }
        assert_eq!((choices.of(&space(0)), choices.of(&space(1))), (IndexChoice::Graph, IndexChoice::Auto));
        assert!(choices.note(&space(0), IndexChoice::Auto, 7));
        assert_eq!(choices.of(&space(0)), IndexChoice::Auto);
    }
}
