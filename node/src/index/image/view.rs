use super::super::intern::Interner;
use super::Image;
use holdfast_core::filter::{FilterRow, Metadata, TextColumn};
use holdfast_core::memory::Kind;
use serde_json::Value;
use std::borrow::Cow;

/// A row of an image as a filter sees it.
pub(in super::super) struct RowView<'a> {
    image: &'a Image,
    at: usize,
    metadata: Metadata<'a>,
}

impl<'a> RowView<'a> {
    pub(in super::super) fn new(image: &'a Image, at: usize) -> Self {
        Self { image, at, metadata: Metadata::new(&image.columns.metadata[at]) }
    }

    fn name(&self, names: &'a Interner, column: &[u32]) -> Option<&'a str> {
        names.name(column[self.at])
    }
}

impl FilterRow for RowView<'_> {
    fn kind(&self) -> Kind {
        self.image.columns.kind[self.at]
    }

    fn text(&self, column: TextColumn) -> Option<&str> {
        let Image { columns, labels, speakers, sessions, .. } = self.image;
        match column {
            TextColumn::Role => self.name(labels, &columns.role),
            TextColumn::Speaker => self.name(speakers, &columns.speaker),
            TextColumn::Session => self.name(sessions, &columns.session),
            TextColumn::Agent => self.name(labels, &columns.agent),
            TextColumn::Sentiment => self.name(labels, &columns.sentiment),
        }
    }

    fn importance(&self) -> f32 {
        self.image.columns.importance[self.at]
    }

    fn created_us(&self) -> i64 {
        self.image.columns.created_us[self.at]
    }

    fn event_us(&self) -> i64 {
        self.image.columns.event_us[self.at]
    }

    fn pinned(&self) -> bool {
        self.image.columns.pinned[self.at]
    }

    fn entities(&self) -> impl Iterator<Item = &str> {
        let entities = self.image.columns.entities[self.at].iter();
        entities.filter_map(|entity| self.image.labels.name(*entity))
    }

    fn metadata(&self, path: &str) -> Option<Cow<'_, Value>> {
        self.metadata.find(path)
    }
}
