//! Carries out steps: one arm per step, each safe to repeat.

use kit::room::Flow;

use crate::decide::Step;

/// Carries out one step.
#[must_use]
pub fn apply(step: &Step) -> Flow {
    match step {
        Step::Wait { until } => Flow::Wait(Some(*until)),
    }
}
