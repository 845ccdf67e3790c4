//! Shows the console the jobs of a queue that are not in its list (active, delayed and dead ones), and its schedules.
//! The lists are those of JOB.LIST and CRON LIST. Texts are cut, so that no job makes a page of megabytes.

use hyper::StatusCode;
use resp::Value;
use serde_json::{Value as Json, json};

use crate::guard::Visitor;
use crate::json::base64;
use crate::query::Query;
use crate::reply::{self, Answer, Refusal};
use crate::run_command::{queue, reply_to};
use crate::state::State;

/// The most jobs in one answer.
const JOBS_MAX: u64 = 200;
/// The number of jobs asked for when a page of the usual size is longer than a reply may be.
const FEW: u64 = 5;
/// The most bytes of a payload that are shown.
const PAYLOAD_BYTES_MAX: usize = 20_000;
/// The most bytes of any other text that are shown.
const TEXT_BYTES_MAX: usize = 1024;

/// Some jobs of the queue in the query, or its schedules: `state` says which.
pub(crate) async fn answer(state: &State, visitor: &Visitor, query: &Query) -> Result<Answer, Refusal> {
    let (db, key) = queue(query)?;
    let count = query.number("count", 20).filter(|count| *count > 0);
    let count = count.ok_or_else(|| Refusal::bad("count is not a number"))?.min(JOBS_MAX);
    let shown: Vec<Json> = match query.text("state") {
        Some("schedules") => {
            let args = [b"CRON".to_vec(), b"LIST".to_vec(), key];
            schedules(&reply_to(state, visitor, db, &args).await?).take(count as usize).collect()
        }
        Some(name @ ("active" | "delayed" | "dead")) => {
            jobs(&list(state, visitor, (db, key), name, count).await?).collect()
        }
        _ => return Err(Refusal::bad("a state is active, delayed, dead or schedules")),
    };
    Ok(reply::json(&json!({ "jobs": shown })))
}

/// The reply of JOB.LIST; with fewer jobs if they are very long.
async fn list(
    state: &State,
    visitor: &Visitor,
    (db, key): (u64, Vec<u8>),
    name: &str,
    count: u64,
) -> Result<Value, Refusal> {
    let mut told = Err(Refusal::bad("count is 0"));
    for count in [count, count.min(FEW), 1] {
        let count = count.to_string().into_bytes();
        let args = [b"JOB.LIST".to_vec(), key.clone(), name.into(), b"COUNT".to_vec(), count];
        told = reply_to(state, visitor, db, &args).await;
        if told.as_ref().err().is_none_or(|refusal| refusal.status != StatusCode::INSUFFICIENT_STORAGE) {
            break;
        }
    }
    told
}

/// The jobs in a reply of JOB.LIST.
fn jobs(reply: &Value) -> impl Iterator<Item = Json> {
    let found = match reply {
        Value::Array(parts) => match &parts[..] {
            [_, Value::Array(jobs)] => jobs.as_slice(),
            _ => &[],
        },
        _ => &[],
    };
    found.iter().filter_map(|job| {
        let Value::Array(fields) = job else { return None };
        let [id, Value::Int(time_ms), Value::Int(attempt), worker, payload, why] = &fields[..] else {
            return None;
        };
        let mut shown = named(bytes(id)?, *time_ms, bytes(payload)?);
        shown["attempt"] = json!(attempt);
        shown["worker"] = json!(cut(bytes(worker)?, TEXT_BYTES_MAX));
        shown["why"] = json!(cut(bytes(why)?, TEXT_BYTES_MAX));
        Some(shown)
    })
}

/// The schedules in a reply of CRON LIST.
fn schedules(reply: &Value) -> impl Iterator<Item = Json> {
    let found = if let Value::Array(found) = reply { found.as_slice() } else { &[] };
    found.iter().filter_map(schedule)
}

fn schedule(told: &Value) -> Option<Json> {
    let Value::Map(pairs) = told else { return None };
    let field = |name: &str| {
        pairs.iter().find(|(key, _)| bytes(key) == Some(name.as_bytes())).map(|(_, value)| value)
    };
    let Value::Int(next_ms) = field("next_ms")? else { return None };
    let mut shown = named(bytes(field("name")?)?, *next_ms, bytes(field("payload")?)?);
    for name in ["schedule", "tz", "missed"] {
        shown[name] = json!(cut(bytes(field(name)?)?, TEXT_BYTES_MAX));
    }
    Some(shown)
}

/// The fields that jobs and schedules have in common. `key` is missing if the id is too long to be sent back.
fn named(id: &[u8], time_ms: i64, payload: &[u8]) -> Json {
    json!({
        "id": cut(id, TEXT_BYTES_MAX),
        "key": (id.len() <= TEXT_BYTES_MAX).then(|| base64(id)),
        "time_ms": time_ms,
        "payload": cut(payload, PAYLOAD_BYTES_MAX),
        "payload_bytes": payload.len(),
    })
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(bytes),
        _ => None,
    }
}

/// The beginning of a text.
fn cut(text: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&text[..text.len().min(max)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &[u8]) -> Value {
        Value::Bulk(text.to_vec())
    }

    #[test]
    fn jobs_are_shown_and_cut() {
        let job = |id: &[u8], payload: &[u8]| {
            Value::Array(vec![
                bulk(id),
                Value::Int(7),
                Value::Int(2),
                bulk(b"w"),
                bulk(payload),
                bulk(b"<b>"),
            ])
        };
        let long = vec![b'x'; 1 << 20];
        let found = Value::Array(vec![
            bulk(b"0"),
            Value::Array(vec![job(b"a\xff", b"{}"), job(&long, &long), Value::Null]),
        ]);
        let shown: Vec<Json> = jobs(&found).collect();
        let expected = json!({ "id": "a\u{fffd}", "key": "Yf8=", "time_ms": 7, "attempt": 2, "worker": "w", "payload": "{}",
            "payload_bytes": 2, "why": "<b>" });
        assert_eq!((shown.len(), &shown[0]), (2, &expected));
        assert_eq!(
            (shown[1]["key"].clone(), shown[1]["payload_bytes"].clone()),
            (Json::Null, json!(1 << 20))
        );
        assert!(shown[1].to_string().len() < PAYLOAD_BYTES_MAX + 2 * TEXT_BYTES_MAX);
        assert_eq!(jobs(&Value::Null).count() + jobs(&Value::Array(vec![])).count(), 0);
    }

    #[test]
    fn schedules_are_shown() {
        let pair = |name: &str, value: Value| (bulk(name.as_bytes()), value);
        let told = Value::Map(vec![
            pair("name", bulk(b"nightly")),
            pair("schedule", bulk(b"@daily")),
            pair("tz", bulk(b"UTC")),
            pair("missed", bulk(b"once")),
            pair("payload", bulk(b"x")),
            pair("next_ms", Value::Int(9)),
        ]);
        let shown: Vec<Json> = schedules(&Value::Array(vec![told, Value::Null])).collect();
        let expected = json!({ "id": "nightly", "key": "bmlnaHRseQ==", "time_ms": 9, "schedule": "@daily", "tz": "UTC",
            "missed": "once", "payload": "x", "payload_bytes": 1 });
        assert_eq!(shown, [expected]);
        assert_eq!(schedules(&Value::Null).count(), 0);
    }
}
