//! Weights and vocabularies in the format of llama.cpp.
//!
//! # References
//! The layout is that of `docs/gguf.md` in the repository ggml-org/ggml, those of quantised blocks are in `ggml-common.h`
//! there.

use std::collections::BTreeMap;

use serde_json::json;

use super::description::{Description, Llama, Train};
use super::error::NetworkError;

/// A GGUF file of a network of the Llama family, with everything in it in bounds.
///
/// Reading is total: whatever the bytes are, the result is a file or an error, and what is made of them is no larger than a
/// few times the file.
pub struct Gguf<'file> {
    metadata: BTreeMap<&'file str, Value<'file>>,
    tensors: BTreeMap<&'file str, Tensor<'file>>,
}

/// What a key of the file says, as far as it is of use here.
#[derive(Debug)]
enum Value<'file> {
    Whole(u64),
    Number(f64),
    Text(&'file str),
    Texts(Vec<&'file str>),
    Wholes(Vec<u64>),
    Other,
}

struct Tensor<'file> {
    /// Rows and columns; a vector is one row.
    rows: usize,
    columns: usize,
    blocks: Blocks,
    bytes: &'file [u8],
}

/// How numbers lie in a file.
#[derive(Clone, Copy, PartialEq)]
enum Blocks {
    /// One number of 32 bits.
    F32,
    /// 32 numbers of 4 bits, with a scale and a smallest number of 16 bits each.
    Q4_1,
    /// 32 numbers of 8 bits, with a scale of 16 bits.
    Q8_0,
}

impl Blocks {
    fn of(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::F32),
            3 => Some(Self::Q4_1),
            8 => Some(Self::Q8_0),
            _ => None,
        }
    }

    /// Numbers and bytes of a block.
    fn sizes(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::Q4_1 => (32, 20),
            Self::Q8_0 => (32, 34),
        }
    }

    fn read(self, block: &[u8], out: &mut Vec<f32>) {
        match self {
            Self::F32 => out.extend(block.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
            Self::Q4_1 => {
                let (scale, least) = (half(&block[..2]), half(&block[2..4]));
                let number = |bits: u8| scale * f32::from(bits) + least;
                out.extend(block[4..].iter().map(|byte| number(byte & 15)));
                out.extend(block[4..].iter().map(|byte| number(byte >> 4)));
            }
            Self::Q8_0 => {
                let scale = half(&block[..2]);
                out.extend(block[2..].iter().map(|byte| scale * f32::from(byte.cast_signed())));
            }
        }
    }
}

/// A number of 16 bits.
fn half(bytes: &[u8]) -> f32 {
    let bits = u32::from(bytes[0]) | u32::from(bytes[1]) << 8;
    let (sign, exponent, fraction) = ((bits >> 15) << 31, (bits >> 10) & 31, bits & 1023);
    match exponent {
        0 => f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// What is left of a file.
struct Cursor<'file>(&'file [u8]);

const ENDS: &str = "the file ends in the middle";

impl<'file> Cursor<'file> {
    fn bytes(&mut self, count: usize) -> Result<&'file [u8], NetworkError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| wrong(ENDS))?;
        self.0 = rest;
        Ok(taken)
    }

    /// An unsigned integer of up to 8 bytes.
    fn whole(&mut self, bytes: usize) -> Result<u64, NetworkError> {
        Ok(self.bytes(bytes)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A count of things that take at least so many bytes each, so that there cannot be more than the file has room for.
    fn count(&mut self, each: usize) -> Result<usize, NetworkError> {
        let count = usize::try_from(self.whole(8)?).ok();
        count.filter(|count| *count <= self.0.len() / each).ok_or_else(|| wrong(ENDS))
    }

    fn text(&mut self) -> Result<&'file str, NetworkError> {
        let count = self.count(1)?;
        std::str::from_utf8(self.bytes(count)?).map_err(|_| wrong("a text in it is not UTF-8"))
    }

    fn value(&mut self, code: u64) -> Result<Value<'file>, NetworkError> {
        Ok(match code {
            0 | 1 | 7 => Value::Whole(self.whole(1)?),
            2 | 3 => Value::Whole(self.whole(2)?),
            4 | 5 => Value::Whole(self.whole(4)?),
            6 => Value::Number(f32::from_bits(self.whole(4)? as u32).into()),
            8 => Value::Text(self.text()?),
            9 => self.list()?,
            10 | 11 => Value::Whole(self.whole(8)?),
            12 => Value::Number(f64::from_bits(self.whole(8)?)),
            _ => return Err(wrong("a value in it is of an unknown type")),
        })
    }

    fn list(&mut self) -> Result<Value<'file>, NetworkError> {
        let code = self.whole(4)?;
        match code {
            8 => {
                let count = self.count(8)?;
                (0..count).map(|_| self.text()).collect::<Result<_, _>>().map(Value::Texts)
            }
            4 | 5 => {
                let count = self.count(4)?;
                (0..count).map(|_| self.whole(4)).collect::<Result<_, _>>().map(Value::Wholes)
            }
            // Lists in lists have no use, and no end.
            9 => Err(wrong("a list in it holds lists")),
            _ => {
                let count = self.count(1)?;
                (0..count).try_for_each(|_| self.value(code).map(drop))?;
                Ok(Value::Other)
            }
        }
    }
}

fn wrong(text: impl Into<String>) -> NetworkError {
    NetworkError::Weights(text.into())
}

impl<'file> Gguf<'file> {
    /// Whether a file begins as one of these.
    pub fn is(file: &[u8]) -> bool {
        file.starts_with(b"GGUF")
    }

    /// Reads the file but for the numbers of tensors.
    ///
    /// # Errors
    /// What is not such a file, of version 2 or 3.
    pub fn read(file: &'file [u8]) -> Result<Self, NetworkError> {
        let mut cursor = Cursor(file.strip_prefix(b"GGUF").ok_or_else(|| wrong("it is no GGUF file"))?);
        if !(2..=3).contains(&cursor.whole(4)?) {
            return Err(wrong("it is GGUF of another version than 2 and 3"));
        }
        // The least that a tensor takes: name, dimensions, type, offset. And an entry: key, type, value.
        let (tensors, entries) = (cursor.count(24)?, cursor.count(13)?);
        let mut metadata = BTreeMap::new();
        for _ in 0..entries {
            let (key, code) = (cursor.text()?, cursor.whole(4)?);
            metadata.insert(key, cursor.value(code)?);
        }
        let mut headers = Vec::new();
        for _ in 0..tensors {
            let (name, dimensions) = (cursor.text()?, cursor.whole(4)?);
            if !(1..=4).contains(&dimensions) {
                return Err(wrong(format!("{name} has {dimensions} dimensions")));
            }
            let sizes = (0..dimensions).map(|_| cursor.count_of_numbers()).collect::<Result<Vec<_>, _>>()?;
            headers.push((name, sizes, cursor.whole(4)?, cursor.whole(8)?));
        }
        let alignment = match metadata.get("general.alignment") {
            Some(Value::Whole(alignment @ 1..=4096)) => *alignment as usize,
            Some(_) => return Err(wrong("general.alignment makes no sense")),
            None => 32,
        };
        let start = (file.len() - cursor.0.len()).next_multiple_of(alignment);
        let data = file.get(start..).unwrap_or_default();
        let mut found = BTreeMap::new();
        for (name, sizes, code, offset) in headers {
            let columns = sizes[0];
            let rows = sizes[1..].iter().try_fold(1usize, |rows, size| rows.checked_mul(*size));
            let Some(blocks) = u32::try_from(code).ok().and_then(Blocks::of) else {
                return Err(wrong(format!("{name} is of type {code}: F32, Q4_1 and Q8_0 can be read")));
            };
            let (numbers, bytes) = blocks.sizes();
            let length = rows.and_then(|rows| rows.checked_mul(columns)).filter(|_| columns.is_multiple_of(numbers));
            let length = length.and_then(|length| (length / numbers).checked_mul(bytes));
            let end = length.and_then(|length| usize::try_from(offset).ok()?.checked_add(length));
            let bytes = end.and_then(|end| data.get(offset as usize..end));
            let (Some(bytes), Some(rows)) = (bytes, rows) else {
                return Err(wrong(format!("{name} is not within the file")));
            };
            found.insert(name, Tensor { rows, columns, blocks, bytes });
        }
        Ok(Self { metadata, tensors: found })
    }

    /// What the network of the file looks like, for texts of at most so many tokens.
    ///
    /// # Errors
    /// A file of another family.
    pub fn description(&self, positions: usize, train: Train) -> Result<Description, NetworkError> {
        if !matches!(self.metadata.get("general.architecture"), Some(Value::Text("llama"))) {
            return Err(wrong("it holds no network of the Llama family"));
        }
        if self.tensors.contains_key("output.weight") {
            return Err(wrong("its head is not its table of tokens"));
        }
        let whole = |key: &str| match self.metadata.get(format!("llama.{key}").as_str()) {
            Some(Value::Whole(value)) if *value < 1 << 31 => Ok(*value as usize),
            _ => Err(wrong(format!("it has no llama.{key}"))),
        };
        let number = |key: &str| match self.metadata.get(format!("llama.{key}").as_str()) {
            Some(Value::Number(value)) => Ok(*value),
            _ => Err(wrong(format!("it has no llama.{key}"))),
        };
        let heads = whole("attention.head_count")?;
        if positions > whole("context_length")? {
            return Err(wrong("its network was made for shorter texts"));
        }
        Ok(Description::Llama(Llama {
            vocabulary: self.tensors.get("token_embd.weight").map_or(0, |table| table.rows),
            positions,
            width: whole("embedding_length")?,
            blocks: whole("block_count")?,
            heads,
            groups: whole("attention.head_count_kv").unwrap_or(heads),
            hidden: whole("feed_forward_length")?,
            rotary_base: number("rope.freq_base").unwrap_or(1e4),
            epsilon: number("attention.layer_norm_rms_epsilon")?,
            train,
        }))
    }

    /// Whether a network is the one in the file: shapes of tensors do not tell all of it.
    pub(crate) fn fits(&self, network: &Description) -> Result<(), NetworkError> {
        let Description::Llama(network) = network else {
            return Err(wrong("a GGUF file holds a network of the Llama family"));
        };
        let Description::Llama(mut found) = self.description(network.positions, network.train.clone())? else {
            return Err(wrong("it holds no network of the Llama family"));
        };
        // The file has 32 bits of these two.
        for (found, wanted) in [(&mut found.rotary_base, network.rotary_base), (&mut found.epsilon, network.epsilon)] {
            if *found as f32 == wanted as f32 {
                *found = wanted;
            }
        }
        match found == *network {
            true => Ok(()),
            false => Err(wrong(format!("the file has another network: {}", json!(Description::Llama(found))))),
        }
    }

    /// The numbers of a tensor under its name in the models of Hugging Face.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>, NetworkError> {
        let Some(tensor) = name_here(name).and_then(|name| self.tensors.get(name.as_str())) else { return Ok(None) };
        let fits = match *shape {
            [rows, columns] => (rows, columns) == (tensor.rows, tensor.columns),
            [columns] => (1, columns) == (tensor.rows, tensor.columns),
            _ => false,
        };
        if !fits {
            let found = [tensor.rows, tensor.columns];
            return Err(wrong(format!("{name} is {found:?}, and should be {shape:?}")));
        }
        let mut numbers = Vec::with_capacity(tensor.rows * tensor.columns);
        let (_, bytes) = tensor.blocks.sizes();
        tensor.bytes.chunks_exact(bytes).for_each(|block| tensor.blocks.read(block, &mut numbers));
        let heads = match name {
            _ if name.ends_with("q_proj.weight") => "llama.attention.head_count",
            _ if name.ends_with("k_proj.weight") => "llama.attention.head_count_kv",
            _ => return Ok(Some(numbers)),
        };
        match self.metadata.get(heads).or(self.metadata.get("llama.attention.head_count")) {
            Some(Value::Whole(heads)) if *heads > 0 && (tensor.rows as u64).is_multiple_of(2 * heads) => {
                Ok(Some(halves(&numbers, tensor.rows / *heads as usize, tensor.columns)))
            }
            _ => Err(wrong(format!("{name} does not fall into heads"))),
        }
    }

    /// The vocabulary as a `tokenizer.json`.
    ///
    /// # Errors
    /// A vocabulary that is not the byte-level BPE of the SmolLM models.
    pub fn tokenizer(&self) -> Result<String, NetworkError> {
        let key = |key: &str| self.metadata.get(format!("tokenizer.ggml.{key}").as_str());
        let (Some(Value::Text("gpt2")), Some(Value::Text("smollm"))) = (key("model"), key("pre")) else {
            return Err(wrong("its vocabulary is not that of the SmolLM models: use their tokenizer.json"));
        };
        let (Some(Value::Texts(tokens)), Some(Value::Texts(merges)), Some(Value::Wholes(kinds))) =
            (key("tokens"), key("merges"), key("token_type"))
        else {
            return Err(wrong("it has no vocabulary"));
        };
        // Kind 3 are marks, which no text has.
        const MARK: u64 = 3;
        let marks = tokens.iter().zip(kinds).enumerate().filter(|(_, (_, kind))| **kind == MARK);
        let marks = marks.map(|(id, (token, _))| {
            json!({"id": id, "content": token, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false})
        });
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let vocabulary: BTreeMap<&str, usize> = tokens.iter().copied().zip(0..).collect();
        let file = json!({
            "version": "1.0",
            "added_tokens": marks.collect::<Vec<_>>(),
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": true}, byte_level],
            },
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
        });
        Ok(file.to_string())
    }
}

impl Cursor<'_> {
    /// A size of a tensor, at least 1.
    fn count_of_numbers(&mut self) -> Result<usize, NetworkError> {
        let size = usize::try_from(self.whole(8)?).ok().filter(|size| *size > 0);
        size.ok_or_else(|| wrong("a tensor in it has no size"))
    }
}

/// What the file calls a tensor.
fn name_here(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        _ => {}
    }
    let (block, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let part = match part.strip_suffix(".weight")? {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{block}.{part}.weight"))
}

/// Rows of heads whose pairs lie side by side, as the file has them, to heads whose pairs are half a head apart.
fn halves(numbers: &[f32], head: usize, columns: usize) -> Vec<f32> {
    let row = |index: usize| {
        let (first, place) = (index - index % head, index % head);
        first + 2 * (place % (head / 2)) + place / (head / 2)
    };
    let rows = (0..numbers.len() / columns).map(row);
    rows.flat_map(|row| numbers[row * columns..(row + 1) * columns].iter().copied()).collect()
}
