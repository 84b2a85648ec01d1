//! The model of a job: made or read before the charge, written after the run.

use std::path::{Path, PathBuf};

use crate::model::Model;
use crate::nn::{Network, NetworkError};
use crate::train::card;
use crate::train::error::TrainError;
use crate::train::files::PublicFiles;
use crate::train::folder::{ADAPTERS, Base, Form, WEIGHTS};
use crate::train::job::{Job, ModelPart};
use crate::train::key::unusable;
use crate::train::linear::Linear;
use crate::train::load::Data;

/// What adapters are read by, besides their weights.
const ADAPTER_CONFIG: &str = "adapter_config.json";

/// The model of a job.
pub(crate) enum Trainable {
    Linear(Linear),
    Network(Box<Network>, Option<Base>),
}

impl Trainable {
    /// The model with so many inputs and outputs, and with the weights that it begins with.
    pub fn new(
        job: &Job,
        base: &Path,
        files: &mut PublicFiles,
        (inputs, outputs): (usize, usize),
    ) -> Result<Self, TrainError> {
        match &job.model {
            ModelPart::Linear {} if matches!(job.data, Data::Text { label: None, .. }) => {
                Err(TrainError::field("model", "a linear model has no next token", "declare a `label`"))
            }
            ModelPart::Linear {} => Ok(Self::Linear(Linear::new(inputs, outputs)?)),
            ModelPart::Network { network, weights, sha256 } => {
                // First weights are public: a number that follows from the job makes them the same when it is resumed.
                let seed = u64::from_str_radix(&job.name()[..16], 16).unwrap_or_default();
                let refused =
                    |error: NetworkError| TrainError::field("model", error.to_string(), "see docs/networks.md");
                let Some(file) = weights else {
                    return Ok(Self::Network(Box::new(Network::new(network, seed).map_err(refused)?), None));
                };
                let path = base.join(file);
                let file = files.read(&path)?;
                let digest = file.digest.clone();
                if let Some(wanted) = sha256.as_ref().filter(|wanted| !wanted.eq_ignore_ascii_case(&digest)) {
                    return Err(unusable(&path, format!("its SHA-256 is {digest}, and the job says {wanted}")));
                }
                let read = Network::with_weights(network, seed, &file.bytes);
                let (network, missing) = read.map_err(|error| match error {
                    NetworkError::Description(_) => refused(error),
                    error => unusable(&path, error),
                })?;
                let frozen = &network.parameters.frozen_layers;
                let complete = !frozen.is_empty() && frozen.iter().all(|layer| !missing.contains(&layer.name));
                let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                Ok(Self::Network(Box::new(network), Some(Base { name, sha256: digest, complete })))
            }
        }
    }

    pub fn model(&mut self) -> &mut dyn Model {
        match self {
            Self::Linear(linear) => linear,
            Self::Network(network, _) => network.as_mut(),
        }
    }

    /// The digest of the file that first weights come from; empty where there is none.
    pub fn digest(&self) -> &str {
        match self {
            Self::Network(_, Some(base)) => &base.sha256,
            _ => "",
        }
    }

    /// What it looks like, for its card.
    pub fn form(&self) -> Form {
        match self {
            Self::Linear(linear) => {
                let [outputs, inputs] = linear.shape();
                Form::Linear { inputs, outputs }
            }
            Self::Network(network, _) => Form::Network { network: network.description().clone() },
        }
    }

    /// Writes the weights, and returns which file has them, with the file that it needs besides: of a network with
    /// adapters only these are written, where a public file has all that was not trained.
    pub fn write(&self, folder: &Path, receipt: &str) -> Result<(PathBuf, Option<&Base>), TrainError> {
        let path = folder.join(WEIGHTS);
        let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).map_err(|error| unusable(path, error));
        let (network, base) = match self {
            Self::Linear(linear) => {
                card::write_weights(&path, linear, receipt)?;
                return Ok((path, None));
            }
            Self::Network(network, base) => (network, base.as_ref().filter(|base| base.complete)),
        };
        let adapters = network.export_adapters().ok();
        if let Some(adapters) = &adapters {
            write(&folder.join(ADAPTERS), &adapters.weights)?;
            write(&folder.join(ADAPTER_CONFIG), adapters.config.as_bytes())?;
        }
        if let (Some(_), Some(base)) = (adapters, base) {
            return Ok((folder.join(ADAPTERS), Some(base)));
        }
        write(&path, &network.export().map_err(|error| unusable(&path, error))?)?;
        Ok((path, None))
    }
}
