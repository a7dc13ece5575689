//! The chunks of long memories: they come, change and go with the memory that they are parts of.

use super::{Context, Step, add, delete, update};
use crate::command::NewMemory;
use crate::erasure::Erased;
use crate::event::Event;
use crate::keys;
use crate::memory::{IndexRow, MemoryRow};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

/// Stores the chunks of a memory whose rows are written. Like the memory, they are found by their ids
/// alone: the text of a chunk is no statement of its own.
pub(super) fn put<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    item: &NewMemory,
    model: Option<u8>,
) -> Step<()> {
    for (number, chunk) in (0u32..).zip(&item.chunks) {
        if context.rows.memory(space, &chunk.index.id)?.is_some() {
            let detail = "the id of a chunk is taken; send the memory again";
            return Err(Error::new(ErrorCode::AlreadyExists, detail).into());
        }
        add::create(context, space, chunk, model, 1, Some(number))?;
    }
    Ok(())
}

/// Takes the chunks of a memory out.
pub(super) fn remove<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
    rest: delete::Rest<'_>,
) -> Step<Erased> {
    let mut erased = Erased::default();
    for id in &memory.chunks {
        if let Some(chunk) = context.rows.memory(space, id)? {
            let gone = delete::remove(context, space, id, &chunk, rest)?;
            erased.add(Erased { derived: gone.memories, ..gone });
        }
    }
    Ok(erased)
}

/// Lets the chunks live as long as their memory, and be worth and pinned as much.
pub(super) fn follow<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
    row: &IndexRow,
) -> Step<()> {
    for id in &memory.chunks {
        let Some(chunk) = context.rows.memory(space, id)? else { continue };
        let mut own = context.rows.index_row(space, chunk.seq)?;
        update::move_expiry(context, space, id, own.expires_us, row.expires_us)?;
        own.expires_us = row.expires_us;
        own.pinned = row.pinned;
        own.importance = own.importance.max(row.importance);
        context.rows.write(keys::index_row::key(space, chunk.seq), &own)?;
        context.events.push(Event::Put { space: space.clone(), seq: chunk.seq, row: Box::new(own) });
    }
    Ok(())
}

/// A chunk says what its memory says: it is neither changed nor deleted alone.
pub(super) fn refuse(memory: &MemoryRow) -> Step<()> {
    let Some(number) = memory.chunk else { return Ok(()) };
    let whole = memory.derived_from.first().map_or("", String::as_str);
    let detail = format!("this is chunk {number} of the memory {whole}; change or delete that one");
    Err(Error::new(ErrorCode::Conflict, detail).at("id").into())
}
