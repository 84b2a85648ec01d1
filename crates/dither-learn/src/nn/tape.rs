//! What one backward pass leaves behind: norms of samples, and what their clipped sum is made of.
//!
//! Layers hand in the inputs and output gradients of their weights. Norms are computed at once, most of them without
//! the gradient of any sample. When all are known, every sample gets its factor, and one product per layer makes the
//! clipped sum ("book-keeping").
//!
//! # Privacy
//! What a sample adds to the sum has norm C at most, whatever the others are: its factor is computed from a norm of its
//! own gradient that is never too small by more than what 1e-6 covers, and a gradient that is not finite adds nothing.
//! Float rounding in the sum itself remains, as everywhere where floats are added up.
//!
//! # References
//! Lee, Kifer, *Scaling up Differentially Private Deep Learning with Fast Per-Example Gradient Clipping* (2021), for
//! norms from inputs and output gradients; Bu et al., *Differentially Private Optimization on Large Model at Small
//! Cost* (2023), for the single pass.

use std::ops::Range;

use super::buffer::Buffer;
use super::factors::Factors;
use super::ghost;
use super::lookup;
use super::matrix::{add_product, part, view, view_mut};
use super::parameters::Slot;
use super::simd::{add_scaled, sum_of_squares, wide};
use super::spans::Spans;

/// Takes what layers hand in on the way back, and adds gradients to a sum.
pub struct Tape<'a> {
    sum: &'a mut [f32],
    /// Absent without clipping: then everything is added at once.
    records: Option<Records>,
    /// Inputs and output gradients of a head whose weights are an embedding as well, until that hands in its own.
    head: Option<(Buffer, Buffer)>,
}

struct Records {
    /// Squared norms, of every layer and sample.
    squares: Vec<Vec<f64>>,
    records: Vec<Record>,
}

/// What the clipped sum of one or more layers is made of.
enum Record {
    /// The gradient of every sample.
    Rows { slot: Slot, values: Buffer },
    /// Inputs and output gradients of a product.
    Product { slots: Vec<Slot>, inputs: Buffer, gradients: Buffer, spans: Spans },
    /// Output gradients of a table.
    Lookup { slot: Slot, ids: Vec<u32>, gradients: Buffer, spans: Spans },
}

impl<'a> Tape<'a> {
    /// A tape for gradients that are added up as they are.
    pub fn plain(sum: &'a mut [f32]) -> Self {
        Self { sum, records: None, head: None }
    }

    /// A tape for clipped gradients.
    pub fn clipped(sum: &'a mut [f32], layers: usize, samples: usize) -> Self {
        let records = Records { squares: vec![vec![0.0; samples]; layers], records: Vec::new() };
        Self { sum, records: Some(records), head: None }
    }

    /// A tensor whose gradient is small: `fill` adds that of some positions to a slice.
    pub fn rows(&mut self, slot: Slot, spans: &Spans, fill: impl Fn(Range<usize>, &mut [f32])) {
        let Some(layer) = slot.layer else { return };
        let Some(records) = &mut self.records else {
            fill(0..spans.total(), &mut self.sum[slot.range()]);
            return;
        };
        let mut values = Buffer::zeros(spans.len() * slot.length);
        for (sample, (span, row)) in spans.iter().zip(values.chunks_mut(slot.length)).enumerate() {
            fill(span, row);
            records.squares[layer][sample] += wide(
                #[inline(always)]
                || sum_of_squares(row),
            );
        }
        records.records.push(Record::Rows { slot, values });
    }

    /// Weights of a product of `inputs` with them; their outputs lie side by side in `gradients`.
    pub fn product(&mut self, slots: &[Slot], inputs: Buffer, gradients: Buffer, spans: &Spans) {
        let positions = spans.total();
        let weights: usize = slots.iter().map(|slot| slot.length).sum();
        if positions == 0 || weights == 0 {
            return;
        }
        let (x, g) = (view(&inputs, inputs.len() / positions), view(&gradients, gradients.len() / positions));
        let Some(records) = &mut self.records else {
            for (slot, columns) in columns(slots, x.ncols()) {
                let g = part(&g, 0..positions, columns);
                add_product(&g.transpose(), &x, &mut view_mut(&mut self.sum[slot.range()], x.ncols()));
            }
            return;
        };
        // Where no sample gains by the other way, gradients are small enough to be kept.
        if spans.iter().all(|span| !ghost::pays(span.len(), weights)) {
            for (slot, columns) in columns(slots, x.ncols()) {
                self.rows(slot, spans, |rows, out| {
                    let (g, x) = (part(&g, rows.clone(), columns.clone()), part(&x, rows, 0..x.ncols()));
                    add_product(&g.transpose(), &x, &mut view_mut(out, x.ncols()));
                });
            }
            return;
        }
        let columns: Vec<_> = columns(slots, x.ncols()).collect();
        for (sample, span) in spans.iter().enumerate() {
            let (x, g) = (part(&x, span.clone(), 0..x.ncols()), part(&g, span, 0..g.ncols()));
            let ranges = columns.iter().map(|(_, range)| range.clone());
            for (square, (slot, _)) in ghost::squares(&x, &g, ranges).into_iter().zip(&columns) {
                if let Some(layer) = slot.layer {
                    records.squares[layer][sample] += square;
                }
            }
        }
        let slots = slots.to_vec();
        records.records.push(Record::Product { slots, inputs, gradients, spans: spans.clone() });
    }

    /// A table of which each position takes the row of its id.
    pub fn lookup(&mut self, slot: Slot, ids: &[u32], gradients: Buffer, spans: &Spans) {
        let Some(layer) = slot.layer else { return };
        if spans.total() == 0 {
            return;
        }
        let width = gradients.len() / spans.total();
        let Some(records) = &mut self.records else {
            lookup::add(&mut self.sum[slot.range()], ids, &gradients, width);
            return;
        };
        for (sample, span) in spans.iter().enumerate() {
            let g = &gradients[span.start * width..span.end * width];
            records.squares[layer][sample] += lookup::square(&ids[span], g, slot.length / width);
        }
        records.records.push(Record::Lookup { slot, ids: ids.to_vec(), gradients, spans: spans.clone() });
    }

    /// The first half of a table that is also the weights of the head: `inputs` were multiplied with all its rows.
    pub fn tied_head(&mut self, inputs: Buffer, gradients: Buffer) {
        self.head = Some((inputs, gradients));
    }

    /// The second half: the same table was looked up. Both uses have one gradient, and so one norm.
    pub fn tied_lookup(&mut self, slot: Slot, ids: &[u32], looked_up: Buffer, spans: &Spans) {
        let Some((inputs, gradients)) = self.head.take() else { return };
        let Some(layer) = slot.layer else { return };
        if spans.total() == 0 {
            return;
        }
        let width = inputs.len() / spans.total();
        let rows = slot.length / width;
        let Some(records) = &mut self.records else {
            let (x, g) = (view(&inputs, width), view(&gradients, rows));
            add_product(&g.transpose(), &x, &mut view_mut(&mut self.sum[slot.range()], width));
            lookup::add(&mut self.sum[slot.range()], ids, &looked_up, width);
            return;
        };
        for (sample, span) in spans.iter().enumerate() {
            let (x, g) =
                (&inputs[span.start * width..span.end * width], &gradients[span.start * rows..span.end * rows]);
            let e = &looked_up[span.start * width..span.end * width];
            records.squares[layer][sample] += lookup::tied_square(&ids[span], e, &view(x, width), &view(g, rows));
        }
        let ids = ids.to_vec();
        records.records.push(Record::Product { slots: vec![slot], inputs, gradients, spans: spans.clone() });
        records.records.push(Record::Lookup { slot, ids, gradients: looked_up, spans: spans.clone() });
    }

    /// Squared norms of the gradients, of every layer and sample; none without clipping.
    pub fn squares(&self) -> &[Vec<f64>] {
        self.records.as_ref().map_or(&[], |records| &records.squares)
    }

    /// Adds everything that was recorded to the sum, each sample with its factor.
    pub fn add(self, factors: &Factors) {
        let Some(records) = self.records else { return };
        for record in records.records {
            record.add(factors, self.sum);
        }
    }
}

/// The columns of every part of a product.
fn columns(slots: &[Slot], inputs: usize) -> impl Iterator<Item = (Slot, Range<usize>)> {
    let mut first = 0;
    slots.iter().map(move |&slot| {
        let columns = first..first + slot.length / inputs;
        first = columns.end;
        (slot, columns)
    })
}

impl Record {
    fn add(self, factors: &Factors, sum: &mut [f32]) {
        match self {
            Self::Rows { slot, values } => {
                let out = &mut sum[slot.range()];
                for (sample, row) in values.chunks(slot.length).enumerate() {
                    let factor = factors.get(slot, sample);
                    if factor != 0.0 {
                        wide(
                            #[inline(always)]
                            || add_scaled(out, factor, row),
                        );
                    }
                }
            }
            Self::Product { slots, mut inputs, mut gradients, spans } => {
                let (inner, outer) = (inputs.len() / spans.total(), gradients.len() / spans.total());
                let columns: Vec<_> = columns(&slots, inner).collect();
                for (sample, span) in spans.iter().enumerate() {
                    for row in gradients[span.start * outer..span.end * outer].chunks_mut(outer) {
                        for (slot, columns) in &columns {
                            scale(&mut row[columns.clone()], factors.get(*slot, sample));
                        }
                    }
                    if factors.is_dropped(sample) {
                        // Not even 0 times what is not finite may enter a product.
                        inputs[span.start * inner..span.end * inner].fill(0.0);
                    }
                }
                let (x, g) = (view(&inputs, inner), view(&gradients, outer));
                for (slot, columns) in columns {
                    let g = part(&g, 0..g.nrows(), columns);
                    add_product(&g.transpose(), &x, &mut view_mut(&mut sum[slot.range()], inner));
                }
            }
            Self::Lookup { slot, ids, mut gradients, spans } => {
                let width = gradients.len() / spans.total();
                for (sample, span) in spans.iter().enumerate() {
                    let factor = factors.get(slot, sample);
                    let g = &mut gradients[span.start * width..span.end * width];
                    scale(g, factor);
                    if factor != 0.0 {
                        lookup::add(&mut sum[slot.range()], &ids[span], g, width);
                    }
                }
            }
        }
    }
}

fn scale(numbers: &mut [f32], factor: f32) {
    match factor {
        0.0 => numbers.fill(0.0),
        _ => wide(
            #[inline(always)]
            || numbers.iter_mut().for_each(|number| *number *= factor),
        ),
    }
}
