//! Changes members of a JSON object and keeps the rest of the text, to the byte: no other writer formats
//! numbers and escapes as the job's own client did.

use keyspace::queue::MS_MIN;

use crate::queues::id::json_member;

/// The object with the member at `path` replaced by `value`, which is JSON. `None` if there is no such
/// member.
pub(crate) fn with_member(object: &[u8], path: &[&str], value: &[u8]) -> Option<Vec<u8>> {
    let (name, inner) = path.split_first()?;
    let old = json_member(object, name)?;
    let begin = old.as_ptr().addr() - object.as_ptr().addr();
    let (before, after) = (&object[..begin], &object[begin + old.len()..]);
    let new = match inner {
        [] => value.to_vec(),
        inner => with_member(old, inner, value)?,
    };
    Some([before, &new, after].concat())
}

/// The job with its member `name` set to the time `now_ms`. The time is in milliseconds if this member or
/// `created_at` is, as in Sidekiq 8, otherwise in seconds. `None` if the job is not a JSON object.
pub fn stamped(job: &[u8], name: &str, now_ms: i64) -> Option<Vec<u8>> {
    let trimmed = job.trim_ascii();
    if !(trimmed.starts_with(b"{") && trimmed.ends_with(b"}")) {
        return None;
    }
    let is_in_ms = [name, "created_at"].into_iter().filter_map(|name| integer(job, name));
    let is_in_ms = is_in_ms.into_iter().any(|time| time as f64 >= MS_MIN);
    let time = if is_in_ms { now_ms.to_string() } else { in_seconds(now_ms) };
    Some(with_member(job, &[name], time.as_bytes()).unwrap_or_else(|| {
        let rest = job.trim_ascii_end();
        let open = rest.strip_suffix(b"}").unwrap_or(rest);
        let comma: &[u8] = if open.trim_ascii() == b"{" { b"" } else { b"," };
        [open, comma, b"\"", name.as_bytes(), b"\":", time.as_bytes(), b"}"].concat()
    }))
}

/// A time in seconds since 1970, with a fraction, as Sidekiq writes it.
pub fn in_seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// The member of this name if it is an integer.
pub(crate) fn integer(object: &[u8], name: &str) -> Option<i64> {
    std::str::from_utf8(json_member(object, name)?).ok()?.parse().ok()
}

/// The text as a JSON string. Bytes that are not UTF-8 stay as they are, as in the name of the key.
pub(crate) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut json = vec![b'"'];
    for byte in text {
        match byte {
            b'"' | b'\\' => json.extend([b'\\', *byte]),
            0..=31 => json.extend(format!("\\u{byte:04x}").bytes()),
            _ => json.push(*byte),
        }
    }
    json.push(b'"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_member_changes() {
        let check = |object: &str, path: &[&str], expected: Option<&str>| {
            let changed = with_member(object.as_bytes(), path, b"7");
            assert_eq!(changed.as_deref(), expected.map(str::as_bytes), "{object}");
        };
        check(r#"{"a":1,"b" : "x\"}", "c":[]}"#, &["b"], Some(r#"{"a":1,"b" : 7, "c":[]}"#));
        check(r#"{"p":{"d":{"k":"a"}},"k":1}"#, &["p", "d", "k"], Some(r#"{"p":{"d":{"k":7}},"k":1}"#));
        check(r#"{"p":1}"#, &["p", "d"], None);
        check(r#"{"p":1}"#, &["q"], None);
        check("opaque", &["q"], None);
    }

    #[test]
    fn times_are_written_in_the_unit_of_the_job() {
        let check = |job: &str, expected: Option<&str>| {
            let changed = stamped(job.as_bytes(), "at", 1_700_000_000_042);
            assert_eq!(changed.as_deref(), expected.map(str::as_bytes), "{job}");
        };
        check(r#"{"at":1.5,"b":1}"#, Some(r#"{"at":1700000000.042,"b":1}"#));
        check(r#"{"created_at":1600000000000}"#, Some(r#"{"created_at":1600000000000,"at":1700000000042}"#));
        check("{}", Some(r#"{"at":1700000000.042}"#));
        check("17", None);
        check("{\"at\":1", None);
    }

    #[test]
    fn a_quoted_text_reads_as_it_was() {
        for text in ["", "mail", "a\"b\\c\n\u{1}", "ü"] {
            let read: String = serde_json::from_slice(&quoted(text.as_bytes())).expect("it is JSON");
            assert_eq!(read, text);
        }
    }
}
