//! Procedural memory: how an agent does things. A procedure is a prompt template or a workflow of
//! ordered steps, with placeholders. Its versions never change: a new one is a draft, is verified,
//! then activated, and the one before it can be taken back.

use crate::codec::stored;
use crate::limits::{self, check_bytes};
use crate::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

/// A procedure. Key: see [`crate::keys::procedure`]. Its versions are rows of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcedureRow {
    /// Number of the newest version; what compare-and-set compares.
    pub last_version: u64,
    /// The version that is used.
    pub active: Option<u64>,
    /// Those that were active before it, the last one last; at most
    /// [`limits::PROCEDURE_PREVIOUS_MAX`].
    pub previous: Vec<u64>,
    /// Numbers of the versions that are kept, oldest first; at most
    /// [`limits::PROCEDURE_VERSIONS_MAX`].
    pub kept: Vec<u64>,
    /// When it was made, in log time.
    pub created_us: i64,
    /// When it was last changed, in log time.
    pub updated_us: i64,
}

/// One version of a procedure. Key: see [`crate::keys::procedure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRow {
    /// Its number.
    pub version: u64,
    /// What is to be done.
    pub body: Body,
    /// What it is for.
    pub description: String,
    /// Names of the placeholders, in byte order.
    pub placeholders: Vec<String>,
    /// How far it has come.
    pub state: VersionState,
    /// Times it was reported to have worked.
    pub successes: u64,
    /// Times it was reported to have failed.
    pub failures: u64,
    /// When it was made, in log time.
    pub created_us: i64,
    /// When it was verified, in log time.
    pub verified_us: Option<i64>,
    /// When it was last activated, in log time.
    pub activated_us: Option<i64>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// A text with placeholders.
    Template {
        /// The text.
        text: String,
    },
    /// Steps, one after the other.
    Workflow {
        /// The steps.
        steps: Vec<WorkflowStep>,
    },
}

/// One step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStep {
    /// Its name.
    pub name: String,
    /// A text with placeholders.
    pub text: String,
    /// The tool that is to be used.
    pub tool: Option<String>,
}

/// How far a version has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionState {
    /// New.
    Draft,
    /// Rendered with an example; may be activated.
    Verified,
    /// The one that is used.
    Active,
    /// Was active once, and may be again.
    Superseded,
}

stored!(ProcedureRow, VersionRow);

impl VersionState {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Verified => "verified",
            Self::Active => "active",
            Self::Superseded => "superseded",
        }
    }
}

impl Body {
    /// Its texts with placeholders, in their order.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Template { text } => vec![text],
            Self::Workflow { steps } => steps.iter().map(|step| step.text.as_str()).collect(),
        }
    }

    /// Bytes that it counts for.
    pub fn stored_bytes(&self) -> u64 {
        let of = |step: &WorkflowStep| {
            step.name.len() + step.text.len() + step.tool.as_ref().map_or(0, String::len)
        };
        match self {
            Self::Template { text } => text.len() as u64,
            Self::Workflow { steps } => steps.iter().map(of).sum::<usize>() as u64,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Template { text } if text.trim().is_empty() => {
                return Err(Error::invalid("template", "template is empty; give the text"));
            }
            Self::Template { .. } => {}
            Self::Workflow { steps } => {
                let max = limits::WORKFLOW_STEPS_MAX;
                if steps.is_empty() || steps.len() > max {
                    let detail = format!("a workflow has 1 to {max} steps; this one has {}", steps.len());
                    return Err(Error::invalid("steps", detail));
                }
                for (at, step) in steps.iter().enumerate() {
                    limits::check_id(&format!("steps[{at}].name"), &step.name)?;
                    let tool = step.tool.as_ref();
                    tool.map_or(Ok(()), |tool| limits::check_id(&format!("steps[{at}].tool"), tool))?;
                }
            }
        }
        let (bytes, max) = (self.stored_bytes(), limits::PROCEDURE_BYTES_MAX);
        if bytes > max {
            let field = if matches!(self, Self::Template { .. }) { "template" } else { "steps" };
            let detail = format!("the procedure has {bytes} bytes; the limit is {max}; shorten or split it");
            return Err(Error::too_large(field, detail));
        }
        Ok(())
    }
}

impl VersionRow {
    /// Bytes that it counts for among those that the space stores.
    pub fn stored_bytes(&self) -> u64 {
        self.body.stored_bytes() + self.description.len() as u64
    }
}

/// A change of one procedure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcedureWrite {
    /// Which.
    pub name: String,
    /// Only if this is its newest version.
    pub if_version: Option<u64>,
    /// What.
    pub change: ProcedureChange,
}

/// What is done to a procedure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcedureChange {
    /// A new version, a draft; the procedure is made if there is none.
    Put {
        /// What is to be done.
        body: Body,
        /// What it is for.
        description: String,
        /// The names in the texts of the body, in byte order.
        placeholders: Vec<String>,
    },
    /// A version was rendered with an example.
    Verify {
        /// Which.
        version: u64,
    },
    /// Uses a version that was verified from now on.
    Activate {
        /// Which; the newest that was verified, if not given.
        version: Option<u64>,
    },
    /// Uses the version again that was active before.
    Rollback {
        /// Only if this is the active one.
        from: Option<u64>,
    },
    /// What came of following a version.
    Report {
        /// Which; the active one, if not given.
        version: Option<u64>,
        /// Whether it worked.
        success: bool,
    },
    /// Deletes the procedure with all versions.
    Delete,
}

impl ProcedureWrite {
    /// Checks what can be checked without the procedure.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] or [`ErrorCode::TooLarge`], naming the field.
    pub fn check(&self) -> Result<()> {
        limits::check_id("name", &self.name)?;
        let ProcedureChange::Put { body, description, placeholders } = &self.change else { return Ok(()) };
        check_bytes("description", Some(description), limits::DESCRIPTION_BYTES_MAX)?;
        body.check()?;
        if placeholders.len() > limits::TEMPLATE_PLACEHOLDERS_MAX * limits::WORKFLOW_STEPS_MAX {
            return Err(Error::new(ErrorCode::TooLarge, "the procedure has too many placeholders"));
        }
        placeholders.iter().try_for_each(|name| limits::check_id("placeholders", name))
    }
}
