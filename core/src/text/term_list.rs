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
                let mut raw = Raw::default();
                raw.ends.reserve(pairs.size_hint().unwrap_or(0).min(RESERVED_MAX));
                while pairs.next_element_seed(Pair(&mut raw))?.is_some() {}
                raw.checked().ok_or_else(|| Error::custom("a term is not valid UTF-8"))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// A list that is being read. A string has the encoding of its bytes, so that the terms are looked at as one
/// text in the end, and not each by itself, which took longer than all else of reading a command.
#[derive(Default)]
struct Raw {
    text: Vec<u8>,
    ends: Vec<(u32, u32)>,
}

impl Raw {
    /// The list, if each term is text: all of them are in a row, and none begins inside a character.
    fn checked(self) -> Option<TermList> {
        let Self { text, ends } = self;
        let text = String::from_utf8(text).ok()?;
        let is_whole = ends.iter().all(|(end, _)| text.is_char_boundary(*end as usize));
        is_whole.then_some(TermList { text, ends })
    }
}

/// Reads one pair into the list.
struct Pair<'a>(&'a mut Raw);

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
        let Raw { text, ends } = self.0;
        let term = pair.next_element_seed(Text(text))?;
        let count = pair.next_element::<u32>()?;
        let (Some(()), Some(count)) = (term, count) else {
            return Err(Error::custom("a term without its count"));
        };
        let end = u32::try_from(text.len()).map_err(|_| Error::custom("the terms are too long"))?;
        ends.push((end, count));
        Ok(())
    }
}

/// Reads a term behind the others.
struct Text<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a term")
    }

    fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<(), E> {
        self.0.extend_from_slice(text);
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.visit_bytes(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formats_that_describe_themselves_are_read_too() {
        let list: TermList = [("中文", 2), ("tea", 1)].into_iter().collect();
        let value = serde_json::to_value(&list).unwrap();
        assert_eq!(serde_json::from_value::<TermList>(value.clone()).unwrap(), list);
        assert_eq!(serde_json::from_str::<TermList>(&value.to_string()).unwrap(), list);
    }

    #[test]
    fn a_character_cut_in_two_is_no_term() {
        let read = |halves: [&[u8]; 2]| {
            let pairs = halves.map(|half| (serde_bytes::Bytes::new(half), 1_u32));
            postcard::from_bytes::<TermList>(&postcard::to_allocvec(pairs.as_slice()).unwrap()).ok()
        };
        let [a, b, c] = [0xE4, 0xB8, 0xAD];
        assert_eq!(read([&[a, b, c], b"x"]), Some([("中", 1), ("x", 1)].into_iter().collect()));
        for halves in [[&[a, b][..], &[c][..]], [&[a], &[b, c]], [b"x", &[c]], [&[a, b, c, a], b"x"]] {
            assert_eq!(read(halves), None, "{halves:?}");
        }
    }

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
