//! A first policy for a file, with every decision left to the steward.
//!
//! Looks at the header line or the Parquet schema only. Bounds and keys that came from the rows would leak them.

use std::fmt::Write as _;
use std::path::Path;

use super::{ColumnType, PolicyError};
use crate::source::{self, Compression, Kind, SourceError};

/// The names of a header line, and how it seems to be written.
struct Header {
    names: Vec<String>,
    delimiter: char,
    encoding: &'static str,
}

/// Writes a starter policy for a file, as TOML with a comment at each decision.
///
/// Reads the header line or the Parquet schema and nothing else. The text does not load until the places marked
/// `decide` are filled in.
///
/// # Errors
/// A file that is not there, not regular, of an unknown kind, or without a header.
///
/// ```no_run
/// println!("{}", dither_query::policy::starter("visits.csv")?);
/// # Ok::<(), dither_query::policy::PolicyError>(())
/// ```
pub fn starter(path: impl AsRef<Path>) -> Result<String, PolicyError> {
    let path = path.as_ref();
    let kind = Kind::of(path).ok_or_else(|| SourceError::Kind { path: path.to_owned() })?;
    let (columns, csv) = match kind {
        Kind::Parquet => (source::parquet_columns(path)?, String::new()),
        Kind::Text { delimiter, compression } => {
            let header = read_header(path, delimiter, compression)?;
            let csv = csv_settings(&header, delimiter);
            let text = |name: String| (name, Some(ColumnType::Text));
            (header.names.into_iter().map(text).collect(), csv)
        }
        Kind::Relation => return Err(SourceError::Kind { path: path.to_owned() }.into()),
    };
    Ok(write_policy(path, &columns, &csv, kind))
}

fn read_header(path: &Path, usual: char, compression: Compression) -> Result<Header, SourceError> {
    let bytes = source::first_line(path, compression)?;
    if let Some((encoding, _)) = encoding_rs::Encoding::for_bom(&bytes)
        && !encoding.is_ascii_compatible()
    {
        return Err(SourceError::Encoding { path: path.to_owned(), encoding: encoding.name() });
    }
    let (text, encoding) = decode(&bytes);
    let line = text.trim_end_matches(['\r', '\n', '\u{FFFD}']);
    let candidates = [usual, ',', ';', '\t', '|'];
    let most = candidates.iter().map(|delimiter| line.matches(*delimiter).count()).max().unwrap_or(0);
    let delimiter = candidates.into_iter().find(|delimiter| line.matches(*delimiter).count() == most).unwrap_or(usual);
    let names = source::split_header(line, delimiter);
    if names.iter().all(String::is_empty) {
        return Err(SourceError::NoHeader { path: path.to_owned() });
    }
    Ok(Header { names, delimiter, encoding })
}

/// The text of a header and the encoding that it seems to have. The steward has the last word.
fn decode(bytes: &[u8]) -> (String, &'static str) {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    for (encoding, label) in [(encoding_rs::UTF_8, "utf-8"), (encoding_rs::GB18030, "gb18030")] {
        if let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(bytes) {
            return (text.into_owned(), label);
        }
    }
    (encoding_rs::WINDOWS_1252.decode(bytes).0.into_owned(), "windows-1252")
}

fn csv_settings(header: &Header, usual: char) -> String {
    let mut text = String::from("\n[tables.TABLE.csv]\n");
    if header.delimiter != usual {
        let _ = writeln!(text, "delimiter = {}", quoted(&header.delimiter.to_string()));
    }
    let _ = writeln!(
        text,
        "# How the whole file is encoded; only its header was looked at. Common: utf-8, gbk, windows-1252.\n\
         encoding = \"{}\"\n\
         # If a cell can contain a line break, rows of one person can pass for rows of others, and no setting prevents it:\n\
         # export the table without line breaks, or as Parquet.\n\
         # The words that stand for a missing value, besides the empty cell.\n\
         # null = [\"NA\", \"?\"]",
        header.encoding
    );
    text
}

fn write_policy(path: &Path, columns: &[(String, Option<ColumnType>)], csv: &str, kind: Kind) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or_default();
    let clean = |c: char| if c.is_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = if stem.is_empty() { "table".into() } else { stem.chars().map(clean).collect() };
    let source = quoted(&path.to_string_lossy());
    let mut text = format!(
        r#"# What may be asked about this data, and how much. Fill in every place marked "decide".
# Decide from what you know about the subject, never by looking at the data.

dataset = {dataset}

[budget]
# The limit on the privacy loss of all questions together. Below 1 is strong, 1 to 4 usual, above 10 weak.
epsilon = ""  # decide: a number such as 2
# The chance that the guarantee fails: far below one over the number of people. Without it, keys must be listed.
# delta = 1e-6
# The largest part of it that one question may use.
# max_epsilon_per_query = 0.5

[tables.{table}]
source = {source}
# Who is protected: all rows of one person, told by a column, or each row by itself.
privacy_unit = ""  # decide: {{ column = "..." }} or "row"
# Whether a person may be absent (the default, hides who is in the data) or only be somebody else.
# neighbors = "add-or-remove-unit"  # or "replace-unit"
# How much one person may contribute to an answer; more is left out. Needed unless each row is a person.
# max_groups_per_unit = 1  # in how many groups of a question
# max_rows_per_group = 1   # with how many rows in each
"#,
        dataset = quoted(&name),
        table = key(&name),
    );
    text.push_str(&csv.replace("TABLE", &key(&name)));
    let _ = write!(
        text,
        r#"
# What anybody may know, to predict errors. Remove what is secret.
[tables.{table}.public]
# rows = 10000
# units = 5000

# Columns that are not listed cannot be asked about. Remove what nobody needs.
#   bounds = [0, 120]               the least and greatest value; needed to add up or average
#   keys = ["a", "b"]               the values to group by, when they are public knowledge
#   keys = {{ from = 1, to = 12 }}    the same for whole numbers; with quoted days, for dates
#   approx_bounds = true           instead of bounds: found from the data, for a share of each question
# `dither profile` shows what suits a table, for a charge.
[tables.{table}.columns]
"#,
        table = key(&name),
    );
    let mut seen = std::collections::BTreeSet::new();
    for (column, found) in columns {
        let Some(found) = found else {
            let _ = writeln!(text, "# {} has a type that cannot be read", quoted(column));
            continue;
        };
        if column.is_empty() || !seen.insert(column) {
            let _ = writeln!(text, "# {} is no unique name and cannot be used", quoted(column));
            continue;
        }
        let choices = match kind {
            Kind::Parquet | Kind::Relation => "",
            Kind::Text { .. } => "  # or integer, number, boolean, date, timestamp",
        };
        let _ = writeln!(text, "{} = {{ type = \"{}\" }}{choices}", key(column), found.name());
    }
    text
}

/// A TOML key, in quotes where it needs them.
pub(super) fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.to_owned() } else { quoted(name) }
}

/// A TOML string on one line.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // Characters that turn a line round would show something else than stands there.
            c if c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_name_survives_as_a_key_and_as_a_value(name in any::<String>()) {
            let text = format!("{} = {}", key(&name), quoted(&name));
            let table: toml::Table = text.parse().unwrap();
            prop_assert_eq!(table.get(&name).and_then(toml::Value::as_str), Some(name.as_str()));
        }

        #[test]
        fn any_header_bytes_decode(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            decode(&bytes);
        }
    }
}
