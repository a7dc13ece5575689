use holdfast_core::score::NONE;
use std::collections::HashMap;
use std::sync::Arc;

/// Numbers for strings that repeat, from 0 in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Interner {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    text_bytes: usize,
}

impl Interner {
    /// The number of a string, a new one if it had none. There is no number left for the string
    /// after 2^32 - 1 others, which no image has memory for: it gets [`NONE`], as if absent.
    pub(super) fn intern(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(NONE);
        if number != NONE {
            let shared: Arc<str> = name.into();
            self.text_bytes += name.len();
            self.names.push(shared.clone());
            self.numbers.insert(shared, number);
        }
        number
    }

    /// The number of a string that may not have one.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The string of a number; none for [`NONE`].
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(|name| &**name)
    }

    /// All strings with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..).zip(&self.names).map(|(number, name)| (number, &**name))
    }

    /// Memory in use, in bytes: the counts of an `Arc`, table slots with one byte of control.
    pub(super) fn bytes(&self) -> usize {
        const SLOT: usize = size_of::<(Arc<str>, u32)>() + 1;
        const COUNTS: usize = 2 * size_of::<usize>();
        self.text_bytes
            + self.names.len() * COUNTS
            + self.names.capacity() * size_of::<Arc<str>>()
            + self.numbers.capacity() * SLOT
    }
}
