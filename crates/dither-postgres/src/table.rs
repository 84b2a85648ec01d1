//! A relation of the database as a table: found by its catalog, and read as the policy declares its columns.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::not_impl_err;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use dither_query::policy::{ColumnPolicy, ColumnType, TablePolicy};
use dither_query::source::database::{LARGEST, MAX_TEXT, SMALLEST};
use dither_query::source::{DatabaseRelation, SourceError, schema};

use crate::connection::{Connection, ConnectionError, Rows};
use crate::expr::{by_bytes, identifier};

/// The columns of a relation. Nothing here looks at a row, nor at what is counted of rows.
const CATALOG: &str = "\
SELECT c.relkind::text, a.attname::text, CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname::text \
ELSE t.typname::text || ' of ' || t.typnamespace::regnamespace::text END, \
(has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT'))::text \
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
WHERE n.nspname::text = $1::text AND c.relname::text = $2::text AND a.attnum > 0 AND NOT a.attisdropped \
ORDER BY a.attnum";

/// A table that lies in the database. Only a statement reads it.
#[derive(Debug)]
pub(crate) struct PostgresTable {
    schema: SchemaRef,
    select: String,
}

impl PostgresTable {
    /// Finds a relation and its columns.
    pub(crate) async fn find(
        connection: &mut Connection,
        relation: &DatabaseRelation,
        table: &TablePolicy,
    ) -> Result<Self, LookError> {
        let found = connection.run(CATALOG, &[&relation.schema, &relation.name]).await?;
        let table = Self::of(found, relation, table)?;
        connection.check(&table.select).await?;
        Ok(table)
    }

    fn of(found: Rows, relation: &DatabaseRelation, table: &TablePolicy) -> Result<Self, SourceError> {
        let refused = |problem, hint| SourceError::Relation { relation: relation.to_string(), problem, hint };
        let kind = found.first().and_then(|row| row.first()).cloned().flatten();
        match kind.as_deref() {
            Some("r" | "p" | "v" | "m" | "f") => {}
            Some(_) => return Err(refused("it is no table or view", "set `source` to a table or view")),
            None => {
                return Err(refused("there is none", "check `source`: \"postgres:schema.table\", letter by letter"));
            }
        }
        let cell = |row: &[Option<String>], place: usize| row.get(place).cloned().flatten().unwrap_or_default();
        let names: Vec<String> = found.iter().map(|row| cell(row, 1)).collect();
        let schema = schema(table);
        let mut list = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let declared = &table.columns[field.name()];
            let name = declared.name_in_source.as_deref().unwrap_or(field.name());
            let Some(place) = names.iter().position(|other| other == name) else {
                let path = relation.to_string().into();
                let nearest = nearest(name, &names);
                return Err(SourceError::MissingColumn { column: name.to_owned(), nearest, path });
            };
            let (kind, readable) = (cell(&found[place], 2), cell(&found[place], 3));
            if readable != "true" {
                return Err(refused("the role may not read all declared columns", "GRANT SELECT on it to the role"));
            }
            let read = read_as(&format!("t.{}", identifier(name)), &kind, declared);
            let sql = read.ok_or_else(|| SourceError::ColumnType {
                column: name.to_owned(),
                declared: declared.r#type.name(),
                found: kind,
                path: relation.to_string().into(),
            })?;
            list.push(format!("{sql} AS c{index}"));
        }
        let from = format!("{}.{}", identifier(&relation.schema), identifier(&relation.name));
        Ok(Self { select: format!("SELECT {} FROM {from} AS t", list.join(", ")), schema })
    }

    /// The rows as the policy declares them, in columns `c0`, `c1`, …
    pub(crate) fn select(&self) -> &str {
        &self.select
    }
}

/// Why a relation was not found.
pub(crate) enum LookError {
    Connection(ConnectionError),
    Source(SourceError),
}

impl From<ConnectionError> for LookError {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

impl From<SourceError> for LookError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// The name that was probably meant, if one differs in its case only.
fn nearest(name: &str, names: &[String]) -> Option<String> {
    names.iter().find(|other| other.to_lowercase() == name.to_lowercase()).cloned()
}

/// A column as its declared type: totally, as `dither_query::source` says; `None` where the types do not fit.
fn read_as(column: &str, found: &str, declared: &ColumnPolicy) -> Option<String> {
    let whole = matches!(found, "int2" | "int4" | "int8");
    let inside = |value: &str, first: &str, last: &str| {
        format!("CASE WHEN {value} >= {first} AND {value} <= {last} THEN {value} END")
    };
    Some(match declared.r#type {
        ColumnType::Integer if whole => format!("{column}::bigint"),
        ColumnType::Number if whole => format!("{column}::float8"),
        ColumnType::Number if matches!(found, "float4" | "float8") => {
            number(&format!("{column}::float8"), "float8", "")
        }
        // A numeric is compared as it is: as a float it might overflow or vanish.
        ColumnType::Number if found == "numeric" => number(column, "numeric", "::float8"),
        ColumnType::Text if matches!(found, "text" | "varchar" | "bpchar") => {
            let text = by_bytes(&format!("{column}::text"));
            format!("CASE WHEN octet_length({text}) <= {MAX_TEXT} THEN {text} END")
        }
        ColumnType::Text if whole || found == "uuid" => by_bytes(&format!("{column}::text")),
        ColumnType::Boolean if found == "bool" => column.to_owned(),
        // The types have values before and after the years 1 to 9999, and infinity.
        ColumnType::Date if found == "date" => inside(column, "'0001-01-01'::date", "'9999-12-31'::date"),
        ColumnType::Date if moment(column, found).is_some() => {
            let value = moment(column, found)?;
            format!("CASE WHEN {} THEN {value}::date END", in_calendar(column, found))
        }
        ColumnType::Timestamp if found == "date" => {
            format!("({})::timestamp", inside(column, "'0001-01-01'::date", "'9999-12-31'::date"))
        }
        ColumnType::Timestamp => {
            format!("CASE WHEN {} THEN {} END", in_calendar(column, found), moment(column, found)?)
        }
        _ => return None,
    })
}

/// A number between the ends of a database's; NULL for NaN. A zero has no sign.
fn number(value: &str, kind: &str, cast: &str) -> String {
    let constant = |number: f64| format!("'{number:e}'::{kind}");
    let (most, least) = (constant(LARGEST), constant(SMALLEST));
    let end = |sign: &str| format!("'{sign}{LARGEST:e}'::float8");
    format!(
        "CASE WHEN {value} = 'NaN'::{kind} THEN NULL WHEN {value} >= {most} THEN {} WHEN {value} <= -{most} THEN {} \
         WHEN abs({value}) < {least} THEN '0'::float8 ELSE {value}{cast} END",
        end(""),
        end("-"),
    )
}

/// A timestamp without a time zone, of one with or without; `None` for other types.
fn moment(column: &str, found: &str) -> Option<String> {
    match found {
        "timestamp" => Some(column.to_owned()),
        "timestamptz" => Some(format!("({column} AT TIME ZONE 'UTC')")),
        _ => None,
    }
}

fn in_calendar(column: &str, found: &str) -> String {
    let zone = if found == "timestamptz" { "+00" } else { "" };
    let at = |moment: &str| format!("'{moment}{zone}'::{found}");
    format!("{column} >= {} AND {column} < {}", at("0001-01-01 00:00:00"), at("10000-01-01 00:00:00"))
}

#[async_trait]
impl TableProvider for PostgresTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        not_impl_err!("a table of PostgreSQL is read there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &[[&str; 4]]) -> Rows {
        rows.iter().map(|row| row.iter().map(|cell| Some((*cell).to_owned())).collect()).collect()
    }

    fn table() -> TablePolicy {
        let text = r#"
            dataset = "d"
            budget = { epsilon = 1 }
            [tables.t]
            source = "postgres:s.t"
            privacy_unit = { column = "u" }
            max_groups_per_unit = 1
            max_rows_per_group = 1
            columns = { u = { type = "integer" }, x = { type = "number", name_in_source = "X\"y" } }
        "#;
        dither_query::Policy::from_toml(text, ".").unwrap().tables["t"].clone()
    }

    fn look(rows: &[[&str; 4]]) -> Result<PostgresTable, SourceError> {
        let relation = dither_query::source::relation_of("postgres:s.t".as_ref()).unwrap();
        PostgresTable::of(found(rows), &relation, &table())
    }

    #[test]
    fn a_relation_is_what_the_policy_declares_or_refused() {
        let (u, x) = (["r", "u", "int4", "true"], ["r", "X\"y", "float8", "true"]);
        let good = look(&[u, x]).unwrap();
        assert!(good.select().starts_with("SELECT t.\"u\"::bigint AS c0, CASE WHEN t.\"X\"\"y\"::float8 = "));
        assert!(good.select().ends_with("FROM \"s\".\"t\" AS t"));
        let code = |rows: &[[&str; 4]]| dither_core_code(look(rows).err().unwrap());
        assert_eq!(code(&[]), "source-relation");
        assert_eq!(code(&[["S", "u", "int4", "true"]]), "source-relation");
        assert_eq!(code(&[u]), "source-missing-column");
        assert_eq!(code(&[u, ["r", "x\"Y", "float8", "true"]]), "source-missing-column");
        assert_eq!(code(&[u, ["r", "X\"y", "text", "true"]]), "source-column-type");
        assert_eq!(code(&[u, ["r", "X\"y", "float8 of public", "true"]]), "source-column-type");
        assert_eq!(code(&[u, ["r", "X\"y", "float8", "false"]]), "source-relation");
    }

    fn dither_core_code(error: SourceError) -> &'static str {
        match error {
            SourceError::Relation { .. } => "source-relation",
            SourceError::MissingColumn { .. } => "source-missing-column",
            SourceError::ColumnType { .. } => "source-column-type",
            _ => "other",
        }
    }
}
