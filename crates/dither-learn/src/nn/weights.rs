//! Weights as files: safetensors by name, and adapters in the layout of PEFT.
//!
//! # References
//! The layouts are those of the `safetensors` and `peft` libraries of Hugging Face.

use std::collections::BTreeMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::json;

use super::description::{Description, Lora, Train};
use super::error::NetworkError;
use super::images::transpose;
use super::network::Network;
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

    /// Takes every weight that a file of safetensors has, and returns the names of those that it lacks. Tensors that this
    /// network has no place for are left alone.
    ///
    /// # Errors
    /// Not such a file, or a tensor of another shape or type, or with a number that is not finite. Then nothing changes.
    pub fn import(&mut self, file: &[u8]) -> Result<Vec<String>, NetworkError> {
        let tensors = SafeTensors::deserialize(file).map_err(|error| NetworkError::Weights(error.to_string()))?;
        let (mut taken, mut missing) = (BTreeMap::new(), Vec::new());
        for (layer, _) in self.parameters.tensors() {
            let found = PREFIXES.iter().find_map(|prefix| tensors.tensor(&format!("{prefix}{}", layer.name)).ok());
            match found {
                Some(tensor) => drop(taken.insert(layer.name.clone(), read(layer, &tensor)?)),
                None => missing.push(layer.name.clone()),
            }
        }
        for (layer, numbers) in self.parameters.tensors_mut() {
            if let Some(values) = taken.get(&layer.name) {
                numbers.copy_from_slice(values);
            }
        }
        Ok(missing)
    }

    fn lora(&self) -> Option<&Lora> {
        match self.description() {
            Description::Encoder(encoder) => match &encoder.train {
                Train::Lora(lora) => Some(lora),
                _ => None,
            },
            Description::Decoder(decoder) => match &decoder.train {
                Train::Lora(lora) => Some(lora),
                _ => None,
            },
            Description::Layers(_) => None,
        }
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

fn read(layer: &Layer, tensor: &TensorView<'_>) -> Result<Vec<f32>, NetworkError> {
    let (name, shape) = (&layer.name, outer_shape(layer));
    if tensor.dtype() != Dtype::F32 {
        return Err(NetworkError::Weights(format!("{name} is {:?}: convert the file to F32", tensor.dtype())));
    }
    if tensor.shape() != shape {
        return Err(NetworkError::Weights(format!("{name} is {:?}, and should be {shape:?}", tensor.shape())));
    }
    let (words, _) = tensor.data().as_chunks::<4>();
    let numbers: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(NetworkError::Weights(format!("{name} has a number that is not finite")));
    }
    Ok(match layer.shape[..] {
        [_, height, width, inputs] => transpose(&numbers, inputs, height * width).to_vec(),
        _ => numbers,
    })
}
