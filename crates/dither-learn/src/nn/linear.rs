//! Linear layers, with low-rank adapters.

use std::ops::Range;

use super::buffer::Buffer;
use super::matrix::{add_product, multiply, part, part_mut, view, view_mut};
use super::parameters::{Builder, Parameters, Slot, Start};
use super::simd::{add_scaled, wide};
use super::spans::Spans;
use super::tape::Tape;

/// y = x·Wᵀ + b. Several layers of the same input are one whose outputs lie side by side.
#[derive(Clone, Debug)]
pub struct Linear {
    pub inputs: usize,
    pub outputs: usize,
    /// Outputs × inputs, one tensor per part.
    pub weights: Vec<Slot>,
    /// One per part, or none.
    pub biases: Vec<Slot>,
    pub adapters: Vec<Adapter>,
}

/// A low-rank addition to a part: y += scale·(x·Aᵀ)·Bᵀ.
///
/// # References
/// Hu et al., *LoRA: Low-Rank Adaptation of Large Language Models* (2022).
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Outputs of the part.
    pub columns: Range<usize>,
    /// A, rank × inputs.
    pub down: Slot,
    /// B, outputs × rank.
    pub up: Slot,
    pub rank: usize,
    pub scale: f32,
}

/// What the backward pass needs besides the inputs: x·Aᵀ of every adapter.
pub type Hidden = Vec<Buffer>;

impl Linear {
    /// Parts with names and outputs. A weight starts uniform with a variance of 1/(3·inputs) or as `start` says.
    pub fn new(
        builder: &mut Builder,
        inputs: usize,
        parts: &[(String, usize)],
        bias: bool,
        trainable: bool,
        start: Start,
    ) -> Self {
        let weight = |builder: &mut Builder, (name, outputs): &(String, usize)| {
            builder.tensor(format!("{name}.weight"), &[*outputs, inputs], trainable, start)
        };
        let weights = parts.iter().map(|part| weight(builder, part)).collect();
        let zeros = |builder: &mut Builder, (name, outputs): &(String, usize)| {
            builder.tensor(format!("{name}.bias"), &[*outputs], trainable, Start::Constant(0.0))
        };
        let biases = parts.iter().filter(|_| bias).map(|part| zeros(builder, part)).collect();
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        Self { inputs, outputs, weights, biases, adapters: Vec::new() }
    }

    /// Adds an adapter to the outputs `columns`: A starts uniform, B with zeros, so that nothing changes at first.
    pub fn adapt(&mut self, builder: &mut Builder, name: &str, columns: Range<usize>, rank: usize, scale: f32) {
        let down = [rank, self.inputs];
        let down = builder.tensor(format!("{name}.lora_A.weight"), &down, true, Start::fan_in(self.inputs));
        let up = builder.tensor(format!("{name}.lora_B.weight"), &[columns.len(), rank], true, Start::Constant(0.0));
        self.adapters.push(Adapter { columns, down, up, rank, scale });
    }

    /// Whether the backward pass needs the inputs.
    pub fn keeps_inputs(&self) -> bool {
        !self.adapters.is_empty() || self.weights.iter().any(|slot| slot.layer.is_some())
    }

    pub fn forward(&self, parameters: &Parameters, inputs: &[f32]) -> (Buffer, Hidden) {
        let rows = inputs.len() / self.inputs;
        let mut outputs = match self.biases.is_empty() {
            true => Buffer::zeros(rows * self.outputs),
            false => Buffer::repeat(parameters.adjacent(&self.biases), rows),
        };
        let x = view(inputs, self.inputs);
        let mut y = view_mut(&mut outputs, self.outputs);
        add_product(&x, &view(parameters.adjacent(&self.weights), self.inputs).transpose(), &mut y);
        let mut hidden = Hidden::new();
        for adapter in &self.adapters {
            let mut h = multiply(&x, &view(parameters.get(adapter.down), self.inputs).transpose());
            wide(
                #[inline(always)]
                || h.iter_mut().for_each(|h| *h *= adapter.scale),
            );
            let up = view(parameters.get(adapter.up), adapter.rank);
            add_product(
                &view(&h, adapter.rank),
                &up.transpose(),
                &mut part_mut(&mut y, 0..rows, adapter.columns.clone()),
            );
            hidden.push(h);
        }
        (outputs, hidden)
    }

    /// Records the gradients of the weights, and returns that of the inputs if it is wanted.
    pub fn backward(
        &self,
        parameters: &Parameters,
        (inputs, hidden): (Buffer, Hidden),
        gradients: Buffer,
        spans: &Spans,
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Buffer {
        let g = view(&gradients, self.outputs);
        let mut back = match wanted {
            true => multiply(&g, &view(parameters.adjacent(&self.weights), self.inputs)),
            false => Buffer::default(),
        };
        for (adapter, hidden) in self.adapters.iter().zip(hidden) {
            let g = part(&g, 0..g.nrows(), adapter.columns.clone());
            // The gradient of x·Aᵀ; the scale is already in `hidden`.
            let mut u = multiply(&g, &view(parameters.get(adapter.up), adapter.rank));
            wide(
                #[inline(always)]
                || u.iter_mut().for_each(|u| *u *= adapter.scale),
            );
            let (h, x, u) = (view(&hidden, adapter.rank), view(&inputs, self.inputs), view(&u, adapter.rank));
            tape.rows(adapter.up, spans, |rows, out| {
                let (g, h) = (part(&g, rows.clone(), 0..adapter.columns.len()), part(&h, rows, 0..adapter.rank));
                add_product(&g.transpose(), &h, &mut view_mut(out, adapter.rank));
            });
            tape.rows(adapter.down, spans, |rows, out| {
                let (u, x) = (part(&u, rows.clone(), 0..adapter.rank), part(&x, rows, 0..self.inputs));
                add_product(&u.transpose(), &x, &mut view_mut(out, self.inputs));
            });
            if wanted {
                let down = view(parameters.get(adapter.down), self.inputs);
                add_product(&u, &down, &mut view_mut(&mut back, self.inputs));
            }
        }
        let mut first = 0;
        for &bias in &self.biases {
            let columns = first..first + bias.length;
            first = columns.end;
            tape.rows(bias, spans, |rows, out| {
                wide(
                    #[inline(always)]
                    || {
                        for row in gradients[rows.start * self.outputs..rows.end * self.outputs].chunks(self.outputs) {
                            add_scaled(out, 1.0, &row[columns.clone()]);
                        }
                    },
                );
            });
        }
        if self.weights.iter().any(|slot| slot.layer.is_some()) {
            tape.product(&self.weights, inputs, gradients, spans);
        }
        back
    }
}
