//! Decisions about names: that some are one entity, and that they are not.

use super::{Answers, Context, Step, add};
use crate::graph::EntityRow;
use crate::keys;
use crate::limits::ENTITY_ALIASES_MAX;
use crate::memory::IdempotencyId;
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

/// Makes other names of one entity of `names`, and of what they are other names of.
pub(super) fn merge<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    into: &str,
    names: &[String],
) -> Step<Answers> {
    let (canonical, mut row) = entity(context, space, into)?;
    for name in names {
        let own = read(context, space, name)?;
        match &own.same_as {
            Some(other) if *other == canonical => continue,
            Some(other) => {
                let detail = format!("{name} is another name of {other}; split it from that one first");
                return Err(Error::new(ErrorCode::Conflict, detail).at("names").into());
            }
            None if *name == canonical => {
                let detail = format!("{name} is the entity itself; name others");
                return Err(Error::invalid("names", detail).into());
            }
            None => {}
        }
        for alias in own.aliases.iter().chain([name]) {
            let alias_row = EntityRow { same_as: Some(canonical.clone()), aliases: Vec::new() };
            context.rows.write(keys::entity::key(space, alias), &alias_row)?;
            row.aliases.push(alias.clone());
        }
    }
    row.aliases.sort_unstable();
    row.aliases.dedup();
    if row.aliases.len() > ENTITY_ALIASES_MAX {
        let detail = format!(
            "the entity would have {} other names; the limit is {ENTITY_ALIASES_MAX}; split some off",
            row.aliases.len()
        );
        return Err(Error::new(ErrorCode::TooLarge, detail).at("names").into());
    }
    context.rows.write(keys::entity::key(space, &canonical), &row)?;
    Ok(answer(into))
}

/// Makes names entities of their own again.
pub(super) fn split<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    from: &str,
    names: &[String],
) -> Step<Answers> {
    let (canonical, mut row) = entity(context, space, from)?;
    for name in names {
        let Some(at) = row.aliases.iter().position(|alias| alias == name) else {
            let detail = format!("{name} is no other name of {canonical}");
            return Err(Error::new(ErrorCode::NotFound, detail).at("names").into());
        };
        row.aliases.remove(at);
        context.rows.delete(&keys::entity::key(space, name))?;
    }
    let key = keys::entity::key(space, &canonical);
    if row.aliases.is_empty() {
        context.rows.delete(&key)?;
    } else {
        context.rows.write(key, &row)?;
    }
    Ok(answer(from))
}

/// The canonical name that a name stands for, and its row.
fn entity<S: State>(context: &Context<'_, S>, space: &SpaceKey, name: &str) -> Step<(String, EntityRow)> {
    let row = read(context, space, name)?;
    match row.same_as {
        Some(canonical) => {
            let row = read(context, space, &canonical)?;
            Ok((canonical, row))
        }
        None => Ok((name.to_owned(), row)),
    }
}

fn read<S: State>(context: &Context<'_, S>, space: &SpaceKey, name: &str) -> Step<EntityRow> {
    Ok(context.rows.read(&keys::entity::key(space, name))?.unwrap_or_default())
}

fn answer(name: &str) -> Answers {
    vec![add::answer(name, 0, ItemStatus::Updated, IdempotencyId::Requested)]
}
