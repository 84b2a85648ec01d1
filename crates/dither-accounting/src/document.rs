//! Events as JSON documents that keep their meaning: a version, the neighbour relation, the event.

use dither_core::Neighbors;
use serde::{Deserialize, Serialize};

use crate::error::AccountingError;
use crate::event::Event;

/// An event with all that is needed to price it elsewhere, or years later.
///
/// `{"version":1,"neighbors":"add-or-remove-unit","event":{"gaussian":{"noise_multiplier":1.1}}}`: unknown keys, kinds
/// and versions are errors, and so are numbers out of range. Numbers come back bit by bit.
///
/// ```
/// use dither_accounting::{Event, EventDocument};
/// use dither_core::Neighbors;
/// let event = Event::Gaussian { noise_multiplier: 1.1 };
/// let document = EventDocument { neighbors: Neighbors::AddOrRemoveUnit, event };
/// let json = document.to_json().unwrap();
/// assert_eq!(json, r#"{"version":1,"neighbors":"add-or-remove-unit","event":{"gaussian":{"noise_multiplier":1.1}}}"#);
/// assert_eq!(EventDocument::from_json(&json).unwrap(), document);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EventDocument {
    /// The neighbour relation that the sensitivities of the event are for.
    pub neighbors: Neighbors,
    /// The event.
    pub event: Event,
}

/// The only version there is.
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<E> {
    version: u64,
    neighbors: Neighbors,
    event: E,
}

/// The version alone, so that a later one is named as such and not by what else has changed.
#[derive(Deserialize)]
struct Version {
    version: u64,
}

impl EventDocument {
    /// The document as one line of JSON.
    ///
    /// # Errors
    /// [`AccountingError::InvalidEvent`]: numbers that are not finite have no form in JSON.
    pub fn to_json(&self) -> Result<String, AccountingError> {
        self.event.validate()?;
        let stored = Stored { version: VERSION, neighbors: self.neighbors, event: &self.event };
        serde_json::to_string(&stored).map_err(unreadable)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`AccountingError::Unreadable`] with line and column, [`AccountingError::UnknownVersion`],
    /// [`AccountingError::InvalidEvent`] with the path to the wrong number.
    pub fn from_json(json: &str) -> Result<Self, AccountingError> {
        let Version { version } = serde_json::from_str(json).map_err(unreadable)?;
        if version != VERSION {
            return Err(AccountingError::UnknownVersion { version });
        }
        let Stored { neighbors, event, .. } = serde_json::from_str::<Stored<Event>>(json).map_err(unreadable)?;
        event.validate()?;
        Ok(Self { neighbors, event })
    }
}

pub(crate) fn unreadable(error: serde_json::Error) -> AccountingError {
    AccountingError::Unreadable { reason: error.to_string() }
}
