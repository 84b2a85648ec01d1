//! What is measured in each group, and how the values of an answer follow from it.

use dither_mechanisms::{FoundBounds, Fraction};

use dither_core::{Lattice, ValueBounds};

use super::Shape;
use crate::grid::Grid;
use crate::ir::Over;

/// What one block of the mechanism measures in each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The number of units.
    Units,
    /// The number of rows kept.
    Rows,
    /// One sum.
    Sum(usize),
    /// Σ(upper − x) and Σ(x − lower).
    Pair(Values),
    /// The same two, and the range once for each row without a value: a row moves one of the three or two of them, by one
    /// range together, so that the number of all rows follows for nothing.
    Triple(Values),
    /// Σ(x − middle)² between bounds that are found.
    Squares(usize),
    /// The number of different values of a histogram.
    Distinct(usize),
    /// ΣA², 2ΣAB and ΣB² over units, with A = Σ(upper − x) and B = Σ(x − lower) over the rows of one of them: how far their
    /// totals spread. A unit moves the three by (A + B)² together, at most the square of R ranges.
    UnitSquares(usize),
}

impl Measure {
    /// How many integers it is.
    pub fn width(&self) -> usize {
        match self {
            Self::Units | Self::Rows | Self::Sum(_) | Self::Squares(_) | Self::Distinct(_) => 1,
            Self::Pair(_) => 2,
            Self::Triple(_) | Self::UnitSquares(_) => 3,
        }
    }
}

/// The values that a pair is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Those of a summand.
    Summand(usize),
    /// Those of a column whose bounds are found.
    Found(usize),
}

/// A column whose bounds are found from the data, in all groups together.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The index of its histogram, on the grid of any magnitude.
    pub histogram: usize,
    /// Whether its values are whole numbers.
    pub whole: bool,
    /// As people wrote it.
    pub name: String,
}

impl Measure {
    /// The column whose bounds are found, if it is one.
    pub fn found(&self) -> Option<usize> {
        match *self {
            Self::Pair(Values::Found(index)) | Self::Triple(Values::Found(index)) | Self::Squares(index) => Some(index),
            _ => None,
        }
    }
}

impl Shape {
    /// The bounds of what is summed and the lattice of the sum; where bounds are found, in ranges from one to the other.
    pub fn bounds_of(&self, measure: &Measure) -> Option<ValueBounds> {
        let found = |upper: f64, steps: u64| ValueBounds::new(0.0, upper, Lattice::new(upper / steps as f64)?);
        match *measure {
            Measure::Units | Measure::Rows | Measure::Distinct(_) | Measure::UnitSquares(_) => None,
            Measure::Sum(index) => Some(self.summands[index].bounds),
            Measure::Pair(Values::Summand(index)) | Measure::Triple(Values::Summand(index)) => {
                Some(self.summands[index].bounds)
            }
            Measure::Pair(Values::Found(_)) | Measure::Triple(Values::Found(_)) => found(1.0, FoundBounds::STEPS),
            // The square of half a range.
            Measure::Squares(_) => found(0.25, FoundBounds::SQUARES),
        }
    }

    /// The column whose bounds an aggregate needs to be found.
    pub fn found_for(&self, derivation: Derivation) -> Option<usize> {
        derivation.blocks().into_iter().find_map(|block| self.measures[block].found())
    }
}

/// How an aggregate follows from the block at an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derivation {
    /// The integer itself, rounded to whole numbers.
    Count(usize),
    /// The integer itself, on the lattice of the values.
    Sum(usize),
    /// The count that a pair implies.
    PairCount(usize),
    /// The number of all rows that a triple implies.
    TripleCount(usize),
    /// The number of units that selected the key, which is that of the rows.
    Selected,
    /// The place of a group among the best, counted from the last.
    Place,
    /// The sum that a pair implies.
    PairSum(usize),
    /// The mean that a pair implies.
    PairMean(usize),
    /// The variance that a pair and a sum of squares imply.
    Variance {
        /// The pair of the values.
        pair: usize,
        /// The sum of their squares around the middle of their bounds.
        squares: usize,
        /// What it is divided by.
        over: Over,
    },
    /// The square root of that variance.
    Deviation {
        /// The pair of the values.
        pair: usize,
        /// The sum of their squares around the middle of their bounds.
        squares: usize,
        /// What the variance is divided by.
        over: Over,
    },
    /// The covariance that two pairs and a sum of products imply.
    Covariance {
        /// The pairs of both values, where both are present.
        pairs: [usize; 2],
        /// The sum of their products around the middles of their bounds.
        products: usize,
        /// What it is divided by.
        over: Over,
    },
    /// A quantile, as the exponential mechanism chooses it.
    Quantile {
        /// The index of its [`Ranks`].
        ranks: usize,
        /// Which quantile.
        fraction: Fraction,
    },
    /// That covariance over the square root of both variances.
    Correlation {
        /// The pairs of both values, where both are present.
        pairs: [usize; 2],
        /// The sum of their products around the middles of their bounds.
        products: usize,
        /// The sums of the squares of each.
        squares: [usize; 2],
    },
}

impl Derivation {
    /// The block that it follows from; of several, the one that nothing else needs. `None` for a quantile and
    /// for what the choice of keys measures.
    pub fn block(&self) -> Option<usize> {
        match *self {
            Self::Count(block)
            | Self::Sum(block)
            | Self::PairCount(block)
            | Self::TripleCount(block)
            | Self::PairSum(block)
            | Self::PairMean(block) => Some(block),
            Self::Variance { squares, .. } | Self::Deviation { squares, .. } => Some(squares),
            Self::Covariance { products, .. } | Self::Correlation { products, .. } => Some(products),
            Self::Quantile { .. } | Self::Selected | Self::Place => None,
        }
    }

    /// All blocks that it follows from.
    pub fn blocks(&self) -> Vec<usize> {
        match *self {
            Self::Count(block)
            | Self::Sum(block)
            | Self::PairCount(block)
            | Self::TripleCount(block)
            | Self::PairSum(block)
            | Self::PairMean(block) => vec![block],
            Self::Variance { pair, squares, .. } | Self::Deviation { pair, squares, .. } => vec![pair, squares],
            Self::Covariance { pairs: [a, b], products, .. } => vec![a, b, products],
            Self::Quantile { .. } | Self::Selected | Self::Place => Vec::new(),
            Self::Correlation { pairs: [a, b], products, squares: [c, d] } => vec![a, b, products, c, d],
        }
    }
}

/// The quantiles that are chosen from one histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranks {
    /// The index of the histogram.
    pub histogram: usize,
    /// Which quantiles, in any order.
    pub fractions: Vec<Fraction>,
    /// The grid that values lie on.
    pub grid: Grid,
}

impl Ranks {
    /// The number of points of the grid.
    pub fn points(&self) -> u64 {
        self.grid.points()
    }
}
