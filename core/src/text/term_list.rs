//! The terms of a text with their counts, in two pieces of memory.
//!
//! A text has hundreds of terms, and each write of one is read and written a dozen times on its way
//! through router and replicas: as so many strings they took a tenth of the time of a write.

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Terms with their counts, in the order in which they were put in. Serialised as a list of pairs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TermList {
    /// All terms, one behind the other.
    text: String,
    /// For each where it ends, and its count.
    ends: Vec<(u32, u32)>,
}

/// Terms for which there is room before any is read.
const RESERVED_MAX: usize = 1_024;

impl TermList {
    /// Puts in a term behind the others. Beyond 4 GiB of text no more are taken.
    pub fn push(&mut self, term: &str, count: u32) {
        self.text.push_str(term);
        self.close(count);
    }

    /// Makes a term of what is behind the last one.
    fn close(&mut self, count: u32) {
        match u32::try_from(self.text.len()) {
            Ok(end) => self.ends.push((end, count)),
            Err(_) => self.text.truncate(self.ends.last().map_or(0, |(end, _)| *end as usize)),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The terms with their counts, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u32)> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |(end, count)| {
            let end = *end as usize;
            (&self.text[std::mem::replace(&mut start, end)..end], *count)
        })
    }
}

impl<S: AsRef<str>> FromIterator<(S, u32)> for TermList {
    fn from_iter<I: IntoIterator<Item = (S, u32)>>(terms: I) -> Self {
        let mut list = Self::default();
        for (term, count) in terms {
            list.push(term.as_ref(), count);
        }
        list
    }
}

impl fmt::Debug for TermList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for TermList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for pair in self.iter() {
            list.serialize_element(&pair)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for TermList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = TermList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of terms with their counts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<TermList, A::Error> {
                let mut list = TermList::default();
                list.ends.reserve(pairs.size_hint().unwrap_or(0).min(RESERVED_MAX));
                while pairs.next_element_seed(Pair(&mut list))?.is_some() {}
                Ok(list)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Reads a term and its count into a list.
struct Pair<'a>(&'a mut TermList);

impl<'de> DeserializeSeed<'de> for Pair<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for Pair<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a term and its count")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<(), A::Error> {
        let term = pair.next_element_seed(Text(&mut self.0.text))?;
        let count = pair.next_element::<u32>()?;
        let (Some(()), Some(count)) = (term, count) else {
            return Err(Error::custom("a term without its count"));
        };
        self.0.close(count);
        Ok(())
    }
}

/// Reads a string behind another.
struct Text<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a term")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is stored is what a list of strings was stored as.
        #[test]
        fn bytes_are_those_of_a_list_of_pairs(terms in prop::collection::vec(("\\PC{0,9}", any::<u32>()), 0..20)) {
            let list: TermList = terms.iter().map(|(term, count)| (term, *count)).collect();
            let bytes = postcard::to_allocvec(&terms).unwrap();
            prop_assert_eq!(&postcard::to_allocvec(&list).unwrap(), &bytes);
            prop_assert_eq!(&postcard::from_bytes::<TermList>(&bytes).unwrap(), &list);
            let back: Vec<(String, u32)> = list.iter().map(|(term, count)| (term.to_owned(), count)).collect();
            prop_assert_eq!(&back, &terms);
            prop_assert_eq!((list.len(), list.is_empty()), (terms.len(), terms.is_empty()));
            for cut in 0..bytes.len() {
                prop_assert!(postcard::from_bytes::<TermList>(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let list = postcard::from_bytes::<TermList>(&bytes).ok();
            prop_assert_eq!(list.map(|list| list.iter().map(|(t, n)| (t.to_owned(), n)).collect::<Vec<_>>()),
                postcard::from_bytes::<Vec<(String, u32)>>(&bytes).ok());
        }
    }
}
