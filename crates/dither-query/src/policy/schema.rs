//! The JSON Schema of a policy, for editors that complete and check while one types.

use schemars::SchemaGenerator;

use super::Policy;

/// The JSON Schema of a policy file.
///
/// ```
/// assert!(dither_query::policy::json_schema().contains("privacy_unit"));
/// ```
pub fn json_schema() -> String {
    let schema = SchemaGenerator::default().into_root_schema_for::<Policy>();
    format!("{:#}\n", schema.as_value())
}
