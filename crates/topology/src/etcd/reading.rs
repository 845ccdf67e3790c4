//! Reading the document, the proofs of death and the end of the log in one linearizable transaction.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::Client;
use super::keys::Keys;
use super::wire::{self, KeyValue, RangeAnswer, TxnAnswer, op_range};
use crate::contents;
use crate::document::DOCUMENT_BYTES_MAX;
use crate::error::Error;
use crate::ids::{Life, Revision};
use crate::outcome::{Finding, Reading};
use crate::store::{DEAD_MAX, LOG_MAX};

/// The oldest log entries of which the keys are read. Each change removes at most that many.
pub(crate) const OLDEST_MAX: usize = 8;

/// The oldest entries of the log beyond its limit: the next change removes them.
#[derive(Debug, Default)]
pub(crate) struct Excess(pub(crate) Vec<Revision>);

/// The ranges of a reading, for a transaction.
pub(crate) fn ranges(keys: &Keys) -> [Value; 3] {
    [
        op_range(wire::get(&keys.document())),
        // Some more than are kept: who adds one too many removes another one later.
        op_range(wire::list_keys(&keys.all_dead(), 2 * DEAD_MAX)),
        oldest(keys),
    ]
}

/// The range of the oldest log entries.
pub(crate) fn oldest(keys: &Keys) -> Value {
    op_range(wire::list_keys(&keys.all_log(), OLDEST_MAX))
}

/// Parses the JSON of an answer.
pub(crate) fn parse<T: DeserializeOwned>(member: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| nonsense(member, &error.to_string()))
}

pub(crate) fn nonsense(member: &str, why: &str) -> Error {
    Error::Nonsense { member: member.to_owned(), why: crate::shorten(why, 200).to_owned() }
}

/// Reads the document and the proofs of death.
pub(crate) async fn read(client: &mut Client, keys: &Keys) -> Result<(Reading, Excess), Error> {
    let floor = client.history().floor()?;
    let (member, body) = client.ask("kv/txn", &wire::txn(&ranges(keys))).await?;
    let answer: TxnAnswer = parse(&member, &body)?;
    client.history().observe(floor, answer.header.cluster_id, Revision(answer.header.revision))?;
    decode(keys, answer).map_err(|why| nonsense(&member, &why))
}

/// Decodes an answer to [`ranges`].
pub(crate) fn decode(keys: &Keys, answer: TxnAnswer) -> Result<(Reading, Excess), String> {
    let as_of = Revision(answer.header.revision);
    let [document, dead, log] = answer.ranges()?;
    let (revision, found) = decode_document(keys, &document, as_of)?;
    let dead: BTreeSet<Life> = dead.kvs.iter().filter_map(|found| keys.life_in(&found.key)).collect();
    Ok((Reading { revision, as_of, found, dead }, excess(keys, &log)))
}

fn decode_document(keys: &Keys, range: &RangeAnswer, as_of: Revision) -> Result<(Revision, Finding), String> {
    let KeyValue { key, value, mod_revision } = match range.kvs.as_slice() {
        [] => return Ok((Revision::NONE, Finding::Nothing)),
        [one] => one,
        _ => return Err("it has several values of one key".to_owned()),
    };
    if key != keys.document().as_bytes() {
        return Err("it has the value of another key".to_owned());
    }
    if *mod_revision == 0 || *mod_revision > as_of.0 {
        return Err(format!("a document of revision {mod_revision} in a store of revision {as_of}"));
    }
    // A larger one is refused by its decoder; it is not copied.
    let text = &value[..value.len().min(DOCUMENT_BYTES_MAX + 1)];
    Ok((Revision(*mod_revision), contents::found(text)))
}

/// Which of the oldest log entries are too many.
pub(crate) fn excess(keys: &Keys, log: &RangeAnswer) -> Excess {
    let too_many = (log.count as usize).saturating_sub(LOG_MAX).min(OLDEST_MAX);
    let oldest = log.kvs.iter().filter_map(|entry| keys.revision_in(&entry.key));
    Excess(oldest.take(too_many).collect())
}
