//! Encoders that classify texts, and decoders that continue them.

use super::block::{Block, DEVIATION, Form, Kind, Names, Saved};
use super::buffer::Buffer;
use super::description::{Decoder, Encoder, Llama, Lora, Target, Train};
use super::error::NetworkError;
use super::feedforward::MOST_WEIGHTS;
use super::linear::Linear;
use super::loss::cross_entropy;
use super::matrix::{multiply, view};
use super::norm::{Norm, Normalised};
use super::parameters::{Builder, Parameters, Slot, Start};
use super::spans::Spans;
use super::tape::Tape;

/// A transformer that is built.
#[derive(Clone, Debug)]
pub struct Transformer {
    pub positions: usize,
    width: usize,
    vocabulary: usize,
    tokens: Slot,
    /// A table of positions, unless blocks see them in another way.
    places: Option<Slot>,
    /// Kinds of segments, of which only the first is used.
    kinds: Option<Slot>,
    blocks: Vec<Block>,
    /// Of an encoder before the blocks, of a decoder after them.
    norm: Norm,
    /// Of an encoder; that of a decoder is the table of tokens.
    head: Option<Linear>,
    /// Whether embeddings, and so everything, learn.
    all: bool,
    /// The first block in which anything learns; as many as there are, if none does.
    first: usize,
}

/// Rows without their padding, one after the other.
pub struct Packed {
    pub ids: Vec<u32>,
    pub places: Vec<u32>,
    pub sequences: Spans,
}

impl Packed {
    /// Drops the padding. A length beyond the row is the row's, and none is below 1.
    pub fn new(ids: &[u32], length: usize, lengths: &[usize]) -> Self {
        let lengths: Vec<usize> = lengths.iter().map(|&real| real.clamp(1, length)).collect();
        let rows = ids.chunks_exact(length.max(1)).zip(&lengths);
        let packed = rows.flat_map(|(row, &real)| row[..real].iter().copied()).collect();
        let places = lengths.iter().flat_map(|&real| (0u32..).take(real)).collect();
        Self { ids: packed, places, sequences: Spans::of_lengths(&lengths) }
    }
}

impl Transformer {
    pub fn encoder(builder: &mut Builder, description: &Encoder) -> Result<Self, NetworkError> {
        let Encoder { vocabulary, positions, width, blocks, heads, hidden, outputs, .. } = *description;
        check(
            &[vocabulary, positions, width, blocks, heads, hidden, outputs],
            heads,
            heads,
            width,
            &description.train,
        )?;
        let all = description.train == Train::All;
        let table = |builder: &mut Builder, name: &str, rows: usize| {
            builder.tensor(format!("embeddings.{name}_embeddings.weight"), &[rows, width], all, DEVIATION)
        };
        let tokens = table(builder, "word", vocabulary);
        let places = Some(table(builder, "position", positions));
        let kinds = Some(table(builder, "token_type", 2));
        let epsilon = 1e-12;
        let norm = Norm::new(builder, "embeddings.LayerNorm", width, true, all, epsilon);
        let (kind, causal, before) = (Kind::Classic, false, false);
        let form = Form { width, heads, groups: heads, hidden, causal, before, epsilon, kind };
        let names = |block: usize| {
            let name = |part: &str| format!("encoder.layer.{block}.{part}");
            Names {
                inward: ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}"))),
                output: name("attention.output.dense"),
                gate: String::new(),
                up: name("intermediate.dense"),
                down: name("output.dense"),
                norms: [name("attention.output.LayerNorm"), name("output.LayerNorm")],
            }
        };
        let first = first_block(&description.train, blocks)?;
        let lora = lora(&description.train);
        if lora.is_some_and(|lora| lora.targets.contains(&Target::Gate)) {
            return Err(NetworkError::Description(NO_GATE.into()));
        }
        let lora = |block: usize| lora.filter(|_| block >= first);
        let blocks = (0..blocks).map(|block| Block::new(builder, form, names(block), all, lora(block))).collect();
        let part = [("classifier".to_owned(), outputs)];
        let head = Some(Linear::new(builder, width, &part, true, true, Start::fan_in(width)));
        Ok(Self { positions, width, vocabulary, tokens, places, kinds, blocks, norm, head, all, first })
    }

    pub fn decoder(builder: &mut Builder, description: &Decoder) -> Result<Self, NetworkError> {
        let Decoder { vocabulary, positions, width, blocks, heads, groups, hidden, .. } = *description;
        let groups = groups.unwrap_or(heads);
        let sizes = [vocabulary, positions, width, blocks, heads, groups, hidden];
        check(&sizes, heads, groups, width, &description.train)?;
        let all = description.train == Train::All;
        let tokens = builder.tensor("wte.weight", &[vocabulary, width], all, DEVIATION);
        let places = Some(builder.tensor("wpe.weight", &[positions, width], all, DEVIATION));
        let (epsilon, kind) = (1e-5, Kind::Classic);
        let form = Form { width, heads, groups, hidden, causal: true, before: true, epsilon, kind };
        let names = |block: usize| {
            let name = |part: &str| format!("h.{block}.{part}");
            Names {
                inward: ["q", "k", "v"].map(|part| name(&format!("attn.{part}_proj"))),
                output: name("attn.out_proj"),
                gate: String::new(),
                up: name("mlp.c_fc"),
                down: name("mlp.c_proj"),
                norms: [name("ln_1"), name("ln_2")],
            }
        };
        let sizes = [positions, vocabulary, blocks];
        Self::causal(builder, form, sizes, (tokens, places), names, "ln_f", &description.train)
    }

    pub fn llama(builder: &mut Builder, description: &Llama) -> Result<Self, NetworkError> {
        let Llama { vocabulary, positions, width, blocks, heads, groups, hidden, rotary_base: base, epsilon, .. } =
            *description;
        let sizes = [vocabulary, positions, width, blocks, heads, groups, hidden];
        check(&sizes, heads, groups, width, &description.train)?;
        let refuse = |text: &str| Err(NetworkError::Description(text.into()));
        if !(width / heads).is_multiple_of(2) {
            return refuse("a head has an odd width, so its numbers are no pairs");
        }
        if !(1.0..=1e9).contains(&base) || !(1e-12..=1.0).contains(&epsilon) {
            return refuse("rotary_base is between 1 and 1e9, and epsilon between 1e-12 and 1");
        }
        let all = description.train == Train::All;
        let tokens = builder.tensor("model.embed_tokens.weight", &[vocabulary, width], all, DEVIATION);
        let form =
            Form { width, heads, groups, hidden, causal: true, before: true, epsilon, kind: Kind::Llama { base } };
        let names = |block: usize| {
            let name = |part: &str| format!("model.layers.{block}.{part}");
            Names {
                inward: ["q", "k", "v"].map(|part| name(&format!("self_attn.{part}_proj"))),
                output: name("self_attn.o_proj"),
                gate: name("mlp.gate_proj"),
                up: name("mlp.up_proj"),
                down: name("mlp.down_proj"),
                norms: [name("input_layernorm"), name("post_attention_layernorm")],
            }
        };
        let sizes = [positions, vocabulary, blocks];
        Self::causal(builder, form, sizes, (tokens, None), names, "model.norm", &description.train)
    }

    /// Blocks and the last norm of a network that predicts the next token.
    fn causal(
        builder: &mut Builder,
        form: Form,
        [positions, vocabulary, blocks]: [usize; 3],
        (tokens, places): (Slot, Option<Slot>),
        names: impl Fn(usize) -> Names,
        norm: &str,
        train: &Train,
    ) -> Result<Self, NetworkError> {
        if *train == Train::Head {
            let text = "the head of a decoder is its table of tokens: train `all`, or `lora` adapters";
            return Err(NetworkError::Description(text.into()));
        }
        let (all, lora, first) = (*train == Train::All, lora(train), first_block(train, blocks)?);
        let classic = form.kind == Kind::Classic;
        if classic && lora.is_some_and(|lora| lora.targets.contains(&Target::Gate)) {
            return Err(NetworkError::Description(NO_GATE.into()));
        }
        let lora = |block: usize| lora.filter(|_| block >= first);
        let blocks = (0..blocks).map(|block| Block::new(builder, form, names(block), all, lora(block))).collect();
        let norm = Norm::new(builder, norm, form.width, classic, all, form.epsilon);
        let width = form.width;
        let (kinds, head) = (None, None);
        Ok(Self { positions, width, vocabulary, tokens, places, kinds, blocks, norm, head, all, first })
    }

    /// Scores of all rows, or of a decoder the loss of each.
    pub fn predict(&self, parameters: &Parameters, rows: &Packed) -> Vec<f32> {
        let mut x = self.embed(parameters, rows);
        if self.head.is_some() {
            x = self.norm.forward(parameters, x).0;
        }
        for block in &self.blocks {
            x = block.forward(parameters, x, &rows.sequences).0;
        }
        match &self.head {
            Some(head) => head.forward(parameters, &self.pool(&x, &rows.sequences)).0.to_vec(),
            None => {
                let (x, _) = self.norm.forward(parameters, x);
                let mut scores =
                    multiply(&view(&x, self.width), &view(parameters.get(self.tokens), self.width).transpose());
                self.next_token(&mut scores, rows, &vec![1.0; rows.sequences.len()])
            }
        }
    }

    /// The scores of what comes after the last token of every row; of a network that predicts the next token only.
    pub fn next(&self, parameters: &Parameters, rows: &Packed) -> Vec<f32> {
        let mut x = self.embed(parameters, rows);
        for block in &self.blocks {
            x = block.forward(parameters, x, &rows.sequences).0;
        }
        let last = |span: std::ops::Range<usize>| (span.end - 1) * self.width..span.end * self.width;
        let mut ends = Buffer::with_capacity(rows.sequences.len() * self.width);
        rows.sequences.iter().for_each(|span| ends.extend_from_slice(&x[last(span)]));
        let (ends, _) = self.norm.forward(parameters, ends);
        multiply(&view(&ends, self.width), &view(parameters.get(self.tokens), self.width).transpose()).to_vec()
    }

    /// Forward and back. Of an encoder `loss` turns scores of rows into their gradients and returns losses; of a decoder
    /// it is not asked, and rows have weights.
    pub fn pass(
        &self,
        parameters: &Parameters,
        rows: &Packed,
        samples: &Spans,
        tape: &mut Tape<'_>,
        weights: &[f32],
        loss: impl FnOnce(&mut [f32]) -> Vec<f32>,
    ) -> Vec<f32> {
        let spans = samples.over(&rows.sequences);
        let mut x = self.embed(parameters, rows);
        let mut norm = None;
        if self.head.is_some() {
            let (y, kept) = self.norm.forward(parameters, x);
            (x, norm) = (y, Some(kept));
        }
        let mut saved = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            let (y, kept) = block.forward(parameters, x, &rows.sequences);
            x = y;
            if index >= self.first {
                saved.push(kept);
            }
        }
        match &self.head {
            Some(head) => {
                let pooled = self.pool(&x, &rows.sequences);
                let (mut scores, hidden) = head.forward(parameters, &pooled);
                let losses = loss(&mut scores);
                let deep = self.first < self.blocks.len();
                let g = head.backward(parameters, (pooled, hidden), scores, samples, tape, deep);
                if deep {
                    let g = self.unpool(&g, &rows.sequences);
                    self.back(parameters, (saved, norm), g, rows, &spans, tape);
                }
                losses
            }
            None => {
                let (x, kept) = self.norm.forward(parameters, x);
                let table = view(parameters.get(self.tokens), self.width);
                let mut scores = multiply(&view(&x, self.width), &table.transpose());
                let losses = self.next_token(&mut scores, rows, weights);
                let g = multiply(&view(&scores, self.vocabulary), &table);
                if self.all {
                    tape.tied_head(x, scores);
                }
                let g = self.norm.backward(parameters, kept, g, &spans, tape, true);
                self.back(parameters, (saved, None), g, rows, &spans, tape);
                losses
            }
        }
    }

    /// Back through blocks and embeddings.
    fn back(
        &self,
        parameters: &Parameters,
        (saved, norm): (Vec<Saved>, Option<Normalised>),
        mut g: Buffer,
        rows: &Packed,
        spans: &Spans,
        tape: &mut Tape<'_>,
    ) {
        for (index, (block, saved)) in self.blocks[self.first..].iter().zip(saved).enumerate().rev() {
            g = block.backward(parameters, saved, g, (spans, &rows.sequences), tape, self.all || index > 0);
        }
        if !self.all {
            return;
        }
        if let Some(norm) = norm {
            g = self.norm.backward(parameters, norm, g, spans, tape, true);
        }
        if let Some(places) = self.places {
            tape.lookup(places, &rows.places, g.clone(), spans);
        }
        if let Some(kinds) = self.kinds {
            tape.lookup(kinds, &vec![0; rows.ids.len()], g.clone(), spans);
        }
        match self.head {
            Some(_) => tape.lookup(self.tokens, &rows.ids, g, spans),
            None => tape.tied_lookup(self.tokens, &rows.ids, g, spans),
        }
    }

    /// Tokens plus places; a token that does not exist is not a number.
    fn embed(&self, parameters: &Parameters, rows: &Packed) -> Buffer {
        let (tokens, places) = (parameters.get(self.tokens), self.places.map(|places| parameters.get(places)));
        let kind = self.kinds.map(|kinds| &parameters.get(kinds)[..self.width]);
        let mut out = Buffer::with_capacity(rows.ids.len() * self.width);
        for (&id, &place) in rows.ids.iter().zip(&rows.places) {
            let start = (id as usize).saturating_mul(self.width);
            let Some(token) = tokens.get(start..start.saturating_add(self.width)) else {
                out.extend(std::iter::repeat_n(f32::NAN, self.width));
                continue;
            };
            match places {
                Some(places) => {
                    let place = &places[place as usize * self.width..][..self.width];
                    out.extend(token.iter().zip(place).map(|(token, place)| token + place));
                }
                None => out.extend_from_slice(token),
            }
            if let Some(kind) = kind {
                let end = out.len() - self.width;
                out[end..].iter_mut().zip(kind).for_each(|(x, kind)| *x += kind);
            }
        }
        out
    }

    /// The mean of the positions of every row.
    fn pool(&self, x: &[f32], sequences: &Spans) -> Buffer {
        let mut out = Buffer::zeros(sequences.len() * self.width);
        for (row, span) in out.chunks_exact_mut(self.width).zip(sequences.iter()) {
            let share = 1.0 / span.len() as f32;
            for position in x[span.start * self.width..span.end * self.width].chunks_exact(self.width) {
                super::simd::add_scaled(row, share, position);
            }
        }
        out
    }

    fn unpool(&self, g: &[f32], sequences: &Spans) -> Buffer {
        let mut out = Buffer::zeros(sequences.total() * self.width);
        for (row, span) in g.chunks_exact(self.width).zip(sequences.iter()) {
            let share = 1.0 / span.len() as f32;
            for position in out[span.start * self.width..span.end * self.width].chunks_exact_mut(self.width) {
                super::simd::add_scaled(position, share, row);
            }
        }
        out
    }

    /// Scores become gradients; returns the loss of every row, the mean over the tokens that have one after them.
    fn next_token(&self, scores: &mut [f32], rows: &Packed, weights: &[f32]) -> Vec<f32> {
        let mut targets = vec![None; rows.ids.len()];
        let mut shares = vec![0.0; rows.ids.len()];
        for (span, weight) in rows.sequences.iter().zip(weights) {
            let predicted = span.start..span.end - 1;
            for position in predicted.clone() {
                targets[position] = Some(rows.ids[position + 1]);
                shares[position] = weight / predicted.len() as f32;
            }
        }
        let losses = cross_entropy(scores, self.vocabulary, &targets, &shares);
        let mean =
            |span: std::ops::Range<usize>| losses[span.clone()].iter().sum::<f32>() / (span.len() - 1).max(1) as f32;
        rows.sequences.iter().map(mean).collect()
    }
}

const NO_GATE: &str = "only networks of the Llama family have a gate";

fn lora(train: &Train) -> Option<&Lora> {
    match train {
        Train::Lora(lora) => Some(lora),
        Train::All | Train::Head => None,
    }
}

/// The first of so many blocks in which anything learns.
fn first_block(train: &Train, blocks: usize) -> Result<usize, NetworkError> {
    match train {
        Train::All => Ok(0),
        Train::Head => Ok(blocks),
        Train::Lora(lora) => match lora.blocks.unwrap_or(blocks) {
            adapted if (1..=blocks).contains(&adapted) => Ok(blocks - adapted),
            _ => Err(NetworkError::Description(format!("adapters are in 1 to {blocks} blocks"))),
        },
    }
}

/// Refuses sizes that are 0, do not divide each other, or are beyond memory.
fn check(sizes: &[usize], heads: usize, groups: usize, width: usize, train: &Train) -> Result<(), NetworkError> {
    let refuse = |text: &str| Err(NetworkError::Description(text.into()));
    if sizes.contains(&0) {
        return refuse("a size is 0");
    }
    if !width.is_multiple_of(heads) || !heads.is_multiple_of(groups) {
        return refuse("heads must divide the width, and groups the heads");
    }
    let largest = sizes.iter().copied().max().unwrap_or(0);
    if largest.checked_mul(width).is_none_or(|weights| weights > MOST_WEIGHTS) {
        return refuse("a layer has more than 2^31 weights");
    }
    if let Some(lora) = lora(train) {
        if lora.rank == 0 || lora.rank > width || !lora.alpha.is_finite() || lora.alpha <= 0.0 {
            return refuse("a rank is between 1 and the width, and alpha above 0");
        }
        let twice = lora.targets.iter().enumerate().any(|(index, target)| lora.targets[..index].contains(target));
        if twice || lora.targets.is_empty() {
            return refuse("targets of adapters are missing, or named twice");
        }
    }
    Ok(())
}
