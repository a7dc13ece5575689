//! What happened, as a hash of every event and, if asked for, as lines.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3Default;

/// All events of a run so far.
pub(super) struct Trace {
    hash: Xxh3Default,
    events: u64,
    line: String,
    file: Option<BufWriter<File>>,
}

impl Trace {
    /// A trace that is also written to a file, if there is one.
    pub(super) fn new(file: Option<File>) -> Self {
        let file = file.map(BufWriter::new);
        Trace { hash: Xxh3Default::new(), events: 0, line: String::new(), file }
    }

    pub(super) fn event(&mut self, at: Duration, what: std::fmt::Arguments<'_>) {
        self.events += 1;
        self.line.clear();
        // A String takes everything.
        let _ = writeln!(self.line, "{:>11} {what}", at.as_micros());
        self.hash.update(self.line.as_bytes());
        if let Some(file) = &mut self.file {
            file.write_all(self.line.as_bytes()).expect("the trace can be written");
        }
    }

    /// The hash of all events and their number.
    pub(super) fn digest(&mut self) -> (u128, u64) {
        if let Some(file) = &mut self.file {
            file.flush().expect("the trace can be written");
        }
        (self.hash.digest128(), self.events)
    }
}
