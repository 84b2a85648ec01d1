//! Misuse that must not compile. Each block differs from the first, which compiles, in one line.
//!
//! ```
//! use dither_core::{Charged, GateError, Sealed, Sensitive};
//! use dither_mechanisms::{ExactTable, NoisyTable, TableMechanism};
//! use dither_noise::NoiseSource;
//! fn once(
//!     charged: Charged<TableMechanism>,
//!     exact: Sensitive<ExactTable>,
//!     noise: &mut NoiseSource,
//! ) -> Result<Sealed<NoisyTable>, GateError> {
//!     charged.release(exact, noise)
//! }
//! ```
//!
//! Release what is planned but not charged:
//! ```compile_fail,E0599
//! use dither_core::{GateError, Measurement, Sealed, Sensitive};
//! use dither_mechanisms::{ExactTable, NoisyTable, TableMechanism};
//! use dither_noise::NoiseSource;
//! fn uncharged(
//!     planned: Measurement<TableMechanism>,
//!     exact: Sensitive<ExactTable>,
//!     noise: &mut NoiseSource,
//! ) -> Result<Sealed<NoisyTable>, GateError> {
//!     planned.release(exact, noise)
//! }
//! ```
//!
//! Go round the gate:
//! ```compile_fail,E0061
//! use dither_core::{GateError, Mechanism, Sensitive};
//! use dither_mechanisms::{ExactTable, NoisyTable, TableMechanism};
//! use dither_noise::NoiseSource;
//! fn around(
//!     mechanism: TableMechanism,
//!     exact: Sensitive<ExactTable>,
//!     noise: &mut NoiseSource,
//! ) -> Result<NoisyTable, GateError> {
//!     mechanism.apply(exact, noise)
//! }
//! ```
//!
//! Break the gate open:
//! ```compile_fail,E0423
//! let gate = dither_core::OpenGate(());
//! ```
//!
//! Release twice for one charge:
//! ```compile_fail,E0382
//! use dither_core::{Charged, GateError, Sealed, Sensitive};
//! use dither_mechanisms::{ExactTable, NoisyTable, TableMechanism};
//! use dither_noise::NoiseSource;
//! fn twice(
//!     charged: Charged<TableMechanism>,
//!     exact: [Sensitive<ExactTable>; 2],
//!     noise: &mut NoiseSource,
//! ) -> Result<Sealed<NoisyTable>, GateError> {
//!     let [first, second] = exact;
//!     charged.release(first, noise)?;
//!     charged.release(second, noise)
//! }
//! ```
//!
//! Forge a charge:
//! ```compile_fail,E0451
//! use dither_core::{Charge, PrivacyEvent, Receipt, RequestId};
//! fn forge(request: RequestId, event: PrivacyEvent, receipt: Receipt) -> Charge {
//!     Charge { request, event, receipt }
//! }
//! ```
//!
//! Choose without a charge:
//! ```compile_fail,E0624
//! use dither_mechanisms::{ExactVector, ExponentialMechanism};
//! use dither_noise::NoiseSource;
//! fn uncharged(mechanism: ExponentialMechanism, exact: ExactVector, noise: &mut NoiseSource) -> Option<usize> {
//!     mechanism.choose(exact, noise).ok()
//! }
//! ```
//!
//! Report a user's value with bits of one's own:
//! ```compile_fail,E0308
//! use dither_mechanisms::RandomizedResponse;
//! use dither_noise::{BitSource, NoiseError};
//! struct Mine;
//! impl BitSource for Mine {
//!     fn fill(&mut self, _: &mut [u8]) -> Result<(), NoiseError> {
//!         Ok(())
//!     }
//! }
//! fn predictable(response: RandomizedResponse) -> Option<u64> {
//!     response.report(1, &mut Mine).ok()
//! }
//! ```
//!
//! Calibrate Laplace noise to a Euclidean sensitivity:
//! ```compile_fail,E0308
//! use dither_core::{Epsilon, L2Sensitivity};
//! use dither_mechanisms::{Laplace, MechanismError};
//! fn wrong_norm(sensitivity: L2Sensitivity, epsilon: Epsilon) -> Result<Laplace, MechanismError> {
//!     Laplace::for_epsilon(sensitivity, epsilon)
//! }
//! ```
//!
//! Print what is sensitive:
//! ```compile_fail,E0277
//! use dither_core::Sensitive;
//! use dither_mechanisms::ExactTable;
//! fn print(exact: Sensitive<ExactTable>) {
//!     println!("{exact:?}");
//! }
//! ```
//!
//! Read a drawn answer before it is stored:
//! ```compile_fail,E0616
//! use dither_core::Sealed;
//! use dither_mechanisms::NoisyTable;
//! fn peek(sealed: Sealed<NoisyTable>) -> NoisyTable {
//!     sealed.value
//! }
//! ```
//!
//! Seed the noise of a release:
//! ```compile_fail,E0423
//! let source = dither_noise::NoiseSource([0; 32]);
//! ```
