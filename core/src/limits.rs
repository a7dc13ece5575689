//! Every limit on what a caller may send. Each is enforced, tested and documented.

/// Longest content of one memory, in bytes of UTF-8.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;
/// Longest metadata of one memory, in bytes of canonical JSON.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of metadata.
pub const METADATA_DEPTH_MAX: usize = 8;
/// Most dimensions of an embedding.
pub const EMBEDDING_DIMS_MAX: usize = 4096;
/// Most memories in one atomic write.
pub const ATOMIC_ITEMS_MAX: usize = 100;
/// Largest encoded command of one atomic write, in bytes.
pub const ATOMIC_BYTES_MAX: usize = 1024 * 1024;
/// Most memories in one write with `partial: true`.
pub const PARTIAL_ITEMS_MAX: usize = 1000;
/// Largest HTTP request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest query text of a recall, in bytes of UTF-8.
pub const QUERY_BYTES_MAX: usize = 16 * 1024;
/// Most results of one recall.
pub const TOP_K_MAX: u32 = 1000;
/// Largest token budget of a context.
pub const CONTEXT_BUDGET_MAX: usize = 1_000_000;
/// Deepest nesting of a filter.
pub const FILTER_DEPTH_MAX: usize = 8;
/// Most conditions of one filter.
pub const FILTER_TERMS_MAX: usize = 128;
/// Longest id, tenant, user or collection name, in bytes.
pub const ID_BYTES_MAX: usize = 256;
/// Most partitions of a shared collection.
pub const COLLECTION_PARTITIONS_MAX: u8 = 64;
/// Most shared collections of a tenant; those that were deleted lately count too.
pub const COLLECTIONS_MAX: usize = 1_000;
/// How long after its deletion the name of a collection is remembered at least, in microseconds of log
/// time: far longer than a router takes to notice the deletion.
pub const COLLECTION_KEEP_US: i64 = 3_600 * 1_000_000;
/// Longest name of what a memory was made from, in bytes: the id of a memory, or turns of a session
/// ([`crate::session::turn_reference`]), which are named by the id of the session and two numbers.
pub const REFERENCE_BYTES_MAX: usize = ID_BYTES_MAX + "turn:#-".len() + 2 * 20;
/// Longest object of a fact, in bytes of UTF-8.
pub const FACT_OBJECT_BYTES_MAX: usize = 4 * 1024;
/// Longest normal form of a subject or a predicate, in bytes: compatibility forms unfold.
pub const FACT_NAME_BYTES_MAX: usize = 1024;
/// Longest normal form of an object with the qualifiers of its fact, in bytes.
pub const FACT_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Most statements of one memory.
pub const STATEMENTS_MAX: usize = 8;
/// Most memories that one new memory may be said to contradict.
pub const CONFLICTS_MAX: usize = 8;
/// Most memories that one decision between contradicting ones takes back.
pub const RESOLVE_ITEMS_MAX: usize = 16;
/// Most facts of one group (subject, predicate and what narrows them) that are kept apart; beyond
/// it the oldest that no longer holds leaves the group. Its memory stays as it is.
pub const FACT_GROUP_MAX: usize = 256;
/// Most other names of one entity.
pub const ENTITY_ALIASES_MAX: usize = 64;
/// Most names that one merge or split of entities takes.
pub const GRAPH_NAMES_MAX: usize = 16;
/// Longest way that a walk through the graph goes, in relations.
pub const GRAPH_DEPTH_MAX: u32 = 6;
/// Most relations that a walk follows from one entity.
pub const GRAPH_FAN_OUT_MAX: u32 = 256;
/// Most entities that a walk reaches.
pub const GRAPH_ENTITIES_MAX: u32 = 1000;
/// Most rows that one question to the graph reads; what lies beyond is left out, and that is said.
pub const GRAPH_ROWS_MAX: usize = 20_000;
/// Most relations that one question to the graph is about.
pub const GRAPH_RELATIONS_MAX: usize = 32;
/// How long a memory waits for a second look at its possible conflicts, in microseconds of log time:
/// beyond it the link is given up.
pub const RECHECK_KEEP_US: i64 = 60 * 1_000_000;
/// Longest address of a source, in bytes.
pub const SOURCE_URI_BYTES_MAX: usize = 2 * 1024;
/// Most message ids of a source.
pub const SOURCE_MESSAGES_MAX: usize = 256;
/// Most entities named by one memory.
pub const ENTITIES_MAX: usize = 64;
/// Most core blocks of a space.
pub const BLOCKS_MAX: u32 = 100;
/// Longest text of a core block, in bytes of UTF-8.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Highest limit that a core block may be given, in characters.
pub const BLOCK_CHARS_MAX: u32 = 65_536;
/// Most earlier versions that are kept of one core block; the oldest go first.
pub const BLOCK_VERSIONS_MAX: u64 = 20;
/// Longest description of a block or procedure, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 2 * 1024;
/// Most tasks of a space.
pub const TASKS_MAX: u32 = 100;
/// Longest time that a task lives after its last change, in seconds (30 days).
pub const TASK_TTL_S_MAX: u32 = 30 * 24 * 3_600;
/// Longest goal of a task, in bytes.
pub const TASK_GOAL_BYTES_MAX: usize = 4 * 1024;
/// Most elements of the plan of a task.
pub const PLAN_ITEMS_MAX: usize = 64;
/// Longest element of a plan, in bytes.
pub const PLAN_ITEM_BYTES_MAX: usize = 1024;
/// Most variables of a task.
pub const TASK_VARIABLES_MAX: usize = 100;
/// Most bytes of the names and values of a task's variables.
pub const TASK_VARIABLES_BYTES_MAX: usize = 64 * 1024;
/// Most steps that are kept of a task; the oldest go first.
pub const TASK_STEPS_MAX: u64 = 256;
/// Most bytes of the steps that are kept of a task; the oldest go first.
pub const TASK_STEP_BYTES_MAX: u64 = 256 * 1024;
/// Longest text of one step, in bytes.
pub const STEP_BYTES_MAX: usize = 16 * 1024;
/// Most steps, and most changes of the plan, in one call.
pub const STEPS_PER_WRITE_MAX: usize = 100;
/// Longest outcome of a task, in bytes.
pub const TASK_OUTCOME_BYTES_MAX: usize = 4 * 1024;
/// Most procedures of a space.
pub const PROCEDURES_MAX: u32 = 100;
/// Most versions that are kept of a procedure; the oldest go first that are neither active nor were
/// active before.
pub const PROCEDURE_VERSIONS_MAX: usize = 20;
/// Most versions that a procedure remembers to have been active, to go back to.
pub const PROCEDURE_PREVIOUS_MAX: usize = 10;
/// Most bytes of the texts of a procedure.
pub const PROCEDURE_BYTES_MAX: u64 = 64 * 1024;
/// Most steps of a workflow.
pub const WORKFLOW_STEPS_MAX: usize = 50;
/// Most different placeholders of one template.
pub const TEMPLATE_PLACEHOLDERS_MAX: usize = 100;
/// Longest text that a template is filled in to, in bytes.
pub const RENDERED_BYTES_MAX: usize = 256 * 1024;
/// Most items of one page of a list.
pub const LIST_ITEMS_MAX: u32 = 1000;
/// Most outcomes in one feedback call.
pub const FEEDBACK_ITEMS_MAX: usize = 1000;
/// Longest time that a collection keeps new memories for which no end is given, in seconds (100 years).
pub const RETENTION_S_MAX: u64 = 100 * 365 * 24 * 3_600;
/// Most idempotency rows kept for one space; the oldest go first.
pub const IDEMPOTENCY_ROWS_MAX: u32 = 10_000;
/// How long an idempotency row is kept, in microseconds of log time.
pub const IDEMPOTENCY_KEEP_US: i64 = 24 * 3_600 * 1_000_000;
/// How long a claim of an id in a collection holds at least, in microseconds of log time: many times as long as a
/// write may take, so that none is still under way when it ends.
pub const CLAIM_KEEP_US: i64 = 10 * 60 * 1_000_000;
/// Most ids that one command claims.
pub const CLAIMS_MAX: usize = 100;
/// Most numbers that are kept under the key of one request.
pub const KEPT_NUMBERS_MAX: usize = 2_000;
/// How long a tombstone is kept, in microseconds of log time (35 days).
pub const TOMBSTONE_KEEP_US: i64 = 35 * 24 * 3_600 * 1_000_000;
/// Most earlier versions that are kept of one memory; the oldest go first.
pub const HISTORY_VERSIONS_MAX: u64 = 100;
/// Most rows that one due row of a space takes out at once; what is left is due again.
pub const EXPIRE_ROWS_MAX: usize = 256;
/// Most memories that one erasure names.
pub const ERASE_IDS_MAX: usize = 1_000;
/// Most memories that one look-up of their partition names.
pub const LOCATE_IDS_MAX: usize = 1_000;
/// Most memories that one memory is made from.
pub const DERIVED_FROM_MAX: usize = 1_000;
/// Most derived memories that go at once with what they were made from; what is left is due at once.
pub const CASCADE_MAX: usize = 16;
/// Most links of one memory that an import brings.
pub const LINKS_MAX: usize = 1_000;
/// Most items of one step of an import.
pub const IMPORT_ITEMS_MAX: usize = 100;
/// Most rows one atomic batch of the store may hold before it is cut between two commands. A deletion that has
/// changed so many ends with the memory that it is at, and goes on in another command; the memory itself goes
/// at once, with its chunks, its earlier versions and the links to it.
pub const BATCH_ROWS_MAX: usize = 128;
/// Most chunks of one memory.
pub const CHUNKS_MAX: usize = 64;
/// Most turns of one session.
pub const SESSION_TURNS_MAX: u64 = 100_000;
/// Most pinned turns of one session.
pub const SESSION_PINNED_MAX: usize = 32;
/// Most tags, and most labels of a kind, of one turn.
pub const TURN_TAGS_MAX: usize = 32;
/// Most slots, and most confirmed facts, of one dialogue.
pub const SLOTS_MAX: usize = 64;
/// Longest value of a slot, as JSON, and longest confirmed fact, in bytes.
pub const SLOT_BYTES_MAX: usize = 1024;
/// How long after its last turn a session is kept, in microseconds of log time (30 days).
pub const SESSION_KEEP_US: i64 = 30 * 24 * 3_600 * 1_000_000;
/// How long after its last turn a session counts as idle, in microseconds of log time.
pub const SESSION_IDLE_US: i64 = 30 * 60 * 1_000_000;
/// The grid on which the end of that time is noticed.
pub const SESSION_IDLE_GRID_US: i64 = 10 * 60 * 1_000_000;
/// From how many turns on they are condensed to episodes.
pub const SESSION_TURNS_CONDENSED: u64 = 20;
/// Most memories that one command of a job brings.
pub const DIGEST_ITEMS_MAX: usize = 16;
/// Most memories that are merged into one: as many as stand by themselves again in one command.
pub const MERGED_MAX: usize = 16;
/// Most merges that one command brings.
pub const UPKEEP_MERGES_MAX: usize = 16;
/// How long after a memory came a job looks whether it says what another one says, in microseconds of log
/// time: what is said at once is looked at together.
pub const UPKEEP_AFTER_US: i64 = 20 * 1_000_000;
/// Most turns that one command of a deletion takes out.
pub const DELETE_TURNS_MAX: usize = 96;
/// Most memories that one command of a deletion takes out.
pub const DELETE_MEMORIES_MAX: usize = 16;

use crate::{Error, Result};

/// Checks an id, name or similar short string: 1 to [`ID_BYTES_MAX`] bytes, no control characters.
///
/// # Errors
/// [`crate::ErrorCode::InvalidArgument`] that names `field` and the rule that was broken.
pub fn check_id(field: &str, value: &str) -> Result<()> {
    check_name(field, value, ID_BYTES_MAX)
}

/// Checks the name of what a memory was made from: as [`check_id`], up to [`REFERENCE_BYTES_MAX`] bytes.
///
/// # Errors
/// [`crate::ErrorCode::InvalidArgument`] that names `field` and the rule that was broken.
pub fn check_reference(field: &str, value: &str) -> Result<()> {
    check_name(field, value, REFERENCE_BYTES_MAX)
}

fn check_name(field: &str, value: &str, max: usize) -> Result<()> {
    if value.is_empty() {
        return Err(Error::invalid(field, format!("{field} is empty; give 1 to {max} bytes")));
    }
    if value.len() > max {
        let detail = format!("{field} has {} bytes; the limit is {max}", value.len());
        return Err(Error::invalid(field, detail));
    }
    if value.chars().any(char::is_control) {
        return Err(Error::invalid(field, format!("{field} contains a control character; remove it")));
    }
    Ok(())
}

/// Checks the length of an optional text.
///
/// # Errors
/// [`crate::ErrorCode::TooLarge`] that names `field`, its length and the limit.
pub fn check_bytes(field: &str, value: Option<&str>, max: usize) -> Result<()> {
    match value.map(str::len) {
        Some(bytes) if bytes > max => {
            Err(Error::too_large(field, format!("{field} has {bytes} bytes; the limit is {max}; shorten it")))
        }
        _ => Ok(()),
    }
}

/// The highest version that an import may bring: what JSON readers keep exactly, and far from the end of
/// the numbers that versions are counted in.
pub const VERSION_MAX: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_of_every_session_can_be_named() {
        let session = "会".repeat(85) + "x";
        let longest = crate::session::turn_reference(&session, u64::MAX - 1, u64::MAX);
        assert!(check_id("session", &session).is_ok() && check_reference("derived_from", &longest).is_ok());
        assert!(check_reference("derived_from", &format!("{longest}1")).is_err());
    }

    #[test]
    fn ids_are_bounded_and_printable() {
        for good in ["a", "用户-1", "🙂", &"x".repeat(256), "a/b%c_d"] {
            assert!(check_id("id", good).is_ok(), "{good}");
        }
        for bad in ["", "a\0b", "line\nbreak", "\u{7f}", "\u{85}", &"x".repeat(257)] {
            let error = check_id("id", bad).expect_err("must be refused");
            assert_eq!(error.code, crate::ErrorCode::InvalidArgument);
            assert_eq!(error.field.as_deref(), Some("id"));
        }
    }
}
