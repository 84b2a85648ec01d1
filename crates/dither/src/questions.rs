//! Several questions in one file, planned together before any of them is asked.

use std::ops::Range;

use dither_accounting::Cost;
use dither_core::{Delta, Epsilon, RequestId};
use dither_query::Refusal;
use dither_query::error::Code;
use dither_query::explain::{Explanation, TargetError};
use dither_query::plan::{MechanismChoice, QueryPlan, Request};
use serde::Serialize;

use crate::error::Error;
use crate::report::compose;
use crate::session::{Ahead, Amounts, Session};

/// The most questions of a file.
const MAX_QUESTIONS: usize = 1_000;

/// One question of a file, with what its comments say.
#[derive(Debug, Clone, PartialEq)]
pub struct FileQuestion {
    /// Its title, or `question 3`.
    pub title: String,
    /// What is asked, and how.
    pub request: Request,
    /// The error to aim at instead of an ε.
    pub target: Option<TargetError>,
    /// The line of the file on which it begins, from 1.
    pub line: usize,
}

/// What holds for every question of a file that says nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Defaults {
    /// ε of one question.
    pub epsilon: Option<Epsilon>,
    /// δ of one question.
    pub delta: Option<Delta>,
    /// The error to aim at instead of an ε.
    pub target: Option<TargetError>,
    /// Which noise.
    pub mechanism: MechanismChoice,
    /// Whether intervals for sampling are asked for.
    pub sampling: bool,
}

/// A file of questions before anything is spent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FilePreview {
    /// The questions, in order.
    pub questions: Vec<PlannedQuestion>,
    /// What they cost if each is asked by itself: each once, without those that were charged before.
    pub apart: Amounts,
    /// What all different ones would cost as one report, composed as tightly as is known.
    pub together: Amounts,
    /// What is left now.
    pub remaining: Amounts,
    /// What is left after each was asked by itself; `None` if that does not fit.
    pub remaining_after: Option<Amounts>,
}

/// One question of a file, planned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedQuestion {
    /// Its title.
    pub title: String,
    /// The question.
    pub sql: String,
    /// What it costs and how well it will be answered.
    pub plan: Explanation,
    /// The number, from 1, of the same question above it, with which it is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<usize>,
    /// Whether it was charged before, so that asking again is free. It may have failed then.
    pub charged_before: bool,
    /// Whether it was answered before as well.
    pub answered_before: bool,
}

/// Reads a file of questions.
///
/// Questions end with `;`. Comments in front of a question may say `-- @title …`, `-- @epsilon 0.5`, `-- @delta 1e-6`,
/// `-- @target-error 2%`, `-- @mechanism laplace` and `-- @sampling`, each once.
///
/// ```
/// use dither::{Defaults, read_questions};
/// let text = "-- @title Visits\n-- @epsilon 0.5\nSELECT COUNT(*) FROM visits;\n\nSELECT AVG(age) FROM visits -- all; of them\n;";
/// let questions = read_questions(text, &Defaults::default())?;
/// assert_eq!(questions[0].title, "Visits");
/// assert_eq!(questions[1].request.sql, "SELECT AVG(age) FROM visits -- all; of them");
/// # Ok::<(), dither::Error>(())
/// ```
///
/// # Errors
/// A file without a question, a setting that is unknown or stands twice, and values that are none.
pub fn read_questions(text: &str, defaults: &Defaults) -> Result<Vec<FileQuestion>, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let statements = split(text);
    if statements.is_empty() || statements.len() > MAX_QUESTIONS {
        let message = format!("the file has {} questions, not 1 to {MAX_QUESTIONS}", statements.len());
        return Err(Error::refused(Refusal::new(Code::Syntax, message).hint("write SELECT … ; for each"), ""));
    }
    statements.into_iter().enumerate().map(|(index, part)| read(text, part, index + 1, defaults)).collect()
}

/// Cuts a text at the semicolons that are neither in quotes nor in comments: the bytes of each part that asks something.
fn split(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let skipped = match bytes[at] {
            quote @ (b'\'' | b'"') => rest[1..].find(char::from(quote)).map(|end| end + 2),
            b'-' if rest.starts_with("--") => rest.find('\n').map(|end| end + 1),
            b'/' if rest.starts_with("/*") => rest[2..].find("*/").map(|end| end + 4),
            b';' => {
                parts.push(start..at);
                start = at + 1;
                Some(1)
            }
            _ => Some(rest.chars().next().map_or(1, char::len_utf8)),
        };
        // What does not end goes on to the end of the text.
        at = skipped.map_or(bytes.len(), |skipped| at + skipped);
    }
    parts.push(start..bytes.len());
    parts.retain(|part| !statement(&text[part.clone()]).is_empty());
    parts
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// A question without the comments in front of it, and the spaces around both.
fn statement(part: &str) -> &str {
    let mut rest = part.trim();
    loop {
        let end = match () {
            () if rest.starts_with("--") => rest.find('\n').map_or(rest.len(), |end| end + 1),
            () if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            () => return rest,
        };
        rest = rest[end..].trim_start();
    }
}

fn read(text: &str, part: Range<usize>, number: usize, defaults: &Defaults) -> Result<FileQuestion, Error> {
    let start = part.start;
    let part = text[part].trim_end();
    let sql = statement(part);
    let begin = part.len() - sql.len();
    let line = line_of(text, start + begin);
    let refused = |message: String| {
        let hint =
            "@title, @epsilon, @delta, @target-error, @mechanism and @sampling may stand in front of it, each once";
        Error::refused(Refusal::new(Code::Option, message).hint(hint), "").in_file(number, line)
    };
    let mut asked = FileQuestion {
        title: format!("question {number}"),
        request: Request {
            sql: sql.to_owned(),
            epsilon: None,
            delta: None,
            mechanism: defaults.mechanism,
            sampling: defaults.sampling,
        },
        target: None,
        line,
    };
    let mut seen: Vec<&str> = Vec::new();
    let comments = part[..begin].lines().filter_map(|line| line.trim().strip_prefix("--"));
    for setting in comments.filter_map(|comment| comment.trim().strip_prefix('@')) {
        let (name, value) = setting.split_once(char::is_whitespace).unwrap_or((setting, ""));
        let (name, value) = (name.trim_end_matches(':'), value.trim());
        if seen.contains(&name) {
            return Err(refused(format!("`@{name}` stands twice")));
        }
        seen.push(name);
        match name {
            "title" if !value.is_empty() => value.clone_into(&mut asked.title),
            "epsilon" => asked.request.epsilon = Some(value.parse().map_err(|error| refused(format!("{error}")))?),
            "delta" => asked.request.delta = Some(value.parse().map_err(|error| refused(format!("{error}")))?),
            "target-error" => {
                asked.target = Some(value.parse().map_err(|refusal: Refusal| refused(refusal.message))?);
            }
            "mechanism" => {
                asked.request.mechanism = mechanism(value).ok_or_else(|| refused(format!("`{value}` is no noise")))?
            }
            "sampling" if value.is_empty() => asked.request.sampling = true,
            _ => return Err(refused(format!("`@{setting}` is no setting"))),
        }
    }
    if asked.request.epsilon.is_some() && asked.target.is_some() {
        return Err(refused("it has an epsilon and a target error".into()));
    }
    if asked.request.epsilon.is_none() && asked.target.is_none() {
        asked.target = defaults.target;
        asked.request.epsilon = defaults.epsilon.filter(|_| defaults.target.is_none());
    }
    asked.request.delta = asked.request.delta.or(defaults.delta);
    Ok(asked)
}

fn mechanism(word: &str) -> Option<MechanismChoice> {
    match word {
        "auto" => Some(MechanismChoice::Auto),
        "laplace" => Some(MechanismChoice::Laplace),
        "gaussian" => Some(MechanismChoice::Gaussian),
        _ => None,
    }
}

impl Session {
    /// Plans several questions: what each costs, what all cost one by one and as one report, and what is left then.
    ///
    /// # Errors
    /// As [`Session::plan`], for the first question that is refused.
    ///
    /// # Privacy
    /// Charges nothing, reads no row of a table of people.
    pub async fn plan_file(&self, questions: &[FileQuestion]) -> Result<FilePreview, Error> {
        let (mut planned, mut plans) = (Vec::<PlannedQuestion>::new(), Vec::<QueryPlan>::new());
        let mut requests: Vec<(RequestId, Cost)> = Vec::new();
        for (index, question) in questions.iter().enumerate() {
            let one = async { self.priced(&question.request, question.target).await?.explained().await };
            let (plan, cost, explanation) = one.await.map_err(|error| error.in_file(index + 1, question.line))?;
            let id = self.request_id(std::slice::from_ref(&plan), plan.delta);
            let same_as = requests.iter().position(|(other, _)| *other == id).map(|index| index + 1);
            requests.push((id, cost));
            planned.push(PlannedQuestion {
                title: question.title.clone(),
                sql: question.request.sql.clone(),
                plan: explanation,
                same_as,
                charged_before: false,
                answered_before: false,
            });
            // What stands twice in a file is charged once, also as a report.
            if same_as.is_none() {
                plans.push(plan);
            }
        }
        let deltas = plans.iter().map(|plan| plan.delta.attos()).fold(0_u64, u64::saturating_add);
        let delta = Delta::from_attos(deltas)?;
        let together = compose(&plans, delta).map_err(|refusal| Error::refused(refusal, ""))?;
        let Ahead { remaining, remaining_after, known, costs } = self.ahead(&requests).await?;
        for (question, known) in planned.iter_mut().zip(known) {
            (question.charged_before, question.answered_before) = (known.charged, known.answered);
        }
        let (apart, together) = (Amounts::sum(&costs), Amounts::from(&together));
        Ok(FilePreview { questions: planned, apart, together, remaining, remaining_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<FileQuestion>, Error> {
        read_questions(text, &Defaults { epsilon: "1".parse().ok(), ..Defaults::default() })
    }

    #[test]
    fn sq_31_semicolons_in_quotes_and_comments_end_nothing() {
        let text = "-- a; b\nSELECT COUNT(*) FROM t WHERE w = 'x;''y' AND \"a;b\" = 1; /* c; d */ SELECT 2 -- e;\n;;\n-- only a word;\n";
        let sql: Vec<String> = read(text).unwrap().into_iter().map(|asked| asked.request.sql).collect();
        assert_eq!(sql, ["SELECT COUNT(*) FROM t WHERE w = 'x;''y' AND \"a;b\" = 1", "SELECT 2 -- e;"]);
        // What is left open reaches to the end and is for the parser to refuse.
        assert_eq!(read("/*/ SELECT 1; */ SELECT 2").unwrap()[0].request.sql, "SELECT 2");
        assert_eq!(read("SELECT 'a; SELECT 1;").unwrap().len(), 1);
        assert_eq!(read("SELECT 1 /* a; SELECT 1;").unwrap().len(), 1);
    }

    #[test]
    fn settings_are_those_of_their_question() {
        let asked = read(
            "-- @title: Ages\n-- @target-error 2%\n-- @mechanism laplace\nSELECT 1;\n-- @epsilon 0.25\n-- @delta 1e-6\nSELECT 2;\nSELECT 3",
        )
        .unwrap();
        assert_eq!(asked[0].title, "Ages");
        assert_eq!((asked[0].target, asked[0].request.epsilon), (Some(TargetError::Percent(2.0)), None));
        assert_eq!(asked[0].request.mechanism, MechanismChoice::Laplace);
        assert_eq!(asked[1].request.epsilon.unwrap().to_string(), "0.25");
        assert_eq!(
            (asked[2].title.as_str(), asked[2].request.epsilon.unwrap().to_string().as_str()),
            ("question 3", "1")
        );
    }

    #[test]
    fn bg_01_odd_settings_are_refused() {
        for text in [
            "",
            " ; -- nothing",
            "-- @espilon 1\nSELECT 1",
            "-- @epsilon -1\nSELECT 1",
            "-- @epsilon nan\nSELECT 1",
            "-- @epsilon\nSELECT 1",
            "-- @epsilon 1\n-- @epsilon 2\nSELECT 1",
            "-- @epsilon 1\n-- @target-error 2\nSELECT 1",
            "-- @target-error 0\nSELECT 1",
            "-- @mechanism none\nSELECT 1",
            "-- @title\nSELECT 1",
            "-- @sampling maybe\nSELECT 1",
        ] {
            assert!(matches!(read(text), Err(Error::Refused { .. })), "{text:?}");
        }
        assert!(read(&"SELECT 1;".repeat(MAX_QUESTIONS + 1)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,80}", more in "[-;'\"/*@ \n a-z€]{0,40}") {
            let _ = read(&text);
            let _ = read(&more);
        }
    }
}
