//! `dither plan`: what a question costs, before it costs anything.

use std::fmt::Write;

use anyhow::Context;
use dither::{Defaults, Explanation, FilePreview, Preview, ReportPreview, Session};
use dither_report::{Window, visible};

use crate::args::Plan;
use crate::commands::{elsewhere, session};
use crate::output;

/// The longest file of questions.
const MAX_BYTES: u64 = 16 << 20;

/// Plans a question, or a file of them.
pub async fn run(command: &Plan) -> anyhow::Result<()> {
    let terms = &command.terms;
    let session = elsewhere(session(&terms.policy, terms.scope.as_deref())?, &command.elsewhere)?;
    let Some(sql) = &command.sql else {
        return all(command, &session).await;
    };
    let preview = session.plan(&terms.request(sql), terms.target_error).await?;
    let text = match command.json {
        true => serde_json::to_string_pretty(&preview)? + "\n",
        false => describe(&preview),
    };
    output::write(None, text.as_bytes())
}

/// Plans a file of questions.
async fn all(command: &Plan, session: &Session) -> anyhow::Result<()> {
    let terms = &command.terms;
    let path = command.file.as_deref().context("name a question or --file")?;
    if std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len() > MAX_BYTES {
        anyhow::bail!("{} is too long for a file of questions", path.display());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (epsilon, delta, target, sampling) = (terms.epsilon, terms.delta, terms.target_error, terms.sampling);
    let mechanism = terms.mechanism.into();
    let questions = dither::read_questions(&text, &Defaults { epsilon, delta, target, mechanism, sampling })?;
    let preview = session.plan_file(&questions).await?;
    let text = match command.json {
        true => serde_json::to_string_pretty(&preview)? + "\n",
        false => describe_all(&preview),
    };
    output::write(None, text.as_bytes())
}

fn describe_all(preview: &FilePreview) -> String {
    let mut text = String::new();
    for question in &preview.questions {
        let cost = dither::Amounts { epsilon: question.plan.epsilon, delta: question.plan.delta };
        let free = match (question.same_as, question.charged_before) {
            (_, true) if question.answered_before => ", free: it was answered before".into(),
            (_, true) => ", free: it was charged before and had no answer".into(),
            (Some(number), false) => format!(", free: it is question {number} again"),
            (None, false) => String::new(),
        };
        let _ = writeln!(text, "# {}\n{}", visible(&question.title), explain(&question.plan));
        let _ = writeln!(text, "cost       {}{free}\n", output::amounts(&cost));
    }
    let count = preview.questions.iter().filter(|question| question.same_as.is_none()).count();
    let different = if count < preview.questions.len() { " different" } else { "" };
    let _ = writeln!(text, "all {count}{different}, asked one by one    {}", output::amounts(&preview.apart));
    let _ = writeln!(text, "all {count}{different}, as one report       {}", output::amounts(&preview.together));
    let _ = writeln!(text, "left now   {}", output::amounts(&preview.remaining));
    let _ = match &preview.remaining_after {
        Some(after) => writeln!(text, "left then  {} if they are asked one by one", output::amounts(after)),
        None => writeln!(text, "left then  they do not fit one by one: the last ones would be refused"),
    };
    text
}

fn describe(preview: &Preview) -> String {
    let mut text = explain(&preview.plan);
    let cost = dither::Amounts { epsilon: preview.plan.epsilon, delta: preview.plan.delta };
    let _ = writeln!(text, "\ncost       {}", output::amounts(&cost));
    let _ = writeln!(text, "left now   {}", output::amounts(&preview.remaining));
    let (charged, answered) = (preview.charged_before, preview.answered_before);
    text + &output::left_then(preview.remaining_after.as_ref(), charged, answered, "answered")
}

/// The end of the plan of several questions that are charged as one: what they cost together, whom, and what is left then.
pub fn total(preview: &ReportPreview, what: &str, done: &str) -> String {
    let mut text = format!("the whole {what} costs {}\n", output::amounts(&preview.charged));
    for protected in &preview.protected {
        for window in &protected.windows {
            let Window { days, units: periods, loss } = window;
            let (epsilon, delta) = (loss.map(|loss| loss.epsilon), loss.map(|loss| loss.delta));
            let _ = writeln!(text, "a person   {}", person(*days, *periods, epsilon, delta));
        }
    }
    let _ = writeln!(text, "left now   {}", output::amounts(&preview.remaining));
    let (charged, answered) = (preview.charged_before, preview.answered_before);
    text + &output::left_then(preview.remaining_after.as_ref(), charged, answered, done)
}

/// A plan for people, without what is left.
pub fn explain(plan: &Explanation) -> String {
    let mut text = String::new();
    for column in &plan.outputs {
        let _ = writeln!(text, "{}", column.name);
        if column.name != column.measures {
            let _ = writeln!(text, "  measures        {}", column.measures);
        }
        let why = column.why.unwrap_or(plan.why.as_str());
        let _ = writeln!(text, "  mechanism       {}, {why}", column.mechanism);
        let _ = writeln!(
            text,
            "  sensitivity     l1 {}, l2 {} ({})",
            number(column.l1_sensitivity),
            number(column.l2_sensitivity),
            column.bounds
        );
        let _ = writeln!(text, "  share           ε {}", number(column.epsilon));
        if let Some(share) = column.sampling {
            let what = if share == 0.0 { "nothing more is measured for it" } else { "for how far samples differ" };
            let _ = writeln!(text, "  sampling        ε {}, {what}", number(share));
        }
        let whose = column.noise_of.map_or(String::new(), |what| format!(", of {what}"));
        let _ = writeln!(text, "  noise scale     {}{whose}", number(column.noise_scale));
        let unknown = column.expected_error.is_none() && column.rank_error.is_none();
        let error = match (column.expected_error, column.expected_error_percent, column.rank_error) {
            (Some(error), Some(percent), _) => format!("± {} ({} %)", number(error), number(percent)),
            (Some(error), None, _) => format!("± {}", number(error)),
            (None, _, Some(rows)) => {
                let percent = column.rank_error_percent.map(|percent| format!(" ({} %)", number(percent)));
                format!("rank ± {} rows{}", number(rows.ceil()), percent.unwrap_or_default())
            }
            (None, _, None) => "unknown".into(),
        };
        let cases = if unknown { "" } else { " in 95 of 100 cases" };
        let assumption = column.assumption.as_ref().map_or(String::new(), |text| format!("; {text}"));
        let _ = writeln!(text, "  expected error  {error}{cases}{assumption}");
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "\nwarning    {}", visible(warning));
    }
    let _ = writeln!(text, "\nprotects   {}", plan.protects);
    for window in &plan.windows {
        let _ = writeln!(text, "a person   {}", person(window.days, window.periods, window.epsilon, window.delta));
    }
    let _ = writeln!(text, "groups     {}", plan.keys);
    let accountants = &plan.accountants;
    let each = [("basic", accountants.basic), ("zCDP", accountants.zcdp), ("RDP", accountants.rdp)];
    let each = each.map(|(name, epsilon)| format!("{name} {}", epsilon.map_or("–".into(), number)));
    let _ = writeln!(text, "worth      ε under {} at δ {:e}", each.join(", "), accountants.delta);
    text
}

/// What a plan says of a whole person whose rows lie within some days.
fn person(days: u32, periods: u32, epsilon: Option<f64>, delta: Option<f64>) -> String {
    let loss = match (epsilon, delta) {
        (Some(epsilon), Some(delta)) => {
            let delta = if delta == 0.0 { String::new() } else { format!(", δ {:.1e}", up(delta, 2)) };
            format!("ε {}{delta}", number(up(epsilon, 5)))
        }
        _ => "no guarantee".into(),
    };
    format!("with rows of any {days} days in a row, up to {periods} units: {loss}")
}

/// A number above zero with so many significant digits, rounded up. What is one of them but for its last bits stays.
fn up(value: f64, digits: i32) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() + 1.0 - f64::from(digits));
    (value / unit * (1.0 - 1e-12)).ceil() * unit
}

/// Five significant digits, without trailing zeros.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = (4 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
