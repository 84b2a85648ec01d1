//! From the text of a policy to a checked [`Policy`].

use std::path::Path;

use dither_core::RequestId;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Place, Policy, PolicyError, Problem, check};

/// The longest text that is read as a policy, a million keys included.
const MAX_BYTES: u64 = 64 << 20;

impl Policy {
    /// Reads and checks a policy; paths in it are relative to `base_dir`. No table is opened.
    ///
    /// # Errors
    /// Whatever cannot be read or makes no sense, with its place in the text.
    ///
    /// ```
    /// use dither_query::policy::Policy;
    /// let policy = Policy::from_toml(
    ///     r#"
    ///     dataset = "hospital"
    ///     [budget]
    ///     epsilon = 4
    ///     [tables.visits]
    ///     source = "visits.csv"
    ///     privacy_unit = { column = "patient" }
    ///     max_groups_per_unit = 2
    ///     max_rows_per_group = 3
    ///     [tables.visits.columns]
    ///     patient = { type = "integer" }
    ///     days = { type = "integer", bounds = [1, 14] }
    ///     "#,
    ///     ".",
    /// )?;
    /// assert_eq!(policy.tables["visits"].columns["days"].value_bounds().unwrap().magnitude(), 14);
    /// # Ok::<(), dither_query::policy::PolicyError>(())
    /// ```
    pub fn from_toml(text: &str, base_dir: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let document = DeTable::parse(text).map_err(|error| explain(&error, text))?;
        let root = DeValue::Table(document.into_inner());
        let refused = |(path, problem): Refusal| PolicyError::Refused {
            at: locate(&root, &path).map(|span| Place::new(text, span)).unwrap_or_default(),
            key: path.join("."),
            problem,
        };
        undecided(&root, &mut Vec::new()).map_err(refused)?;
        unreadable(&root).map_err(refused)?;
        let mut policy: Self = toml::from_str(text).map_err(|error| explain(&error, text))?;
        policy.base_dir = base_dir.as_ref().to_owned();
        check::policy(&policy).map_err(refused)?;
        Ok(policy)
    }

    /// Reads and checks a policy file; paths in it are relative to its folder.
    ///
    /// # Errors
    /// A file that cannot be read, and whatever [`Policy::from_toml`] refuses.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = path.as_ref();
        let unreadable = |source| PolicyError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_BYTES {
            return Err(unreadable(std::io::ErrorKind::FileTooLarge.into()));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::from_toml(&text, path.parent().unwrap_or(Path::new("")))
    }

    /// Checks a policy that was not read from a text.
    ///
    /// # Errors
    /// Whatever makes no sense, without a place.
    pub fn check(&self) -> Result<(), PolicyError> {
        check::policy(self).map_err(|(path, problem)| PolicyError::Refused {
            key: path.join("."),
            problem,
            at: Place::default(),
        })
    }

    /// A SHA-256 digest of what the policy says, in hexadecimal.
    ///
    /// Spaces, comments, the order of tables, and keys that spell out a default that is "none" do not change it.
    pub fn fingerprint(&self) -> String {
        let canonical = serde_json::to_value(self).map(canonical).unwrap_or_default();
        RequestId::digest([b"dither policy 1".as_slice(), canonical.to_string().as_bytes()]).to_string()
    }
}

/// The path to a value, and what is wrong with it.
pub(super) type Refusal = (Vec<String>, Problem);

/// The same JSON with sorted keys and without empty ones.
fn canonical(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(object) => {
            let kept = object.into_iter().filter(|(_, value)| !value.is_null());
            let mut entries: Vec<(String, Value)> = kept.map(|(key, value)| (key, canonical(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(canonical).collect()),
        scalar => scalar,
    }
}

/// Finds the first `key = ""`, which a starter policy leaves where the steward must decide.
fn undecided(value: &DeValue<'_>, path: &mut Vec<String>) -> Result<(), Refusal> {
    let DeValue::Table(table) = value else { return Ok(()) };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        path.push(key.get_ref().to_string());
        // An empty character is no open decision: the reader of characters refuses it.
        let character = matches!(key.get_ref().as_ref(), "delimiter" | "quote" | "thousands" | "decimal");
        if value.get_ref().as_str() == Some("") && !character {
            return Err((path.clone(), Problem::Undecided));
        }
        undecided(value.get_ref(), path)?;
        path.pop();
    }
    Ok(())
}

/// Finds values of a wrong type that deserve a better word than "invalid type".
fn unreadable(root: &DeValue<'_>) -> Result<(), Refusal> {
    let tables =
        ["tables", "public"].into_iter().flat_map(|kind| entries(root.get(kind)).map(move |entry| (kind, entry)));
    for (kind, (table, settings)) in tables {
        if let Some(text) = settings.get("privacy_unit").and_then(|unit| unit.get_ref().as_str())
            && text != "row"
        {
            return Err((path(&["tables", table, "privacy_unit"]), Problem::UnitForm { text: text.into() }));
        }
        for (column, settings) in entries(settings.get("columns")) {
            let Some(bounds) = settings.get("bounds").map(Spanned::get_ref) else { continue };
            let holds_text = bounds.as_array().is_some_and(|pair| pair.iter().any(|bound| bound.get_ref().is_str()));
            if let Some(pair) = bounds.as_array().filter(|pair| pair.len() != 2 && !holds_text) {
                let problem = Problem::BoundsCount { count: pair.len() };
                return Err((path(&[kind, table, "columns", column, "bounds"]), problem));
            }
            if bounds.is_str() || bounds.is_bool() || bounds.is_table() || holds_text {
                return Err((path(&[kind, table, "columns", column, "bounds"]), Problem::BoundsFromData));
            }
        }
    }
    Ok(())
}

/// The entries of a table; none if it is not one.
fn entries<'a>(table: Option<&'a Spanned<DeValue<'a>>>) -> impl Iterator<Item = (&'a str, &'a DeValue<'a>)> {
    let table = table.and_then(|table| table.get_ref().as_table());
    table.into_iter().flatten().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref()))
}

pub(super) fn path(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// The bytes of the value at a path, or of the innermost table around it.
fn locate(root: &DeValue<'_>, path: &[String]) -> Option<std::ops::Range<usize>> {
    let (mut value, mut span) = (root, None);
    for part in path {
        let Some(next) = value.get(part.as_str()) else { break };
        (value, span) = (next.get_ref(), Some(next.span()));
    }
    span
}

/// Turns what the TOML reader says into our own words.
fn explain(error: &toml::de::Error, text: &str) -> PolicyError {
    let at = error.span().map(|span| Place::new(text, span)).unwrap_or_default();
    let message = error.message();
    if let Some((key, rest)) = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, expected")) {
        let expected: Vec<String> = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        return PolicyError::UnknownKey { nearest: nearest(key, &expected), key: key.to_owned(), expected, at };
    }
    if let Some(key) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return PolicyError::MissingKey { key: key.to_owned(), at };
    }
    PolicyError::Syntax { message: in_words(message), at }
}

/// What the TOML reader expects, without the names of types in programs.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let words = match expected {
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "u64" | "u32" => "a whole number, not below 0",
        "i64" => "a whole number",
        "f64" | "f32" => "a number",
        "a character" => "one character in quotes",
        "a boolean" => "true or false",
        other => other,
    };
    format!("{found}expected {words}")
}

/// The most similar of several words, if one is similar at all.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let scored =
        known.into_iter().map(|other| (strsim::jaro_winkler(&word.to_lowercase(), &other.to_lowercase()), other));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    // Below 0.75, Jaro-Winkler pairs words that share little more than a letter.
    (best.0 >= 0.75).then(|| best.1.clone())
}
