//! Checks whether a payload is the job with a given id.
//!
//! Where job systems keep the id of a job:
//!
//! | system | where |
//! |---|---|
//! | BullMQ, RQ, asynq | the element is the id |
//! | Sidekiq | `jid`, at the top of a JSON object |
//! | others with JSON | `id`, at the top |
//! | Celery | `headers.id`, `properties.correlation_id` |
//!
//! The text is scanned once, without recursion or memory. The scan reads the keys of the object and of those
//! two members, and skips all other values by counting brackets. It does not check that the text is JSON:
//! other text has no id, or something that looks like one.

use std::borrow::Cow;

/// Members of the object that are ids.
const TOP: &[&str] = &["jid", "id"];
/// Members of the object that are objects, and their members that are ids.
const NESTED: &[(&str, &str)] = &[("headers", "id"), ("properties", "correlation_id")];

/// Whether the element `payload` has this id.
pub(crate) fn has_id(payload: &[u8], id: &[u8]) -> bool {
    if payload == id {
        return true;
    }
    any_member(payload, |key, value| {
        let nested = |(outer, inner): &(&str, &str)| {
            is_text(key, outer.as_bytes())
                && any_member(value, |key, value| is_text(key, inner.as_bytes()) && is_id(value, id))
        };
        TOP.iter().any(|name| is_text(key, name.as_bytes())) && is_id(value, id) || NESTED.iter().any(nested)
    })
}

/// The id in a payload; `None` if it has none. If there are several, `jid` comes first, then `id`.
pub fn own_id(payload: &[u8]) -> Option<Cow<'_, [u8]>> {
    let names = [TOP[0], TOP[1], NESTED[0].0, NESTED[1].0];
    let mut found = [None; 4];
    any_member(payload, |key, value| {
        let has_escapes = key.contains(&b'\\');
        let is_it = |name: &[u8]| key == name || has_escapes && is_text(key, name);
        if let Some(index) = names.iter().position(|name| is_it(name.as_bytes())) {
            found[index].get_or_insert(value);
        }
        found[0].is_some()
    });
    let [first, second, outers @ ..] = found;
    let nested = || {
        let mut pairs = outers.into_iter().zip(NESTED);
        pairs.find_map(|(outer, (_, inner))| json_member(outer?, inner))
    };
    let value = first.or(second).or_else(nested)?;
    match string(value) {
        Some((text, _)) => text_of(text),
        None => value.first()?.is_ascii_digit().then_some(Cow::Borrowed(value)),
    }
}

/// The text of a JSON string, if `value` is one and nothing else.
pub fn json_text(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (written, rest) = string(value)?;
    if rest.is_empty() { text_of(written) } else { None }
}

/// The value of the first member with this name at the top of a JSON object, as written; see the head of this
/// file.
pub fn json_member<'a>(payload: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    any_member(payload, |key, value| {
        let is_it = is_text(key, name.as_bytes());
        found = is_it.then_some(value);
        is_it
    });
    found
}

/// The text that the inside of a JSON string stands for.
fn text_of(written: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !written.contains(&b'\\') {
        return Some(Cow::Borrowed(written));
    }
    let (mut text, mut at) = (Vec::with_capacity(written.len()), 0);
    while at < written.len() {
        if written[at] != b'\\' {
            text.push(written[at]);
            at += 1;
        } else if written.get(at + 1) == Some(&b'u') {
            let (letter, len) = escaped_letter(&written[at..])?;
            text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            at += len;
        } else {
            text.push(unescaped(*written.get(at + 1)?));
            at += 2;
        }
    }
    Some(Cow::Owned(text))
}

/// The meaning of a letter after a backslash.
fn unescaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        other => other,
    }
}

/// The part of an id that is unescaped in its payload regardless of how the writer escapes the rest: the
/// longest run of letters, digits and signs that no writer of JSON escapes. (Ids whose writer escapes letters
/// are not found.)
pub(crate) fn plain_part(id: &[u8]) -> &[u8] {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.: ".contains(byte);
    id.split(|byte| !is_plain(byte)).max_by_key(|part| part.len()).unwrap_or_default()
}

/// Whether `is_wanted` holds for a member of the object at the beginning of `text`, given its key (without
/// the quotes) and its value.
fn any_member<'a>(text: &'a [u8], mut is_wanted: impl FnMut(&[u8], &'a [u8]) -> bool) -> bool {
    let Some(mut rest) = skip_spaces(text).strip_prefix(b"{") else { return false };
    loop {
        let Some((key, after)) = string(skip_spaces(rest)) else { return false };
        let Some(value) = skip_spaces(after).strip_prefix(b":") else { return false };
        let value = skip_spaces(value);
        let len = value_len(value);
        if is_wanted(key, &value[..len]) {
            return true;
        }
        match skip_spaces(&value[len..]).strip_prefix(b",") {
            Some(next) => rest = next,
            None => return false,
        }
    }
}

/// Whether a value is a string or a number that spells `id`.
fn is_id(value: &[u8], id: &[u8]) -> bool {
    match string(value) {
        Some((text, _)) => is_text(text, id),
        None => value == id && value.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-'),
    }
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

/// The string at the beginning, as written between its quotes, and the rest.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', inner.get(at..)?)?;
        if inner[at] == b'"' {
            return Some((&inner[..at], &inner[at + 1..]));
        }
        at += 2;
    }
}

/// The length of the value at the beginning: up to the byte that ends it in an object.
fn value_len(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => match string(&text[at..]) {
                Some((_, after)) => {
                    at = text.len() - after.len();
                    continue;
                }
                None => return text.len(),
            },
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Whether a JSON string with this text between its quotes spells `wanted`.
fn is_text(written: &[u8], wanted: &[u8]) -> bool {
    let has_escapes = || written.contains(&b'\\');
    // An escape is longer than the text it stands for.
    if written.len() <= wanted.len() {
        return written == wanted && !has_escapes();
    }
    if !has_escapes() {
        return false;
    }
    let mut rest = wanted;
    let mut take = |bytes: &[u8]| match rest.strip_prefix(bytes) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    };
    let mut at = 0;
    while at < written.len() {
        let is_same = if written[at] != b'\\' {
            at += 1;
            take(&written[at - 1..at])
        } else if written.get(at + 1) == Some(&b'u') {
            let Some((letter, len)) = escaped_letter(&written[at..]) else { return false };
            at += len;
            take(letter.encode_utf8(&mut [0; 4]).as_bytes())
        } else {
            at += 2;
            match written.get(at - 1) {
                Some(letter) => take(&[unescaped(*letter)]),
                None => return false,
            }
        };
        if !is_same {
            return false;
        }
    }
    rest.is_empty()
}

/// The letter that `\u....` at the beginning stands for, and the length of the escape: two escapes may form
/// one letter.
fn escaped_letter(written: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = written.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0)?;
    match char::from_u32(first.into()) {
        Some(letter) => Some((letter, 6)),
        None => Some((char::decode_utf16([first, unit(6)?]).next()?.ok()?, 12)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    /// The expected result of [`has_id`], found by a parser.
    fn has_id_by_parser(payload: &str, id: &str) -> bool {
        let value: Value = serde_json::from_str(payload).expect("the test writes JSON");
        let is_id = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text == id,
            Some(Value::Number(number)) => number.to_string() == id,
            _ => false,
        };
        let inner = |outer: &str, name: &str| is_id(value.get(outer).and_then(|outer| outer.get(name)));
        payload == id
            || is_id(value.get("jid"))
            || is_id(value.get("id"))
            || inner("headers", "id")
            || inner("properties", "correlation_id")
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "",
                "a",
                "a\"b",
                "\\",
                "x/y",
                "7",
                "\u{1F600}",
                "\n\u{7}",
                "jid",
                "id"
            ])
            .prop_map(str::to_owned),
            any::<String>(),
        ]
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            text().prop_map(Value::String),
        ];
        let key = prop_oneof![
            prop::sample::select(vec!["jid", "id", "headers", "properties", "correlation_id", "args"])
                .prop_map(str::to_owned),
            text(),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    /// A value as another library may write it: everything is escaped that may be.
    fn escaped(value: &Value) -> String {
        let text = |text: &str| -> String {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!("\"{}\"", units.collect::<String>())
        };
        match value {
            Value::String(string) => text(string),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(escaped).collect();
                format!("[ {} ]", items.join(" ,\n"))
            }
            Value::Object(members) => {
                let members =
                    members.iter().map(|(key, value)| format!("{} :\t{}", text(key), escaped(value)));
                format!(" {{ {} }} ", members.collect::<Vec<_>>().join(" , "))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn says_what_a_parser_says(value in json(), id in text()) {
            let mut ids = vec![id];
            // Try the ids in the value, too.
            let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
            let inner = members(&value).into_iter().flat_map(|(_, value)| members(&value)).map(|(_, value)| value);
            for found in members(&value).into_iter().map(|(_, value)| value).chain(inner) {
                ids.push(found.as_str().map_or_else(|| found.to_string(), str::to_owned));
            }
            let compact = value.to_string();
            let pretty = serde_json::to_string_pretty(&value).expect("it is JSON");
            for payload in [compact, pretty, escaped(&value)] {
                for id in &ids {
                    let expected = has_id_by_parser(&payload, id);
                    prop_assert_eq!(has_id(payload.as_bytes(), id.as_bytes()), expected, "{} in {}", id, payload);
                }
            }
        }

        #[test]
        fn reads_anything(payload in prop::collection::vec(any::<u8>(), 0..200), id in prop::collection::vec(any::<u8>(), 0..8)) {
            has_id(&payload, &id);
        }

        #[test]
        fn reads_what_looks_like_json(payload in r#"[\{\}\[\]",:\\u0-9a-f jid]{0,60}"#) {
            has_id(payload.as_bytes(), b"a");
            has_id(["{\"jid\":", &payload].concat().as_bytes(), b"a");
        }

        #[test]
        fn the_plain_part_of_an_id_is_in_its_payload(id in text()) {
            let payload = serde_json::json!({ "jid": id }).to_string();
            let part = plain_part(id.as_bytes());
            prop_assert!(memchr::memmem::find(payload.as_bytes(), part).is_some());
        }
    }

    #[test]
    fn ids_of_job_systems() {
        let sidekiq = br#"{"retry":true,"queue":"default","class":"Job","args":[{"jid":"no"}],"jid":"b4a577edbccf1d805744efa9"}"#;
        let celery = br#"{"body": "W10=", "headers": {"lang": "py", "id": "3b1b"}, "properties": {"correlation_id": "3b1c"}}"#;
        for (payload, id, expected) in [
            (&sidekiq[..], &b"b4a577edbccf1d805744efa9"[..], true),
            (sidekiq, b"no", false),
            (sidekiq, b"default", false),
            (celery, b"3b1b", true),
            (celery, b"3b1c", true),
            (celery, b"py", false),
            (br#"{"id":17}"#, b"17", true),
            (br#"{"id":17}"#, b"1", false),
            (br#"{"id":true}"#, b"true", false),
            (b"42", b"42", true),
            (b"42", b"4", false),
            (b"", b"", true),
            (br#"{"jid":"never closed"#, b"never closed", false),
            (br#"{"jid":"a"#, b"a", false),
            (br#"["jid","a"]"#, b"a", false),
        ] {
            assert_eq!(has_id(payload, id), expected, "{}", String::from_utf8_lossy(payload));
        }
    }
}
