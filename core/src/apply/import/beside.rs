//! What an export held beside memories. Each thing is there once: one that is there already, and is another one, is
//! left as it is, and what was deleted stays deleted. Parts are taken in their order, and what is said of them in
//! the row of the thing grows with each: whatever part of an export comes, the rows fit each other.

use super::Answer;
use crate::apply::{Context, Step as Stepped, Stop, add, delete, sessions, tasks, tiers};
use crate::keys;
use crate::limits::{BLOCK_VERSIONS_MAX, BLOCKS_MAX, PROCEDURE_VERSIONS_MAX, PROCEDURES_MAX, TASKS_MAX};
use crate::memory::{IdempotencyId, TombstoneRow};
use crate::outcome::ItemStatus;
use crate::session::{SessionRow, TurnRow};
use crate::space::SpaceKey;
use crate::state::State;
use crate::tiers::block::BlockRow;
use crate::tiers::procedure::{ProcedureRow, VersionRow, VersionState};
use crate::tiers::task::{StepRow, TaskRow};
use crate::transfer::beside::{Beside, Block, Procedure, ProcedureVersion, Session, Step, Task, Turn};
use crate::{Error, ErrorCode};

/// What becomes of an item: its status, or why it is not stored.
type Taken = std::result::Result<ItemStatus, Error>;

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    item: &Beside,
) -> Stepped<Answer> {
    let taken = if is_buried(context, space, item)? {
        Err(Error::new(ErrorCode::Conflict, "this was deleted and stays deleted"))
    } else if item.last_us() > context.now_us {
        // An erasure takes what was recorded before it, and would spare this.
        let detail = "this was recorded later than it is here by now; see to the clocks, and repeat it then";
        Err(Error::new(ErrorCode::Conflict, detail))
    } else {
        match item {
            Beside::Session(item) => session(context, space, item),
            Beside::Turn(item) => turn(context, space, item),
            Beside::Task(item) => task(context, space, item),
            Beside::Step(item) => step(context, space, item),
            Beside::Block(item) => block(context, space, item),
            Beside::BlockVersion(item) => block_version(context, space, item),
            Beside::Procedure(item) => procedure(context, space, item),
            Beside::ProcedureVersion(item) => procedure_version(context, space, item),
        }
        .or_else(|stop| match stop {
            Stop::Refused(error) => Ok(Err(error)),
            stop => Err(stop),
        })?
    };
    Ok(match taken {
        Ok(status) => add::answer(item.id(), 0, status, IdempotencyId::Requested),
        Err(reason) => add::rejected(item.id(), reason),
    })
}

/// Whether the thing was deleted here, and not made anew since.
fn is_buried<S: State>(context: &Context<'_, S>, space: &SpaceKey, item: &Beside) -> Stepped<bool> {
    let tier = match item {
        Beside::Session(_) | Beside::Turn(_) => delete::Tier::Session,
        Beside::Task(_) | Beside::Step(_) => delete::Tier::Task,
        Beside::Block(_) | Beside::BlockVersion(_) => delete::Tier::Block,
        Beside::Procedure(_) | Beside::ProcedureVersion(_) => delete::Tier::Procedure,
    };
    for key in delete::graves(space, tier, item.id()) {
        let grave: Option<TombstoneRow> = context.rows.read(&key)?;
        if grave.is_some_and(|grave| item.created_us() <= grave.deleted_us) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn duplicate(same: bool, thing: &str) -> Taken {
    match same {
        true => Ok(ItemStatus::Duplicate),
        false => Err(other(thing)),
    }
}

fn other(thing: &str) -> Error {
    let detail = format!("there is another {thing} of this name; it stays as it is");
    Error::new(ErrorCode::AlreadyExists, detail).at("id")
}

fn missing(thing: &str) -> Error {
    let detail = format!("there is no {thing} that this belongs to; its line must come before");
    Error::new(ErrorCode::NotFound, detail).at("id")
}

fn session<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Session) -> Stepped<Taken> {
    if let Some(old) = context.rows.read::<SessionRow>(&keys::session::key(space, &item.id))? {
        return Ok(duplicate(old.is_there() && old.created_us == item.created_us, "session"));
    }
    add::choose_model(context, space, None, false)?;
    sessions::keep(context, space, &item.id, item.updated_us)?;
    if item.summary.through > 0 {
        context.rows.write(keys::summary::key(space, &item.id), &item.summary)?;
    }
    let row = SessionRow {
        created_us: item.created_us,
        updated_us: item.updated_us,
        ended_us: item.ended_us,
        version: item.version,
        turns: item.first_turn - 1,
        dialogue: item.dialogue.clone(),
        summarised: item.summary.through,
        promoted: item.promoted,
        condensed: item.condensed,
        ..SessionRow::default()
    };
    sessions::write(context, space, &item.id, row)?;
    Ok(Ok(ItemStatus::Created))
}

fn turn<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Turn) -> Stepped<Taken> {
    let session = &item.session;
    let row: Option<SessionRow> = context.rows.read(&keys::session::key(space, session))?;
    let Some(mut row) = row.filter(SessionRow::is_there) else { return Ok(Err(missing("session"))) };
    if row.created_us != item.created_us {
        return Ok(Err(other("session")));
    }
    let key = keys::turn::key(space, session, item.number);
    if item.number <= row.turns {
        let old: Option<TurnRow> = context.rows.read(&key)?;
        return Ok(duplicate(old.as_ref() == Some(&item.turn), "turn"));
    }
    if item.number != row.turns + 1 {
        return Ok(Err(missing("turn before")));
    }
    let dialogue = row.dialogue.clone();
    sessions::take(&mut row, 0, &item.turn)?;
    // It says already where the dialogue stands behind all turns.
    row.dialogue = dialogue;
    context.rows.write(key, &item.turn)?;
    sessions::write(context, space, session, row)?;
    Ok(Ok(ItemStatus::Created))
}

fn task<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Task) -> Stepped<Taken> {
    if let Some(old) = context.rows.read::<TaskRow>(&keys::task::key(space, &item.id))? {
        return Ok(duplicate(old.created_us == item.created_us, "task"));
    }
    let least = tiers::enter(context, &keys::task::tier(space), TASKS_MAX, "tasks")?;
    let anew_us = context.now_us.saturating_add(i64::from(item.ttl_s).saturating_mul(1_000_000));
    let expires_us = if item.expires_us > context.now_us { item.expires_us.min(anew_us) } else { anew_us };
    // Versions go on from those of what was deleted, here as where callers make things.
    let row = TaskRow { expires_us, version: item.version.max(least), ..item.row() };
    context.rows.put_due(&tasks::due(space, &item.id, expires_us))?;
    tiers::count_bytes(context, space, 0, row.stored_bytes())?;
    context.rows.write(keys::task::key(space, &item.id), &row)?;
    Ok(Ok(ItemStatus::Created))
}

fn step<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Step) -> Stepped<Taken> {
    let id = &item.task;
    let Some(old) = context.rows.read::<TaskRow>(&keys::task::key(space, id))? else {
        return Ok(Err(missing("task")));
    };
    if old.created_us != item.created_us {
        return Ok(Err(other("task")));
    }
    let row = StepRow { step: item.step.clone(), at_us: item.at_us };
    if item.number < old.next_step {
        let there: Option<StepRow> = context.rows.read(&keys::task::step(space, id, item.number))?;
        // The oldest may have gone since.
        return Ok(duplicate(there.is_none_or(|there| there == row), "step"));
    }
    if item.number != old.next_step {
        return Ok(Err(missing("step before")));
    }
    let mut new = old.clone();
    context.rows.write(keys::task::step(space, id, item.number), &row)?;
    new.next_step += 1;
    new.step_bytes += row.step.stored_bytes();
    tasks::keep_newest(context, space, id, &mut new)?;
    tiers::count_bytes(context, space, old.stored_bytes(), new.stored_bytes())?;
    context.rows.write(keys::task::key(space, id), &new)?;
    Ok(Ok(ItemStatus::Created))
}

fn block<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Block) -> Stepped<Taken> {
    let key = keys::block::key(space, &item.label);
    if let Some(old) = context.rows.read::<BlockRow>(&key)? {
        return Ok(duplicate(old.created_us == item.block.created_us, "block"));
    }
    let least = tiers::enter(context, &keys::block::tier(space), BLOCKS_MAX, "core blocks")?;
    tiers::count_bytes(context, space, 0, item.block.stored_bytes())?;
    let row = BlockRow { version: item.block.version.max(least), ..item.block.clone() };
    context.rows.write(key, &row)?;
    Ok(Ok(ItemStatus::Created))
}

fn block_version<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Block) -> Stepped<Taken> {
    let Some(current) = context.rows.read::<BlockRow>(&keys::block::key(space, &item.label))? else {
        return Ok(Err(missing("block")));
    };
    let number = item.block.version;
    if current.created_us != item.block.created_us {
        return Ok(Err(other("block")));
    }
    let key = keys::block::version(space, &item.label, number);
    if let Some(old) = context.rows.read::<BlockRow>(&key)? {
        return Ok(duplicate(old == item.block, "version"));
    }
    if number >= current.version || number.saturating_add(BLOCK_VERSIONS_MAX) < current.version {
        let detail =
            format!("version {number} is not among those that are kept of version {}", current.version);
        return Ok(Err(Error::new(ErrorCode::Conflict, detail).at("version")));
    }
    context.rows.write(key, &item.block)?;
    Ok(Ok(ItemStatus::Created))
}

fn procedure<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Procedure) -> Stepped<Taken> {
    let key = keys::procedure::key(space, &item.name);
    if let Some(old) = context.rows.read::<ProcedureRow>(&key)? {
        return Ok(duplicate(old.created_us == item.created_us, "procedure"));
    }
    let least = tiers::enter(context, &keys::procedure::tier(space), PROCEDURES_MAX, "procedures")?;
    let row = ProcedureRow {
        last_version: item.last_version.max(least),
        previous: item.previous.clone(),
        created_us: item.created_us,
        updated_us: item.updated_us,
        ..ProcedureRow::default()
    };
    context.rows.write(key, &row)?;
    Ok(Ok(ItemStatus::Created))
}

fn procedure_version<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    item: &ProcedureVersion,
) -> Stepped<Taken> {
    let name = &item.procedure;
    let Some(mut row) = context.rows.read::<ProcedureRow>(&keys::procedure::key(space, name))? else {
        return Ok(Err(missing("procedure")));
    };
    if row.created_us != item.created_us {
        return Ok(Err(other("procedure")));
    }
    let number = item.version.version;
    let key = keys::procedure::version(space, name, number);
    if let Some(old) = context.rows.read::<VersionRow>(&key)? {
        return Ok(duplicate(old.body == item.version.body, "version"));
    }
    let follows = row.kept.last().is_none_or(|last| *last < number) && number <= row.last_version;
    if !follows || row.kept.len() >= PROCEDURE_VERSIONS_MAX {
        let detail = format!("version {number} is not among those that are kept");
        return Ok(Err(Error::new(ErrorCode::Conflict, detail).at("version")));
    }
    let mut version = item.version.clone();
    match version.state {
        VersionState::Active if row.active.is_none() => row.active = Some(number),
        // One is used at a time.
        VersionState::Active => version.state = VersionState::Superseded,
        _ => {}
    }
    row.kept.push(number);
    tiers::count_bytes(context, space, 0, version.stored_bytes())?;
    context.rows.write(key, &version)?;
    context.rows.write(keys::procedure::key(space, name), &row)?;
    Ok(Ok(ItemStatus::Created))
}
