//! The table of recalled memories.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use holdfast_bench::client::{RecallHit, ScoreParts};

/// Width where standard output is no terminal and `COLUMNS` is not set, in columns.
const WIDTH_DEFAULT: u16 = 140;

/// Lines that one memory may take.
const LINES_MAX: usize = 2;

/// The text keeps at least this many columns, even where the table gets wider than the terminal.
const TEXT_COLUMNS_MIN: u16 = 24;

/// Names longer than this many characters are cut.
const SPEAKER_CHARS_MAX: usize = 14;

/// One score part: its heading and how to get it.
type Part = (&'static str, fn(&ScoreParts) -> Option<f64>);

const PARTS: [Part; 7] = [
    ("relevance", |p| p.relevance),
    ("cosine", |p| p.cosine),
    ("keyword", |p| p.keyword),
    ("recency", |p| p.recency),
    ("importance", |p| p.importance),
    ("frequency", |p| p.frequency),
    ("boost", |p| p.boost),
];

/// The width to draw for: the terminal's (`None`: the table asks for it itself), or else
/// `COLUMNS`, or 140.
pub fn width() -> Option<u16> {
    use std::io::IsTerminal;
    if std::io::stdout().is_terminal() {
        return None;
    }
    let columns = std::env::var("COLUMNS").ok();
    Some(columns.and_then(|text| text.parse().ok()).unwrap_or(WIDTH_DEFAULT))
}

/// Draws the hits, best first; those whose id is in `gold` are marked with `*`.
pub fn render(hits: &[RecallHit], gold: &[String], width: Option<u16>) -> String {
    // Frequency counts in two profiles only: shown where it says something.
    let parts: Vec<&Part> = PARTS
        .iter()
        .filter(|(name, get)| {
            *name != "frequency" || hits.iter().any(|hit| get(&hit.parts).unwrap_or(0.0) != 0.0)
        })
        .collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    let mut header = vec!["", "#", "score"];
    header.extend(parts.iter().map(|(name, _)| *name));
    header.extend(["date", "speaker", "text"]);
    let columns = header.len();
    table.set_header(header);
    for (position, hit) in hits.iter().enumerate() {
        table.add_row(row(position + 1, hit, gold, &parts));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if index + 1 == columns {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(TEXT_COLUMNS_MIN)));
        } else {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        if (1..columns - 3).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn row(rank: usize, hit: &RecallHit, gold: &[String], parts: &[&Part]) -> Row {
    let memory = &hit.memory;
    let marked = gold.contains(&memory.id);
    let date = memory.event_time.as_deref().or(memory.created_at.as_deref());
    let speaker = memory.speaker.as_deref().or(memory.role.as_deref());
    let mut cells =
        vec![Cell::new(if marked { "*" } else { "" }), Cell::new(rank), Cell::new(number(Some(hit.score)))];
    cells.extend(parts.iter().map(|(_, get)| Cell::new(number(get(&hit.parts)))));
    cells.push(Cell::new(date.unwrap_or("-").chars().take(10).collect::<String>()));
    cells.push(Cell::new(
        printable(speaker.unwrap_or("-")).chars().take(SPEAKER_CHARS_MAX).collect::<String>(),
    ));
    cells.push(Cell::new(printable(&memory.content)));
    let mut row = Row::from(cells);
    row.max_height(LINES_MAX);
    row
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// The text on one line and without control characters: stored text must not be able to move
/// the cursor of whoever reads it, or hide what it says.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            // Direction overrides reorder what is shown.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn hit(id: &str, content: &str) -> RecallHit {
        serde_json::from_value(serde_json::json!({
            "memory": {"id": id, "content": content, "speaker": "林悦",
                       "event_time": "2026-09-02T10:00:00Z"},
            "score": 0.81234,
            "parts": {"relevance": 0.9, "cosine": 0.45, "keyword": 3.25, "recency": 0.0,
                      "importance": 0.5, "boost": 0.0},
        }))
        .unwrap()
    }

    #[test]
    fn gold_is_marked_and_every_part_is_there() {
        let hits = [hit("a", "我不吃辣"), hit("b", "hello")];
        let text = render(&hits, &["a".to_owned()], Some(140));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("* 1"), "{text}");
        assert!(!lines[2].contains('*'), "{text}");
        for piece in ["0.812", "0.900", "0.450", "3.250", "2026-09-02", "林悦", "我不吃辣"] {
            assert!(lines[1].contains(piece), "{piece}: {text}");
        }
        assert!(!text.contains("frequency"));
    }

    #[test]
    fn wide_characters_are_cut_to_the_width() {
        let long = "今天我们去了西湖边上的一家餐馆吃饭，".repeat(20);
        let text = render(&[hit("a", &long)], &[], Some(120));
        assert!(text.lines().count() <= 1 + LINES_MAX, "{text}");
        for line in text.lines() {
            // Every CJK character takes two columns.
            let columns: usize = line.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum();
            assert!(columns <= 120, "{columns}: {line}");
        }
        assert!(text.contains("..."), "{text}");
    }

    #[test]
    fn stored_text_cannot_drive_the_terminal() {
        assert_eq!(printable("a\nb\u{1b}[2Jc\u{202e}d\u{7}"), "a b[2Jcd");
        let text = render(&[hit("a", "x\u{1b}[31m\ny")], &[], Some(120));
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn missing_parts_are_a_dash() {
        let bare: RecallHit = serde_json::from_str(
            r#"{"memory":{"id":"a","content":""},"score":1.0,"parts":{"frequency":0.5}}"#,
        )
        .unwrap();
        let text = render(&[bare], &[], Some(120));
        assert!(text.contains("frequency") && text.contains("0.500"), "{text}");
        assert!(text.contains('-'));
    }
}
