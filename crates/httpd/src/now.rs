//! The current state: slow commands, large and hot keys, waiting clients, and the libraries that clients use.
//!
//! Keys are sampled in slices of one SCAN, and only while the page is open: each request continues where the
//! last one ended, at most one a second for each user. Only a user without restrictions sees keys, since each sample
//! would need permission for arbitrary keys.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use config::MAXMEMORY_POLICY;
use resp::Value;
use serde_json::{Value as Json, json};

use crate::guard::Visitor;
use crate::json::of_reply;
use crate::key_samples::{KeySample, Seen};
use crate::messenger::Messenger;
use crate::reply::{self, Answer, Refusal};
use crate::state::State;

/// How many slow commands are shown.
const SLOW_MAX: usize = 20;
/// About how many keys are sampled at once.
const SLICE_KEYS: usize = 100;
/// The pause between two samplings for the same user.
const SLICE_PAUSE: Duration = Duration::from_secs(1);
/// How many queues with waiting clients are shown.
const BLOCKED_MAX: usize = 100;

/// The answer to `/api/now`.
pub(crate) async fn answer(state: &State, visitor: &Visitor) -> Result<Answer, Refusal> {
    let mut messenger = Messenger::open(state.source, visitor)?;
    let count = SLOW_MAX.to_string();
    let slow = messenger.call_first(&[b"SLOWLOG", b"GET", count.as_bytes()]).await?;
    let clients = messenger.call(&[b"CLIENT", b"LIST"]).await;
    let mut whys = Vec::new();
    let has_frequencies = state.source.settings().text(MAXMEMORY_POLICY).contains("lfu");
    let sample = if visitor.access.is_limited() {
        whys.push("only users without restrictions can see keys");
        None
    } else {
        if !has_frequencies {
            whys.push("hot keys are known only with maxmemory-policy allkeys-lfu or volatile-lfu");
        }
        Some(look_at_keys(state, visitor, &mut messenger, has_frequencies).await?)
    };
    let (largest, hottest) = sample.map_or((Json::Null, Json::Null), |sample| {
        let hottest = sample.hottest.shown("freq");
        (sample.largest.shown("bytes"), if has_frequencies { hottest } else { Json::Null })
    });
    let blocked = if visitor.may(state, &["queue", "list"]) { blocked(state) } else { Json::Null };
    Ok(reply::json(&json!({
        "slow": slow_commands(&slow),
        "largest_keys": largest,
        "hot_keys": hottest,
        "why": if whys.is_empty() { Json::Null } else { json!(whys.join("; ")) },
        "blocked": blocked,
        "libraries": clients.map_or(Json::Null, |clients| libraries(&clients)),
    })))
}

/// Samples the next keys, unless that was done shortly before.
async fn look_at_keys(
    state: &State,
    visitor: &Visitor,
    messenger: &mut Messenger,
    has_frequencies: bool,
) -> Result<KeySample, Refusal> {
    let user = visitor.user();
    let mut sample = state.key_samples.borrow().of(&user);
    let now = Instant::now();
    if sample.last.is_some_and(|last| now.duration_since(last) < SLICE_PAUSE) {
        return Ok(sample);
    }
    let cursor = if sample.cursor.is_empty() { b"0".to_vec() } else { sample.cursor.clone() };
    let slice = SLICE_KEYS.to_string();
    let reply = messenger.call(&[b"SCAN", &cursor, b"COUNT", slice.as_bytes()]).await?;
    let Some((cursor, keys)) = scanned(reply) else { return Ok(sample) };
    let question = |words: &[&str], key: &[u8]| -> Vec<Vec<u8>> {
        let words = words.iter().map(|word| word.as_bytes().to_vec());
        words.chain([key.to_vec()]).collect()
    };
    let mut questions = Vec::new();
    for key in &keys {
        questions.push(question(&["TYPE"], key));
        questions.push(question(&["MEMORY", "USAGE"], key));
        if has_frequencies {
            questions.push(question(&["OBJECT", "FREQ"], key));
        }
    }
    let answers = messenger.call_all(&questions).await?;
    if cursor == b"0" {
        sample.begin_anew();
    }
    for (key, answers) in keys.iter().zip(answers.chunks(if has_frequencies { 3 } else { 2 })) {
        let Value::Simple(kind) = &answers[0] else { continue };
        let kind = String::from_utf8_lossy(kind).into_owned();
        for (rounds, figure) in [(&mut sample.largest, answers.get(1)), (&mut sample.hottest, answers.get(2))]
        {
            if let Some(Value::Int(figure)) = figure {
                rounds.note(Seen { key: key.clone(), kind: kind.clone(), figure: *figure });
            }
        }
    }
    (sample.cursor, sample.last) = (cursor, Some(now));
    state.key_samples.borrow_mut().keep(user, sample.clone());
    Ok(sample)
}

/// The cursor and the keys in a reply of SCAN.
fn scanned(reply: Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Bulk(cursor), Value::Array(keys)]: [Value; 2] = parts.try_into().ok()? else { return None };
    let keys = keys.into_iter().filter_map(|key| if let Value::Bulk(key) = key { Some(key) } else { None });
    Some((cursor, keys.collect()))
}

/// The reply of SLOWLOG GET for the console.
fn slow_commands(reply: &Value) -> Json {
    let Value::Array(entries) = reply else { return Json::Null };
    let entry = |entry: &Value| {
        let Value::Array(parts) = entry else { return None };
        let [Value::Int(id), Value::Int(time_s), Value::Int(micros), args, client, ..] = &parts[..] else {
            return None;
        };
        Some(json!({
            "id": id, "time_ms": time_s * 1000, "micros": micros, "args": texts(args), "client": texts(client),
        }))
    };
    entries.iter().filter_map(entry).collect()
}

/// Converts bytes to text, with replacements: the slow log has shortened them anyway.
fn texts(value: &Value) -> Json {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::Array(items) => items.iter().map(texts).collect(),
        other => of_reply(other),
    }
}

/// Queues with waiting clients, those with the most first.
fn blocked(state: &State) -> Json {
    let mut rows: Vec<(u64, String)> = state
        .source
        .queues()
        .iter()
        .filter(|row| row.waiters > 0)
        .map(|row| (row.waiters, String::from_utf8_lossy(&row.name).into_owned()))
        .collect();
    rows.sort_by(|one, other| other.cmp(one));
    rows.truncate(BLOCKED_MAX);
    rows.into_iter().map(|(clients, queue)| json!({ "queue": queue, "clients": clients })).collect()
}

/// The number of clients by library, from the reply of CLIENT LIST.
fn libraries(reply: &Value) -> Json {
    let (Value::Bulk(text) | Value::Verbatim { text, .. }) = reply else { return Json::Null };
    let text = String::from_utf8_lossy(text);
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    // Entries that HTTP itself appears as belong to no client.
    for line in text.lines().filter(|line| !line.is_empty() && !line.contains(" addr=http:")) {
        let field =
            |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap_or_default();
        *counts.entry((field("lib-name="), field("lib-ver="))).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
        .into_iter()
        .map(|((name, version), clients)| json!({ "name": name, "version": version, "clients": clients }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(reply: &str) -> Value {
        resp::decode(reply.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn slow_commands_and_libraries_are_read_from_replies() {
        let slow = decoded(
            "*1\r\n*6\r\n:7\r\n:100\r\n:55\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n$4\r\na:12\r\n$0\r\n\r\n",
        );
        let expected =
            json!([{ "id": 7, "time_ms": 100_000, "micros": 55, "args": ["GET", "k"], "client": "a:12" }]);
        assert_eq!(slow_commands(&slow), expected);
        let list = "id=1 lib-name=redis-rb lib-ver=5\nid=2 lib-name= lib-ver=\nid=4 addr=http:1.2.3.4:5 lib-name=\nid=3 lib-name=redis-rb lib-ver=5\n";
        let shown = libraries(&Value::Bulk(list.into()));
        let first = json!({ "name": "redis-rb", "version": "5", "clients": 2 });
        assert_eq!(shown, json!([first, { "name": "", "version": "", "clients": 1 }]));
    }

    #[test]
    fn a_slice_is_a_cursor_and_keys() {
        let reply = decoded("*2\r\n$2\r\n17\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
        assert_eq!(scanned(reply), Some((b"17".to_vec(), vec![b"a".to_vec(), b"b".to_vec()])));
        assert_eq!(scanned(Value::Null), None);
    }
}
