//! A queue in the reply of QUEUE LIST: a flat array of names and values, or a map of them.

use resp::Value;

use crate::remote::figures::shown;

/// How many characters of a system or a state are shown.
const WORD_LETTERS_MAX: usize = 16;

/// A queue as it is shown. Its texts are safe to print.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) system: String,
    pub(crate) state: String,
    pub(crate) depth: u64,
    pub(crate) oldest_ms: Option<u64>,
    pub(crate) in_per_s: f64,
    pub(crate) out_per_s: f64,
    pub(crate) waiters: u64,
    pub(crate) is_paused: bool,
    pub(crate) memory_bytes: u64,
}

impl Queue {
    /// Reads a queue from an item of the reply; `None` if it is something else.
    pub(crate) fn read(value: &Value) -> Option<Queue> {
        let pairs: Vec<(&Value, &Value)> = match value {
            Value::Array(items) if items.len() % 2 == 0 => {
                items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()
            }
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            _ => return None,
        };
        let field = |wanted: &str| pairs.iter().find(|(name, _)| bytes(name) == Some(wanted.as_bytes()));
        let word = |name: &str, letters_max: usize| Some(shown(bytes(field(name)?.1)?, letters_max));
        let count = |name: &str| count(field(name)?.1);
        Some(Queue {
            name: word("name", usize::MAX)?,
            system: word("system", WORD_LETTERS_MAX)?,
            state: word("state", WORD_LETTERS_MAX)?,
            depth: count("depth")?,
            oldest_ms: match field("oldest_ms")?.1 {
                Value::Null => None,
                _ => Some(count("oldest_ms")?),
            },
            in_per_s: rate(field("in_per_s")?.1)?,
            out_per_s: rate(field("out_per_s")?.1)?,
            waiters: count("waiters")?,
            is_paused: count("paused")? > 0,
            memory_bytes: count("bytes")?,
        })
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(bytes),
        _ => None,
    }
}

fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn rate(value: &Value) -> Option<f64> {
    let rate = match value {
        Value::Double(rate) => *rate,
        other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok()?,
    };
    Some(rate).filter(|rate| rate.is_finite() && *rate >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "*20\r\n+name\r\n$3\r\na\x1b\n\r\n+system\r\n+sidekiq\r\n+state\r\n+waiting\r\n+depth\r\n:3\r\n+oldest_ms\r\n:12\r\n\
        +in_per_s\r\n$4\r\n0.25\r\n+out_per_s\r\n+1\r\n+waiters\r\n:2\r\n+paused\r\n:1\r\n+bytes\r\n:218\r\n";

    fn read(text: &str) -> Option<Queue> {
        let (value, length) = resp::decode(text.as_bytes()).expect("it is RESP").expect("it is complete");
        assert_eq!(length, text.len());
        Queue::read(&value)
    }

    #[test]
    fn a_queue_is_understood() {
        let mut queue = Queue {
            name: "a\\x1b\\n".to_owned(),
            system: "sidekiq".to_owned(),
            state: "waiting".to_owned(),
            depth: 3,
            oldest_ms: Some(12),
            in_per_s: 0.25,
            out_per_s: 1.0,
            waiters: 2,
            is_paused: true,
            memory_bytes: 218,
        };
        assert_eq!(read(ROW).as_ref(), Some(&queue));
        let resp3 = ROW.replacen("*20", "%10", 1).replace("+1\r\n", ",1\r\n");
        assert_eq!(read(&resp3).as_ref(), Some(&queue));
        queue.oldest_ms = None;
        assert_eq!(read(&ROW.replace(":12", "$-1")).as_ref(), Some(&queue));
    }

    #[test]
    fn what_is_no_queue_is_none() {
        for (from, to) in [
            ("+depth", "+death"),
            ("+name", "+nome"),
            (":3", ":-3"),
            (":3", "+3"),
            ("0.25", "x.25"),
            ("0.25", "-1.0"),
            ("+1\r\n", "+inf\r\n"),
            ("+1\r\n", "+NaN\r\n"),
            ("+sidekiq", ":1"),
            ("*20", "*19"),
        ] {
            let text = ROW.replacen(from, to, 1);
            let value = resp::decode(text.as_bytes()).expect("it is RESP").expect("it is complete").0;
            assert_eq!(Queue::read(&value), None, "{from} {to}");
        }
        assert_eq!(read("+OK\r\n"), None);
    }
}
