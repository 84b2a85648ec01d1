//! Several tables under one charge: a query is a plan of one, a report a plan of many.

use dither_core::{GateError, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::NoiseSource;

use crate::table::{ExactTable, NoisyTable, TableMechanism};

/// Table mechanisms that are planned, charged and released together.
///
/// # Privacy
/// The composition of its tables. All parameters are fixed before anything is drawn, so an accountant may compose
/// them as one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanMechanism {
    /// The mechanisms, in the order of the questions.
    pub tables: Vec<TableMechanism>,
}

impl Mechanism for PlanMechanism {
    type Exact = Vec<ExactTable>;
    type Noise = NoiseSource;
    type Output = Vec<NoisyTable>;

    fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Composed(self.tables.iter().map(Mechanism::event).collect())
    }

    fn apply(
        &self,
        exact: Sensitive<Vec<ExactTable>>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<Vec<NoisyTable>, GateError> {
        let exact = hazmat::reveal(exact);
        if exact.len() != self.tables.len() {
            return Err(GateError::Failed);
        }
        self.tables.iter().zip(exact).map(|(table, exact)| table.add_noise(exact, noise)).collect()
    }
}
