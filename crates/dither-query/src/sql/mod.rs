//! SQL to a validated [`Question`].
//!
//! Four steps, each of which refuses whatever it does not know:
//!
//! 1. [`options`] reads and blanks the `WITH DIFFERENTIAL_PRIVACY OPTIONS (…)` clause;
//! 2. `shape` and `tables` check the syntax tree, where the positions for the caret are;
//! 3. DataFusion resolves names and types against a catalog that holds the declared columns and a closed list of
//!    functions, nothing else; `listed` reads the public keys that stand in public tables;
//! 4. `lower`, `from` and `scope` walk the unoptimised plan into our own terms, with `total` making every row-local expression a
//!    total function and `interval` deriving its bounds.

mod calendar;
mod catalog;
mod constants;
mod from;
mod interval;
mod keys;
mod listed;
mod lower;
mod named;
pub mod options;
mod scope;
mod shape;
mod tables;
mod total;
mod width;

use datafusion::common::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

pub use options::SqlOptions;

use catalog::CLAMP;
use from::plain;

use crate::error::{Code, Place, Refusal};
use crate::ir::Question;
use crate::policy::Policy;

pub(crate) use keys::{key_literal, key_of};
pub(crate) use total::{clamped, within_nanoseconds};

/// The longest accepted text. A list of some thousand keys fits; a program does not.
const MAX_BYTES: usize = 256 * 1024;
/// How deeply expressions may nest in parentheses.
const MAX_DEPTH: usize = 48;
/// How many operators, keywords and parentheses a text may have. `1 + 1 + …` nests without parentheses, and a tree
/// deeper than this would not fit the stack of a thread.
const MAX_OPERATORS: usize = 250;

/// Reads a question. Nothing but the text and the policy is looked at.
///
/// # Errors
/// A [`Refusal`] for whatever is not analysed.
pub async fn parse(sql: &str, policy: &Policy) -> Result<(Question, SqlOptions), Refusal> {
    if sql.len() > MAX_BYTES {
        let message = format!("the question is longer than {} KiB", MAX_BYTES / 1024);
        return Err(Refusal::new(Code::TooLarge, message).hint("declare long key lists in the policy"));
    }
    check_operators(sql)?;
    let (options, sql) = options::take(sql)?;
    let statement = statement(&sql)?;
    let select = shape::check(statement, policy)?;
    let state = catalog::state(policy)?;
    let canonical = select.rewritten.to_string();
    let statement = Statement::Statement(Box::new(select.rewritten.clone()));
    let plan = state.statement_to_plan(statement).await.map_err(|error| planning_refusal(&error, &sql))?;
    let policy = listed::read(policy, &plan).await?;
    let refused = |refusal: Refusal| {
        let refusal = not_for(&refusal.message, &sql).unwrap_or(refusal);
        Refusal {
            message: plain(&refusal.message),
            hint: refusal.hint.as_deref().map(plain),
            ..refusal.at(select.place)
        }
    };
    let mut question = lower::question(plan, canonical, &policy, &state).map_err(refused)?;
    for argument in question.aggregates.iter_mut().filter_map(|aggregate| aggregate.argument.as_mut()) {
        argument.origin = plain(&argument.origin);
        argument.written = plain(&argument.written);
    }
    question.warnings = named::warnings(&select.rewritten, &policy);
    Ok((question, options))
}

/// Refuses texts whose tree may be too deep, before there is a tree.
fn check_operators(sql: &str) -> Result<(), Refusal> {
    // A text that has no tokens is for the parser to refuse.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else { return Ok(()) };
    let nests = |token: &&Token| match token {
        Token::Comma | Token::Number(..) | Token::SingleQuotedString(_) | Token::Whitespace(_) => false,
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        _ => true,
    };
    if tokens.iter().filter(nests).count() > MAX_OPERATORS {
        let message = format!("the question has more than {MAX_OPERATORS} operators and keywords");
        return Err(
            Refusal::new(Code::TooLarge, message).hint("nest less, use IN (…), or a computed column of the policy")
        );
    }
    Ok(())
}

fn statement(sql: &str) -> Result<Statement, Refusal> {
    let dialect = GenericDialect {};
    let parsed = DFParserBuilder::new(sql)
        .with_dialect(&dialect)
        .with_recursion_limit(MAX_DEPTH)
        .build()
        .and_then(|mut parser| parser.parse_statements());
    let mut statements = parsed.map_err(|error| planning_refusal(&error, sql))?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => Err(Refusal::new(Code::Syntax, "the question is empty").hint("write SELECT COUNT(*) FROM table")),
        (Some(_), false) => Err(Refusal::new(Code::Unsupported, "one question at a time")),
    }
}

/// Turns an error of the SQL front end into a refusal. It saw the text and the catalog, never a row.
fn planning_refusal(error: &DataFusionError, sql: &str) -> Refusal {
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| Place {
        start: (span.start.line, span.start.column),
        end: (span.end.line, span.end.column.saturating_sub(1)),
    });
    let root = error.find_root();
    let text = match root {
        DataFusionError::SQL(parser, _) => parser.to_string().replace("sql parser error: ", ""),
        DataFusionError::SchemaError(schema, _) => schema.to_string(),
        DataFusionError::Plan(text) | DataFusionError::NotImplemented(text) => text.clone(),
        other => other.strip_backtrace(),
    };
    let code = match root {
        DataFusionError::SQL(..) if text.contains("recursion") => Code::TooLarge,
        DataFusionError::SQL(..) => Code::Syntax,
        DataFusionError::SchemaError(..) => Code::UnknownColumn,
        _ if text.contains("Invalid function") => Code::UnknownFunction,
        _ if text.contains("table") && text.contains("not found") => Code::UnknownTable,
        _ if text.contains("GROUP BY") => Code::NotAggregated,
        _ => Code::Type,
    };
    if text.starts_with("Projections require unique expression names") {
        return Refusal::new(code, "two columns of the answer have one name").hint("name them apart: COUNT(*) AS n");
    }
    if text.contains("duplicate unqualified field name") {
        return Refusal::new(Code::Unsupported, "two aggregates differ in nothing but a CAST")
            .hint("ask two questions, or cast in a sub-query: FROM (SELECT unit, x, CAST(x AS BIGINT) AS y FROM t)");
    }
    if let Some(refusal) = not_numbers(&text).or_else(|| of_two_types(&text)).or_else(|| not_for(&text, sql)) {
        return refusal.at(place);
    }
    // The first line of the front end's message is a sentence; what follows repeats the plan.
    let sentence = text.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
    let mut refusal = Refusal::new(code, sentence).at(place.or_else(|| location(&text)));
    if let Some(help) = error.diagnostic().and_then(|diagnostic| diagnostic.helps.first()) {
        refusal = refusal.hint(help.message.clone());
    }
    if code == Code::NotAggregated {
        if let Some(column) = text.split_once("column \"").and_then(|(_, rest)| rest.split('"').next()) {
            refusal.message = format!("`{column}` is neither in GROUP BY nor in an aggregate");
        }
        refusal = refusal.hint("add it to GROUP BY, or ask for an aggregate of it, such as COUNT, AVG or MEDIAN");
    }
    if refusal.place.is_none() && code == Code::UnknownColumn {
        refusal.place = first_mention(&refusal.message, sql);
    }
    if let Some(text) = quoted_text(&refusal, sql) {
        refusal = refusal.hint(format!("double quotes are for names, single quotes for texts: '{text}'"));
    }
    refusal
}

/// What stands in double quotes where a column is missed: it may have been meant as a text.
fn quoted_text(refusal: &Refusal, sql: &str) -> Option<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().ok()?;
    let quoted = tokens.into_iter().filter_map(|token| match token {
        Token::Word(word) if word.quote_style == Some('"') => Some(word.value),
        _ => None,
    });
    (refusal.code == Code::UnknownColumn).then_some(())?;
    let named = |text: &String| refusal.message.split(['\'', '"', '`', ' ', '.']).any(|word| word == text);
    quoted.into_iter().find(|text| named(text) || refusal.message.contains(&format!("\"{text}\"")))
}

/// What the engine says of a function whose arguments have other types, in terms of what was written: it lists its own types.
fn not_for(text: &str, sql: &str) -> Option<Refusal> {
    let about =
        ["call to '", "argument types '", "Function '", "function '"].iter().find_map(|words| text.split_once(words));
    let internal = ["coerc", "No function matches", "signature"].iter().any(|word| text.contains(word));
    let (_, rest) = about.filter(|_| internal)?;
    let name = rest.split(['\'', '(']).next()?;
    let known = catalog::AGGREGATES.iter().chain(&catalog::SCALARS).find(|known| **known == name)?;
    let upper = known.to_ascii_uppercase();
    let refusal = Refusal::new(Code::Type, format!("`{upper}` does not take values of this type"));
    Some(
        refusal
            .hint("the policy says of which type a column is; CAST(x AS DOUBLE) makes numbers, and EXTRACT(YEAR FROM x) of dates")
            .at(call_of(known, sql)),
    )
}

/// Where a function is called in the text.
fn call_of(name: &str, sql: &str) -> Option<Place> {
    let lower = |line: &str| line.to_ascii_lowercase();
    let (index, at) =
        sql.lines().enumerate().find_map(|(index, line)| Some((index, lower(line).find(&format!("{name}("))?)))?;
    let column = sql.lines().nth(index)?[..at].chars().count() as u64 + 1;
    let line = index as u64 + 1;
    Some(Place { start: (line, column), end: (line, column + name.len() as u64 - 1) })
}

/// What the engine says of a clamp whose arguments are no numbers, in terms of what was written.
fn not_numbers(text: &str) -> Option<Refusal> {
    let about = text.contains(&format!("'{CLAMP}'")) || text.contains(&format!("{CLAMP}("));
    about.then(|| {
        Refusal::new(Code::Type, "bounds per row are three numbers: the value, the least and the greatest")
            .hint("write SUM(x, contribution_bounds_per_row => (0, 100)) with a column of numbers")
    })
}

/// What the engine says of two values that no operator takes together: it names its own types.
fn of_two_types(text: &str) -> Option<Refusal> {
    let about =
        text.contains("Cannot infer common argument type") || text.contains("Cannot coerce arithmetic expression");
    about.then(|| {
        Refusal::new(Code::Type, "values of two types are compared or combined")
            .hint("write a constant as its column has it, 4.2, 'text', '2026-11-30' or TRUE, or CAST one of them")
    })
}

/// Finds `Line: 1, Column: 8` in a parser's message.
fn location(text: &str) -> Option<Place> {
    let (_, rest) = text.split_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let start = (line.parse().ok()?, column.parse().ok()?);
    Some(Place { start, end: start })
}

/// Finds the word that a message names in the text.
fn first_mention(message: &str, sql: &str) -> Option<Place> {
    let name = message.split(['\'', '"', '`', ' ']).filter(|word| word.len() > 1).find(|word| sql.contains(*word))?;
    let (index, line) = sql.lines().enumerate().find(|(_, line)| line.contains(name))?;
    let column = line[..line.find(name)?].chars().count() as u64 + 1;
    let line = index as u64 + 1;
    Some(Place { start: (line, column), end: (line, column + name.chars().count() as u64 - 1) })
}
