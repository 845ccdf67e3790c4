//! Commands on queues, for the console: shows one queue and its next jobs, and does what its buttons ask for.

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::guard::Visitor;
use crate::json::{base64, from_base64, of_reply, to_argument};
use crate::messenger::{Messenger, refused};
use crate::query::Query;
use crate::reply::{self, Answer, Refusal};
use crate::state::State;

/// How the commands begin that may be run over HTTP: what the buttons of the console do.
const ALLOWED: [&[&str]; 5] = [&["queue"], &["job.retry"], &["job.drop"], &["job.keep"], &["cron", "run"]];
/// The most arguments of a command.
const ARGS_MAX: usize = 64;
/// The error of `QUEUE INFO` for a key that is not a queue.
const NO_SUCH_QUEUE: &str = "ERR no such queue";
/// The most elements that PEEK may show.
const PEEK_MAX: u64 = 200;

/// A command in the body of a request.
#[derive(Deserialize)]
struct Posted {
    #[serde(default)]
    db: u64,
    args: Vec<Json>,
}

/// Runs the command in the body as the visitor.
pub(crate) async fn run(state: &State, visitor: &Visitor, body: &Bytes) -> Result<Answer, Refusal> {
    let (db, args) = arguments(body)?;
    let reply = call(state, visitor, db, &args).await?;
    Ok(reply::json(&json!({ "reply": reply })))
}

/// The database and arguments of the command in the body, if it is allowed.
pub(crate) fn arguments(body: &[u8]) -> Result<(u64, Vec<Vec<u8>>), Refusal> {
    let posted: Posted = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("a command is {{\"db\": 0, \"args\": […]}}: {error}")))?;
    if posted.args.len() > ARGS_MAX {
        return Err(Refusal::bad(format!("a command has at most {ARGS_MAX} arguments")));
    }
    let args: Option<Vec<Vec<u8>>> = posted.args.iter().map(to_argument).collect();
    let args = args.ok_or_else(|| Refusal::bad("an argument is text, a number or {\"b64\": …}"))?;
    if !is_allowed(&args) {
        return Err(Refusal::forbidden(
            "only QUEUE, JOB.RETRY, JOB.DROP, JOB.KEEP and CRON RUN can be run over HTTP",
        ));
    }
    Ok((posted.db, args))
}

/// Whether a command may be run over HTTP.
pub(crate) fn is_allowed(args: &[Vec<u8>]) -> bool {
    let begins_so = |words: &&[&str]| {
        args.len() >= words.len()
            && words.iter().zip(args).all(|(word, arg)| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    ALLOWED.iter().any(begins_so)
}

/// The reply of `QUEUE INFO`.
pub(crate) async fn show_queue(state: &State, visitor: &Visitor, query: &Query) -> Result<Answer, Refusal> {
    let (db, key) = queue(query)?;
    let args = [b"QUEUE".to_vec(), b"INFO".to_vec(), key];
    let told = call(state, visitor, db, &args).await;
    let told = told.map_err(|refusal| match &*refusal.why {
        NO_SUCH_QUEUE => Refusal::new(StatusCode::NOT_FOUND, NO_SUCH_QUEUE),
        _ => refusal,
    });
    Ok(reply::json(&told?))
}

/// The elements at the front of a queue.
pub(crate) async fn peek(state: &State, visitor: &Visitor, query: &Query) -> Result<Answer, Refusal> {
    let (db, key) = queue(query)?;
    let count = query.number("count", 20).ok_or_else(|| Refusal::bad("count is not a number"))?.min(PEEK_MAX);
    let args = [b"QUEUE".to_vec(), b"PEEK".to_vec(), key, b"COUNT".to_vec(), count.to_string().into_bytes()];
    match reply_to(state, visitor, db, &args).await? {
        resp::Value::Array(items) => {
            let jobs: Vec<Json> = items.iter().enumerate().map(|(index, item)| job(index, item)).collect();
            Ok(reply::json(&json!({ "jobs": jobs })))
        }
        other => Ok(reply::json(&json!({ "jobs": [], "reply": of_reply(&other) }))),
    }
}

/// An element from the reply of PEEK: alone, after its index or score, or with further fields.
fn job(position: usize, item: &resp::Value) -> Json {
    use resp::Value::{Array, Bulk, Double, Int, Map};
    let shown = |index: Json, payload: &[u8]| json!({ "index": index, "payload": String::from_utf8_lossy(payload), "key": base64(payload) });
    match item {
        Bulk(payload) => shown(json!(position), payload),
        Array(parts) => match &parts[..] {
            [Int(index), Bulk(payload)] => shown(json!(index), payload),
            [Double(score), Bulk(payload)] => {
                let mut job = shown(json!(position), payload);
                job["score"] = json!(score);
                job
            }
            _ => json!({ "index": position, "payload": of_reply(item).to_string() }),
        },
        Map(_) => {
            let mut job = of_reply(item);
            if let Some(fields) = job.as_object_mut() {
                fields.entry("index").or_insert(json!(position));
            }
            job
        }
        _ => json!({ "index": position, "payload": of_reply(item).to_string() }),
    }
}

/// The database and key of the queue in the query.
pub(crate) fn queue(query: &Query) -> Result<(u64, Vec<u8>), Refusal> {
    let db = query.number("db", 0).ok_or_else(|| Refusal::bad("db is not a number"))?;
    let key = query.bytes("key").and_then(from_base64).filter(|key| !key.is_empty());
    Ok((db, key.ok_or_else(|| Refusal::bad("key must be a queue's name in base64"))?))
}

/// Runs a command as the visitor; an error is a refusal.
pub(crate) async fn reply_to(
    state: &State,
    visitor: &Visitor,
    db: u64,
    args: &[Vec<u8>],
) -> Result<resp::Value, Refusal> {
    let mut messenger = Messenger::open(state.source, visitor)?;
    messenger.select(db).await?;
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    match messenger.call(&args).await? {
        resp::Value::Error(why) => Err(refused(&why)),
        reply => Ok(reply),
    }
}

async fn call(state: &State, visitor: &Visitor, db: u64, args: &[Vec<u8>]) -> Result<Json, Refusal> {
    reply_to(state, visitor, db, args).await.map(|reply| of_reply(&reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_shown_however_they_are_told() {
        let payload = || resp::Value::Bulk(b"a\xff".to_vec());
        let shown = json!({ "index": 3, "payload": "a\u{fffd}", "key": "Yf8=" });
        assert_eq!(job(3, &payload()), shown);
        assert_eq!(job(0, &resp::Value::Array(vec![resp::Value::Int(3), payload()])), shown);
        let scored = resp::Value::Array(vec![resp::Value::Double(1.5), payload()]);
        assert_eq!(
            job(3, &scored),
            json!({ "index": 3, "score": 1.5, "payload": "a\u{fffd}", "key": "Yf8=" })
        );
        let map = resp::Value::Map(vec![(resp::Value::Bulk(b"id".to_vec()), resp::Value::Int(1))]);
        assert_eq!(job(2, &map), json!({ "id": 1, "index": 2 }));
        assert_eq!(job(2, &resp::Value::Null), json!({ "index": 2, "payload": "null" }));
    }

    #[test]
    fn only_what_buttons_do_is_run() {
        let is_run = |line: &str| {
            let args: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            is_allowed(&args)
        };
        for line in ["QUEUE PAUSE q", "job.retry q 1", "Job.Drop q 1", "job.keep q 1000 ID 1", "CRON run q n"]
        {
            assert!(is_run(line), "{line}");
        }
        for line in [
            "",
            "cron",
            "cron set q n @daily x",
            "cron del q n",
            "job.take w LEASE 1 FROM q",
            "job.put q x",
            "get a",
        ] {
            assert!(!is_run(line), "{line}");
        }
    }

    #[test]
    fn a_queue_is_named_in_base64() {
        let read = |text: &str| queue(&Query::parse(text)).map_err(|refusal| refusal.why);
        assert_eq!(read("db=2&key=Yf8%3D"), Ok((2, b"a\xff".to_vec())));
        assert_eq!(read("key=Yf8"), Ok((0, b"a\xff".to_vec())));
        assert!(read("key=").is_err() && read("key=%25").is_err() && read("db=x&key=Yf8").is_err());
    }
}
