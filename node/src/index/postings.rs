//! Which rows have which terms.

use super::intern::Interner;
use holdfast_core::text::TermList;

/// The keyword index of an image: for each term the rows that have it, and for each row its terms.
///
/// Rows are only ever appended. What a row lost when it died stays in the lists, behind the mask of
/// the live rows, until the image is loaded anew. Document frequencies are not kept but counted by
/// each query over the rows that it may see, while it walks the lists anyway: so they are exact
/// after every update and deletion, and when a memory expires with nobody telling.
#[derive(Debug, Default)]
pub(super) struct Postings {
    terms: Interner,
    /// For each term (row, occurrences) in ascending order of the row.
    lists: Vec<Vec<(u32, u32)>>,
    /// For each row its terms with their occurrences, in the byte order of the terms.
    of_row: Vec<Box<[(u32, u32)]>>,
    entries_capacity: usize,
    of_row_entries: usize,
}

impl Postings {
    /// Adds the terms of the next row, whose number is the count of rows before it.
    pub(super) fn push(&mut self, row: u32, terms: &TermList) {
        let mut own = Vec::with_capacity(terms.len());
        for (term, tf) in terms.iter() {
            let term = self.terms.intern(term);
            let at = term as usize;
            if at == self.lists.len() {
                self.lists.push(Vec::new());
            }
            let Some(list) = self.lists.get_mut(at) else { continue };
            let before = list.capacity();
            list.push((row, tf));
            self.entries_capacity += list.capacity() - before;
            own.push((term, tf));
        }
        self.of_row_entries += own.len();
        self.of_row.push(own.into_boxed_slice());
    }

    /// Forgets the terms of a row that is dead.
    pub(super) fn clear(&mut self, row: u32) {
        if let Some(own) = self.of_row.get_mut(row as usize) {
            self.of_row_entries -= own.len();
            *own = Box::default();
        }
    }

    /// Whether a row has these terms.
    pub(super) fn same(&self, row: u32, terms: &TermList) -> bool {
        let own = self.of_row(row);
        own.len() == terms.len()
            && own.iter().zip(terms.iter()).all(|(a, b)| a.1 == b.1 && self.terms.name(a.0) == Some(b.0))
    }

    /// The rows that have a term, dead ones among them.
    pub(super) fn rows(&self, term: &str) -> &[(u32, u32)] {
        let list = self.terms.find(term).and_then(|term| self.lists.get(term as usize));
        list.map_or(&[], Vec::as_slice)
    }

    /// Whether a row has a term.
    pub(super) fn has(&self, row: u32, term: &str) -> bool {
        self.terms.find(term).is_some_and(|term| self.of_row(row).iter().any(|own| own.0 == term))
    }

    /// How often the term lists name a row; as often as it has terms, unless the index is damaged.
    pub(super) fn named(&self, row: u32) -> usize {
        self.of_row(row)
            .iter()
            .filter(|(term, tf)| {
                let list = self.lists.get(*term as usize).map_or(&[][..], Vec::as_slice);
                list.binary_search(&(row, *tf)).is_ok()
            })
            .count()
    }

    /// Entries of all lists that name a row for which `live` holds.
    pub(super) fn entries(&self, live: impl Fn(u32) -> bool) -> usize {
        self.lists.iter().flatten().filter(|(row, _)| live(*row)).count()
    }

    /// The terms of a row with their occurrences.
    pub(super) fn terms_of(&self, row: u32) -> impl Iterator<Item = (&str, u32)> {
        self.of_row(row).iter().filter_map(|(term, tf)| Some((self.terms.name(*term)?, *tf)))
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        const ENTRY: usize = size_of::<(u32, u32)>();
        self.terms.bytes()
            + self.lists.capacity() * size_of::<Vec<(u32, u32)>>()
            + self.entries_capacity * ENTRY
            + self.of_row.capacity() * size_of::<Box<[(u32, u32)]>>()
            + self.of_row_entries * ENTRY
    }

    pub(super) fn shrink(&mut self) {
        self.lists.iter_mut().for_each(Vec::shrink_to_fit);
        self.entries_capacity = self.lists.iter().map(Vec::capacity).sum();
        self.of_row.shrink_to_fit();
    }

    fn of_row(&self, row: u32) -> &[(u32, u32)] {
        self.of_row.get(row as usize).map_or(&[], |own| own)
    }
}
