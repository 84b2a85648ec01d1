//! One block of a transformer: attention, then two linear layers, each with a way round.

use super::activation::{Activation, gated, gated_back};
use super::add_to as add;
use super::attention::Attention;
use super::buffer::Buffer;
use super::description::{Lora, Target};
use super::linear::{Hidden, Linear};
use super::norm::{Norm, Normalised};
use super::parameters::{Builder, Parameters, Start};
use super::rotary::Rotary;
use super::spans::Spans;
use super::tape::Tape;

/// A block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Whether each half is normalised before, and not after it was added.
    before: bool,
    norms: [Norm; 2],
    /// Queries, keys and values side by side.
    inward: Linear,
    rotary: Option<Rotary>,
    attention: Attention,
    output: Linear,
    /// With a gate, that stands before the others.
    up: Linear,
    /// Whether silu(gate)·up comes between the two layers, and not GELU.
    gated: bool,
    down: Linear,
}

/// What blocks have in common.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub width: usize,
    pub heads: usize,
    pub groups: usize,
    pub hidden: usize,
    pub causal: bool,
    pub before: bool,
    pub epsilon: f64,
    pub kind: Kind,
}

/// What families of transformers differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Layers with constants, LayerNorm, GELU; positions come from a table.
    Classic,
    /// Layers without constants, RMSNorm, SwiGLU; queries and keys are turned by their position.
    Llama {
        /// The base of the angles.
        base: f64,
    },
}

/// Names of the parts of a block.
#[derive(Clone, Debug)]
pub struct Names {
    /// Queries, keys, values.
    pub inward: [String; 3],
    pub output: String,
    /// Used where there is one.
    pub gate: String,
    pub up: String,
    pub down: String,
    pub norms: [String; 2],
}

/// What a block keeps for the way back.
#[derive(Debug)]
pub struct Saved {
    norms: [Normalised; 2],
    inward: (Buffer, Hidden),
    /// Queries, keys and values, and the weights of attention.
    attention: (Buffer, Buffer),
    output: (Buffer, Hidden),
    up: (Buffer, Hidden),
    activation: Buffer,
    down: (Buffer, Hidden),
}

/// The standard deviation that weights of transformers start with, and the models before us did.
pub const DEVIATION: Start = Start::Normal(0.02);

impl Block {
    pub fn new(builder: &mut Builder, form: Form, names: Names, trainable: bool, lora: Option<&Lora>) -> Self {
        let Form { width, hidden, .. } = form;
        let attention =
            Attention { heads: form.heads, groups: form.groups, width: width / form.heads, causal: form.causal };
        let narrow = form.groups * attention.width;
        let [query, key, value] = names.inward.clone();
        let inward = [(query, width), (key, narrow), (value, narrow)];
        let classic = form.kind == Kind::Classic;
        let mut linear =
            |inputs, parts: &[(String, usize)]| Linear::new(builder, inputs, parts, classic, trainable, DEVIATION);
        let mut inward = linear(width, &inward);
        let mut output = linear(width, &[(names.output.clone(), width)]);
        let gate = [(names.gate.clone(), hidden), (names.up.clone(), hidden)];
        let mut up = linear(width, &gate[usize::from(classic)..]);
        let first = up.outputs - hidden;
        let mut down = linear(hidden, &[(names.down.clone(), width)]);
        let norms = names.norms.map(|name| Norm::new(builder, &name, width, classic, trainable, form.epsilon));
        for target in lora.iter().flat_map(|lora| &lora.targets) {
            let (linear, name, columns) = match target {
                Target::Query => (&mut inward, &names.inward[0], 0..width),
                Target::Key => (&mut inward, &names.inward[1], width..width + narrow),
                Target::Value => (&mut inward, &names.inward[2], width + narrow..width + 2 * narrow),
                Target::Output => (&mut output, &names.output, 0..width),
                Target::Gate => (&mut up, &names.gate, 0..first),
                Target::Up => (&mut up, &names.up, first..first + hidden),
                Target::Down => (&mut down, &names.down, 0..width),
            };
            if let Some(lora) = lora {
                linear.adapt(builder, name, columns, lora.rank, (lora.alpha / lora.rank as f64) as f32);
            }
        }
        let rotary = match form.kind {
            Kind::Classic => None,
            Kind::Llama { base } => Some(Rotary { base, width: attention.width }),
        };
        Self { before: form.before, norms, inward, rotary, attention, output, up, gated: !classic, down }
    }

    /// Queries and keys, which come first in a position, turned forward or back by it.
    fn turn(&self, inward: &mut [f32], sequences: &Spans, back: bool) {
        if let Some(rotary) = &self.rotary {
            let heads = self.attention.heads + self.attention.groups;
            rotary.turn(inward, self.attention.inputs(), heads, sequences, back);
        }
    }

    pub fn forward(&self, parameters: &Parameters, x: Buffer, sequences: &Spans) -> (Buffer, Saved) {
        let (x, around, early) = self.enter(0, parameters, x);
        let (mut inward, hidden) = self.inward.forward(parameters, &x);
        self.turn(&mut inward, sequences, false);
        let (mixed, weights) = self.attention.forward(&inward, sequences);
        let (mut y, output_hidden) = self.output.forward(parameters, &mixed);
        add(&mut y, around.as_ref().unwrap_or(&x));
        let inward_saved = (kept(&self.inward, x), hidden);
        let (y, first) = self.leave(0, parameters, y, early);

        let (y, around, early) = self.enter(1, parameters, y);
        let (activation, up_hidden) = self.up.forward(parameters, &y);
        let active = match self.gated {
            true => gated(&activation, self.down.inputs),
            false => Activation::Gelu.forward(&activation),
        };
        let (mut z, down_hidden) = self.down.forward(parameters, &active);
        add(&mut z, around.as_ref().unwrap_or(&y));
        let up = (kept(&self.up, y), up_hidden);
        let (z, second) = self.leave(1, parameters, z, early);
        let saved = Saved {
            norms: [first, second],
            inward: inward_saved,
            attention: (inward, weights),
            output: (kept(&self.output, mixed), output_hidden),
            up,
            activation,
            down: (kept(&self.down, active), down_hidden),
        };
        (z, saved)
    }

    /// What goes into a half, what goes round it if that is something else, and the norm before it.
    fn enter(&self, half: usize, parameters: &Parameters, x: Buffer) -> (Buffer, Option<Buffer>, Option<Normalised>) {
        if !self.before {
            return (x, None, None);
        }
        let around = x.clone();
        let (y, saved) = self.norms[half].forward(parameters, x);
        (y, Some(around), Some(saved))
    }

    /// What comes out of a half, and what its norm, before or after, has kept.
    fn leave(
        &self,
        half: usize,
        parameters: &Parameters,
        y: Buffer,
        early: Option<Normalised>,
    ) -> (Buffer, Normalised) {
        match early {
            Some(saved) => (y, saved),
            None => self.norms[half].forward(parameters, y),
        }
    }

    /// The gradient of the inputs if it is wanted. `spans` are those of samples, by position.
    pub fn backward(
        &self,
        parameters: &Parameters,
        saved: Saved,
        gradients: Buffer,
        (spans, sequences): (&Spans, &Spans),
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Buffer {
        let [first, second] = saved.norms;
        let norm = |half: usize, saved, g, tape: &mut Tape<'_>, wanted| {
            self.norms[half].backward(parameters, saved, g, spans, tape, wanted)
        };
        let (g, second) = match self.before {
            true => (gradients, Some(second)),
            false => (norm(1, second, gradients, tape, true), None),
        };
        let around = g.clone();
        let mut g = self.down.backward(parameters, saved.down, g, spans, tape, true);
        match self.gated {
            true => g = gated_back(&saved.activation, &g, self.down.inputs),
            false => Activation::Gelu.backward(&saved.activation, &mut g),
        }
        let mut g = self.up.backward(parameters, saved.up, g, spans, tape, true);
        if let Some(second) = second {
            g = norm(1, second, g, tape, true);
        }
        add(&mut g, &around);

        let (g, first) = match self.before {
            true => (g, Some(first)),
            false => (norm(0, first, g, tape, true), None),
        };
        let around = if wanted { g.clone() } else { Buffer::default() };
        let g = self.output.backward(parameters, saved.output, g, spans, tape, true);
        let (inward, weights) = saved.attention;
        let mut g = self.attention.backward(&inward, &weights, &g, sequences);
        self.turn(&mut g, sequences, true);
        let norm_learns = self.before && self.norms[0].gamma.layer.is_some();
        let mut g = self.inward.backward(parameters, saved.inward, g, spans, tape, wanted || norm_learns);
        if let Some(first) = first.filter(|_| wanted || norm_learns) {
            g = norm(0, first, g, tape, wanted);
        }
        if wanted {
            add(&mut g, &around);
        }
        g
    }
}

/// Inputs are kept where the gradient of weights needs them.
fn kept(linear: &Linear, inputs: Buffer) -> Buffer {
    if linear.keeps_inputs() { inputs } else { Buffer::default() }
}
