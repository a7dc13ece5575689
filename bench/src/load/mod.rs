//! The load runner: arrivals that do not wait for answers, latencies from the intended start.

mod command;
mod machine;
mod plan;
mod recorder;
mod runner;
mod synthetic;

pub use command::{LoadArgs, Mode, run as run_command};
pub use machine::Machine;
pub use plan::{Arrivals, Plan};
pub use recorder::{LoadResult, OperationResult, Percentiles};
pub use runner::{Outcome, Workload, run};
pub use synthetic::{Synthetic, statement};
