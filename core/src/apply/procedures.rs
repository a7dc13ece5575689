//! Changes of procedures: new versions, and which of them is used.

use super::delete::{Tier, bury};
use super::{Answers, ApplyError, Context, Step, add, tiers};
use crate::keys::procedure as keys;
use crate::limits::{PROCEDURE_PREVIOUS_MAX, PROCEDURE_VERSIONS_MAX, PROCEDURES_MAX};
use crate::memory::IdempotencyId;
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;
use crate::tiers::other_version;
use crate::tiers::procedure::{ProcedureChange, ProcedureRow, ProcedureWrite, VersionRow, VersionState};
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    write: &ProcedureWrite,
) -> Step<Answers> {
    let name = &write.name;
    let old: Option<ProcedureRow> = context.rows.read(&keys::key(space, name))?;
    match (&old, write.if_version) {
        (Some(old), Some(expected)) if old.last_version != expected => {
            return Err(other_version("procedure", old.last_version, expected).into());
        }
        (None, Some(_)) => return Err(missing().into()),
        _ => {}
    }
    let mut procedure = Procedure { context, space, name, row: ProcedureRow::default() };
    let (version, status) = match (old, &write.change) {
        (None, ProcedureChange::Put { .. }) => (procedure.create(&write.change)?, ItemStatus::Created),
        (None, _) => return Err(missing().into()),
        (Some(row), change) => {
            procedure.row = row;
            match change {
                ProcedureChange::Put { .. } => (procedure.put(change)?, ItemStatus::Created),
                ProcedureChange::Verify { version } => (procedure.verify(*version)?, ItemStatus::Updated),
                ProcedureChange::Activate { version } => (procedure.activate(*version)?, ItemStatus::Updated),
                ProcedureChange::Rollback { from } => (procedure.roll_back(*from)?, ItemStatus::Updated),
                ProcedureChange::Report { version, success } => {
                    (procedure.report(*version, *success)?, ItemStatus::Recorded)
                }
                ProcedureChange::Delete => (procedure.delete()?, ItemStatus::Deleted),
            }
        }
    };
    Ok(vec![add::answer(name, version, status, IdempotencyId::Requested)])
}

fn missing() -> Error {
    let detail = "there is no procedure with this name in this space; make it with PUT";
    Error::new(ErrorCode::NotFound, detail).at("name")
}

fn conflict(detail: impl Into<String>) -> super::Stop {
    Error::new(ErrorCode::Conflict, detail).at("version").into()
}

/// One procedure that is changed.
struct Procedure<'c, 'r, S> {
    context: &'c mut Context<'r, S>,
    space: &'c SpaceKey,
    name: &'c str,
    row: ProcedureRow,
}

impl<S: State> Procedure<'_, '_, S> {
    fn create(&mut self, change: &ProcedureChange) -> Step<u64> {
        let version = tiers::enter(self.context, &keys::tier(self.space), PROCEDURES_MAX, "procedures")?;
        self.row = ProcedureRow {
            last_version: version - 1,
            created_us: self.context.now_us,
            ..ProcedureRow::default()
        };
        self.put(change)
    }

    /// A new version. Where there are too many, the oldest goes that is neither active nor was before.
    fn put(&mut self, change: &ProcedureChange) -> Step<u64> {
        let ProcedureChange::Put { body, description, placeholders } = change else {
            return Ok(self.row.last_version);
        };
        let version = self.row.last_version + 1;
        let row = VersionRow {
            version,
            body: body.clone(),
            description: description.clone(),
            placeholders: placeholders.clone(),
            state: VersionState::Draft,
            successes: 0,
            failures: 0,
            created_us: self.context.now_us,
            verified_us: None,
            activated_us: None,
        };
        tiers::count_bytes(self.context, self.space, 0, row.stored_bytes())?;
        self.write(&row)?;
        self.row.last_version = version;
        self.row.kept.push(version);
        while self.row.kept.len() > PROCEDURE_VERSIONS_MAX {
            let spared = [self.row.active, self.row.previous.last().copied(), Some(version)];
            let oldest = self.row.kept.iter().copied().find(|kept| !spared.contains(&Some(*kept)));
            let Some(oldest) = oldest else { break };
            self.forget(oldest)?;
        }
        self.save()?;
        Ok(version)
    }

    fn verify(&mut self, version: u64) -> Step<u64> {
        let mut row = self.version(version)?;
        if row.state == VersionState::Draft {
            row.state = VersionState::Verified;
            row.verified_us = Some(self.context.now_us);
            self.write(&row)?;
            self.save()?;
        }
        Ok(version)
    }

    fn activate(&mut self, version: Option<u64>) -> Step<u64> {
        let version = match version {
            Some(version) => version,
            None => self.newest_verified()?,
        };
        let row = self.version(version)?;
        match row.state {
            VersionState::Active => return Ok(version),
            VersionState::Draft => {
                let detail = format!("version {version} is a draft; verify it first");
                return Err(conflict(detail));
            }
            VersionState::Verified | VersionState::Superseded => {}
        }
        if let Some(active) = self.row.active {
            self.row.previous.push(active);
            let too_many = self.row.previous.len().saturating_sub(PROCEDURE_PREVIOUS_MAX);
            self.row.previous.drain(..too_many);
        }
        self.switch(row)
    }

    fn roll_back(&mut self, from: Option<u64>) -> Step<u64> {
        if from.is_some() && from != self.row.active {
            let active = self.row.active.map_or("none".to_owned(), |active| active.to_string());
            return Err(conflict(format!("the active version is {active}; read the procedure again")));
        }
        // Where a version between two times of the active one is not kept any more, both lie side by side.
        let active = self.row.active;
        while active.is_some() && self.row.previous.last().copied() == active {
            self.row.previous.pop();
        }
        // An import that broke off may not have brought all of them.
        while self.row.previous.last().is_some_and(|previous| !self.row.kept.contains(previous)) {
            self.row.previous.pop();
        }
        let Some(previous) = self.row.previous.pop() else {
            return Err(conflict("no version was active before; activate one by its number"));
        };
        let row = self.version(previous)?;
        self.switch(row)
    }

    /// What came of following a version is counted, whichever is active by now.
    fn report(&mut self, version: Option<u64>, success: bool) -> Step<u64> {
        let Some(version) = version.or(self.row.active) else {
            return Err(conflict("no version is active; name the one that was followed"));
        };
        let mut row = self.version(version)?;
        let counter = if success { &mut row.successes } else { &mut row.failures };
        *counter = counter.saturating_add(1);
        self.write(&row)?;
        Ok(version)
    }

    fn delete(&mut self) -> Step<u64> {
        for version in self.row.kept.clone() {
            self.forget(version)?;
        }
        self.context.rows.delete(&keys::key(self.space, self.name))?;
        bury(self.context, self.space, Tier::Procedure, self.name, self.row.last_version)?;
        tiers::leave(self.context, &keys::tier(self.space), self.row.last_version)?;
        Ok(self.row.last_version)
    }

    /// Makes a version the one that is used.
    fn switch(&mut self, row: VersionRow) -> Step<u64> {
        if let Some(active) = self.row.active {
            let old = self.version(active)?;
            self.write(&VersionRow { state: VersionState::Superseded, ..old })?;
        }
        let version = row.version;
        let activated_us = Some(self.context.now_us);
        self.write(&VersionRow { state: VersionState::Active, activated_us, ..row })?;
        self.row.active = Some(version);
        self.save()?;
        Ok(version)
    }

    fn newest_verified(&self) -> Step<u64> {
        for version in self.row.kept.iter().rev() {
            if self.version(*version)?.state == VersionState::Verified {
                return Ok(*version);
            }
        }
        Err(conflict("no version waits to be activated; verify one first"))
    }

    fn version(&self, version: u64) -> Step<VersionRow> {
        if !self.row.kept.contains(&version) {
            let detail =
                format!("the procedure has no version {version}; it never was, or is not kept any more");
            return Err(Error::new(ErrorCode::NotFound, detail).at("version").into());
        }
        let row = self.context.rows.read(&keys::version(self.space, self.name, version))?;
        row.ok_or_else(|| {
            let detail = format!("version {version} of procedure {} of {} is missing", self.name, self.space);
            ApplyError::Inconsistent(detail).into()
        })
    }

    /// Takes a version out for good.
    fn forget(&mut self, version: u64) -> Step<()> {
        let row = self.version(version)?;
        tiers::count_bytes(self.context, self.space, row.stored_bytes(), 0)?;
        self.context.rows.delete(&keys::version(self.space, self.name, version))?;
        self.row.kept.retain(|kept| *kept != version);
        self.row.previous.retain(|previous| *previous != version);
        Ok(())
    }

    fn write(&mut self, row: &VersionRow) -> Step<()> {
        Ok(self.context.rows.write(keys::version(self.space, self.name, row.version), row)?)
    }

    fn save(&mut self) -> Step<()> {
        self.row.updated_us = self.context.now_us;
        Ok(self.context.rows.write(keys::key(self.space, self.name), &self.row)?)
    }
}
