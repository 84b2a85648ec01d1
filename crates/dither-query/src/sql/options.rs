//! The clause `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-10, …)`.
//!
//! The dialect is GoogleSQL's. The clause is read and then blanked with spaces, so that positions in the text stay
//! what they were for every later message.

use std::num::NonZeroU32;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};
use dither_core::{Delta, Epsilon};

use crate::error::{Code, Place, Refusal};

/// What the clause asked for. Everything in it can also be asked for outside the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SqlOptions {
    /// ε of the whole question.
    pub epsilon: Option<Epsilon>,
    /// δ of the whole question.
    pub delta: Option<Delta>,
    /// The number of groups of a unit, instead of the policy's. The noise follows, so any number is safe.
    pub max_groups_per_unit: Option<NonZeroU32>,
    /// The number of rows of a unit in a group, instead of the policy's.
    pub max_rows_per_group: Option<NonZeroU32>,
    /// The privacy unit; it must be the one of the policy.
    pub privacy_unit_column: Option<String>,
    /// Whether keys from the data are refused (`group_selection_strategy = PUBLIC_GROUPS`).
    pub public_groups: bool,
    /// Whether keys from the data are selected by Laplace noise (`group_selection_strategy = LAPLACE_THRESHOLD`).
    pub laplace_threshold: bool,
    /// How many units a key from the data needs at least. The policy may ask for more.
    pub min_units: Option<NonZeroU32>,
    /// Whether intervals for sampling are asked for, and paid for.
    pub sampling: bool,
}

const KNOWN: [&str; 8] = [
    "epsilon",
    "delta",
    "max_groups_contributed",
    "max_rows_contributed_per_group",
    "privacy_unit_column",
    "group_selection_strategy",
    "min_units",
    "sampling",
];

/// Splits the clause off.
///
/// ```
/// let (options, rest) = dither_query::sql::options::take(
///     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5) COUNT(*) FROM t",
/// )?;
/// assert_eq!(options.epsilon.unwrap().to_string(), "0.5");
/// assert_eq!(rest.split_whitespace().collect::<Vec<_>>().join(" "), "SELECT COUNT(*) FROM t");
/// # Ok::<(), dither_query::Refusal>(())
/// ```
///
/// # Errors
/// A [`Refusal`] for a clause that is not complete, an option that is unknown, and a value that does not fit.
pub fn take(sql: &str) -> Result<(SqlOptions, String), Refusal> {
    // A text that has no tokens is for the parser to refuse.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location() else {
        return Ok((SqlOptions::default(), sql.to_owned()));
    };
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(&token.token)).collect();
    let is = |index: usize, word: &str| words.get(index).is_some_and(|token| names(&token.token, word));
    if !(is(0, "SELECT") && is(1, "WITH") && is(2, "DIFFERENTIAL_PRIVACY")) {
        return Ok((SqlOptions::default(), sql.to_owned()));
    }
    let clause = place(words[1], words[2]);
    let unfinished = || {
        Refusal::new(Code::Syntax, "the clause DIFFERENTIAL_PRIVACY has no complete OPTIONS (…)")
            .hint("write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) …")
            .at(Some(clause))
    };
    if !is(3, "OPTIONS") || words.get(4).map(|token| &token.token) != Some(&Token::LParen) {
        return Err(unfinished());
    }
    let close = words.iter().position(|token| token.token == Token::RParen).ok_or_else(unfinished)?;
    let mut options = SqlOptions::default();
    for assignment in words[5..close].split(|token| token.token == Token::Comma).filter(|part| !part.is_empty()) {
        assign(&mut options, assignment)?;
    }
    Ok((options, blank(sql, words[1].span.start, words[close].span.end)))
}

fn is_blank(token: &Token) -> bool {
    matches!(
        token,
        Token::Whitespace(
            Whitespace::Space
                | Whitespace::Newline
                | Whitespace::Tab
                | Whitespace::SingleLineComment { .. }
                | Whitespace::MultiLineComment(_)
        ) | Token::EOF
    )
}

fn names(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn place(first: &TokenWithSpan, last: &TokenWithSpan) -> Place {
    let end = last.span.end;
    Place { start: (first.span.start.line, first.span.start.column), end: (end.line, end.column.saturating_sub(1)) }
}

fn assign(options: &mut SqlOptions, assignment: &[&TokenWithSpan]) -> Result<(), Refusal> {
    let whole = place(assignment[0], assignment[assignment.len() - 1]);
    let odd = |message: String| Refusal::new(Code::Option, message).at(Some(whole));
    let [name, equals, value] = assignment else {
        return Err(odd("an option is a name, `=` and a value".into()));
    };
    let Token::Word(name) = &name.token else {
        return Err(odd("an option begins with its name".into()));
    };
    if equals.token != Token::Eq {
        return Err(odd(format!("`{}` needs `=` and a value", name.value)));
    }
    let text = match &value.token {
        Token::Number(text, _) => text.clone(),
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(text) => text.clone(),
        other => return Err(odd(format!("`{other}` is not the value of an option"))),
    };
    let count = |text: &str| {
        text.parse::<NonZeroU32>().map_err(|_| odd(format!("`{}` must be a whole number from 1 on", name.value)))
    };
    match name.value.to_ascii_lowercase().as_str() {
        "epsilon" => options.epsilon = Some(text.parse().map_err(|error| odd(format!("{error}")))?),
        "delta" => options.delta = Some(text.parse().map_err(|error| odd(format!("{error}")))?),
        "max_groups_contributed" => options.max_groups_per_unit = Some(count(&text)?),
        "max_rows_contributed_per_group" => options.max_rows_per_group = Some(count(&text)?),
        "privacy_unit_column" => options.privacy_unit_column = Some(text),
        "min_units" => options.min_units = Some(count(&text)?),
        "sampling" => match text.to_ascii_lowercase().as_str() {
            "true" => options.sampling = true,
            "false" => options.sampling = false,
            _ => return Err(odd("`sampling` is true or false".into())),
        },
        "group_selection_strategy" if text == "LAPLACE_THRESHOLD" => {
            (options.public_groups, options.laplace_threshold) = (false, true);
        }
        "group_selection_strategy" if text == "PUBLIC_GROUPS" => {
            (options.public_groups, options.laplace_threshold) = (true, false);
        }
        "group_selection_strategy" => {
            return Err(odd(format!("`{text}` is not a strategy")).hint("LAPLACE_THRESHOLD or PUBLIC_GROUPS"));
        }
        unknown => {
            let nearest = KNOWN
                .iter()
                .max_by(|a, b| strsim::jaro_winkler(a, unknown).total_cmp(&strsim::jaro_winkler(b, unknown)));
            let hint = format!("did you mean `{}`?", nearest.unwrap_or(&"epsilon"));
            return Err(odd(format!("there is no option `{unknown}`")).hint(hint));
        }
    }
    Ok(())
}

/// Replaces everything from one location to another with spaces; line breaks stay.
fn blank(sql: &str, from: Location, to: Location) -> String {
    let (mut line, mut column) = (1, 1);
    sql.chars()
        .map(|character| {
            let here = (line, column);
            if character == '\n' {
                (line, column) = (line + 1, 1);
                return character;
            }
            column += 1;
            if here >= (from.line, from.column) && here < (to.line, to.column) { ' ' } else { character }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(sql: &str) -> Refusal {
        take(sql).expect_err("the clause was accepted")
    }

    #[test]
    fn the_clause_is_read_and_positions_stay() {
        let sql = "SELECT WITH DIFFERENTIAL_PRIVACY\n OPTIONS(epsilon=1, delta=1e-10, max_groups_contributed=3,\n \
                   privacy_unit_column=visitor_id) hour, COUNT(*) FROM visits GROUP BY hour";
        let (options, rest) = take(sql).unwrap();
        assert_eq!(options.delta.unwrap().to_string(), "1e-10");
        assert_eq!(options.max_groups_per_unit.unwrap().get(), 3);
        assert_eq!(options.privacy_unit_column.as_deref(), Some("visitor_id"));
        assert_eq!(rest.find("COUNT"), sql.find("COUNT"));
    }

    #[test]
    fn bg_01_odd_amounts_in_the_clause_are_refused() {
        for value in ["0", "-1", "NaN", "inf", "'0x1p3'", "null", "true", "1e-12", "1e400", "''"] {
            let refusal =
                refusal(&format!("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={value}) COUNT(*) FROM t"));
            assert_eq!(refusal.code, Code::Option, "{value}");
        }
    }

    #[test]
    fn fp_12_a_seed_is_not_an_option() {
        for name in ["seed", "random_seed", "random_state"] {
            let refusal = refusal(&format!("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({name}=42) COUNT(*) FROM t"));
            assert_eq!(refusal.code, Code::Option);
        }
    }

    #[test]
    fn an_unfinished_clause_is_refused() {
        for sql in
            ["SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon"]
        {
            assert_eq!(refusal(sql).code, Code::Syntax);
        }
    }
}
