//! Every word that people read, in English and Simplified Chinese.
//!
//! Sentences about a post-processing step stand beside the step, in [`postprocess`](crate::postprocess).

use serde::{Deserialize, Serialize};

/// The language of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Simplified Chinese.
    Zh,
}

impl Language {
    /// The code of the language for the `lang` attribute of a page.
    pub fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-Hans",
        }
    }
}
