//! Requests to etcd's HTTP/JSON gateway, and its answers.
//!
//! The gateway writes 64-bit numbers as strings, keys and values as base64, and leaves out what is zero, false or empty.
//! It ignores fields that it does not know: a misspelt `mod_revision` would be compared as 0, so requests are
//! written here only.
//!
//! An answer is limited in size before it comes here. Its contents are checked: the answerer may be a proxy, or hostile.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::keys::KeyRange;
use crate::ids::Revision;

/// A key or value as JSON.
fn bytes(of: &str) -> Value {
    Value::String(STANDARD.encode(of))
}

/// A number as JSON.
fn number(of: u64) -> Value {
    Value::String(of.to_string())
}

/// The whole value of a key.
pub(crate) fn get(key: &str) -> Value {
    json!({"key": bytes(key)})
}

/// Keys and values of a range, in ascending order.
pub(crate) fn list(range: &KeyRange, limit: usize) -> Value {
    json!({"key": bytes(&range.from), "range_end": bytes(&range.to), "limit": number(limit as u64)})
}

/// The keys of a range, in ascending order.
pub(crate) fn list_keys(range: &KeyRange, limit: usize) -> Value {
    let mut request = list(range, limit);
    request["keys_only"] = Value::Bool(true);
    request
}

/// Keys and values of a range, in descending order.
pub(crate) fn list_last(range: &KeyRange, limit: usize) -> Value {
    let mut request = list(range, limit);
    request["sort_order"] = "DESCEND".into();
    request["sort_target"] = "KEY".into();
    request
}

/// An operation in a transaction.
pub(crate) fn op_range(request: Value) -> Value {
    json!({"request_range": request})
}

/// Writes a key.
pub(crate) fn op_put(key: &str, value: &str) -> Value {
    json!({"request_put": {"key": bytes(key), "value": bytes(value)}})
}

/// Writes a key that goes with a lease.
pub(crate) fn op_put_leased(key: &str, value: &str, lease: u64) -> Value {
    json!({"request_put": {"key": bytes(key), "value": bytes(value), "lease": number(lease)}})
}

/// Removes a key.
pub(crate) fn op_delete(key: &str) -> Value {
    json!({"request_delete_range": {"key": bytes(key)}})
}

/// A transaction without a condition.
pub(crate) fn txn(ops: &[Value]) -> Value {
    json!({"success": ops})
}

/// A transaction on the condition that a key has been written last at `revision`; 0: that it does not exist.
pub(crate) fn txn_if(key: &str, revision: Revision, then: &[Value], or_else: &[Value]) -> Value {
    let compare =
        json!({"key": bytes(key), "target": "MOD", "result": "EQUAL", "mod_revision": number(revision.0)});
    json!({"compare": [compare], "success": then, "failure": or_else})
}

/// Grants a lease whose id we have drawn, so that asking twice grants one.
pub(crate) fn grant(lease: u64, ttl_s: u64) -> Value {
    json!({"ID": number(lease), "TTL": number(ttl_s)})
}

/// Renews a lease.
pub(crate) fn keep_alive(lease: u64) -> Value {
    json!({"ID": number(lease)})
}

/// Forgets the revisions before `revision`.
pub(crate) fn compact(revision: Revision) -> Value {
    json!({"revision": number(revision.0)})
}

/// Asks for a token.
pub(crate) fn authenticate(user: &str, password: &str) -> Value {
    json!({"name": user, "password": password})
}

/// Watches a range from now on, in pieces of limited size.
pub(crate) fn watch(range: &KeyRange) -> Value {
    json!({"create_request": {"key": bytes(&range.from), "range_end": bytes(&range.to), "fragment": true}})
}

/// The header of most answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    #[serde(deserialize_with = "int64")]
    pub(crate) cluster_id: u64,
    #[serde(default, deserialize_with = "int64")]
    pub(crate) revision: u64,
}

/// The answer to a transaction.
#[derive(Debug, Deserialize)]
pub(crate) struct TxnAnswer {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) succeeded: bool,
    #[serde(default)]
    pub(crate) responses: Vec<OpAnswer>,
}

/// The answer to an operation in it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct OpAnswer {
    response_range: Option<RangeAnswer>,
}

/// The answer to a range.
#[derive(Debug, Deserialize)]
pub(crate) struct RangeAnswer {
    #[serde(default)]
    pub(crate) kvs: Vec<KeyValue>,
    /// How many there are, those beyond the limit included.
    #[serde(default, deserialize_with = "int64")]
    pub(crate) count: u64,
}

/// A key and its value.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyValue {
    #[serde(deserialize_with = "base64_bytes")]
    pub(crate) key: Vec<u8>,
    #[serde(default, deserialize_with = "base64_bytes")]
    pub(crate) value: Vec<u8>,
    #[serde(default, deserialize_with = "int64")]
    pub(crate) mod_revision: u64,
}

/// The answer to a renewal, which comes as part of a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct KeepAliveAnswer {
    pub(crate) result: KeepAliveResult,
}

/// See [`KeepAliveAnswer`].
#[derive(Debug, Deserialize)]
pub(crate) struct KeepAliveResult {
    pub(crate) header: Header,
    /// The seconds that are left; 0: there is no such lease.
    #[serde(rename = "TTL", default, deserialize_with = "int64")]
    pub(crate) ttl_s: u64,
}

/// An answer of which only the header counts.
#[derive(Debug, Deserialize)]
pub(crate) struct PlainAnswer {
    pub(crate) header: Header,
}

/// A token.
#[derive(Debug, Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) token: String,
}

/// A line of a watch.
#[derive(Debug, Deserialize)]
pub(crate) struct WatchLine {
    pub(crate) result: Option<WatchResult>,
    pub(crate) error: Option<IgnoredAny>,
}

/// See [`WatchLine`].
#[derive(Debug, Deserialize)]
pub(crate) struct WatchResult {
    #[serde(default)]
    pub(crate) created: bool,
    #[serde(default)]
    pub(crate) canceled: bool,
    pub(crate) events: Option<IgnoredAny>,
}

/// An error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErrorAnswer {
    #[serde(default)]
    pub(crate) message: String,
    /// The code of gRPC.
    pub(crate) code: u16,
}

impl TxnAnswer {
    /// The answers to the ranges of the transaction, if there are `N`.
    pub(crate) fn ranges<const N: usize>(self) -> Result<[RangeAnswer; N], String> {
        let found: Vec<RangeAnswer> = self.responses.into_iter().filter_map(|op| op.response_range).collect();
        let count = found.len();
        found.try_into().map_err(|_| format!("it answers {count} ranges, not {N}"))
    }
}

/// Reads a number that is written as a string, as the gateway does, or as a number.
fn int64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Number;

    impl Visitor<'_> for Number {
        type Value = u64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a number, or one as a string")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Number)
}

fn base64_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    STANDARD.decode(text.as_bytes()).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_spelt_as_etcd_reads_them() {
        let request = txn_if("k", Revision(17), &[op_put("k", "v")], &[op_range(get("k"))]);
        assert_eq!(
            request.to_string(),
            r#"{"compare":[{"key":"aw==","mod_revision":"17","result":"EQUAL","target":"MOD"}],"failure":[{"request_range":{"key":"aw=="}}],"success":[{"request_put":{"key":"aw==","value":"dg=="}}]}"#
        );
    }

    #[test]
    fn absent_zeros_are_zeros_and_numbers_may_be_strings() {
        let text = r#"{"header":{"cluster_id":"14841639068965178418","member_id":"1","revision":"9","raft_term":"2"},
            "succeeded":true,"responses":[{"response_put":{"header":{"revision":"9"}}},{"response_range":{"kvs":[{"key":"aw==",
            "create_revision":"2","mod_revision":9,"version":"1"}],"count":"1"}},{"response_range":{}}]}"#;
        let answer: TxnAnswer = serde_json::from_str(text).unwrap();
        assert!(answer.succeeded);
        assert_eq!((answer.header.cluster_id, answer.header.revision), (14841639068965178418, 9));
        let [found, empty] = answer.ranges::<2>().unwrap();
        assert_eq!(
            (found.kvs[0].key.as_slice(), found.kvs[0].value.as_slice()),
            (b"k".as_slice(), b"".as_slice())
        );
        assert_eq!((found.kvs[0].mod_revision, found.count, empty.count), (9, 1, 0));
        let failed: TxnAnswer = serde_json::from_str(r#"{"header":{"cluster_id":"1"}}"#).unwrap();
        assert!(!failed.succeeded && failed.ranges::<1>().is_err());
        for rubbish in ["{}", "[]", r#"{"header":{}}"#, r#"{"header":{"cluster_id":"-1"}}"#, "<html>", ""] {
            assert!(serde_json::from_str::<TxnAnswer>(rubbish).is_err(), "{rubbish}");
        }
    }
}
