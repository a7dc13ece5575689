//! From text to what the indices hold: normal form, terms, the questions asked of a query.
//!
//! Pure and bounded: every function takes time linear in its input (sorting aside) and allocates
//! in proportion to it, whatever the bytes. The router analyses a text once, before the write is
//! proposed; the terms travel in the command with [`ANALYZER_VERSION`], so no replica ever
//! analyses on its own and an upgrade of a Unicode table can never split a shard.
//!
//! - [`normalize()`]: the form whose hash finds exact duplicates.
//! - [`analyze`], [`analyze_query`]: terms for the keyword index, terms to look up.
//! - [`index_text`], [`embed_text`]: which text is analysed and which is embedded.
//! - [`SpeakerNames`]: whom a query names.
//! - [`sentences`], [`protected()`]: what compression and chunking keep whole.

mod analyzer;
pub(crate) mod chars;
mod document;
pub(crate) mod normalize;
mod protected;
mod query;
mod scan;
mod sentences;
mod speakers;
mod stopwords;
mod term;
mod term_list;

pub use analyzer::{ANALYZER_VERSION, Terms, analyze, content_token_count};
pub use document::{captioned, embed_text, index_text};
pub use normalize::normalize;
pub use protected::{names, protected};
pub use query::{
    LONG_QUERY_WORDS, QUERY_IDS_MAX, QueryTerms, SHORT_QUESTION_TOKENS, analyze_query, is_short_question,
    names_self, query_ids,
};
pub use sentences::sentences;
pub use speakers::{Addressed, SpeakerNames};
pub use term::TERM_BYTES_MAX;
pub use term_list::TermList;
