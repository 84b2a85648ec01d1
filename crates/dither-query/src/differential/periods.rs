//! Units that are cut to periods: what one person has within one day, week or month goes, and no more with it than the
//! plan claims; a whole person takes more, which the plan must not claim to cover.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{Datelike, NaiveDate};
use datafusion::arrow::array::{Date32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::datasource::MemTable;
use dither_core::UnitPeriod;
use dither_mechanisms::ExactTable;
use dither_testing::{Random, setting};

use super::{plan, violates};
use crate::engine::{LocalEngine, exact};
use crate::explain::Window;
use crate::plan::QueryPlan;
use crate::policy::Policy;
use crate::source::{Table, Tables};

/// The first day of 2025, a Wednesday, since 1970.
const START: i32 = 20_089;

/// `u`, `day`, `id`, `x`, `g`.
type Visit = (Option<&'static str>, Option<i32>, Option<i64>, Option<i64>, Option<&'static str>);

#[derive(Debug, Clone, Default)]
struct Database {
    visits: Vec<Visit>,
    /// `u`, the microsecond, `x`.
    meals: Vec<(Option<&'static str>, Option<i64>, Option<i64>)>,
    /// `visit`, `y`: whose it is, and when, its visit says.
    labs: Vec<(Option<i64>, Option<i64>)>,
}

/// A person in canonical form, and the first day of a period.
type Unit = (String, NaiveDate);

const MICROS: i64 = 86_400_000_000;

fn unit(person: Option<&str>, day: Option<i32>, per: UnitPeriod) -> Option<Unit> {
    let date = NaiveDate::from_ymd_opt(1970, 1, 1)?.checked_add_signed(chrono::Duration::days(day?.into()))?;
    // What nanoseconds count, with a margin.
    (1678..=2261).contains(&date.year()).then_some(())?;
    let first = match per {
        UnitPeriod::Day => date,
        UnitPeriod::Week => date - chrono::Duration::days(date.weekday().num_days_from_monday().into()),
        UnitPeriod::Month => date.with_day(1)?,
    };
    Some((person?.trim().to_lowercase(), first))
}

impl Database {
    fn random(random: &mut Random) -> Self {
        let whale = random.below(2) == 0;
        let names = [Some("ann"), Some(" Ann"), Some("ANN "), Some("bob"), Some("Bob"), Some("cy"), None];
        let person = |random: &mut Random| match random.below(2) {
            0 if whale => Some("bob"),
            _ => random.of(&names),
        };
        // Some weeks around the turn of the year and of months, long ago, and days that no calendar of nanoseconds has.
        let odd = [None, Some(-1), Some(-3), Some(-4), Some(0), Some(-150_000), Some(200_000), Some(i32::MAX / 2)];
        let day = |random: &mut Random| match random.below(8) {
            0 => random.of(&odd),
            _ => Some(START + random.below(70) as i32 - 35),
        };
        let number = |random: &mut Random| random.of(&[None, Some(-2), Some(0), Some(1), Some(3), Some(50)]);
        let id = |random: &mut Random| random.of(&[None, Some(0), Some(1), Some(2), Some(3)]);
        let group = |random: &mut Random| random.of(&[Some("a"), Some("b"), Some("zz"), None]);
        let count = random.below(30);
        let mut visits: Vec<Visit> =
            (0..count).map(|_| (person(random), day(random), id(random), number(random), group(random))).collect();
        // One who comes in every week.
        visits.extend(
            (0..random.below(9) as i32)
                .map(|week| (Some("regular"), Some(START + 7 * week), Some(i64::from(week) % 4), Some(50), Some("a"))),
        );
        let micros = |random: &mut Random| {
            let second = random.below(86_400) as i64 * 1_000_000;
            i64::from(day(random)?).checked_mul(MICROS)?.checked_add(second)
        };
        let meals = (0..random.below(16)).map(|_| (person(random), micros(random), number(random))).collect();
        let labs = (0..random.below(9)).map(|_| (id(random), number(random))).collect();
        Self { visits, meals, labs }
    }

    fn visit_units(&self, per: UnitPeriod) -> Vec<(Option<Unit>, &Visit)> {
        self.visits.iter().map(|visit| (unit(visit.0, visit.1, per), visit)).collect()
    }

    fn meal_unit(meal: &(Option<&str>, Option<i64>, Option<i64>), per: UnitPeriod) -> Option<Unit> {
        unit(meal.0, meal.1.and_then(|micros| i32::try_from(micros.div_euclid(MICROS)).ok()), per)
    }

    fn units(&self, per: UnitPeriod) -> BTreeSet<Unit> {
        let meals = self.meals.iter().filter_map(|meal| Self::meal_unit(meal, per));
        self.visit_units(per).into_iter().filter_map(|(unit, _)| unit).chain(meals).collect()
    }

    /// The database without the rows of some units; those that they own through keys stay, as orphans.
    fn without(&self, per: UnitPeriod, gone: impl Fn(&Unit) -> bool) -> Self {
        let stays = |unit: Option<Unit>| !unit.is_some_and(|unit| gone(&unit));
        let mut less = self.clone();
        less.visits.retain(|visit| stays(unit(visit.0, visit.1, per)));
        less.meals.retain(|meal| stays(Self::meal_unit(meal, per)));
        less
    }

    fn tables(&self) -> Tables {
        let table = |fields: Vec<(&str, DataType)>, columns| -> Table {
            let fields = fields.into_iter().map(|(name, kind)| Field::new(name, kind, true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
            let half = batch.num_rows() / 2;
            let parts = vec![vec![batch.slice(0, half)], vec![batch.slice(half, batch.num_rows() - half)]];
            Arc::new(MemTable::try_new(schema, parts).unwrap())
        };
        let (integer, text) = (DataType::Int64, DataType::Utf8);
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        let visits = table(
            vec![
                ("day", DataType::Date32),
                ("g", text.clone()),
                ("id", integer.clone()),
                ("u", text.clone()),
                ("x", integer.clone()),
            ],
            vec![
                Arc::new(self.visits.iter().map(|visit| visit.1).collect::<Date32Array>()),
                Arc::new(self.visits.iter().map(|visit| visit.4).collect::<StringArray>()),
                Arc::new(self.visits.iter().map(|visit| visit.2).collect::<Int64Array>()),
                Arc::new(self.visits.iter().map(|visit| visit.0).collect::<StringArray>()),
                Arc::new(self.visits.iter().map(|visit| visit.3).collect::<Int64Array>()),
            ],
        );
        let meals = table(
            vec![("at", moment), ("u", text), ("x", integer.clone())],
            vec![
                Arc::new(self.meals.iter().map(|meal| meal.1).collect::<TimestampMicrosecondArray>()),
                Arc::new(self.meals.iter().map(|meal| meal.0).collect::<StringArray>()),
                Arc::new(self.meals.iter().map(|meal| meal.2).collect::<Int64Array>()),
            ],
        );
        let labs = table(
            vec![("visit", integer.clone()), ("y", integer)],
            vec![
                Arc::new(self.labs.iter().map(|lab| lab.0).collect::<Int64Array>()),
                Arc::new(self.labs.iter().map(|lab| lab.1).collect::<Int64Array>()),
            ],
        );
        BTreeMap::from([("visits".to_owned(), visits), ("meals".to_owned(), meals), ("labs".to_owned(), labs)])
    }
}

fn policy(per: UnitPeriod, groups: u32, rows: u32) -> Policy {
    let (per, bounds) = (per.name(), format!("max_groups_per_unit = {groups}\nmax_rows_per_group = {rows}"));
    let text = format!(
        r#"
        dataset = "test"
        [budget]
        epsilon = 100
        delta = 0.1
        [tables.visits]
        source = "visits.csv"
        privacy_unit = {{ column = "u", per = "{per}", time = "day" }}
        {bounds}
        [tables.visits.columns]
        u = {{ type = "text" }}
        day = {{ type = "date" }}
        id = {{ type = "integer" }}
        x = {{ type = "integer", bounds = [-3, 50] }}
        g = {{ type = "text" }}
        [tables.meals]
        source = "meals.csv"
        privacy_unit = {{ column = "u", per = "{per}", time = "at" }}
        {bounds}
        [tables.meals.columns]
        u = {{ type = "text" }}
        at = {{ type = "timestamp" }}
        x = {{ type = "integer", bounds = [-3, 50] }}
        [tables.labs]
        source = "labs.csv"
        privacy_unit = {{ column = "visit", through = "visits.id" }}
        {bounds}
        [tables.labs.columns]
        visit = {{ type = "integer" }}
        y = {{ type = "integer", bounds = [-3, 50] }}
        "#
    );
    Policy::from_toml(&text, ".").unwrap()
}

/// Questions with PER where the period stands.
const QUESTIONS: [&str; 9] = [
    "SELECT COUNT(*), SUM(x), COUNT(DISTINCT u) FROM visits",
    "SELECT g, COUNT(*), AVG(x), COUNT(DISTINCT u) FROM visits GROUP BY g",
    "SELECT id, COUNT(DISTINCT u) FILTER (WHERE x > 0), MEDIAN(x) FROM visits GROUP BY id",
    "SELECT COUNT(*), SUM(x), COUNT(DISTINCT u) FROM meals WHERE x >= 0",
    "SELECT COUNT(*), SUM(y) FROM labs",
    "SELECT v.g, COUNT(*), SUM(l.y), COUNT(DISTINCT v.u) FROM labs l JOIN visits v ON l.visit = v.id GROUP BY v.g",
    "SELECT COUNT(*), SUM(m.x), COUNT(DISTINCT v.u) FROM visits v JOIN meals m ON v.u = m.u AND \
     date_trunc('PER', v.day) = date_trunc('PER', m.at)",
    "SELECT n, COUNT(*), COUNT(DISTINCT u) FROM (SELECT u, date_trunc('PER', day) AS p, COUNT(*) AS n FROM visits \
     GROUP BY u, date_trunc('PER', day)) AS q GROUP BY n",
    "SELECT COUNT(*), SUM(q.n, contribution_bounds_per_row => (0, 9)) FROM meals m LEFT JOIN (SELECT u, \
     date_trunc('PER', day) AS p, COUNT(*) AS n FROM visits GROUP BY u, date_trunc('PER', day)) AS q \
     ON m.u = q.u AND date_trunc('PER', m.at) = q.p",
];

async fn integers(plan: &QueryPlan, data: &Database, engine: &LocalEngine) -> ExactTable {
    exact(plan, &data.tables(), "secret", engine).await.unwrap_or_else(|error| panic!("{:?}", error.0))
}

/// Rows, people and pairs by nested loops, of the questions that are not grouped and whose bounds cut nobody.
fn expected(question: usize, data: &Database, per: UnitPeriod) -> Option<Vec<i128>> {
    let clamped = |x: Option<i64>, most: i64| i128::from(x.map_or(0, |x| x.clamp(-3, most)));
    let people = |units: &[Unit]| units.iter().map(|(person, _)| person).collect::<BTreeSet<_>>().len() as i128;
    let visits: Vec<(Unit, &Visit)> =
        data.visit_units(per).into_iter().filter_map(|(unit, visit)| Some((unit?, visit))).collect();
    let meals: Vec<(Unit, Option<i64>)> =
        data.meals.iter().filter_map(|meal| Some((Database::meal_unit(meal, per)?, meal.2))).collect();
    Some(match question {
        0 => {
            let units: Vec<Unit> = visits.iter().map(|(unit, _)| unit.clone()).collect();
            let sum = visits.iter().map(|(_, visit)| clamped(visit.3, 50)).sum();
            vec![visits.len() as i128, sum, people(&units)]
        }
        4 => {
            let owners: BTreeSet<(Unit, i64)> =
                visits.iter().filter_map(|(unit, visit)| Some((unit.clone(), visit.2?))).collect();
            let owned =
                data.labs.iter().flat_map(|lab| owners.iter().filter(|(_, id)| lab.0 == Some(*id)).map(|_| lab.1));
            let owned: Vec<Option<i64>> = owned.collect();
            vec![owned.len() as i128, owned.iter().map(|y| clamped(*y, 50)).sum()]
        }
        6 => {
            let pairs = visits.iter().flat_map(|(unit, _)| meals.iter().filter(move |(other, _)| other == unit));
            let pairs: Vec<_> = pairs.collect();
            let units: Vec<Unit> = pairs.iter().map(|(unit, _)| unit.clone()).collect();
            vec![pairs.len() as i128, pairs.iter().map(|(_, x)| clamped(*x, 50)).sum(), people(&units)]
        }
        8 => {
            let of = |unit: &Unit| visits.iter().filter(|(other, _)| other == unit).count() as i128;
            vec![meals.len() as i128, meals.iter().map(|(unit, _)| of(unit).min(9)).sum()]
        }
        _ => return None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn se_14_and_sq_17_what_a_person_has_within_a_period_moves_no_more_than_the_plan_claims() {
    let mut random = Random(setting("DITHER_SEED", 29));
    let (operator, portable) = (LocalEngine::new(2), LocalEngine::new(1).portable());
    let mut pairs = 0;
    for round in 0..setting("DITHER_PERIODS", 18) as usize {
        // Each question under another period in each turn.
        let per = [UnitPeriod::Week, UnitPeriod::Month, UnitPeriod::Day][(round + round / QUESTIONS.len()) % 3];
        let question = round % QUESTIONS.len();
        let sql = QUESTIONS[question].replace("PER", per.name());
        let narrow = plan(&sql, &policy(per, 1 + random.below(3) as u32, 1 + random.below(3) as u32)).await;
        let wide = plan(&sql, &policy(per, 100, 10_000)).await;
        for _ in 0..3 {
            let data = Database::random(&mut random);
            let whole = integers(&narrow, &data, &operator).await;
            assert!(whole == integers(&narrow, &data, &portable).await, "{per:?} {sql}\n{data:?}");
            if let Some(expected) = expected(question, &data, per) {
                let found = integers(&wide, &data, &operator).await.rows[0].values.clone();
                // A sum lies on the lattice of its bounds.
                assert_eq!(found.len(), expected.len());
                let step = |index: usize| match wide.measures[index] {
                    crate::plan::Measure::Sum(index) => (1.0 / wide.summands[index].bounds.lattice().step()) as i128,
                    _ => 1,
                };
                let expected: Vec<i128> = expected.iter().enumerate().map(|(i, value)| value * step(i)).collect();
                assert_eq!(found, expected, "{per:?} {sql}\n{data:?}");
            }
            let units: Vec<Unit> = data.units(per).into_iter().collect();
            for _ in 0..3.min(units.len()) {
                let gone = random.of(&units);
                let less = data.without(per, |unit| *unit == gone);
                let less = integers(&narrow, &less, &operator).await;
                assert!(!violates(&narrow, &whole, &less), "{per:?} {sql} without {gone:?}\n{data:?}");
                pairs += 1;
            }
        }
    }
    assert!(pairs > 100, "{pairs}");
}

/// The control: a whole person moves more than that, so noise for a period must not be claimed for a person. What the
/// plan says of one over a window covers it.
#[tokio::test]
async fn se_14_control_a_whole_person_moves_more_than_a_period_and_the_plan_says_so() {
    let engine = LocalEngine::new(1);
    let plan = plan(QUESTIONS[0], &policy(UnitPeriod::Week, 1, 1)).await;
    let regular = |weeks: i32| Database {
        visits: (0..weeks).map(|week| (Some("regular"), Some(START + 7 * week), None, Some(50), None)).collect(),
        ..Database::default()
    };
    let explanation = plan.explain(dither_core::Delta::ZERO).unwrap();
    assert!(explanation.protects.contains("not all rows of one `u`"), "{}", explanation.protects);
    assert_eq!(explanation.unit, "u per week");
    let (whole, week, nobody) = (regular(5), regular(4), Database::default());
    let [whole, week, nobody] = [
        integers(&plan, &whole, &engine).await,
        integers(&plan, &week, &engine).await,
        integers(&plan, &nobody, &engine).await,
    ];
    assert!(violates(&plan, &whole, &nobody), "noise for a week does not hide a person of five weeks");
    assert!(!violates(&plan, &whole, &week));
    // What changes at once for the person costs this much of each block, ε for one unit: the plan says at least that.
    let moved: f64 = plan.measures.iter().enumerate().fold(0.0, |sum, (index, measure)| {
        let (l1, _) = plan.sensitivity(measure).unwrap();
        let change = whole.rows[0].values[index].abs_diff(nobody.rows[0].values[index]);
        sum + change as f64 / l1.steps() as f64 * plan.shares[index].as_f64()
    });
    let month: &Window = &explanation.windows[0];
    assert_eq!((month.days, month.periods, month.delta), (31, 6, Some(0.0)));
    assert!(moved > explanation.epsilon && moved <= month.epsilon.unwrap(), "{moved} {month:?}");
}
