#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

fn read(body: Value) -> Result<Draft> {
    json::part::<MemoryBody>(&body.to_string(), "").and_then(Draft::new)
}

fn refused(body: Value) -> (String, String) {
    let error = read(body).unwrap_err();
    (error.field.unwrap_or_default(), error.detail)
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let draft = read(json!({"content": "我不吃辣 🌶️", "role": "user"})).unwrap();
    assert_eq!((draft.importance, draft.confidence), (0.5, 1.0));
    assert_eq!(draft.speaker.as_deref(), Some("user"));
    assert_eq!((draft.kind, draft.status), (Kind::Semantic, Status::Active));
    assert!(draft.event_us.is_none() && draft.metadata.is_empty() && draft.given.is_none());
}

#[test]
fn every_limit_has_its_own_answer() {
    let mut deep = json!(1);
    for _ in 0..8 {
        deep = json!({ "a": deep });
    }
    assert!(read(json!({"content": "x", "metadata": deep})).is_ok());
    for (body, field) in [
        (json!({"content": ""}), "content"),
        (json!({"content": " \n\u{3000}"}), "content"),
        (json!({"content": "x".repeat(64 * 1024 + 1)}), "content"),
        (json!({"content": 7}), "content"),
        (json!({"content": "x", "importance": 1.01}), "importance"),
        (json!({"content": "x", "importance": -0.1}), "importance"),
        (json!({"content": "x", "kind": "Semantic"}), "kind"),
        (json!({"content": "x", "id": ""}), "id"),
        (json!({"content": "x", "id": "a\u{0}b"}), "id"),
        (json!({"content": "x", "id": "x".repeat(257)}), "id"),
        (json!({"content": "x", "session": "a\nb"}), "session"),
        (json!({"content": "x", "metadata": {"a": deep}}), "metadata"),
        (json!({"content": "x", "metadata": {"a": "x".repeat(16 * 1024)}}), "metadata"),
        (json!({"content": "x", "metadata": []}), "metadata"),
        (json!({"content": "x", "entities": ["a", ""]}), "entities[1]"),
        (json!({"content": "x", "entities": vec!["a"; 65]}), "entities"),
        (json!({"content": "x", "event_time": "2026-01-01"}), "event_time"),
        (json!({"content": "x", "expires_at": 7}), "expires_at"),
        (json!({"content": "x", "embedding": [0, 0]}), "embedding"),
        (json!({"content": "x", "embedding_model": "m"}), "embedding_model"),
        (json!({"content": "x", "fact": {"subject": "s", "predicate": "p", "object": []}}), "fact.object"),
        (json!({"content": "x", "fact": {"subject": "", "predicate": "p", "object": "o"}}), "fact.subject"),
        (json!({"content": "x", "fact": {"subject": "s", "predicate": "p"}}), "fact.object"),
        (json!({"content": "x", "source": {"uri": ""}}), "source.uri"),
        (json!({"content": "x", "source": {"message_ids": ["a", "\t"]}}), "source.message_ids[1]"),
        (json!({"content": "x", "user_id": "bob"}), "user_id"),
    ] {
        let short: String = body.to_string().chars().take(80).collect();
        let (at, detail) = refused(body);
        assert_eq!(at, field, "{short}: {detail}");
        assert!(!detail.is_empty());
    }
}

fn stored() -> v1::Memory {
    v1::Memory {
        id: "m".into(),
        content: "likes tea".into(),
        kind: "episodic".into(),
        status: "active".into(),
        importance: 0.9,
        confidence: 1.0,
        role: Some("user".into()),
        speaker: Some("user".into()),
        session: Some("s".into()),
        event_us: 5,
        expires_us: Some(9),
        metadata: r#"{"caption":"a cup"}"#.into(),
        ..v1::Memory::default()
    }
}

fn patched(patch: Value) -> Result<Draft> {
    let mut draft = Draft::of_stored(stored())?;
    draft.apply(json::part(&patch.to_string(), "")?)?;
    Ok(draft)
}

#[test]
fn a_patch_changes_what_it_names_and_nothing_else() {
    let before = Draft::of_stored(stored()).unwrap();
    let after = patched(json!({"importance": 0.1})).unwrap();
    assert_eq!(after, Draft { importance: 0.1, ..before.clone() });
    let after = patched(json!({"expires_at": null, "session": null, "metadata": {"b": 1}})).unwrap();
    assert_eq!((after.expires_us, &after.session, &after.caption), (None, &None, &None));
    assert_eq!(after.metadata, r#"{"b":1}"#);
    let after = patched(json!({"role": "assistant"})).unwrap();
    assert_eq!(after.speaker.as_deref(), Some("assistant"));
    let after = patched(json!({"speaker": "Ann"})).unwrap();
    assert_eq!((after.role.as_deref(), after.speaker.as_deref()), (Some("user"), Some("Ann")));
}

#[test]
fn a_patch_cannot_break_a_rule() {
    for (patch, field) in [
        (json!({"content": null}), "content"),
        (json!({"content": "  "}), "content"),
        (json!({"kind": null}), "kind"),
        (json!({"event_time": null}), "event_time"),
        (json!({"embedding": null}), "embedding"),
        (json!({"importance": 7}), "importance"),
        (json!({"id": "other"}), "id"),
        (json!({"version": 3}), "version"),
    ] {
        let error = patched(patch.clone()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{patch}: {}", error.detail);
    }
}
