//! The noisy accuracy: a unit moves what is counted of its own rows, and of no others.

use super::*;
use crate::train::evaluation::count;

/// A model all of whose scores depend on how many rows stand beside each other, as last bits do in kernels of matrices.
struct Sociable(Vec<f32>);

impl Model for Sociable {
    fn trainable(&self) -> &[f32] {
        &self.0
    }
    fn trainable_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
    fn layers(&self) -> &[Layer] {
        &[]
    }
    fn add_clipped(&self, _: &Batch, _: &Clipping, _: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        Err("not for tests".into())
    }
    fn add_gradients(&self, _: &Batch, _: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        Err("not for tests".into())
    }
    fn predict(&self, inputs: &Inputs) -> Result<Vec<f32>, Box<dyn Error + Send + Sync>> {
        let Inputs::Numbers { values, .. } = inputs else { panic!("no numbers") };
        let first = if values.len().is_multiple_of(2) { 1.0 } else { 0.0 };
        Ok([first, 0.5].repeat(values.len()))
    }
}

#[test]
fn tr_01_a_unit_moves_the_accuracy_by_its_own_rows_alone() {
    let table = |rows: usize, units: usize| {
        let units = (0..rows).map(|row| (row % units).to_string()).collect();
        let (numbers, classes) = (vec![0.0; rows], vec![0; rows]);
        Table::new(Rows { numbers, width: 1, classes, units, count: rows, ..Rows::default() }, 3, &known_key(1))
    };
    let mut model = Sociable(Vec::new());
    // Units of three rows each, and one more of two: together the model would change its mind about all.
    let [without, with] = [(300, 100), (302, 101)].map(|(rows, units)| count(&mut model, &table(rows, units)).unwrap());
    assert_eq!(without.iter().sum::<i128>(), 300);
    assert_eq!(without, [0, 300]);
    assert_eq!(with.iter().sum::<i128>(), 302);
    let moved = with.iter().zip(&without).map(|(a, b)| (a - b).unsigned_abs()).max().unwrap();
    assert!(moved <= 3, "{without:?} and {with:?}");
    let few = table(6, 2);
    let score = |units: &[u32]| model.predict(&few.batch(units).inputs).unwrap()[0];
    assert_ne!(score(&[0]), score(&[0, 1]), "its score changes in company");
}
