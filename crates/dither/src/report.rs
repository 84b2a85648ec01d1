//! Reports: several questions under one budget, planned, charged and published together.

mod allot;
mod privacy;
mod spec;

use std::collections::BTreeMap;

use dither_accounting::Cost;
use dither_core::{Answer, Delta, Mechanism, PrivacyEvent};
use dither_mechanisms::{KeyRule, PlanMechanism};
use dither_query::Refusal;
use dither_query::error::Code;
use dither_query::explain::{Accountants, Explanation};
use dither_query::plan::{QueryPlan, shape};
use dither_query::release::{answer, columns, found_bounds};
use dither_report::{
    BudgetLine, Certificate, Document, EventLine, Guarantee, Label, Loss, Noise, NoiseKind, Protected, Section, Share,
    Step, StepError, Version, postprocess,
};
use serde::Serialize;

use crate::error::Error;
use crate::session::{Ahead, Amounts, Asked, Known, Released, Session, Settled};

use allot::allot;
pub(crate) use allot::compose;
pub use spec::{Question, ReportSpec};

/// A published report.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The report.
    pub document: Document,
    /// The certificate.
    pub certificate: Certificate,
    /// What the whole was charged.
    pub charged: Amounts,
    /// What is left.
    pub remaining: Amounts,
    /// Whether it had been published before, so that nothing was charged now.
    pub repeated: bool,
    /// When it was published first, in seconds since 1970, if it is repeated. Information only.
    pub first_published: Option<i64>,
    /// When it was charged, in seconds since 1970, if that was before, so that nothing was charged now. Information only.
    pub first_charged: Option<i64>,
}

/// A report whose questions have their shares and prices: nothing is charged, no row is read.
///
/// It belongs to the session whose policy it was priced against: under another one it could cost too little.
pub struct PricedReport<'a> {
    session: &'a Session,
    spec: &'a ReportSpec,
    plans: Vec<QueryPlan>,
}

/// A plan of a report in words and numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportPreview {
    /// One explanation for each question.
    pub questions: Vec<(String, Explanation)>,
    /// What is protected in which tables, and what the whole costs a person who may be several units.
    pub protected: Vec<Protected>,
    /// What the whole will be charged.
    pub charged: Amounts,
    /// What is left now.
    pub remaining: Amounts,
    /// What is left afterwards: the same if it was charged before; `None` if it does not fit.
    pub remaining_after: Option<Amounts>,
    /// Whether it was charged before, so that asking again is free. It may have failed then.
    pub charged_before: bool,
    /// Whether it was answered before as well.
    pub answered_before: bool,
}

impl Session {
    /// Prices a report: every question gets its share of the budget, none of which is too large or looks for bounds in vain.
    ///
    /// # Errors
    /// A question that is refused, a budget that cannot reach the target errors.
    ///
    /// # Privacy
    /// Charges nothing, reads no row.
    pub async fn priced_report<'a>(&'a self, spec: &'a ReportSpec) -> Result<PricedReport<'a>, Error> {
        let mut shapes = Vec::new();
        for question in &spec.questions {
            let refused = |refusal| Error::refused(refusal, &question.sql);
            let (shape, options) = shape(&question.sql, self.policy()).await.map_err(refused)?;
            if options.epsilon.is_some() || options.delta.is_some() {
                return Err(refused(
                    Refusal::new(Code::Option, "a question of a report has no epsilon or delta of its own")
                        .hint("use `weight` or `target_error`"),
                ));
            }
            shapes.push(if question.sampling { shape.with_sampling().map_err(refused)? } else { shape });
        }
        let plans = allot(spec, &shapes)?;
        self.check_cap(spec, &plans)?;
        for (question, plan) in spec.questions.iter().zip(&plans) {
            plan.check_found().map_err(|refusal| Error::refused(refusal, &question.sql))?;
        }
        Ok(PricedReport { session: self, spec, plans })
    }

    /// Charges a report as one event, answers its questions, and makes the document and the certificate.
    ///
    /// # Errors
    /// As [`Session::priced_report`] and [`PricedReport::publish`].
    ///
    /// # Privacy
    /// As [`PricedReport::publish`].
    pub async fn report(&self, spec: &ReportSpec, generated: &str) -> Result<Published, Error> {
        self.priced_report(spec).await?.publish(generated).await
    }

    /// No question of a report may use more than the policy allows one question.
    fn check_cap(&self, spec: &ReportSpec, plans: &[QueryPlan]) -> Result<(), Error> {
        let Some(cap) = self.policy().budget.max_epsilon_per_query else { return Ok(()) };
        for (question, plan) in spec.questions.iter().zip(plans) {
            let cost = plan.cost().map_err(|refusal| Error::refused(refusal, &question.sql))?;
            if cost.epsilon_nanos > cap.nanos() {
                let share = Amounts::from(&cost).epsilon;
                let message =
                    format!("`{}` would use epsilon {share}, more than one question may use, {cap}", question.id);
                let refusal =
                    Refusal::new(Code::EpsilonOverCap, message).hint("lower its weight or the budget of the report");
                return Err(Error::refused(refusal, &question.sql));
            }
        }
        Ok(())
    }

    /// The explained questions of one charge with what it finds in the ledger.
    pub(crate) async fn previewed(
        &self,
        questions: Vec<(String, Explanation)>,
        plans: &[QueryPlan],
        cost: &Cost,
        delta: Delta,
    ) -> Result<ReportPreview, Error> {
        let Ahead { remaining, remaining_after, known, .. } =
            self.ahead(&[(self.request_id(plans, delta), *cost)]).await?;
        let Known { charged: charged_before, answered: answered_before } = known.first().copied().unwrap_or_default();
        let (protected, charged) = (self.protected(delta, plans), Amounts::from(cost));
        Ok(ReportPreview { questions, protected, charged, remaining, remaining_after, charged_before, answered_before })
    }
}

impl PricedReport<'_> {
    /// What should be known before the report is charged, each with the title of its question. It follows from the report and
    /// the policy alone.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, String)> {
        let each = self.spec.questions.iter().zip(&self.plans);
        let own = each
            .flat_map(|(question, plan)| plan.warnings().into_iter().map(|warning| (question.title.as_str(), warning)));
        own.chain(self.spec.consistent.iter().filter_map(|consistent| self.cut_apart(&consistent.sections)))
    }

    /// Sections that are made consistent and may count different numbers of rows of one unit: what is cut from one and not from
    /// another is no noise.
    fn cut_apart(&self, sections: &[String]) -> Option<(&str, String)> {
        let each = self.spec.questions.iter().zip(&self.plans).filter(|(question, _)| sections.contains(&question.id));
        let rows = each.map(|(question, plan)| (question.title.as_str(), plan.most_rows_of_unit()));
        let (least, most) = (rows.clone().min_by_key(|(_, rows)| *rows)?, rows.max_by_key(|(_, rows)| *rows)?);
        (least.1 < most.1).then(|| {
            let warning = format!(
                "up to {} rows of a unit count here and up to {} in `{}`: where units have more, these do not add up, and \
                 intervals do not cover what is made consistent; let each unit be in one group, or allow as many rows",
                least.1, most.1, most.0
            );
            (least.0, warning)
        })
    }

    /// Checks whatever could fail later on made-up rows, and gives the price of all questions together.
    async fn rehearsed(&self) -> Result<Cost, Error> {
        let Self { session, spec, plans } = self;
        for (question, plan) in spec.questions.iter().zip(plans) {
            session.rehearse(plan, &question.sql).await?;
        }
        check_steps(spec, plans).await?;
        compose(plans, spec.budget.delta).map_err(|refusal| Error::refused(refusal, ""))
    }

    /// The report in words and numbers, before it is charged.
    ///
    /// # Errors
    /// A question that fails on made-up rows, a step that cannot be done.
    ///
    /// # Privacy
    /// Charges nothing, reads no row.
    pub async fn preview(&self) -> Result<ReportPreview, Error> {
        let cost = self.rehearsed().await?;
        let Self { session, spec, plans } = self;
        let explained = spec.questions.iter().zip(plans).map(|(question, plan)| {
            let explanation = plan.explain(spec.budget.delta).map_err(|r| Error::refused(r, &question.sql))?;
            Ok((question.title.clone(), explanation))
        });
        session.previewed(explained.collect::<Result<_, Error>>()?, plans, &cost, spec.budget.delta).await
    }

    /// Charges the report as one event, answers its questions, and makes the document and the certificate.
    ///
    /// # Errors
    /// As [`PricedReport::preview`], and as [`Session::query`].
    ///
    /// # Privacy
    /// The composition of all questions, priced together; all parameters are fixed before anything is drawn.
    pub async fn publish(self, generated: &str) -> Result<Published, Error> {
        let cost = self.rehearsed().await?;
        let Self { session, spec, plans } = self;
        let label = format!("report: {}", spec.title);
        let asked = Asked { plans: &plans, delta: spec.budget.delta, key: None, label };
        let Settled { released, remaining, head } = session.settle(asked).await?;
        let Released { release, charged: first_charged, answered: first_published } = released;
        let charged = Amounts::from(&cost);
        let mut raw: BTreeMap<String, Answer> = BTreeMap::new();
        for ((question, plan), noisy) in spec.questions.iter().zip(&plans).zip(release.value()) {
            let answer = answer(plan, noisy).await.map_err(|refusal| Error::refused(refusal, &question.sql))?;
            raw.insert(question.id.clone(), answer);
        }
        let mut moved: BTreeMap<String, Vec<Label>> = BTreeMap::new();
        for consistent in &spec.consistent {
            for (id, label) in consistent.run(&mut raw, spec.language)? {
                moved.entry(id).or_default().push(label);
            }
        }
        let mut answers: BTreeMap<String, Answer> = BTreeMap::new();
        let mut sections = Vec::new();
        for ((question, plan), noisy) in spec.questions.iter().zip(&plans).zip(release.value()) {
            // Each id is in the report once, and has its answer.
            let Some(raw) = raw.remove(&question.id) else { continue };
            let (shown, steps) = postprocess::apply(&question.then, raw, &answers, spec.language)?;
            let labels = moved.remove(&question.id).into_iter().flatten().chain(steps).collect();
            answers.insert(question.id.clone(), shown.clone());
            sections.push(Section {
                id: question.id.clone(),
                title: question.title.clone(),
                note: question.note.clone(),
                question: question.sql.trim().to_owned(),
                answer: shown,
                share: share(question, plan, &charged)?,
                found: found_bounds(plan, noisy),
                postprocessing: labels,
                plot: question.plot.clone(),
            });
        }
        let privacy = session.privacy_statement(spec, &plans);
        let total = Loss::from(session.policy().budget.limit());
        let loss = |amounts: Amounts| Loss { epsilon: amounts.epsilon, delta: amounts.delta };
        let receipt = release.receipt().clone();
        let document = Document {
            title: spec.title.clone(),
            language: spec.language,
            dataset: session.policy().dataset.clone(),
            summary: spec.summary.clone(),
            privacy: privacy.clone(),
            budget: BudgetLine { total, charged: loss(charged), remaining: loss(remaining) },
            sections,
            receipt: receipt.clone(),
            generated: generated.to_owned(),
        };
        let events =
            spec.questions.iter().zip(&plans).zip(release.value()).map(|((question, plan), noisy)| EventLine {
                purpose: question.title.clone(),
                question: question.sql.trim().to_owned(),
                event: plan.event(),
                found: found_bounds(plan, noisy),
            });
        let certificate = Certificate {
            title: spec.title.clone(),
            language: spec.language,
            dataset: session.policy().dataset.clone(),
            privacy,
            bounds: session.table_bounds(&plans),
            events: events.collect(),
            guarantees: guarantees(&plans, &cost, spec.budget.delta),
            total,
            charged: loss(charged),
            head,
            receipt,
            policy: session.policy().fingerprint(),
            charged_on: first_charged.or(first_published).and_then(day_of).unwrap_or_else(|| day_in(generated)),
            versions: vec![Version { name: "dither".into(), version: crate::VERSION.into() }],
            generated: generated.to_owned(),
        };
        let repeated = first_published.is_some();
        Ok(Published { document, certificate, charged, remaining, repeated, first_published, first_charged })
    }
}

/// The day of a moment in seconds since 1970.
fn day_of(seconds: i64) -> Option<String> {
    dither_query::policy::day(seconds as f64 / 86_400.0)
}

/// The day that a text says when something was made begins with.
fn day_in(generated: &str) -> String {
    generated.split(' ').next().unwrap_or_default().to_owned()
}

/// Checks the declared steps on the columns of the answers, before anything is charged.
async fn check_steps(spec: &ReportSpec, plans: &[QueryPlan]) -> Result<(), Error> {
    let mut raw = BTreeMap::new();
    for (question, plan) in spec.questions.iter().zip(plans) {
        let columns = columns(plan).await.map_err(|refusal| Error::refused(refusal, &question.sql))?;
        raw.insert(question.id.clone(), Answer { columns, rows: Vec::new() });
    }
    for consistent in &spec.consistent {
        consistent.check(&raw)?;
        let together = || spec.questions.iter().zip(plans).filter(|(q, _)| consistent.sections.contains(&q.id));
        if together().zip(together().skip(1)).any(|((_, one), (_, next))| !one.counts_rows_of(next)) {
            let needed = "questions of the same tables and the same WHERE, which differ in GROUP BY alone";
            return Err(StepError::Parameter { step: "consistent", needed }.into());
        }
        // Of keys from the data, those that are not shown would be missing from every sum.
        let private =
            |id: &String| spec.questions.iter().zip(plans).any(|(q, plan)| q.id == *id && plan.has_private_keys());
        if consistent.sections.iter().any(private) {
            return Err(
                StepError::Parameter { step: "consistent", needed: "questions whose keys are all public" }.into()
            );
        }
    }
    let mut sections = BTreeMap::new();
    for question in &spec.questions {
        let Some(answer) = raw.remove(&question.id) else { continue };
        let columns = postprocess::check(&question.then, answer.columns, &sections)?;
        if let Some(plot) = &question.plot {
            plot.check(&columns)?;
        }
        sections.insert(question.id.clone(), Answer { columns, rows: Vec::new() });
    }
    Ok(())
}

/// What one question cost by itself, and how it was noised, in the units that are shown.
fn share(question: &Question, plan: &QueryPlan, charged: &Amounts) -> Result<Share, Error> {
    let cost = Amounts::from(&plan.cost().map_err(|refusal| Error::refused(refusal, ""))?);
    let outputs = plan.explain_outputs().into_iter().zip(&plan.derivations);
    let noise = outputs.map(|(output, derivation)| {
        let noise = Noise {
            column: output.name,
            kind: match output.mechanism {
                "Gaussian" => NoiseKind::Gaussian,
                "exponential" => NoiseKind::Choice,
                _ => NoiseKind::Laplace,
            },
            scale: output.noise_of.is_none().then_some(output.noise_scale),
            expected_error: output.expected_error,
            rank: plan.rank_of(*derivation),
        };
        question.then.iter().fold(noise, converted)
    });
    Ok(Share {
        epsilon: cost.epsilon,
        delta: cost.delta,
        percent: 100.0 * cost.epsilon / charged.epsilon,
        noise: noise.collect(),
        threshold: match &plan.mechanism.keys {
            KeyRule::Public | KeyRule::Top(_) => None,
            KeyRule::Threshold(threshold) => Some(threshold.threshold() as f64),
        },
    })
}

/// Noise in the unit that a step converts to. What else a step does to an error stands beside the step.
fn converted(mut noise: Noise, step: &Step) -> Noise {
    if let Step::Convert { column, multiply, rename, .. } = step
        && *column == noise.column
    {
        let factor = multiply.abs();
        noise.scale = noise.scale.map(|scale| scale * factor);
        noise.expected_error = noise.expected_error.map(|error| error * factor);
        noise.column = rename.clone().unwrap_or(noise.column);
    }
    noise
}

/// What the events amount to at the δ that was charged; at that of the budget where none was.
fn guarantees(plans: &[QueryPlan], cost: &Cost, budget: Delta) -> Vec<Guarantee> {
    let delta = Delta::from_attos(cost.delta_attos).ok().filter(|delta| !delta.is_zero()).unwrap_or(budget);
    let mechanism = PlanMechanism { tables: plans.iter().map(|plan| plan.mechanism.clone()).collect() };
    let event: PrivacyEvent = mechanism.event();
    let Some(accountants) = Accountants::of(&event, delta) else { return Vec::new() };
    [("basic", accountants.basic), ("zCDP", accountants.zcdp), ("RDP", accountants.rdp)]
        .into_iter()
        .map(|(name, epsilon)| Guarantee { accountant: name.into(), epsilon, delta: accountants.delta })
        .collect()
}
