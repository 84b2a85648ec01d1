//! Which integers are measured for the aggregates of a question, each once, and how the aggregates follow from them.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, cast, lit, when};
use dither_core::{Lattice, ValueBounds};
use dither_mechanisms::{Fraction, Quantiles};

use super::shares::ranges_of_a_typical_value;
use super::{Derivation, Found, Measure, Ranks, Shape, Values};
use crate::bound::{Histogram, Summand, column, value_name};
use crate::error::{Code, Refusal};
use crate::grid::Grid;
use crate::ir::{Aggregate, AggregateKind, Argument};

/// What is measured for a list of aggregates.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// What is computed first.
    pub values: Vec<Summand>,
    /// What is summed.
    pub summands: Vec<Summand>,
    /// What is counted by value.
    pub histograms: Vec<Histogram>,
    /// What each block measures.
    pub measures: Vec<Measure>,
    /// Which quantiles are chosen.
    pub ranks: Vec<Ranks>,
    /// The columns whose bounds are found.
    pub found: Vec<Found>,
    /// How each aggregate follows.
    pub derivations: Vec<Derivation>,
}

/// What the number of rows of a group may follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedBy {
    /// Whether a unit has one row in a group at most: then the number of units is that of rows.
    pub one_row: bool,
    /// Whether keys come from the data, so that the number of units is measured anyway.
    pub private: bool,
    /// Whether intervals for sampling are asked for.
    pub sampling: bool,
}

/// What one aggregate needs, by the indices of summands.
enum Needs {
    Rows,
    Units,
    /// A sum, which may follow from its pair.
    Sum(Values),
    /// The number of values, which may follow from the pair of the values.
    Count(Values),
    Mean(Values),
    Variance(Values),
    /// Two summands, and the values that they are made of.
    Covariance([usize; 2], [usize; 2]),
    Distinct(usize),
    Quantile(usize, Fraction),
}

impl Blocks {
    /// Collects what is measured. A pair serves the mean, the sum, the count and the variance of the same values. The number
    /// of rows follows from a pair, as a triple, or from the selection of keys where one of them measures it anyway. Where
    /// samples are asked about, sums have pairs as well, and rows a count of their own.
    pub fn of(aggregates: &[Aggregate], counted: CountedBy) -> Result<Self, Refusal> {
        let mut blocks = Self::default();
        let needs = aggregates.iter().map(|one| blocks.needs(one, aggregates)).collect::<Result<Vec<_>, _>>()?;
        let paired = |values: Values| {
            let found = matches!(values, Values::Found(_));
            found
                || needs.iter().any(|needs| match needs {
                    Needs::Mean(pair) | Needs::Variance(pair) => *pair == values,
                    Needs::Covariance(pairs, _) => pairs.iter().any(|index| Values::Summand(*index) == values),
                    Needs::Sum(sum) => counted.sampling && *sum == values,
                    Needs::Rows | Needs::Units | Needs::Count(_) => false,
                    Needs::Distinct(_) | Needs::Quantile(..) => false,
                })
        };
        let rows = |needs: &Needs| matches!(needs, Needs::Rows) || (matches!(needs, Needs::Units) && counted.one_row);
        let triple = if needs.iter().any(rows) && !counted.sampling { widest_pair(aggregates, &needs) } else { None };
        let pair = |values| if Some(values) == triple { Measure::Triple(values) } else { Measure::Pair(values) };
        for (aggregate, needs) in aggregates.iter().zip(&needs) {
            let derivation = match *needs {
                Needs::Units => blocks.number(Measure::Units, triple, counted),
                Needs::Rows => blocks.number(Measure::Rows, triple, counted),
                Needs::Distinct(values) => Derivation::Count(blocks.measure(Measure::Distinct(values))),
                Needs::Quantile(ranks, fraction) => Derivation::Quantile { ranks, fraction },
                Needs::Sum(sum) if paired(sum) => Derivation::PairSum(blocks.measure(pair(sum))),
                Needs::Sum(Values::Summand(sum)) => Derivation::Sum(blocks.measure(Measure::Sum(sum))),
                Needs::Sum(found) => Derivation::PairSum(blocks.measure(pair(found))),
                Needs::Count(values) if paired(values) => Derivation::PairCount(blocks.measure(pair(values))),
                Needs::Count(Values::Summand(ones)) => Derivation::Count(blocks.measure(Measure::Sum(ones))),
                Needs::Count(found) => Derivation::PairCount(blocks.measure(pair(found))),
                Needs::Mean(values) => Derivation::PairMean(blocks.measure(pair(values))),
                Needs::Variance(values) => {
                    let pair = blocks.measure(pair(values));
                    let squares = blocks.squares(values)?;
                    match aggregate.kind {
                        AggregateKind::Deviation(over) => Derivation::Deviation { pair, squares, over },
                        AggregateKind::Variance(over) => Derivation::Variance { pair, squares, over },
                        _ => Derivation::PairMean(pair),
                    }
                }
                Needs::Covariance(summands, [x, y]) => {
                    let pairs = summands.map(|summand| blocks.measure(pair(Values::Summand(summand))));
                    let products = blocks.products([x, y], None)?;
                    match aggregate.kind {
                        AggregateKind::Covariance(over) => Derivation::Covariance { pairs, products, over },
                        _ => {
                            let squares = [blocks.products([x; 2], Some(y))?, blocks.products([y; 2], Some(x))?];
                            Derivation::Correlation { pairs, products, squares }
                        }
                    }
                }
            };
            blocks.derivations.push(derivation);
        }
        Ok(blocks)
    }

    /// For each sum and mean of a pair the block of its squares, which is measured for it.
    pub fn squares_for_sampling(&mut self) -> Result<Vec<Option<usize>>, Refusal> {
        let derivations = self.derivations.clone();
        let squares = derivations.iter().map(|derivation| {
            let (Derivation::PairMean(pair) | Derivation::PairSum(pair)) = *derivation else { return Ok(None) };
            let Measure::Pair(values) = self.measures[pair] else { return Ok(None) };
            self.squares(values).map(Some)
        });
        squares.collect()
    }

    /// For each aggregate of rows the block that says how far the totals of units spread, for units of up to so many rows.
    pub fn unit_squares_for_sampling(&mut self, rows: u32) -> Result<Vec<Option<usize>>, Refusal> {
        let derivations = self.derivations.clone();
        let squares = derivations.iter().map(|derivation| {
            let Some(block) = derivation.block() else { return Ok(None) };
            let (expr, bounds) = match self.measures[block] {
                Measure::Pair(Values::Summand(index)) | Measure::Sum(index) => {
                    (self.summands[index].expr.clone(), Some(self.summands[index].bounds))
                }
                Measure::Rows => (lit(1.0), ones()),
                _ => return Ok(None),
            };
            let bounds = bounds.and_then(|bounds| narrow(&bounds, rows)).ok_or_else(|| {
                let message = format!("the bounds are too wide for squares of totals of up to {rows} rows");
                Refusal::new(Code::Range, message).hint("allow fewer rows of a unit, or declare narrower bounds")
            })?;
            let summand = self.add(Summand { expr, bounds });
            Ok(Some(self.measure(Measure::UnitSquares(summand))))
        });
        squares.collect()
    }

    fn needs(&mut self, aggregate: &Aggregate, all: &[Aggregate]) -> Result<Needs, Refusal> {
        let Some(argument) = &aggregate.argument else {
            return Ok(if aggregate.kind == AggregateKind::CountUnits { Needs::Units } else { Needs::Rows });
        };
        Ok(match (aggregate.kind, &aggregate.second) {
            (AggregateKind::Covariance(_) | AggregateKind::Correlation, Some(second)) => {
                let (summands, values) = self.both(argument, second, &aggregate.name)?;
                Needs::Covariance(summands, values)
            }
            (AggregateKind::CountUnits, _) => Needs::Units,
            (AggregateKind::CountRows, _) => Needs::Rows,
            (AggregateKind::CountDistinct | AggregateKind::CountPeople, _) => {
                let (expr, kind) = (argument.expr.clone(), argument.kind.clone());
                let of_unit = aggregate.kind == AggregateKind::CountPeople;
                Needs::Distinct(self.histogram(Histogram { expr, kind, distinct: true, of_unit }))
            }
            (AggregateKind::CountValues, _) => {
                // What has a pair counts its values as well.
                let with_pair = all.iter().find(|other| {
                    use AggregateKind::{Deviation, Mean, Variance};
                    matches!(other.kind, Mean | Variance(_) | Deviation(_))
                        && argument.counted.is_some()
                        && other.argument.as_ref().map(|argument| &argument.expr) == argument.counted.as_ref()
                });
                let counted = with_pair.and_then(|other| other.argument.as_ref()).unwrap_or(argument);
                Needs::Count(self.values(counted, &aggregate.name)?)
            }
            (AggregateKind::Quantile(fraction), _) => {
                Needs::Quantile(self.quantile(argument, &aggregate.name, fraction)?, fraction)
            }
            (AggregateKind::Sum, _) => Needs::Sum(self.values(argument, &aggregate.name)?),
            (AggregateKind::Mean, _) => Needs::Mean(self.values(argument, &aggregate.name)?),
            (
                AggregateKind::Variance(_)
                | AggregateKind::Deviation(_)
                | AggregateKind::Covariance(_)
                | AggregateKind::Correlation,
                _,
            ) => {
                let values = self.values(argument, &aggregate.name)?;
                if let Values::Summand(summand) = values {
                    self.value(self.summands[summand].clone());
                }
                Needs::Variance(values)
            }
        })
    }

    /// How a number of units or rows follows.
    fn number(&mut self, what: Measure, triple: Option<Values>, counted: CountedBy) -> Derivation {
        let (rows, units) = (what == Measure::Rows, what == Measure::Units);
        match triple.filter(|_| rows || counted.one_row) {
            Some(values) => Derivation::TripleCount(self.measure(Measure::Triple(values))),
            None if counted.private && (units || counted.one_row) => Derivation::Selected,
            None => Derivation::Count(self.measure(what)),
        }
    }

    /// The index of the block that measures this.
    fn measure(&mut self, measure: Measure) -> usize {
        self.measures.iter().position(|known| *known == measure).unwrap_or_else(|| {
            self.measures.push(measure);
            self.measures.len() - 1
        })
    }

    /// The index of a summand.
    fn add(&mut self, wanted: Summand) -> usize {
        self.summands.iter().position(|known| *known == wanted).unwrap_or_else(|| {
            self.summands.push(wanted);
            self.summands.len() - 1
        })
    }

    /// The values of an argument: a summand, or a column whose bounds are found.
    fn values(&mut self, argument: &Argument, name: &str) -> Result<Values, Refusal> {
        if !argument.approx {
            return Ok(Values::Summand(self.summand(argument, name)?));
        }
        let expr = Grid::AnyMagnitude.number(&argument.expr).map_err(|error| unplanned(&error))?;
        let histogram = self.histogram(Histogram { expr, kind: DataType::Int64, distinct: false, of_unit: false });
        let known = self.found.iter().position(|known| known.histogram == histogram);
        Ok(Values::Found(known.unwrap_or_else(|| {
            let whole = argument.kind == DataType::Int64;
            self.found.push(Found { histogram, whole, name: argument.written.clone() });
            self.found.len() - 1
        })))
    }

    /// The block of Σ(x − middle)² of the values of a pair.
    fn squares(&mut self, values: Values) -> Result<usize, Refusal> {
        match values {
            Values::Found(index) => Ok(self.measure(Measure::Squares(index))),
            Values::Summand(summand) => {
                let value = self.value(self.summands[summand].clone());
                self.products([value; 2], None)
            }
        }
    }

    /// The summand of an argument; ones where values are only counted.
    fn summand(&mut self, argument: &Argument, name: &str) -> Result<usize, Refusal> {
        Ok(self.add(Summand { expr: argument.expr.clone(), bounds: bounds(argument, name)? }))
    }

    /// The index of the ranks that a quantile is chosen with: one for all quantiles of the same values.
    fn quantile(&mut self, argument: &Argument, name: &str, fraction: Fraction) -> Result<usize, Refusal> {
        let grid = match argument.approx {
            true => Some(Grid::AnyMagnitude),
            false => grid(&bounds(argument, name)?).map(Grid::Lattice),
        };
        let grid = grid.ok_or_else(|| {
            Refusal::new(Code::Range, "the bounds are too wide for a grid").hint("declare narrower bounds")
        })?;
        let expr = grid.number(&argument.expr).map_err(|error| unplanned(&error))?;
        let histogram = self.histogram(Histogram { expr, kind: DataType::Int64, distinct: false, of_unit: false });
        let index = self.ranks.iter().position(|known| known.histogram == histogram).unwrap_or_else(|| {
            self.ranks.push(Ranks { histogram, fractions: Vec::new(), grid });
            self.ranks.len() - 1
        });
        if !self.ranks[index].fractions.contains(&fraction) {
            self.ranks[index].fractions.push(fraction);
        }
        Ok(index)
    }

    /// The index of a histogram.
    fn histogram(&mut self, wanted: Histogram) -> usize {
        self.histograms.iter().position(|known| *known == wanted).unwrap_or_else(|| {
            self.histograms.push(wanted);
            self.histograms.len() - 1
        })
    }

    /// Two arguments, each where both are present: their summands and their values.
    fn both(&mut self, one: &Argument, other: &Argument, name: &str) -> Result<([usize; 2], [usize; 2]), Refusal> {
        let [(x, a), (y, b)] = [one, other].map(|argument| (argument, bounds(argument, name)));
        let (x, y) = (Summand { expr: x.expr.clone(), bounds: a? }, Summand { expr: y.expr.clone(), bounds: b? });
        let (first, second) = (self.value(x.clone()), self.value(y.clone()));
        let where_present = |value: usize, bounds: ValueBounds, other: usize| {
            let number = cast(column(value_name(value)), DataType::Float64) * lit(bounds.lattice().step());
            let expr = when(column(value_name(other)).is_not_null(), number).end();
            expr.map(|expr| Summand { expr, bounds }).map_err(|error| unplanned(&error))
        };
        let (x, y) = (where_present(first, x.bounds, second)?, where_present(second, y.bounds, first)?);
        Ok(([self.add(x), self.add(y)], [first, second]))
    }

    /// The index of a value that is computed first.
    fn value(&mut self, wanted: Summand) -> usize {
        self.values.iter().position(|known| *known == wanted).unwrap_or_else(|| {
            self.values.push(wanted);
            self.values.len() - 1
        })
    }

    /// The block of Σ(x − m)(y − n) for two values with the middles m and n of their bounds, of the rows where both are
    /// present and a third value as well; Σ(x − m)² for the same value twice.
    ///
    /// Each factor is taken on its lattice, clamped and centred: |x − m| is at most half a range.
    fn products(&mut self, [x, y]: [usize; 2], present: Option<usize>) -> Result<usize, Refusal> {
        let (a, b) = (&self.values[x], &self.values[y]);
        let product = centred(x, &a.bounds) * centred(y, &b.bounds);
        let expr = match present {
            None => Ok(product),
            Some(other) => when(column(value_name(other)).is_not_null(), product).end(),
        };
        let expr = expr.map_err(|error| unplanned(&error))?;
        let steps = a.bounds.range() as f64 * b.bounds.range() as f64;
        // In the product of both half steps, of which no product needs more than 2^106, on at most 2^40 points.
        let coarser = (steps.log2().ceil() - LARGEST).max(0.0).exp2();
        let unit = a.bounds.lattice().step() / 2.0 * (b.bounds.lattice().step() / 2.0);
        let lattice = Lattice::new(unit * coarser);
        let lower = if x == y { 0.0 } else { -steps * unit };
        let bounds = lattice.and_then(|lattice| ValueBounds::new(lower, steps * unit, lattice)).ok_or_else(|| {
            Refusal::new(Code::Range, "the bounds are too wide for products").hint("declare narrower bounds")
        })?;
        let summand = self.add(Summand { expr, bounds });
        Ok(self.measure(Measure::Sum(summand)))
    }
}

/// The summand of the pair that gets the largest share of ε, so that the number of rows follows from the one with least
/// noise beside its range.
fn widest_pair(aggregates: &[Aggregate], needs: &[Needs]) -> Option<Values> {
    let ratio = |argument: &Option<Argument>| argument.as_ref().map_or(1.0, ranges_of_a_typical_value);
    let pairs = aggregates.iter().zip(needs).flat_map(|(aggregate, needs)| match *needs {
        Needs::Mean(pair) | Needs::Variance(pair) => vec![(pair, ratio(&aggregate.argument))],
        // A sum between bounds that are found is a pair as well.
        Needs::Sum(found @ Values::Found(_)) => vec![(found, 1.0)],
        Needs::Covariance([x, y], _) => {
            let [x, y] = [x, y].map(Values::Summand);
            vec![(x, ratio(&aggregate.argument)), (y, ratio(&aggregate.second))]
        }
        _ => Vec::new(),
    });
    let widest = |best: Option<(Values, f64)>, pair: (Values, f64)| best.filter(|best| best.1 >= pair.1).or(Some(pair));
    pairs.fold(None, widest).map(|(pair, _)| pair)
}

/// Products lie on a lattice of at most 2^40 points on either side: the squares of 2^20 points are exact.
const LARGEST: f64 = 40.0;

/// The bounds of what is counted.
fn ones() -> Option<ValueBounds> {
    ValueBounds::new(0.0, 1.0, Lattice::UNIT)
}

/// The bounds of an argument; 0 and 1 where values are only counted.
fn bounds(argument: &Argument, name: &str) -> Result<ValueBounds, Refusal> {
    argument.bounds.or_else(ones).filter(|bounds| bounds.range() > 0).ok_or_else(|| {
        Refusal::new(Code::MissingBounds, format!("the bounds of `{name}` leave one value only"))
            .hint("the lower bound must be below the upper one")
    })
}

/// The lattice of the values, its step doubled until quantiles can be chosen on it.
fn grid(bounds: &ValueBounds) -> Option<ValueBounds> {
    coarser(bounds, |grid| grid.range() < u64::from(Quantiles::MAX_POINTS))
}

/// The lattice of the values, its step doubled until the total of so many rows can be squared: see [`Shape::MOST`]. What a
/// value loses to its step is far below the noise, which is that of a unit with all rows at one end.
fn narrow(bounds: &ValueBounds, rows: u32) -> Option<ValueBounds> {
    let within = |steps: u64, most: u64| steps.checked_mul(rows.into()).is_some_and(|total| total <= most);
    coarser(bounds, |grid| grid.range() > 0 && within(grid.range(), Shape::MOST))
        .filter(|grid| within(grid.magnitude(), 1 << 62))
}

/// The first lattice that fits, of those whose steps are once, twice, four times … that of the values.
fn coarser(bounds: &ValueBounds, fits: impl Fn(&ValueBounds) -> bool) -> Option<ValueBounds> {
    let step = bounds.lattice().step();
    let ends = [bounds.lower(), bounds.upper()].map(|end| end as f64 * step);
    (0..54)
        .filter_map(|doublings| ValueBounds::new(ends[0], ends[1], Lattice::new(step * f64::from(doublings).exp2())?))
        .find(fits)
}

/// A value less the middle of its bounds; NULL where absent.
fn centred(value: usize, bounds: &ValueBounds) -> Expr {
    let steps = cast(column(value_name(value)), DataType::Float64);
    // Twice the distance from the middle is a whole number of steps; floats hold it exactly below 2^53.
    let twice = steps * lit(2.0) - lit(bounds.lower() as f64 + bounds.upper() as f64);
    twice * lit(bounds.lattice().step() / 2.0)
}

fn unplanned(error: &datafusion::common::DataFusionError) -> Refusal {
    Refusal::new(Code::Type, error.strip_backtrace())
}
