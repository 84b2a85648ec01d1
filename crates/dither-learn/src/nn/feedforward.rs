//! Layers one after the other.

use super::activation::Activation;
use super::buffer::Buffer;
use super::description::{Input, Layers, Stage};
use super::error::NetworkError;
use super::images::{Conv, Pool, Size, Windows, transpose};
use super::linear::{Hidden, Linear};
use super::norm::{GroupNorm, Norm, Normalised};
use super::parameters::{Builder, Parameters, Start};
use super::spans::Spans;
use super::tape::Tape;

/// The most weights of a network. With positions and widths bounded as well, no size overflows.
pub const MOST_WEIGHTS: usize = 1 << 31;
const EPSILON: f64 = 1e-5;

/// Layers that are built.
#[derive(Clone, Debug)]
pub struct Feedforward {
    units: Vec<Unit>,
    pub inputs: usize,
    pub outputs: usize,
}

#[derive(Clone, Debug)]
enum Unit {
    Linear(Linear),
    Conv(Conv),
    Pool(Pool),
    Activation(Activation),
    Norm(Norm),
    GroupNorm(GroupNorm),
    /// From so many outer to so many inner numbers, and their order reversed.
    Transpose(usize, usize),
}

/// What a layer keeps for the way back.
enum Saved {
    Linear(Buffer, Hidden),
    Inputs(Buffer),
    Places(Vec<u32>),
    Normalised(Normalised),
    Nothing,
}

impl Feedforward {
    pub fn new(builder: &mut Builder, description: &Layers) -> Result<Self, NetworkError> {
        let refuse = |index: usize, text: &str| Err(NetworkError::Description(format!("layer {index}: {text}")));
        let mut units = Vec::new();
        let mut shape = match description.input {
            Input::Numbers(width) => Shape::Row(width),
            Input::Image { channels, height, width } => Shape::Image(Size { height, width, channels }),
        };
        let inputs =
            shape.numbers().ok_or_else(|| NetworkError::Description("input: it is empty or too large".into()))?;
        if let Shape::Image(size) = shape {
            units.push(Unit::Transpose(size.channels, size.height * size.width));
        }
        for (index, stage) in description.layers.iter().enumerate() {
            let unit = match (*stage, shape) {
                (Stage::BatchNorm, _) => {
                    return refuse(
                        index,
                        "BatchNorm mixes the samples of a batch, so no gradient belongs to one of them; \
                         use group_norm (GroupNorm), or layer_norm",
                    );
                }
                (Stage::Linear { outputs, bias }, _) => {
                    let width = inputs_of(shape, &mut units);
                    if outputs == 0 || width.checked_mul(outputs).is_none_or(|weights| weights > MOST_WEIGHTS) {
                        return refuse(index, "it has no outputs, or too many weights");
                    }
                    shape = Shape::Row(outputs);
                    let part = [(index.to_string(), outputs)];
                    Unit::Linear(Linear::new(builder, width, &part, bias, true, Start::fan_in(width)))
                }
                (Stage::Conv2d { channels, kernel, stride, padding }, Shape::Image(input)) => {
                    let windows = Windows { input, kernel, stride, padding };
                    let Some(count) = windows.count().filter(|_| kernel > 0 && stride > 0 && padding < kernel) else {
                        return refuse(index, "no window fits: the kernel is larger than the image, or a size is 0");
                    };
                    let output = Size { height: count.0, width: count.1, channels };
                    let inputs = kernel * kernel * input.channels;
                    if channels == 0 || inputs.checked_mul(channels).is_none_or(|weights| weights > MOST_WEIGHTS) {
                        return refuse(index, "it has no channels, or too many weights");
                    }
                    shape = Shape::Image(output);
                    let part = [(index.to_string(), channels)];
                    let linear = Linear::new(builder, inputs, &part, true, true, Start::fan_in(inputs));
                    builder.reshape(linear.weights[0], &[channels, kernel, kernel, input.channels]);
                    Unit::Conv(Conv { windows, count, linear })
                }
                (Stage::MaxPool { kernel, stride } | Stage::AvgPool { kernel, stride }, Shape::Image(input)) => {
                    let windows = Windows { input, kernel, stride, padding: 0 };
                    let Some(count) = windows.count().filter(|_| (1..256).contains(&kernel) && stride > 0) else {
                        return refuse(index, "no window fits: the kernel is larger than the image, or a size is 0");
                    };
                    shape = Shape::Image(Size { height: count.0, width: count.1, channels: input.channels });
                    Unit::Pool(Pool { windows, count, largest: matches!(stage, Stage::MaxPool { .. }) })
                }
                (Stage::GroupNorm { groups }, Shape::Image(size)) => {
                    if groups == 0 || size.channels % groups != 0 {
                        return refuse(index, "the number of groups does not divide that of channels");
                    }
                    let norm = Norm::new(builder, &index.to_string(), size.channels, true, true, EPSILON);
                    let (gamma, beta, epsilon) = (norm.gamma, norm.beta.unwrap_or(norm.gamma), norm.epsilon);
                    let (positions, channels) = (size.height * size.width, size.channels);
                    Unit::GroupNorm(GroupNorm { positions, channels, groups, gamma, beta, epsilon })
                }
                (Stage::Activation { function }, _) => Unit::Activation(function),
                (Stage::LayerNorm | Stage::RmsNorm, _) => {
                    let width = inputs_of(shape, &mut units);
                    shape = Shape::Row(width);
                    let centred = *stage == Stage::LayerNorm;
                    Unit::Norm(Norm::new(builder, &index.to_string(), width, centred, true, EPSILON))
                }
                (_, Shape::Row(_)) => return refuse(index, "it needs an image, and its input is a row of numbers"),
            };
            units.push(unit);
            if shape.numbers().is_none() {
                return refuse(index, "its output is empty or too large");
            }
        }
        let outputs = inputs_of(shape, &mut units);
        Ok(Self { units, inputs, outputs })
    }

    /// Scores of all rows.
    pub fn predict(&self, parameters: &Parameters, inputs: &[f32]) -> Vec<f32> {
        self.units.iter().fold(Buffer::copy(inputs), |x, unit| unit.forward(parameters, x).0).to_vec()
    }

    /// Scores of all rows, then back with what `loss` makes of them: their gradients.
    pub fn pass<T>(
        &self,
        parameters: &Parameters,
        inputs: &[f32],
        samples: &Spans,
        tape: &mut Tape<'_>,
        loss: impl FnOnce(&mut [f32]) -> T,
    ) -> T {
        let mut saved = Vec::with_capacity(self.units.len());
        let mut x = Buffer::copy(inputs);
        for unit in &self.units {
            let (y, kept) = unit.forward(parameters, x);
            saved.push(kept);
            x = y;
        }
        let result = loss(&mut x);
        let first = self.units.iter().position(Unit::learns).unwrap_or(self.units.len());
        let backwards = self.units.iter().zip(saved).enumerate().skip(first).collect::<Vec<_>>();
        for (index, (unit, saved)) in backwards.into_iter().rev() {
            x = unit.backward(parameters, saved, x, samples, tape, index > first);
        }
        result
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Row(usize),
    Image(Size),
}

impl Shape {
    /// How many numbers, if that is at least one and not beyond what memory holds.
    fn numbers(self) -> Option<usize> {
        let numbers = match self {
            Self::Row(width) => Some(width),
            Self::Image(size) => size.height.checked_mul(size.width).and_then(|area| area.checked_mul(size.channels)),
        };
        numbers.filter(|numbers| (1..=1 << 28).contains(numbers))
    }
}

/// The width of rows; an image becomes one, channel by channel.
fn inputs_of(shape: Shape, units: &mut Vec<Unit>) -> usize {
    match shape {
        Shape::Row(width) => width,
        Shape::Image(size) => {
            units.push(Unit::Transpose(size.height * size.width, size.channels));
            size.numbers()
        }
    }
}

impl Unit {
    fn learns(&self) -> bool {
        matches!(self, Self::Linear(_) | Self::Conv(_) | Self::Norm(_) | Self::GroupNorm(_))
    }

    fn forward(&self, parameters: &Parameters, x: Buffer) -> (Buffer, Saved) {
        match self {
            Self::Linear(linear) => {
                let (y, hidden) = linear.forward(parameters, &x);
                (y, Saved::Linear(x, hidden))
            }
            Self::Conv(conv) => {
                let (y, unfolded) = conv.forward(parameters, &x);
                (y, Saved::Inputs(unfolded))
            }
            Self::Pool(pool) => {
                let (y, places) = pool.forward(&x);
                (y, Saved::Places(places))
            }
            Self::Activation(function) => (function.forward(&x), Saved::Inputs(x)),
            Self::Norm(norm) => {
                let (y, normalised) = norm.forward(parameters, x);
                (y, Saved::Normalised(normalised))
            }
            Self::GroupNorm(norm) => {
                let (y, normalised) = norm.forward(parameters, &x);
                (y, Saved::Normalised(normalised))
            }
            Self::Transpose(outer, inner) => (transpose(&x, *outer, *inner), Saved::Nothing),
        }
    }

    fn backward(
        &self,
        parameters: &Parameters,
        saved: Saved,
        mut g: Buffer,
        samples: &Spans,
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Buffer {
        match (self, saved) {
            (Self::Linear(linear), Saved::Linear(x, hidden)) => {
                linear.backward(parameters, (x, hidden), g, samples, tape, wanted)
            }
            (Self::Conv(conv), Saved::Inputs(x)) => conv.backward(parameters, x, g, samples, tape, wanted),
            (Self::Pool(pool), Saved::Places(places)) => pool.backward(&places, &g),
            (Self::Activation(function), Saved::Inputs(x)) => {
                function.backward(&x, &mut g);
                g
            }
            (Self::Norm(norm), Saved::Normalised(saved)) => norm.backward(parameters, saved, g, samples, tape, wanted),
            (Self::GroupNorm(norm), Saved::Normalised(saved)) => {
                norm.backward(parameters, saved, g, samples, tape, wanted)
            }
            (Self::Transpose(outer, inner), _) => transpose(&g, *inner, *outer),
            _ => unreachable!("a layer gets back what it kept"),
        }
    }
}
