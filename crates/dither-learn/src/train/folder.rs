//! The folder of a trained model: its weights and its card, read back together or not at all.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::model::Model;
use crate::nn::weights::find;
use crate::nn::{Description, Network, NetworkError, quantize};
use crate::train::checkpoint::digest;
use crate::train::error::TrainError;
use crate::train::key::unusable;
use crate::train::linear::Linear;

/// The weights in a folder.
pub const WEIGHTS: &str = "model.safetensors";
/// The adapters in a folder, as `peft` reads them.
pub const ADAPTERS: &str = "adapter_model.safetensors";
/// The card in a folder, as JSON.
pub const CARD: &str = "card.json";
/// The card in a folder, in words.
pub const WORDS: &str = "card.md";

/// What a model looks like: the part of a card that its weights are read by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Form {
    /// Softmax or linear regression.
    Linear {
        /// Numbers of a row.
        inputs: usize,
        /// Scores.
        outputs: usize,
    },
    /// A network.
    Network {
        /// What it looks like.
        network: Description,
    },
}

/// Public weights that adapters stand beside. They are not in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The name of their file.
    pub name: String,
    /// SHA-256 of their file.
    pub sha256: String,
    /// Whether they are all weights that were not trained.
    #[serde(skip, default = "yes")]
    pub complete: bool,
}

fn yes() -> bool {
    true
}

/// What a card must say, so that weights can be compared with it. A card says more.
#[derive(Debug, Deserialize)]
struct Known {
    model: Form,
    /// SHA-256 of the trained weights, which the ledger holds as the answer to the charge.
    weights_sha256: String,
    /// SHA-256 of the file beside the card.
    file_sha256: String,
    receipt: String,
    /// What the file beside the card needs besides, if it holds adapters only.
    #[serde(default)]
    base: Option<Base>,
    /// What became of the weights since.
    #[serde(default)]
    post_processing: Vec<Value>,
}

/// A model that was read with its card.
pub struct TrainedModel {
    model: Read,
    card: Value,
    words: String,
    known: Known,
    path: PathBuf,
    file: Vec<u8>,
}

/// Its model.
enum Read {
    Linear(Linear),
    Network(Box<Network>),
}

impl Read {
    fn model(&mut self) -> &mut dyn Model {
        match self {
            Self::Linear(linear) => linear,
            Self::Network(network) => network.as_mut(),
        }
    }
}

/// What quantising has made of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantizedModel {
    /// How many weights became integers.
    pub integers: usize,
    /// How many stayed floats.
    pub floats: usize,
    /// How long the file of weights was, and is now, in bytes.
    pub bytes: [usize; 2],
    /// The receipt of the charged run, which stays.
    pub receipt: String,
}

impl TrainedModel {
    /// Reads a folder that `dither train` or `dither model quantize` has written.
    ///
    /// # Errors
    /// [`TrainError::File`]: a file that is missing, cut off or edited, or weights of another run than that of the card.
    pub fn open(folder: &Path) -> Result<Self, TrainError> {
        Self::open_beside(folder, None)
    }

    /// The same; a folder of adapters needs the file of the weights that they stand beside.
    ///
    /// # Errors
    /// As [`TrainedModel::open`]; and another file of weights than the one that the card names, or none.
    pub fn open_beside(folder: &Path, base: Option<&Path>) -> Result<Self, TrainError> {
        let (card_path, words_path) = (folder.join(CARD), folder.join(WORDS));
        let read = |path: &Path| std::fs::read(path).map_err(|error| unusable(path, error));
        let text = read(&card_path)?;
        let no_card = |error| unusable(&card_path, format!("it is no card of a trained model: {error}"));
        let card: Value = serde_json::from_slice(&text).map_err(no_card)?;
        let known = Known::deserialize(&card).map_err(no_card)?;
        let path = folder.join(if known.base.is_some() { ADAPTERS } else { WEIGHTS });
        let file = read(&path)?;
        if sha256(&file) != known.file_sha256 {
            return Err(unusable(&path, format!("it is not the file that {CARD} was written for")));
        }
        let beside = match (&known.base, base) {
            (None, _) => None,
            (Some(known), None) => {
                let problem = format!("it needs the weights {}, SHA-256 {}", known.name, known.sha256);
                return Err(unusable(&path, format!("{problem}: name their file (--base)")));
            }
            (Some(known), Some(base)) => {
                let bytes = read(base)?;
                if sha256(&bytes) != known.sha256 {
                    return Err(unusable(base, format!("it is not the file that {CARD} names, {}", known.name)));
                }
                Some(bytes)
            }
        };
        let mut model = known.model.with_weights(&file, beside.as_deref()).map_err(|error| unusable(&path, error))?;
        // Rounded weights have another digest: the card of the file they were made of is in theirs.
        if known.post_processing.is_empty() && digest(model.model().trainable()) != known.weights_sha256 {
            return Err(unusable(&path, format!("its weights are not those of the run that {CARD} tells of")));
        }
        let words = String::from_utf8_lossy(&read(&words_path)?).into_owned();
        if !words.contains(&known.weights_sha256) || !words.contains(&known.receipt) {
            return Err(unusable(&words_path, format!("it is the card of another run than {CARD}")));
        }
        Ok(Self { model, card, words, known, path, file })
    }

    /// The model. Weights of fewer bits have become floats of 32.
    pub fn model(&mut self) -> &mut dyn Model {
        self.model.model()
    }

    /// The card.
    pub fn card(&self) -> &Value {
        &self.card
    }

    /// All weights as a file: with those that adapters stand beside.
    fn whole(&self) -> Result<Cow<'_, [u8]>, TrainError> {
        match (&self.model, &self.known.base) {
            (Read::Network(network), Some(_)) => {
                Ok(network.export().map_err(|error| unusable(&self.path, error))?.into())
            }
            _ => Ok(self.file[..].into()),
        }
    }

    /// Writes the model with weights of 8 bits into another folder, with its card.
    ///
    /// The card keeps guarantee, plan and receipt, and the digest of the trained weights, which the ledger holds as the
    /// answer to the charge. It adds what was done and the digests of the file before and after: whoever has the first
    /// repeats this and gets the second, byte by byte.
    ///
    /// # Errors
    /// [`TrainError::File`]: weights that are of integers already, and a folder that has a model; nothing is overwritten.
    ///
    /// # Privacy
    /// Post-processing: it reads weights that were released, no row, no key and no ledger. The guarantee stays as it is,
    /// and nothing is charged.
    pub fn quantize(&self, folder: &Path) -> Result<QuantizedModel, TrainError> {
        for name in [WEIGHTS, CARD, WORDS] {
            let path = folder.join(name);
            if path.exists() {
                return Err(unusable(&path, "it exists already, and nothing is overwritten"));
            }
        }
        if !self.known.post_processing.is_empty() {
            return Err(unusable(&self.path, "its weights are of integers already"));
        }
        let quantized = quantize(&self.whole()?, &self.known.receipt).map_err(|error| unusable(&self.path, error))?;
        let (before, after) = (&self.known.file_sha256, sha256(&quantized.file));
        let mut card = self.card.clone();
        card["file_sha256"] = json!(after);
        card["post_processing"] = json!([{
            "what": "weights rounded to integers of 8 bits, symmetric, one step for each output",
            "charged": "nothing: it reads released weights only",
            "integers": quantized.integers,
            "floats": quantized.floats,
            "source_file_sha256": before,
        }]);
        let words = format!(
            "{}\n## Post-processing\n\n\
             The weights were rounded to integers of 8 bits, with one step for each output (`dither model quantize`). This \
             reads released weights only: nothing was charged, and guarantee and receipt are those above. What was measured \
             above was measured before.\n\n\
             | | |\n| --- | --- |\n| trained weights, the answer in the ledger, SHA-256 | `{}` |\n\
             | their file, SHA-256 | `{before}` |\n| this file, SHA-256 | `{after}` |\n\n\
             The same command on that file gives this one, byte by byte.\n",
            self.words, self.known.weights_sha256,
        );
        // All weights are in the new file.
        if let Some(card) = card.as_object_mut() {
            card.remove("base");
        }
        std::fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
        let card = format!("{card:#}\n");
        for (name, bytes) in [(WEIGHTS, &quantized.file[..]), (CARD, card.as_bytes()), (WORDS, words.as_bytes())] {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| unusable(&path, error))?;
        }
        Ok(QuantizedModel {
            integers: quantized.integers,
            floats: quantized.floats,
            bytes: [self.file.len(), quantized.file.len()],
            receipt: self.known.receipt.clone(),
        })
    }
}

impl Form {
    /// The model with the weights of a file, and of the one that they stand beside if there is one; together they must have
    /// all of them.
    fn with_weights(&self, file: &[u8], beside: Option<&[u8]>) -> Result<Read, String> {
        let lacks = |name: &str| format!("it lacks {name}");
        match self {
            Self::Linear { inputs, outputs } => {
                let mut linear = Linear::new(*inputs, *outputs).map_err(|error| error.to_string())?;
                let tensors = SafeTensors::deserialize(file).map_err(|error| error.to_string())?;
                let take = |layer| find(layer, &tensors).map_err(|error: NetworkError| error.to_string());
                let mut weights = Vec::new();
                for layer in linear.layers() {
                    weights.extend(take(layer)?.ok_or_else(|| lacks(&layer.name))?);
                }
                linear.trainable_mut().copy_from_slice(&weights);
                Ok(Read::Linear(linear))
            }
            Self::Network { network } => {
                let first = beside.unwrap_or(file);
                let read = Network::with_weights(network, 0, first).map_err(|error| error.to_string())?;
                let (mut network, mut missing) = read;
                if beside.is_some() {
                    let lacking = network.import(file).map_err(|error| error.to_string())?;
                    missing.retain(|name| lacking.contains(name));
                }
                missing.first().map_or(Ok(()), |name| Err(lacks(name)))?;
                Ok(Read::Network(Box::new(network)))
            }
        }
    }
}

/// What a card says of its model, besides what the run does: how its weights are read, which file they are in, and what
/// that needs besides.
pub(crate) fn describe(
    card: &mut Value,
    words: &mut String,
    form: &Form,
    file: &Path,
    base: Option<&Base>,
) -> Result<(), TrainError> {
    let bytes = std::fs::read(file).map_err(|error| unusable(file, error))?;
    card["model"] = json!(form);
    card["file_sha256"] = json!(sha256(&bytes));
    if let Some(base) = base {
        card["base"] = json!(base);
        let Base { name, sha256, .. } = base;
        words.push_str(&format!(
            "\n`{ADAPTERS}` holds what was trained. It stands beside public weights that are not here: `{name}`, SHA-256 \
             `{sha256}`.\n"
        ));
    }
    Ok(())
}

/// SHA-256 in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
