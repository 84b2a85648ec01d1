//! Where a charge stands in the ledger, in the one form that people and programs see: `NUMBER:HASH`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a charge stands in the ledger; it travels with every release that the charge paid for.
///
/// It is written and read as `NUMBER:HASH`, in JSON as such a text. The object that older files hold is read as well.
///
/// ```
/// use dither_core::Receipt;
/// let text = format!("7:{}", "c0".repeat(32));
/// let receipt: Receipt = text.parse()?;
/// assert_eq!((receipt.sequence, receipt.to_string()), (7, text));
/// assert!("7:c0ffee".parse::<Receipt>().is_err());
/// # Ok::<(), dither_core::NotAReceipt>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "Written")]
pub struct Receipt {
    /// The number of the entry in the ledger.
    pub sequence: u64,
    /// The hash of the chain up to and including the entry, in hexadecimal.
    pub head: String,
}

/// A text that is no receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a receipt is NUMBER:HASH with all 64 digits of the hash")]
pub struct NotAReceipt;

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sequence, self.head)
    }
}

impl FromStr for Receipt {
    type Err = NotAReceipt;

    fn from_str(text: &str) -> Result<Self, NotAReceipt> {
        let (sequence, head) = text.trim().split_once(':').ok_or(NotAReceipt)?;
        let head = head.to_ascii_lowercase();
        if head.len() != 64 || !head.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NotAReceipt);
        }
        Ok(Self { sequence: sequence.parse().map_err(|_| NotAReceipt)?, head })
    }
}

impl From<Receipt> for String {
    fn from(receipt: Receipt) -> Self {
        receipt.to_string()
    }
}

/// A receipt as files hold it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Parts { sequence: u64, head: String },
}

impl TryFrom<Written> for Receipt {
    type Error = NotAReceipt;

    fn try_from(written: Written) -> Result<Self, NotAReceipt> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Parts { sequence, head } => Ok(Self { sequence, head }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_has_one_form_and_the_older_one_is_read() {
        let hash = "0123456789abcdef".repeat(4);
        let receipt = Receipt { sequence: 12, head: hash.clone() };
        let json = serde_json::to_string(&receipt).unwrap();
        assert_eq!(json, format!("\"12:{hash}\""));
        assert_eq!(serde_json::from_str::<Receipt>(&json).unwrap(), receipt);
        let older = format!("{{\"sequence\":12,\"head\":\"{hash}\"}}");
        assert_eq!(serde_json::from_str::<Receipt>(&older).unwrap(), receipt);
        assert_eq!(format!(" 12:{}\n", hash.to_uppercase()).parse::<Receipt>(), Ok(receipt));
        for odd in ["", ":", "12", "12:", "x:0", "-1:0", &format!("12:{}g", &hash[1..]), &format!("12:{hash}0")] {
            assert_eq!(odd.parse::<Receipt>(), Err(NotAReceipt), "{odd}");
            assert!(serde_json::from_value::<Receipt>(odd.into()).is_err());
        }
    }
}
