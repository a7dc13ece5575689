use super::image::{Image, RowView};
use super::spaces::LoadError;
use holdfast_core::codec::Stored;
use holdfast_core::filter::{FilterRow, TextColumn};
use holdfast_core::keys::{Family, family_prefix, index_row};
use holdfast_core::memory::IndexRow;
use holdfast_core::score::{Neighbours, flag};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use std::collections::HashSet;

/// Rows read from the store in one step.
const PAGE_ROWS: usize = 512;
/// Most differences that a report lists; the rest is counted.
const LISTED_MAX: usize = 32;

/// One place where index and store are not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The memory.
    pub seq: u64,
    /// What differs: a column, or `missing`, `not stored`, `postings`, `neighbours`, `graph`, `block`.
    pub what: &'static str,
}

/// What a comparison of an image with the store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows in the store.
    pub stored: u64,
    /// The first differences, at most 32.
    pub differences: Vec<Difference>,
    /// All differences.
    pub count: u64,
}

impl Report {
    /// Whether index and store are the same.
    pub fn is_clean(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, seq: u64, what: &'static str) {
        self.count += 1;
        if self.differences.len() < LISTED_MAX {
            self.differences.push(Difference { seq, what });
        }
    }
}

/// Compares an image with the stored rows of its space: each column it holds, the memories that
/// are there, its term lists, the order of turns in sessions, and that its graphs have every vector.
///
/// No batch may be applied to the space meanwhile, else what it changes is reported.
///
/// # Errors
/// [`LoadError`] if the store cannot be read or a row cannot be decoded.
pub fn verify(image: &Image, space: &SpaceKey, state: &dyn Reader) -> Result<Report, LoadError> {
    let mut verifier = Verifier::new(space);
    while !verifier.step(image, state, PAGE_ROWS)? {}
    verifier.finish(image, state, true)
}

/// [`verify`] in steps, so that batches can be applied between two of them. During a step, and during
/// the end, none may be.
#[derive(Debug)]
pub struct Verifier {
    space: SpaceKey,
    after: Option<Vec<u8>>,
    seen: HashSet<u64>,
    turns: Turns,
    report: Report,
}

impl Verifier {
    /// Begins a comparison.
    pub fn new(space: &SpaceKey) -> Self {
        Self {
            space: space.clone(),
            after: None,
            seen: HashSet::new(),
            turns: Turns::default(),
            report: Report::default(),
        }
    }

    /// Compares the next rows of the store, at most `rows_max`. Answers whether these were the last.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn step(&mut self, image: &Image, state: &dyn Reader, rows_max: usize) -> Result<bool, LoadError> {
        let prefix = family_prefix(&self.space, Family::IndexRow);
        let page = state.scan(&prefix, self.after.as_deref(), rows_max)?;
        let is_last = page.len() < rows_max;
        for (key, value) in &page {
            let seq = index_row::seq(key).ok_or(LoadError::Key)?;
            let row = IndexRow::decode(value)?;
            self.report.stored += 1;
            self.seen.insert(seq);
            compare(image, seq, &row, &mut self.report);
            if !row.chunked {
                self.turns.add(seq, row);
            }
        }
        if let Some((key, _)) = page.into_iter().next_back() {
            self.after = Some(key);
        }
        Ok(is_last)
    }

    /// Compares what concerns the image as a whole. The order of turns is left out where batches were
    /// applied since the first step (`is_at_rest` false): the rows that were read are not of one point.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn finish(self, image: &Image, state: &dyn Reader, is_at_rest: bool) -> Result<Report, LoadError> {
        let Self { space, seen, turns, mut report, .. } = self;
        for (seq, _) in image.rows().filter(|(seq, _)| !seen.contains(seq)) {
            // It may have come since its place in the store was passed.
            match state.get(&index_row::key(&space, seq))? {
                Some(value) => compare(image, seq, &IndexRow::decode(&value)?, &mut report),
                None => report.add(seq, "not stored"),
            }
        }
        if is_at_rest {
            turns.compare(image, &mut report);
        }
        let live = |row: u32| image.columns.flags[row as usize] & flag::LIVE != 0;
        let named: usize = image.rows().map(|(_, row)| image.postings.terms_of(row).count()).sum();
        if image.postings.entries(live) != named {
            report.add(0, "postings");
        }
        for row in image.columns.broken_blocks() {
            report.add(image.columns.seq.get(row).copied().unwrap_or_default(), "block");
        }
        Ok(report)
    }
}

fn compare(image: &Image, seq: u64, row: &IndexRow, report: &mut Report) {
    if row.chunked {
        if image.row(seq).is_some() {
            report.add(seq, "in the image, although its chunks are");
        }
        return;
    }
    let Some(number) = image.row(seq) else { return report.add(seq, "missing") };
    let at = number as usize;
    let columns = &image.columns;
    let view = RowView::new(image, at);
    let question = columns.flags[at] & flag::QUESTION != 0;
    let checks = [
        ("seq", columns.seq[at] == seq),
        ("id", *columns.id[at] == *row.id),
        ("live", columns.flags[at] & flag::LIVE != 0),
        ("kind", columns.kind[at] == row.kind),
        ("status", columns.status[at] == row.status),
        ("pinned", columns.pinned[at] == row.pinned),
        ("importance", columns.importance[at].to_bits() == row.importance.to_bits()),
        ("strength", columns.strength_milli[at] == row.strength_milli),
        ("access_count", columns.access_count[at] == row.access_count),
        ("created", columns.created_us[at] == row.created_us),
        ("event", columns.event_us[at] == row.event_us),
        ("last_access", columns.last_access_us[at] == row.last_access_us),
        ("expires", columns.expires_us[at] == row.expires_us.unwrap_or(i64::MAX)),
        ("valid_from", columns.valid_from_us[at] == row.valid_from_us.unwrap_or(i64::MIN)),
        ("valid_to", columns.valid_to_us[at] == row.valid_to_us.unwrap_or(i64::MAX)),
        ("retracted", columns.retracted_us[at] == row.retracted_us.unwrap_or(i64::MAX)),
        ("older", columns.older[at] == row.older),
        ("unsure", (columns.flags[at] & flag::UNSURE != 0) == row.unsure),
        ("question", question == row.question),
        ("role", view.text(TextColumn::Role) == row.role.as_deref()),
        ("speaker", view.text(TextColumn::Speaker) == row.speaker.as_deref()),
        ("session", view.text(TextColumn::Session) == row.session.as_deref()),
        ("agent", view.text(TextColumn::Agent) == row.agent.as_deref()),
        ("sentiment", view.text(TextColumn::Sentiment) == row.sentiment.as_deref()),
        ("entities", view.entities().eq(row.entities.iter())),
        (
            "topics",
            image.topics_of(at).eq(row.topics.iter().map(|t| (t.subject.as_str(), t.predicate.as_str()))),
        ),
        ("metadata", *columns.metadata[at] == *row.metadata),
        ("terms", image.postings.same(number, &row.terms)),
        ("terms_len", columns.terms_len[at] == row.terms_len),
        ("postings", image.postings.named(number) == row.terms.len()),
        ("vector", image.vectors.same(columns.place[at], row.vector.as_ref())),
        ("graph", image.is_findable(number)),
    ];
    for (what, _) in checks.iter().filter(|(_, same)| !same) {
        report.add(seq, what);
    }
}

/// The stored rows' sessions, from which the order of turns is made anew.
#[derive(Debug, Default)]
struct Turns {
    names: super::intern::Interner,
    session: Vec<u32>,
    order: Vec<(i64, u64)>,
}

impl Turns {
    fn add(&mut self, seq: u64, row: IndexRow) {
        let session = row.session.map_or(holdfast_core::score::NONE, |session| self.names.intern(&session));
        self.session.push(session);
        self.order.push((row.event_us, seq));
    }

    fn compare(&self, image: &Image, report: &mut Report) {
        let fresh = Neighbours::build(&self.session, &self.order);
        let seq = |at: u32| self.order.get(at as usize).map(|order| order.1);
        let columns = &image.columns;
        for (at, (_, own)) in self.order.iter().enumerate() {
            let Some(row) = image.row(*own) else { continue };
            let live = |links| image.live_neighbour(links, &columns.flags, row);
            let before = live(image.links.prev()).map(|row| columns.seq[row as usize]);
            let after = live(image.links.next()).map(|row| columns.seq[row as usize]);
            if before != seq(fresh.prev()[at]) || after != seq(fresh.next()[at]) {
                report.add(*own, "neighbours");
            }
        }
    }
}
