//! The memory that tells of a task that ended.
//!
//! Its text is what similar episodes are found by: the goal, how it ended, and the steps, each cut so
//! that all of them have room. It has no words of its own, and so suits any language. The numbers stand
//! in its metadata, for filters.

use super::Task;
use holdfast_core::limits::{TASK_OUTCOME_BYTES_MAX, check_bytes, check_id};
use holdfast_core::tiers::task::{PlanStatus, StepRow};
use holdfast_core::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Bytes of the text that all steps share.
const STEPS_BYTES: usize = 24 * 1024;
/// Most bytes of one of them.
const STEP_BYTES_MAX: usize = 600;
/// Names of tools in the metadata.
const TOOLS_MAX: usize = 16;
/// Bytes of the outcome in the metadata; all of it stands in the text.
const OUTCOME_BYTES: usize = 1024;

/// How a task ended. Without an outcome it leaves nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndBody {
    outcome: Option<String>,
    success: Option<bool>,
    sentiment: Option<String>,
    importance: Option<f64>,
}

impl EndBody {
    /// Whether the task becomes an episode.
    pub(super) fn has_outcome(&self) -> Result<bool> {
        let Some(outcome) = &self.outcome else {
            if self.success.is_some() || self.sentiment.is_some() || self.importance.is_some() {
                let detail = "outcome is missing; say in words how the task ended, or leave the others out";
                return Err(Error::invalid("outcome", detail));
            }
            return Ok(false);
        };
        if outcome.trim().is_empty() {
            return Err(Error::invalid("outcome", "outcome is empty; say in words how the task ended"));
        }
        check_bytes("outcome", Some(outcome), TASK_OUTCOME_BYTES_MAX)?;
        self.sentiment.as_ref().map_or(Ok(()), |sentiment| check_id("sentiment", sentiment))?;
        if self.importance.is_some_and(|importance| !(0.0..=1.0).contains(&importance)) {
            return Err(Error::invalid("importance", "importance must be a number from 0 to 1"));
        }
        Ok(true)
    }

    /// The body of the request that would store the episode alone.
    pub(super) fn episode(&self, task: &Task, now_us: i64) -> Value {
        let row = &task.row;
        let mut memory = json!({
            "content": self.text(task),
            "kind": "episodic",
            "event_time": crate::http::time::Time(row.created_us),
            "metadata": self.numbers(task, now_us),
        });
        let given = [
            ("session", row.session.clone().map(Value::from)),
            ("agent", row.agent.clone().map(Value::from)),
            ("sentiment", self.sentiment.clone().map(Value::from)),
            ("importance", self.importance.map(Value::from)),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                memory[name] = value;
            }
        }
        json!({ "memories": [memory], "infer": "none" })
    }

    fn text(&self, task: &Task) -> String {
        let goal = if task.row.goal.trim().is_empty() { &task.id } else { &task.row.goal };
        let mut lines = vec![goal.clone()];
        lines.extend(self.outcome.clone());
        let room = (STEPS_BYTES / task.steps.len().max(1)).min(STEP_BYTES_MAX);
        lines.extend(task.steps.iter().map(|(number, row)| line(*number, row, room)));
        lines.join("\n")
    }

    fn numbers(&self, task: &Task, now_us: i64) -> Value {
        let row = &task.row;
        let tools: BTreeSet<&str> =
            task.steps.iter().filter_map(|(_, row)| row.step.tool.as_deref()).collect();
        let open = row.plan.iter().filter(|item| item.status == PlanStatus::Open).count();
        json!({
            "task": task.id,
            "outcome": self.outcome.as_ref().map(|outcome| cut(outcome, OUTCOME_BYTES)),
            "success": self.success,
            "duration_s": now_us.saturating_sub(row.created_us).max(0) / 1_000_000,
            "steps": row.next_step.saturating_sub(1),
            "steps_dropped": row.first_step.saturating_sub(1),
            "tools": tools.into_iter().take(TOOLS_MAX).collect::<Vec<_>>(),
            "plan_open": open,
        })
    }
}

/// One step in one line.
fn line(number: u64, row: &StepRow, room: usize) -> String {
    let step = &row.step;
    let tool = step.tool.as_ref().map(|tool| format!("[{tool}] ")).unwrap_or_default();
    let sign = match step.success {
        Some(true) => "✓ ",
        Some(false) => "✗ ",
        None => "",
    };
    let words = step.content.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{number}. {}", cut(&format!("{sign}{tool}{words}"), room))
}

/// As much of a text as has room, in whole characters, with a sign where that is not all.
fn cut(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= room).last();
    format!("{}…", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::limits::{CONTENT_BYTES_MAX, METADATA_BYTES_MAX};
    use holdfast_core::tiers::task::{Step, StepKind, TaskRow};

    fn task(steps: Vec<Step>) -> Task {
        let row = TaskRow {
            goal: "订去柏林的机票".into(),
            session: Some("s1".into()),
            created_us: 1_700_000_000_000_000,
            first_step: 1,
            next_step: steps.len() as u64 + 1,
            ..TaskRow::default()
        };
        let steps = (1..).zip(steps).map(|(n, step)| (n, StepRow { step, at_us: 0 })).collect();
        Task { id: "trip".into(), row, steps }
    }

    #[test]
    fn an_episode_tells_goal_outcome_and_steps() {
        let step = |tool: Option<&str>, content: &str, success| Step {
            kind: StepKind::Tool,
            tool: tool.map(Into::into),
            content: content.into(),
            success,
        };
        let task = task(vec![
            step(Some("search"), "Berlin\n  May 3", Some(true)),
            step(None, "没有票🙂", None),
            step(Some("pay"), "card", Some(false)),
        ]);
        let end: EndBody =
            serde_json::from_value(json!({"outcome": "没订到", "success": false, "sentiment": "negative"}))
                .unwrap();
        assert_eq!(end.has_outcome(), Ok(true));
        let body = end.episode(&task, 1_700_000_090_500_000);
        let memory = &body["memories"][0];
        let text = "订去柏林的机票\n没订到\n1. ✓ [search] Berlin May 3\n2. 没有票🙂\n3. ✗ [pay] card";
        assert_eq!(memory["content"], text);
        assert_eq!(
            memory["metadata"],
            json!({"task": "trip", "outcome": "没订到", "success": false, "duration_s": 90, "steps": 3,
                   "steps_dropped": 0, "tools": ["pay", "search"], "plan_open": 0})
        );
        assert_eq!((&memory["session"], &memory["sentiment"]), (&json!("s1"), &json!("negative")));
    }

    #[test]
    fn the_longest_task_fits_into_one_memory() {
        let tool = |n: usize| format!("{n:0>3}{}", "工".repeat(84));
        let steps = (0..256).map(|n| Step {
            kind: StepKind::Tool,
            tool: Some(tool(n)),
            content: "字".repeat(1000),
            success: Some(true),
        });
        let end = EndBody { outcome: Some("果".repeat(1365)), ..EndBody::default() };
        assert_eq!(end.has_outcome(), Ok(true));
        let memory = &end.episode(&task(steps.collect()), 0)["memories"][0];
        let text = memory["content"].as_str().unwrap();
        assert!(text.len() <= CONTENT_BYTES_MAX && text.lines().count() == 258, "{}", text.len());
        assert!(memory["metadata"].to_string().len() <= METADATA_BYTES_MAX);
    }

    #[test]
    fn what_is_wrong_with_an_end_is_told() {
        for (body, field) in [
            (json!({"success": true}), "outcome"),
            (json!({"outcome": "  "}), "outcome"),
            (json!({"outcome": "x".repeat(4097)}), "outcome"),
            (json!({"outcome": "x", "importance": 7}), "importance"),
            (json!({"outcome": "x", "sentiment": ""}), "sentiment"),
        ] {
            let end: EndBody = serde_json::from_value(body).unwrap();
            assert_eq!(end.has_outcome().unwrap_err().field.as_deref(), Some(field));
        }
        assert_eq!(EndBody::default().has_outcome(), Ok(false));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, room, expected) in
            [("", 0, ""), ("ab", 2, "ab"), ("茶茶", 4, "茶…"), ("🙂x", 3, "…"), ("abc", 2, "ab…")]
        {
            assert_eq!(cut(text, room), expected);
        }
    }
}
