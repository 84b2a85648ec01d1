//! `dither profile`: a first look at a table, for one charge.

use std::fmt::Write;

use dither::{Budget, ColumnProfile, Delta, Estimate, Key, Profile, ProfileSpec, ReportPreview};
use dither_report::{Decimals, grouped, visible};

use crate::args;
use crate::commands::{placed, plan, session};
use crate::{output, progress};

/// Plans or makes a profile.
pub async fn run(command: &args::Profile) -> anyhow::Result<()> {
    let session = placed(session(&command.policy, command.scope.as_deref())?, &command.place)?;
    let delta = command.delta.or(session.policy().budget.delta_per_query).unwrap_or(Delta::ZERO);
    let spec = ProfileSpec {
        table: command.table.clone(),
        columns: command.columns.clone(),
        budget: Budget { epsilon: command.epsilon, delta },
        top: command.top,
    };
    if command.plan {
        let preview = session.preview_profile(&spec).await?;
        let rows = session.policy().tables.get(&command.table).and_then(|table| table.public.rows);
        return output::write(None, planned(&preview, rows).as_bytes());
    }
    let profile = progress::shown(session.progress(), session.profile(&spec)).await?;
    let text = match command.json {
        true => serde_json::to_string_pretty(&profile)? + "\n",
        false => describe(&profile, delta.is_zero()),
    };
    output::write(None, text.as_bytes())
}

/// Each part with its share and what it will be worth.
fn planned(preview: &ReportPreview, rows: Option<u64>) -> String {
    let mut text = String::new();
    for (title, explanation) in &preview.questions {
        let share = plan::number(explanation.epsilon);
        let delta = if explanation.delta > 0.0 { format!(", δ {:e}", explanation.delta) } else { String::new() };
        let _ = writeln!(text, "{}\n  share     ε {share}{delta}", visible(title));
        let mut errors: Vec<String> = Vec::new();
        let expected = explanation.outputs.iter().filter_map(|output| output.expected_error);
        errors.extend(expected.map(|error| format!("± {}", plan::number(error))));
        errors.dedup();
        // Of several quantiles the one that is hardest to choose.
        let ranks = explanation.outputs.iter().filter_map(|output| output.rank_error).reduce(f64::max);
        errors.extend(ranks.map(|off| format!("± {} rows of rank", plan::number(off.ceil()))));
        let little = ranks.zip(rows).is_some_and(|(off, rows)| off > rows as f64 / 4.0);
        let words =
            if little { ": too many to tell range and quartiles; use a larger ε or fewer --columns" } else { "" };
        let _ = writeln!(text, "  expected  {} in 95 of 100 cases{words}", errors.join(", "));
        if explanation.keys != "no groups" {
            let _ = writeln!(text, "  groups    {}", explanation.keys);
        }
    }
    if let Some((_, first)) = preview.questions.first() {
        let _ = writeln!(text, "\nprotects   {}", first.protects);
    }
    text + &plan::total(preview, "profile", "made")
}

fn describe(profile: &Profile, no_delta: bool) -> String {
    let mut text = format!("{}: {} rows", visible(&profile.table), estimate(profile.rows));
    if let Some(units) = profile.units {
        let _ = write!(text, ", {} units", estimate(units));
    }
    text.push('\n');
    for column in &profile.columns {
        text += &described(column);
    }
    let missing = profile.columns.iter().any(|column| column.top.is_none() && column.r#type.name() == "text");
    if no_delta && missing {
        text += "\nfrequent values that are not declared come from the data: add --delta to see them\n";
    }
    let untold = profile.columns.iter().any(|column| column.rank_error.is_some() && column.quantiles.is_none());
    let bounds = match profile.suggestion.contains("bounds = [") {
        true => " Bounds are rounded outwards; edit them freely.",
        false if untold => " No bounds are suggested: where values lie cannot be told at this ε.",
        false => "",
    };
    let _ = write!(text, "\n# A part of a policy that suits this.{bounds}\n");
    text += &profile.suggestion;
    let charged = output::charge(&profile.charged, "made", profile.first_answered, profile.first_charged);
    let (left, receipt) = (output::amounts(&profile.remaining), &profile.receipt);
    let _ = writeln!(text, "\n{charged} · left {left} · receipt {receipt}");
    text
}

fn described(column: &ColumnProfile) -> String {
    let mut text = format!("\n{} ({})\n", visible(&column.name), column.r#type.name());
    let different = match column.distinct.value {
        Some(_) => format!(", {} different", estimate(column.distinct)),
        None => String::new(),
    };
    let _ = writeln!(text, "  values     {}{different}", estimate(column.values));
    if let Some(quantiles) = &column.quantiles {
        let [least, first, median, third, greatest] = quantiles.each_ref().map(shown);
        let rows = column.rank_error.map_or(String::new(), |rows| format!(" (ranks ± {})", plan::number(rows.ceil())));
        let _ = writeln!(text, "  range      {least} to {greatest}");
        let _ = writeln!(text, "  quartiles  {first}, {median}, {third}{rows}");
    } else if let Some(rows) = column.rank_error {
        let rows = grouped(&plan::number(rows.ceil()));
        let enough = match column.needed_epsilon {
            Some(epsilon) => format!("about ε {} for the whole profile", plan::number(epsilon)),
            None => "a much larger ε".into(),
        };
        let _ = writeln!(text, "  quartiles  cannot be told at this ε: ranks are off by {rows} rows");
        let _ = writeln!(text, "             {enough} would do, or fewer --columns");
    }
    if let Some(top) = &column.top {
        let told: Vec<&(Key, Estimate)> = top.iter().filter(|(_, count)| !is_noise(*count)).collect();
        let frequent = told.iter().map(|(key, count)| format!("{} {}", shown(key), estimate(*count)));
        let frequent = frequent.collect::<Vec<_>>().join("; ");
        let untold = match top.len() - told.len() {
            0 if top.is_empty() => "no value reached the threshold".into(),
            0 => String::new(),
            _ if told.is_empty() => "cannot be told from the noise at this ε".into(),
            few => format!("; {few} more cannot be told from the noise"),
        };
        let _ = writeln!(text, "  frequent   {frequent}{untold}");
    }
    text
}

/// Whether a count may be none at all: its noise is all that is known of it.
fn is_noise(count: Estimate) -> bool {
    count.low.is_some_and(|low| low <= 0.0) && count.high.is_some_and(|high| high > 0.0)
}

/// A count with its error; of one that may be none only how many there are at most.
fn estimate(estimate: Estimate) -> String {
    if let (true, Some(high)) = (is_noise(estimate), estimate.high) {
        return format!("at most {}", grouped(&plan::number(high.ceil())));
    }
    let decimals = Decimals::of(std::iter::once(estimate));
    let error = decimals.error(estimate).map_or(String::new(), |error| format!(" {error}"));
    decimals.number(estimate.value) + &error
}

fn shown(key: &Key) -> String {
    match key {
        Key::Number(value) => plan::number(*value),
        other => visible(&other.to_string()),
    }
}
