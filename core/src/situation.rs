//! The situation in which a question is asked: where, on what device, at what time of the day. What was
//! stored in the same one gains a boost.

use crate::filter::FilterRow;

/// What a memory gains for each part of the situation that it shares: so little that three of them do
/// not outweigh what a memory says.
pub const LIFT: f64 = 0.03;

/// The keys of metadata that tell the situation of a memory, each with the part that it tells.
const KEYS: [(&str, Part); 4] = [
    ("place", Part::Place),
    ("location", Part::Place),
    ("device", Part::Device),
    ("time_of_day", Part::TimeOfDay),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Place,
    Device,
    TimeOfDay,
}

/// A situation. What is not told is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Situation {
    place: String,
    device: String,
    time_of_day: String,
}

impl Situation {
    /// The situation of these words, of which case and white space around do not count.
    pub fn new(place: &str, device: &str, time_of_day: &str) -> Self {
        Self { place: folded(place), device: folded(device), time_of_day: folded(time_of_day) }
    }

    /// Whether nothing is told.
    pub fn is_empty(&self) -> bool {
        [&self.place, &self.device, &self.time_of_day].into_iter().all(String::is_empty)
    }

    /// Whether metadata, as JSON text, can tell anything of this situation: a quick look that saves
    /// reading it.
    pub fn may_be_told(&self, metadata: &str) -> bool {
        if !KEYS.iter().any(|(key, _)| metadata.contains(key)) {
            return false;
        }
        let folded = metadata.to_lowercase();
        let mut parts = [&self.place, &self.device, &self.time_of_day].into_iter();
        // What JSON escapes cannot be looked for as it is.
        parts.any(|part| !part.is_empty() && (part.contains(['"', '\\']) || folded.contains(part.as_str())))
    }

    /// Whether this is the name of the place.
    pub fn is_place(&self, name: &str) -> bool {
        !self.place.is_empty() && folded(name) == self.place
    }

    /// The parts of the situation that a memory shares: `place` by its entities or the metadata
    /// `place` or `location`, `device` and `time_of_day` by the metadata of that name. Each once.
    pub fn shared(&self, row: &impl FilterRow) -> Vec<&'static str> {
        if self.is_empty() {
            return Vec::new();
        }
        let told = |part: Part, wanted: &str| {
            let mut values =
                KEYS.iter().filter(|(_, of)| *of == part).filter_map(|(key, _)| row.metadata(key));
            !wanted.is_empty()
                && values.any(|value| value.as_str().is_some_and(|value| folded(value) == wanted))
        };
        let place = row.entities().any(|entity| self.is_place(entity));
        [
            ("place", place || told(Part::Place, &self.place)),
            ("device", told(Part::Device, &self.device)),
            ("time of day", told(Part::TimeOfDay, &self.time_of_day)),
        ]
        .into_iter()
        .filter_map(|(name, shared)| shared.then_some(name))
        .collect()
    }
}

fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::IndexRowView;
    use crate::memory::IndexRow;
    use serde_json::Value;
    use serde_json::json;

    fn shared(situation: &Situation, entities: &[&str], metadata: &Value) -> Vec<&'static str> {
        let row = IndexRow {
            entities: entities.iter().map(|entity| (*entity).to_owned()).collect(),
            metadata: metadata.to_string(),
            ..IndexRow::default()
        };
        situation.shared(&IndexRowView::new(&row))
    }

    #[test]
    fn what_a_memory_shares_is_named() {
        let here = Situation::new(" 北京 ", "Mobile", "morning");
        assert_eq!(shared(&here, &["北京"], &json!({})), ["place"]);
        assert_eq!(shared(&here, &[], &json!({"location": "北京"})), ["place"]);
        assert_eq!(shared(&here, &["北京"], &json!({"place": "北京", "location": "北京"})), ["place"]);
        let all = json!({"place": "北京", "device": "MOBILE", "time_of_day": "Morning"});
        assert_eq!(shared(&here, &[], &all), ["place", "device", "time of day"]);
        for other in [
            json!({}),
            json!({"place": "上海"}),
            json!({"device": 1}),
            json!({"device": ["mobile"]}),
            json!([]),
        ] {
            assert!(shared(&here, &["上海", ""], &other).is_empty(), "{other}");
        }
    }

    #[test]
    fn an_empty_situation_is_shared_with_nobody() {
        let nowhere = Situation::new("", "  ", "");
        assert!(nowhere.is_empty());
        assert!(shared(&nowhere, &[""], &json!({"place": "", "device": ""})).is_empty());
        let here = Situation::new("X", "", "");
        assert!(here.may_be_told(r#"{"place":"x"}"#) && here.is_place(" x "));
        for no in [r#"{"n":1}"#, r#"{"place":"y"}"#, ""] {
            assert!(!here.may_be_told(no), "{no}");
        }
        assert!(Situation::new("a\"b", "", "").may_be_told(r#"{"place":"a\"b"}"#));
    }
}
