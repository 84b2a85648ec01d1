//! Positions as angles.

use super::spans::Spans;

/// Turns pairs of numbers of a head by angles that grow with the position: number i and number i + width/2 by
/// position·base^(−2i/width). The product of a query and a key then depends on how far apart they are.
///
/// # References
/// Su et al., *RoFormer: Enhanced Transformer with Rotary Position Embedding* (2021). Which numbers are a pair is as in
/// the Llama models of Hugging Face.
#[derive(Clone, Copy, Debug)]
pub struct Rotary {
    pub base: f64,
    /// Width of a head, an even number.
    pub width: usize,
}

impl Rotary {
    /// Turns the first `heads` heads of every position of `row` numbers; back for gradients, since turning keeps lengths.
    pub fn turn(&self, numbers: &mut [f32], row: usize, heads: usize, sequences: &Spans, back: bool) {
        let half = self.width / 2;
        let longest = sequences.iter().map(|span| span.len()).max().unwrap_or(0);
        let angles = (0..longest).flat_map(|place| (0..half).map(move |pair| self.angle(place, pair)));
        let turns: Vec<(f32, f32)> = angles.map(|angle| (angle.cos() as f32, angle.sin() as f32)).collect();
        for span in sequences.iter() {
            let positions = numbers[span.start * row..span.end * row].chunks_exact_mut(row);
            for (position, turns) in positions.zip(turns.chunks_exact(half)) {
                for head in position[..heads * self.width].chunks_exact_mut(self.width) {
                    let (first, second) = head.split_at_mut(half);
                    for ((x, y), &(cos, sin)) in first.iter_mut().zip(second).zip(turns) {
                        let sin = if back { -sin } else { sin };
                        (*x, *y) = (*x * cos - *y * sin, *y * cos + *x * sin);
                    }
                }
            }
        }
    }

    fn angle(&self, place: usize, pair: usize) -> f64 {
        place as f64 * self.base.powf(-2.0 * pair as f64 / self.width as f64)
    }
}
