//! Weights as files: safetensors by name, and adapters in the layout of PEFT.
//!
//! # References
//! The layouts are those of the `safetensors` and `peft` libraries of Hugging Face.

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::json;

use super::description::{Description, Lora, Train};
use super::error::NetworkError;
use super::gguf::Gguf;
use super::images::transpose;
use super::network::Network;
use super::parameters::Parameters;
use super::{half, int8};
use crate::model::Layer;

/// Before the name of every tensor in a file of adapters.
const ADAPTERS: &str = "base_model.model.";
/// What other files put before the names that we know.
const PREFIXES: [&str; 3] = ["", "bert.", ADAPTERS];

/// Adapters as `peft` saves them.
#[derive(Clone, Debug)]
pub struct AdapterFiles {
    /// `adapter_model.safetensors`
    pub weights: Vec<u8>,
    /// `adapter_config.json`
    pub config: String,
}

impl Network {
    /// All weights, trainable or frozen, as a file of safetensors.
    ///
    /// Convolutions are written as PyTorch has them: outputs, inputs, rows, columns.
    ///
    /// # Errors
    /// If the file cannot be made.
    ///
    /// # Privacy
    /// Weights after training are a release: they may be published once the run is charged. First weights are public.
    pub fn export(&self) -> Result<Vec<u8>, NetworkError> {
        serialize(self.parameters.tensors().map(|(layer, numbers)| (layer.name.clone(), layer, numbers)))
    }

    /// The trainable weights of a network with adapters: those, and the head.
    ///
    /// # Errors
    /// Without adapters.
    pub fn export_adapters(&self) -> Result<AdapterFiles, NetworkError> {
        let lora = self.lora().ok_or(NetworkError::Weights("the network has no adapters; use `export`".into()))?;
        let names = self.parameters.layers.iter().map(|layer| layer.name.as_str());
        let modules: Vec<&str> = names.filter_map(|name| name.strip_suffix(".lora_A.weight")).collect();
        let head = matches!(self.description(), Description::Encoder(_)).then_some(["classifier"]);
        let config = json!({
            "peft_type": "LORA",
            "r": lora.rank,
            "lora_alpha": lora.alpha,
            "lora_dropout": 0.0,
            "target_modules": modules,
            "modules_to_save": head,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "task_type": null,
            "base_model_name_or_path": null,
        });
        let trainable = self.parameters.tensors().take(self.parameters.layers.len());
        let weights =
            serialize(trainable.map(|(layer, numbers)| (format!("{ADAPTERS}{}", layer.name), layer, numbers)))?;
        Ok(AdapterFiles { weights, config: format!("{config:#}\n") })
    }

    /// Takes every weight that a file has, safetensors or GGUF, and returns the names of those that it lacks. Tensors that
    /// this network has no place for are left alone. Floats of 16 bits (F16, BF16) become those of 32, which hold each of
    /// them; integers of 8 bits are taken with their steps, as [`quantize`](super::quantize) writes them.
    ///
    /// # Errors
    /// Not such a file, a tensor of another shape or type, or with a number that is not finite; a GGUF file of another
    /// network. Then nothing changes.
    pub fn import(&mut self, file: &[u8]) -> Result<Vec<String>, NetworkError> {
        let mut parameters = self.parameters.clone();
        let missing = WeightFile::read(file, self.description())?.fill(&mut parameters)?;
        self.parameters = parameters;
        Ok(missing)
    }

    fn lora(&self) -> Option<&Lora> {
        match self.description().train() {
            Some(Train::Lora(lora)) => Some(lora),
            _ => None,
        }
    }
}

/// A file of weights whose header was read.
pub(crate) enum WeightFile<'file> {
    Safetensors(SafeTensors<'file>),
    Gguf(Gguf<'file>),
}

impl<'file> WeightFile<'file> {
    /// The file, if it is one of such a network.
    pub fn read(file: &'file [u8], description: &Description) -> Result<Self, NetworkError> {
        if Gguf::is(file) {
            let gguf = Gguf::read(file)?;
            gguf.fits(description)?;
            return Ok(Self::Gguf(gguf));
        }
        let tensors = SafeTensors::deserialize(file).map_err(|error| NetworkError::Weights(error.to_string()))?;
        Ok(Self::Safetensors(tensors))
    }

    /// Fills every tensor that the file has, one after the other, and returns the names of the others.
    ///
    /// # Errors
    /// A tensor that does not fit, or with a number that is not finite. Then some were filled.
    pub fn fill(&self, parameters: &mut Parameters) -> Result<Vec<String>, NetworkError> {
        let mut missing = Vec::new();
        for (layer, numbers) in parameters.tensors_mut() {
            let found = match self {
                Self::Safetensors(tensors) => find(layer, tensors)?,
                Self::Gguf(gguf) => gguf.tensor(&layer.name, &layer.shape)?,
            };
            match found {
                Some(values) if values.iter().any(|number| !number.is_finite()) => {
                    let text = format!("{} has a number that is not finite", layer.name);
                    return Err(NetworkError::Weights(text));
                }
                Some(values) => numbers.copy_from_slice(&values),
                None => missing.push(layer.name.clone()),
            }
        }
        Ok(missing)
    }
}

/// The shape that files have: of convolutions, inputs come second.
fn outer_shape(layer: &Layer) -> Vec<usize> {
    match layer.shape[..] {
        [outputs, height, width, inputs] => vec![outputs, inputs, height, width],
        _ => layer.shape.clone(),
    }
}

fn serialize<'a>(tensors: impl Iterator<Item = (String, &'a Layer, &'a [f32])>) -> Result<Vec<u8>, NetworkError> {
    let bytes = tensors.map(|(name, layer, numbers)| {
        let ordered = match layer.shape[..] {
            [_, height, width, inputs] => transpose(numbers, height * width, inputs).to_vec(),
            _ => numbers.to_vec(),
        };
        (name, outer_shape(layer), ordered.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
    });
    let bytes: Vec<_> = bytes.collect();
    let failed = |error: safetensors::SafeTensorError| NetworkError::Weights(error.to_string());
    let views = bytes.iter().map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)));
    let views = views.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    safetensors::serialize(views, None).map_err(failed)
}

/// The numbers of a layer in a file, in the order of this crate; nothing where the file has none.
pub(crate) fn find(layer: &Layer, tensors: &SafeTensors<'_>) -> Result<Option<Vec<f32>>, NetworkError> {
    let names = PREFIXES.iter().map(|prefix| format!("{prefix}{}", layer.name));
    let found = names.filter_map(|name| tensors.tensor(&name).ok().map(|tensor| (name, tensor))).next();
    let Some((name, tensor)) = found else { return Ok(None) };
    let shape = outer_shape(layer);
    if tensor.shape() != shape {
        return Err(NetworkError::Weights(format!("{name} is {:?}, and should be {shape:?}", tensor.shape())));
    }
    let numbers = numbers(&name, &tensor, tensors)?;
    Ok(Some(match layer.shape[..] {
        [_, height, width, inputs] => transpose(&numbers, inputs, height * width).to_vec(),
        _ => numbers,
    }))
}

/// The numbers of a tensor: floats of 32 or 16 bits, or integers of 8 bits times the steps of their outputs.
pub(crate) fn numbers(name: &str, tensor: &TensorView<'_>, all: &SafeTensors<'_>) -> Result<Vec<f32>, NetworkError> {
    let pairs = || tensor.data().as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    let numbers: Vec<f32> = match tensor.dtype() {
        Dtype::F32 => floats(tensor),
        Dtype::F16 => pairs().map(half::f16).collect(),
        Dtype::BF16 => pairs().map(half::bf16).collect(),
        Dtype::I8 => int8::scaled(tensor.data(), &steps(name, tensor, all)?),
        other => return Err(NetworkError::Weights(format!("{name} is {other:?}: convert the file to F32"))),
    };
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(NetworkError::Weights(format!("{name} has a number that is not finite")));
    }
    Ok(numbers)
}

/// The steps of a tensor of integers, one for each output.
fn steps(name: &str, tensor: &TensorView<'_>, all: &SafeTensors<'_>) -> Result<Vec<f32>, NetworkError> {
    let (scale, outputs) = (format!("{name}{}", int8::SCALE), tensor.shape().first().copied().unwrap_or(0));
    let wrong = |problem: &str| NetworkError::Weights(format!("{name} is of integers, and {scale} {problem}"));
    let found = all.tensor(&scale).map_err(|_| wrong("is missing"))?;
    if found.dtype() != Dtype::F32 || found.shape() != [outputs, 1] {
        return Err(wrong(&format!("is {:?} {:?}, and should be F32 [{outputs}, 1]", found.dtype(), found.shape())));
    }
    let steps = floats(&found);
    match steps.iter().all(|step| *step > 0.0 && step.is_finite()) {
        true => Ok(steps),
        false => Err(wrong("has a step that is no positive number")),
    }
}

fn floats(tensor: &TensorView<'_>) -> Vec<f32> {
    tensor.data().as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}
