//! Answers: stored once, and then the same bytes for ever.

use dither_core::{Receipt, Release, RequestId, Sealed, hazmat};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::AnyConnection;
use sqlx::Row;

use crate::chain;
use crate::charge::{at_most, find_charge};
use crate::entry::Record;
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::store::signed;

/// 256 MiB: SQLite holds four times as much in one value.
const MAX_ANSWER: usize = 1 << 28;

/// A durable answer as the ledger holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    bytes: String,
    receipt: Receipt,
    time: i64,
}

impl StoredAnswer {
    /// The answer in JSON, byte for byte as it was stored first.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_bytes()
    }

    /// What paid for it.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// When the writer's clock said it was stored, in seconds since 1970; information only.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`LedgerError::Json`] if it is not a `T`.
    pub fn decode<T: DeserializeOwned>(self) -> Result<Release<T>, LedgerError> {
        Ok(hazmat::release(serde_json::from_str(&self.bytes)?, self.receipt))
    }
}

impl Ledger {
    /// Stores the answer to a charged request and makes it visible. If an answer is stored already, that one is
    /// returned and this one is dropped unseen: what is visible is what is durable.
    ///
    /// # Errors
    /// [`LedgerError::NotCharged`] if the answer was not paid for by the charge of this request in this ledger,
    /// [`LedgerError::TooLong`] above 256 MiB, [`LedgerError::Json`] and storage errors. The charge stands.
    pub async fn publish<T: Serialize + DeserializeOwned>(
        &self,
        request: RequestId,
        sealed: Sealed<T>,
    ) -> Result<Release<T>, LedgerError> {
        let (value, receipt) = hazmat::open(sealed);
        let bytes = serde_json::to_string(&value)?;
        // What cannot be read back is refused now rather than stored for ever.
        let read: T = serde_json::from_str(&bytes)?;
        at_most("answer", bytes.len(), MAX_ANSWER)?;
        let stored = self.store.guard(self.store_answer(request, receipt, bytes.clone())).await?;
        // The bytes that are durable are read, once: of a hundred thousand keys that takes a while.
        if stored.bytes == bytes { Ok(hazmat::release(read, stored.receipt)) } else { stored.decode() }
    }

    /// The answer to a request, if it has one.
    ///
    /// # Errors
    /// [`LedgerError::Json`] if it is not a `T`, [`LedgerError::Damaged`] if its bytes are not those that were
    /// stored, and storage errors.
    pub async fn answer<T: DeserializeOwned>(&self, request: RequestId) -> Result<Option<Release<T>>, LedgerError> {
        self.answer_bytes(request).await?.map(StoredAnswer::decode).transpose()
    }

    /// The answer to a request as it was stored, if it has one.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if its bytes are not those that were stored, and storage errors.
    pub async fn answer_bytes(&self, request: RequestId) -> Result<Option<StoredAnswer>, LedgerError> {
        self.store.guard(async { stored(&mut *self.store.read().await?, request).await }).await
    }

    async fn store_answer(
        &self,
        request: RequestId,
        receipt: Receipt,
        bytes: String,
    ) -> Result<StoredAnswer, LedgerError> {
        let mut write = self.store.write().await?;
        let charge = find_charge(&mut write.tx, request).await?.filter(|entry| entry.receipt() == receipt);
        let charge = charge.ok_or(LedgerError::NotCharged { request })?.sequence;
        if let Some(first) = stored(&mut write.tx, request).await? {
            return Ok(first);
        }
        let digest = chain::answer(bytes.as_bytes());
        let entry = write.append(Record::Release { request: request.to_string(), charge, digest }).await?;
        sqlx::query("INSERT INTO answers (request, sequence, bytes) VALUES ($1, $2, $3)")
            .bind(request.to_string())
            .bind(signed(entry.sequence)?)
            .bind(bytes.as_str())
            .execute(&mut *write.tx)
            .await?;
        write.commit().await?;
        Ok(StoredAnswer { bytes, receipt, time: entry.time })
    }
}

/// The stored answer of a request, checked against its release entry, with the receipt of its charge.
pub(crate) async fn stored(
    connection: &mut AnyConnection,
    request: RequestId,
) -> Result<Option<StoredAnswer>, LedgerError> {
    const QUERY: &str = "SELECT r.sequence, r.body, r.hash, a.bytes FROM entries r \
        LEFT JOIN answers a ON a.sequence = r.sequence AND a.request = r.request \
        WHERE r.kind = 'release' AND r.request = $1";
    let query = sqlx::query(QUERY).bind(request.to_string());
    let Some(row) = query.fetch_optional(&mut *connection).await? else { return Ok(None) };
    let entry = crate::store::entry(&row)?;
    let time = entry.time;
    let damaged = LedgerError::Damaged { sequence: entry.sequence, finding: "its answer is not the stored one" };
    let (Record::Release { digest, charge, .. }, Some(bytes)) =
        (entry.record, row.try_get::<Option<String>, _>("bytes")?)
    else {
        return Err(damaged);
    };
    let receipt = find_charge(connection, request).await?.map(|entry| entry.receipt());
    match receipt {
        Some(receipt) if receipt.sequence == charge && chain::answer(bytes.as_bytes()) == digest => {
            Ok(Some(StoredAnswer { bytes, receipt, time }))
        }
        _ => Err(damaged),
    }
}
