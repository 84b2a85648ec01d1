//! Weights: the trainable ones in one flat vector, the frozen ones in another.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::ops::Range;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::model::Layer;

/// All weights of a network.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    pub trainable: Vec<f32>,
    pub layers: Vec<Layer>,
    pub frozen: Vec<f32>,
    pub frozen_layers: Vec<Layer>,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number among the trainable layers; a frozen one has none.
    pub layer: Option<usize>,
    pub start: usize,
    pub length: usize,
}

impl Slot {
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.length
    }
}

impl Parameters {
    pub fn get(&self, slot: Slot) -> &[f32] {
        self.adjacent(&[slot])
    }

    /// Tensors that were made one after the other, as one.
    pub fn adjacent(&self, slots: &[Slot]) -> &[f32] {
        let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return &[] };
        let range = first.start..last.range().end;
        if first.layer.is_some() { &self.trainable[range] } else { &self.frozen[range] }
    }

    /// Every tensor with its numbers.
    pub fn tensors(&self) -> impl Iterator<Item = (&Layer, &[f32])> {
        let of = |layer: &Layer| layer.start..layer.start + layer.shape.iter().product::<usize>();
        let trainable = self.layers.iter().map(move |layer| (layer, &self.trainable[of(layer)]));
        trainable.chain(self.frozen_layers.iter().map(move |layer| (layer, &self.frozen[of(layer)])))
    }

    /// Every tensor with its numbers, to change them.
    pub fn tensors_mut(&mut self) -> Vec<(&Layer, &mut [f32])> {
        let mut all = Vec::new();
        for (layers, mut rest) in [(&self.layers, &mut self.trainable[..]), (&self.frozen_layers, &mut self.frozen[..])]
        {
            for layer in layers {
                let (numbers, after) = rest.split_at_mut(layer.shape.iter().product());
                all.push((layer, numbers));
                rest = after;
            }
        }
        all
    }
}

/// What a tensor starts with.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// All the same.
    Constant(f32),
    /// Uniform on ± this.
    Uniform(f64),
    /// Normal with this standard deviation.
    Normal(f64),
}

impl Start {
    /// Uniform with the variance 1/(3·inputs).
    pub fn fan_in(inputs: usize) -> Self {
        Self::Uniform(1.0 / (inputs.max(1) as f64).sqrt())
    }

    /// How much of the stream a number takes, in words of 32 bits.
    fn words(self) -> u128 {
        match self {
            Self::Constant(_) => 0,
            Self::Uniform(_) => 1,
            Self::Normal(_) => 2,
        }
    }
}

/// Makes tensors one after the other.
///
/// The stream is public: first weights are released with the model, so nobody relies on them being secret.
pub struct Builder {
    pub parameters: Parameters,
    stream: ChaCha20Rng,
    /// Where in the stream the next tensor begins.
    place: u128,
    /// What tensors begin with that are still zeros; absent where every tensor is drawn at once.
    put_off: Option<BTreeMap<String, (Start, u128)>>,
}

impl Builder {
    pub fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self { parameters: Parameters::default(), stream: ChaCha20Rng::from_seed(key), place: 0, put_off: None }
    }

    /// The same, but nothing is drawn before [`Builder::draw`] asks for it: a file has most of it.
    pub fn putting_off(seed: u64) -> Self {
        Self { put_off: Some(BTreeMap::new()), ..Self::new(seed) }
    }

    /// Draws tensors that were put off. They have the numbers that they would have had.
    pub fn draw(&mut self, names: &[String], parameters: &mut Parameters) {
        for (layer, numbers) in parameters.tensors_mut() {
            let put_off = self.put_off.as_ref().and_then(|put_off| put_off.get(&layer.name));
            if let (Some((start, place)), true) = (put_off.copied(), names.contains(&layer.name)) {
                self.stream.set_word_pos(place);
                numbers.fill_with(|| self.number(start));
            }
        }
    }

    pub fn tensor(&mut self, name: impl Into<String>, shape: &[usize], trainable: bool, start: Start) -> Slot {
        let (name, length) = (name.into(), shape.iter().product());
        let numbers: Vec<f32> = match &mut self.put_off {
            Some(put_off) => {
                put_off.insert(name.clone(), (start, self.place));
                vec![0.0; length]
            }
            None => (0..length).map(|_| self.number(start)).collect(),
        };
        self.place += length as u128 * start.words();
        let parameters = &mut self.parameters;
        let (all, layers) = match trainable {
            true => (&mut parameters.trainable, &mut parameters.layers),
            false => (&mut parameters.frozen, &mut parameters.frozen_layers),
        };
        let slot = Slot { layer: trainable.then_some(layers.len()), start: all.len(), length };
        layers.push(Layer { name, shape: shape.to_vec(), start: all.len() });
        all.extend(numbers);
        slot
    }

    /// Gives a tensor another shape of as many numbers.
    pub fn reshape(&mut self, slot: Slot, shape: &[usize]) {
        let layer = match slot.layer {
            Some(layer) => self.parameters.layers.get_mut(layer),
            None => self.parameters.frozen_layers.iter_mut().find(|layer| layer.start == slot.start),
        };
        if let Some(layer) = layer {
            layer.shape = shape.to_vec();
        }
    }

    fn number(&mut self, start: Start) -> f32 {
        match start {
            Start::Constant(value) => value,
            Start::Uniform(bound) => ((2.0 * self.unit() - 1.0) * bound) as f32,
            Start::Normal(deviation) => {
                let radius = (-2.0 * self.unit().ln()).sqrt();
                (radius * (TAU * self.unit()).cos() * deviation) as f32
            }
        }
    }

    /// Uniform between 0 and 1, neither of them.
    fn unit(&mut self) -> f64 {
        (f64::from(self.stream.next_u32()) + 0.5) / 4_294_967_296.0
    }
}
