//! The public grid that quantiles are chosen on: the lattice between declared bounds, or one for numbers of any magnitude.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::math::expr_fn::{floor, isnan};
use datafusion::logical_expr::{Expr, lit, try_cast, when};
use datafusion::scalar::ScalarValue;
use dither_core::ValueBounds;
use dither_mechanisms::{Magnitudes, Quantiles};

use crate::bound::on_lattice;

const LEAST: i32 = Magnitudes::LEAST;
const GREATEST: i32 = Magnitudes::GREATEST;
const STEPS: i64 = Magnitudes::STEPS;
const SIDE: i64 = Magnitudes::SIDE;

const _: () = assert!(2 * SIDE < Quantiles::MAX_POINTS as i64);

/// A public grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// The lattice between bounds.
    Lattice(ValueBounds),
    /// That of [`Magnitudes`].
    AnyMagnitude,
}

impl Grid {
    /// The number of points.
    pub fn points(&self) -> u64 {
        match self {
            Self::Lattice(bounds) => bounds.range() + 1,
            Self::AnyMagnitude => 2 * SIDE as u64 + 1,
        }
    }

    /// The number of the first point.
    pub fn lower(&self) -> i64 {
        match self {
            Self::Lattice(bounds) => bounds.lower(),
            Self::AnyMagnitude => -SIDE,
        }
    }

    /// What a point stands for, counted from the first.
    ///
    /// ```
    /// use dither_query::grid::Grid;
    /// let grid = Grid::AnyMagnitude;
    /// let middle = i128::from(grid.points() / 2);
    /// assert_eq!((grid.value(middle), grid.value(middle + 1)), (0.0, 2f64.powi(-20)));
    /// assert_eq!(grid.value(middle - 1), -grid.value(middle + 1));
    /// assert_eq!(grid.value(middle + 1 + 20 * 4096), 1.0);
    /// ```
    pub fn value(&self, point: i128) -> f64 {
        match self {
            Self::Lattice(bounds) => bounds.lattice().value(i128::from(bounds.lower()) + point),
            Self::AnyMagnitude => Magnitudes::beginning(point.clamp(0, 2 * i128::from(SIDE)) as i64 - SIDE),
        }
    }

    /// A float as the number of its point; NULL for NULL and NaN.
    pub(crate) fn number(&self, value: &Expr) -> Result<Expr> {
        match self {
            Self::Lattice(bounds) => on_lattice(value, bounds),
            Self::AnyMagnitude => any_magnitude(value),
        }
    }
}

/// Built from comparisons, products with powers of two, sums and one floor, so that every engine makes the same of a value.
/// Where a sum rounds it does so upwards to the next step at most, and in the order of the values.
fn any_magnitude(value: &Expr) -> Result<Expr> {
    let negative = || value.clone().lt(lit(0.0));
    let side = |sign: f64| {
        let size = value.clone() * lit(sign);
        let mut cases = when(size.clone().lt(lit(f64::from(LEAST).exp2())), lit(0.0));
        for octave in LEAST..GREATEST {
            // The last step takes everything from its beginning on, so that no sum can round beyond it.
            let last = if octave + 1 == GREATEST { 0.5 / STEPS as f64 } else { 0.0 };
            let end = f64::from(octave + 1).exp2() * (1.0 - last);
            let number = f64::from(octave - LEAST) * STEPS as f64 + 1.0 - STEPS as f64;
            let steps = size.clone() * lit(STEPS as f64 * f64::from(-octave).exp2()) + lit(number);
            cases = cases.when(size.clone().lt(lit(end)), steps);
        }
        cases.otherwise(lit(SIDE as f64))
    };
    let number = when(isnan(value.clone()), lit(ScalarValue::Float64(None)))
        .when(negative(), lit(0.0) - floor(side(-1.0)?))
        .when(value.clone().is_not_null(), floor(side(1.0)?))
        .end()?;
    Ok(try_cast(number, DataType::Int64))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Array, AsArray, Float64Array, RecordBatch};
    use datafusion::arrow::datatypes::{Field, Int64Type, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::col;
    use datafusion::prelude::SessionContext;
    use proptest::prelude::*;

    use super::*;

    fn numbers(values: &[Option<f64>]) -> Vec<Option<i64>> {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, true)]));
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Float64Array::from(values.to_vec()))]).unwrap();
        let expr = Grid::AnyMagnitude.number(&col("x")).unwrap();
        let schema = DFSchema::try_from(schema).unwrap();
        let expr = SessionContext::new().create_physical_expr(expr, &schema).unwrap();
        let array = expr.evaluate(&batch).unwrap().into_array(values.len()).unwrap();
        let array = array.as_primitive::<Int64Type>();
        (0..array.len()).map(|row| array.is_valid(row).then(|| array.value(row))).collect()
    }

    #[test]
    fn se_11_and_fp_07_odd_numbers_have_a_point_or_none() {
        let values = [
            (None, None),
            (Some(f64::NAN), None),
            (Some(-f64::NAN), None),
            (Some(0.0), Some(0)),
            (Some(-0.0), Some(0)),
            (Some(f64::MIN_POSITIVE), Some(0)),
            (Some(-1e-300), Some(0)),
            (Some(f64::INFINITY), Some(SIDE)),
            (Some(f64::NEG_INFINITY), Some(-SIDE)),
            (Some(f64::MAX), Some(SIDE)),
            (Some(i64::MIN as f64), Some(-SIDE)),
            (Some(2f64.powi(63).next_down()), Some(SIDE)),
            (Some(2f64.powi(-20)), Some(1)),
            (Some(2f64.powi(-20).next_down()), Some(0)),
            (Some(1.0), Some(20 * STEPS + 1)),
            (Some(-1.0), Some(-20 * STEPS - 1)),
        ];
        let (inputs, expected): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        assert_eq!(numbers(&inputs), expected);
    }

    #[test]
    fn whole_numbers_up_to_8192_are_points() {
        let values: Vec<f64> = (-8192..=8192).map(f64::from).collect();
        let numbers = numbers(&values.iter().copied().map(Some).collect::<Vec<_>>());
        for (value, number) in values.iter().zip(numbers) {
            assert_eq!(Grid::AnyMagnitude.value(i128::from(number.unwrap() + SIDE)), *value);
        }
    }

    proptest! {
        #[test]
        fn a_point_is_next_to_its_value_and_in_order(mut values in proptest::collection::vec(any::<f64>(), 2..40)) {
            values.retain(|value| value.is_finite() && value.abs() < 2f64.powi(63) && value.abs() >= 2f64.powi(-20));
            values.sort_by(f64::total_cmp);
            let numbers = numbers(&values.iter().copied().map(Some).collect::<Vec<_>>());
            let points: Vec<f64> =
                numbers.iter().map(|number| Grid::AnyMagnitude.value(i128::from(number.unwrap() + SIDE))).collect();
            prop_assert!(points.is_sorted());
            for (value, point) in values.iter().zip(points) {
                prop_assert!((value - point).abs() <= value.abs() / STEPS as f64, "{value} {point}");
            }
        }
    }
}
