//! Where, when and how a question is asked, and what is understood of it.

use crate::http::time::{Time, now_us};
use holdfast_core::intent::Intent;
use holdfast_core::when::{self, When};
use holdfast_core::{Error, Result};
use holdfast_proto::v1;
use jiff::fmt::temporal::{DateTimeParser, Pieces};
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize};

/// Most bytes of a part of the situation.
const PART_BYTES_MAX: usize = 256;
/// No place on earth is further from UTC.
const OFFSET_MAX_S: i32 = 14 * 3_600;
/// Most bytes of a time zone.
const ZONE_BYTES_MAX: usize = 64;
/// The device for which answers are short.
const MOBILE: &str = "mobile";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SituationBody {
    now: Option<Zoned>,
    time_zone: Option<String>,
    device: Option<String>,
    place: Option<String>,
    time_of_day: Option<String>,
}

/// A time in RFC 3339 with the offset that it was written with.
struct Zoned {
    us: i64,
    zone: TimeZone,
}

impl<'de> Deserialize<'de> for Zoned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Time(us) = Time::parse(&text).map_err(serde::de::Error::custom)?;
        let offset = Pieces::parse(&text).ok().and_then(|pieces| pieces.to_numeric_offset());
        Ok(Self { us, zone: offset.map_or(TimeZone::UTC, TimeZone::fixed) })
    }
}

/// The situation of a question, checked.
#[derive(Debug, Clone)]
pub(crate) struct Situation {
    /// The moment of the question, in microseconds since 1970.
    pub(crate) now_us: i64,
    /// Where days begin for who asks.
    zone: TimeZone,
    shared: Option<v1::Situation>,
    /// Whether answers shall be short.
    pub(crate) is_mobile: bool,
}

impl Situation {
    pub(crate) fn of(body: Option<SituationBody>) -> Result<Self> {
        let SituationBody { now, time_zone, device, place, time_of_day } = body.unwrap_or_default();
        let (now_us, written) = now.map_or_else(|| (now_us(), TimeZone::UTC), |now| (now.us, now.zone));
        let zone = time_zone.as_deref().map(zone).transpose()?.unwrap_or(written);
        let told = |name: &str, value: Option<String>| match value {
            Some(value) if value.trim().is_empty() || value.len() > PART_BYTES_MAX => {
                let field = format!("situation.{name}");
                Err(Error::invalid(
                    field,
                    format!("{name} is a text of 1 to {PART_BYTES_MAX} bytes; or leave it out"),
                ))
            }
            value => Ok(value.unwrap_or_default()),
        };
        let (device, place) = (told("device", device)?, told("place", place)?);
        let time_of_day = told("time_of_day", time_of_day)?;
        let is_mobile = device.trim().eq_ignore_ascii_case(MOBILE);
        let is_told = [&device, &place, &time_of_day].into_iter().any(|part| !part.is_empty());
        let shared = is_told.then_some(v1::Situation { place, device, time_of_day });
        Ok(Self { now_us, zone, shared, is_mobile })
    }

    /// What memories may share.
    pub(crate) fn shared(&self) -> Option<v1::Situation> {
        self.shared.clone()
    }
}

/// A zone by its name in the database of the system, or an offset such as `+08:00`.
fn zone(name: &str) -> Result<TimeZone> {
    let is_offset = name.starts_with(['+', '-']);
    // The files beside the zones are no zones, and names such as GMT+8 are read as POSIX does, with the sign the
    // other way round from what people mean.
    let lower = name.to_ascii_lowercase();
    let is_zone =
        !["localtime", "posixrules", "factory"].contains(&lower.as_str()) && !lower.starts_with("etc/");
    let is_place = is_zone && !name.contains(|c: char| c.is_ascii_digit() || matches!(c, '+' | ','));
    let is_name = name.len() <= ZONE_BYTES_MAX && (is_offset || is_place);
    let known = is_name.then(|| DateTimeParser::new().parse_time_zone(name));
    match known {
        Some(Ok(zone))
            if zone.to_fixed_offset().is_ok_and(|offset| offset.seconds().abs() > OFFSET_MAX_S) =>
        {
            Err(Error::invalid("situation.time_zone", "an offset is between -14:00 and +14:00"))
        }
        Some(Ok(zone)) => Ok(zone),
        _ => {
            let detail = "time_zone is UTC, an offset such as +08:00, or a name that this server knows, such as \
                          Asia/Shanghai; give the offset";
            Err(Error::invalid("situation.time_zone", detail))
        }
    }
}

/// What a question asks for, as the caller says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntentAsked {
    Told(Intent),
    /// To be guessed from the words of the question.
    Auto,
}

impl IntentAsked {
    pub(crate) fn from_name(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            name => Intent::from_name(name).map(Self::Told).ok_or_else(|| {
                Error::invalid("intent", "intent is factual, experiential, procedural or auto")
            }),
        }
    }
}

/// What is understood of a question beyond its words and meaning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Understood {
    times: Vec<When>,
    intent: Option<Intent>,
    guessed: bool,
}

impl Understood {
    pub(crate) fn of(text: Option<&str>, intent: Option<IntentAsked>, situation: &Situation) -> Self {
        let text = text.unwrap_or_default();
        let times = when::find(text, situation.now_us, &situation.zone);
        let (intent, guessed) = match intent {
            None => (None, false),
            Some(IntentAsked::Told(intent)) => (Some(intent), false),
            Some(IntentAsked::Auto) => (Intent::guess(text, &times), true),
        };
        Self { times, intent, guessed }
    }

    pub(crate) fn times(&self) -> Vec<v1::TimeRange> {
        let range = |when: &When| v1::TimeRange {
            from_us: when.from_us,
            until_us: when.until_us,
            words: when.words.clone(),
        };
        self.times.iter().map(range).collect()
    }

    pub(crate) fn intent(&self) -> v1::Intent {
        match self.intent {
            None => v1::Intent::None,
            Some(Intent::Factual) => v1::Intent::Factual,
            Some(Intent::Experiential) => v1::Intent::Experiential,
            Some(Intent::Procedural) => v1::Intent::Procedural,
        }
    }

    /// Whether the intent was guessed from the words.
    pub(crate) fn guessed(&self) -> bool {
        self.guessed
    }

    /// As callers see it.
    pub(super) fn view(&self) -> UnderstoodView {
        let time = |when: &When| TimeView {
            words: when.words.clone(),
            from: Time(when.from_us),
            until: Time(when.until_us),
        };
        UnderstoodView {
            times: self.times.iter().map(time).collect(),
            intent: self.intent.map(Intent::name),
            guessed: self.guessed && self.intent.is_some(),
        }
    }
}

/// What was understood of the question, where that is asked.
#[derive(Serialize)]
pub(super) struct UnderstoodView {
    times: Vec<TimeView>,
    intent: Option<&'static str>,
    guessed: bool,
}

#[derive(Serialize)]
struct TimeView {
    words: String,
    from: Time,
    until: Time,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::http::json;
    use serde_json::{Value, json};

    fn situation(body: Value) -> Result<Situation> {
        Situation::of(Some(json::body(body.to_string().as_bytes())?))
    }

    fn yesterday(body: Value) -> String {
        let understood = Understood::of(Some("what did I say yesterday"), None, &situation(body).unwrap());
        serde_json::to_value(understood.view()).unwrap()["times"][0]["from"].as_str().unwrap().to_owned()
    }

    #[test]
    fn days_begin_where_the_asker_is() {
        // 01:30 on the 3rd in Shanghai, 17:30 on the 2nd in UTC.
        for (body, from) in [
            (json!({"now": "2026-12-02T17:30:00Z"}), "2026-12-01T00:00:00.000000Z"),
            (json!({"now": "2026-12-03T01:30:00+08:00"}), "2026-12-01T16:00:00.000000Z"),
            (json!({"now": "2026-12-02T17:30:00Z", "time_zone": "+08:00"}), "2026-12-01T16:00:00.000000Z"),
            (json!({"now": "2026-12-03T01:30:00+08:00", "time_zone": "UTC"}), "2026-12-01T00:00:00.000000Z"),
        ] {
            assert_eq!(yesterday(body.clone()), from, "{body}");
        }
    }

    #[test]
    fn every_part_is_checked_and_named() {
        for (body, field) in [
            (json!({"time_zone": "Mars/Olympus"}), "situation.time_zone"),
            (json!({"time_zone": ""}), "situation.time_zone"),
            (json!({"time_zone": "localtime"}), "situation.time_zone"),
            (json!({"time_zone": "GMT+8"}), "situation.time_zone"),
            (json!({"time_zone": "Etc/GMT+8"}), "situation.time_zone"),
            (json!({"time_zone": "EST5EDT,M3.2.0,M11.1.0"}), "situation.time_zone"),
            (json!({"time_zone": "+14:01"}), "situation.time_zone"),
            (json!({"time_zone": "-23:00"}), "situation.time_zone"),
            (json!({"time_zone": "x".repeat(5_000)}), "situation.time_zone"),
            (json!({"place": " "}), "situation.place"),
            (json!({"device": "x".repeat(257)}), "situation.device"),
            (json!({"time_of_day": ""}), "situation.time_of_day"),
        ] {
            assert_eq!(situation(body.clone()).err().unwrap().field.as_deref(), Some(field), "{body}");
        }
        assert!(situation(json!({"weather": "rain"})).is_err());
        for zone in ["+14:00", "-14:00", "UTC", "utc"] {
            assert!(situation(json!({"time_zone": zone})).is_ok(), "{zone}");
        }
        let here = situation(json!({"place": "北京", "device": "Mobile"})).unwrap();
        assert!(here.is_mobile);
        assert_eq!(here.shared().unwrap().place, "北京");
        assert!(Situation::of(None).unwrap().shared().is_none());
    }

    #[test]
    fn an_intent_is_told_or_guessed() {
        let now = Situation::of(None).unwrap();
        let of = |text: &str, intent: Option<&str>| {
            let intent = intent.map(|name| IntentAsked::from_name(name).unwrap());
            let understood = Understood::of(Some(text), intent, &now);
            (understood.intent(), understood.guessed())
        };
        assert_eq!(of("如何泡茶？", None), (v1::Intent::None, false));
        assert_eq!(of("如何泡茶？", Some("auto")), (v1::Intent::Procedural, true));
        assert_eq!(of("如何泡茶？", Some("factual")), (v1::Intent::Factual, false));
        assert_eq!(of("茶", Some("auto")).0, v1::Intent::None);
        assert_eq!(of("What did we do yesterday?", Some("auto")).0, v1::Intent::Experiential);
        assert_eq!(IntentAsked::from_name("chat").err().unwrap().field.as_deref(), Some("intent"));
    }
}
