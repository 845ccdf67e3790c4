//! The ids in payloads, and the elements for payloads without one: part of the model that jobs are compared
//! with.

use super::model::Bytes;

/// Payloads that are not JSON, or have their id in unusual forms, with the ids.
pub(super) const STRANGE: &[(&str, Option<&str>)] = &[
    ("", None),
    ("text", None),
    ("[1]", None),
    ("\"id\"", None),
    ("{}", None),
    ("{\"id\":", None),
    ("{\"id\":null}", None),
    ("{\"id\":\"\"}", None),
    ("{\"id\":{\"id\":\"in\"}}", None),
    ("{\"args\":{\"id\":\"in\"}}", None),
    ("[{\"id\":\"in\"}]", None),
    (" { \"args\" : [ 1 ] , \"id\" : \"spaced\" } ", Some("spaced")),
    ("{\"id\":7}", Some("7")),
    ("{\"headers\":{\"id\":\"task\"}}", Some("task")),
    ("{\"jid\":\"one\",\"id\":\"other\"}", Some("one")),
    ("{\"id\":\"quoted \\\"\"}", Some("quoted \"")),
];

/// The id in a payload; none unless it is a JSON object.
pub(super) fn says_id(payload: &[u8]) -> Option<Bytes> {
    if let Some((_, id)) = STRANGE.iter().find(|(text, _)| text.as_bytes() == payload) {
        return id.map(|id| id.as_bytes().to_vec());
    }
    let (mut id, mut bytes) = (Bytes::new(), payload.strip_prefix(b"{\"id\":\"")?.iter());
    loop {
        match bytes.next()? {
            b'"' => return Some(id),
            b'\\' => id.push(*bytes.next()?),
            byte => id.push(*byte),
        }
    }
}

/// The element of the list for a job whose payload does not have its id.
pub(super) fn reference(id: &[u8]) -> Bytes {
    let escaped = id.iter().flat_map(|byte| match byte {
        b'"' | b'\\' => vec![b'\\', *byte],
        byte => vec![*byte],
    });
    b"{\"id\":\"".iter().copied().chain(escaped).chain(*b"\"}").collect()
}
