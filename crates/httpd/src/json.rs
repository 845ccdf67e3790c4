//! Replies of commands as JSON.
//!
//! Bytes that are not text are `{"b64": …}`; arguments may use this form as well. A map whose keys are text is an
//! object; any other map is an array of pairs. A double that JSON cannot express is written as RESP writes it.

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use resp::format_double;
use serde_json::{Map, Value as Json, json};

/// Converts a reply.
pub(crate) fn of_reply(value: &resp::Value) -> Json {
    use resp::Value::*;
    match value {
        Simple(bytes) | Bulk(bytes) | BigNumber(bytes) | Verbatim { text: bytes, .. } => of_bytes(bytes),
        Error(bytes) => json!({ "error": String::from_utf8_lossy(bytes) }),
        Int(number) => json!(number),
        Null | NullArray => Json::Null,
        Array(items) | Set(items) | Push(items) => items.iter().map(of_reply).collect(),
        Map(pairs) => of_pairs(pairs),
        Double(number) if number.is_finite() => json!(number),
        Double(number) => {
            let mut text = Vec::new();
            format_double(*number, &mut text);
            json!(String::from_utf8_lossy(&text))
        }
        Bool(is_true) => json!(is_true),
    }
}

/// Converts bytes that are mostly text.
pub(crate) fn of_bytes(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "b64": base64(bytes) }),
    }
}

/// Encodes bytes in base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64, also with the alphabet for URLs.
pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let standard: Vec<u8> = text
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => *byte,
        })
        .collect();
    GeneralPurpose::new(&base64::alphabet::STANDARD, config).decode(standard).ok()
}

/// An argument of a command: a text, a number, or `{"b64": …}`.
pub(crate) fn to_argument(json: &Json) -> Option<Vec<u8>> {
    match json {
        Json::String(text) => Some(text.clone().into_bytes()),
        Json::Number(number) => Some(number.to_string().into_bytes()),
        Json::Object(fields) if fields.len() == 1 => from_base64(fields.get("b64")?.as_str()?.as_bytes()),
        _ => None,
    }
}

fn of_pairs(pairs: &[(resp::Value, resp::Value)]) -> Json {
    let named: Option<Map<String, Json>> = pairs
        .iter()
        .map(|(key, value)| match key {
            resp::Value::Bulk(name) | resp::Value::Simple(name) => {
                Some((std::str::from_utf8(name).ok()?.to_owned(), of_reply(value)))
            }
            _ => None,
        })
        .collect();
    match named {
        Some(fields) if fields.len() == pairs.len() => Json::Object(fields),
        _ => pairs.iter().map(|(key, value)| json!([of_reply(key), of_reply(value)])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reply: &[u8], expected: Json) {
        let (value, _) = resp::decode(reply).unwrap().unwrap();
        assert_eq!(of_reply(&value), expected);
    }

    #[test]
    fn replies_keep_their_shape() {
        check(b"*3\r\n:1\r\n$1\r\na\r\n_\r\n", json!([1, "a", null]));
        check(b"%1\r\n$1\r\na\r\n#t\r\n", json!({ "a": true }));
        check(b"%1\r\n:1\r\n$1\r\na\r\n", json!([[1, "a"]]));
        check(b"$2\r\n\xff\x00\r\n", json!({ "b64": "/wA=" }));
        check(b",inf\r\n", json!("inf"));
        check(b",1.5\r\n", json!(1.5));
        check(b"*1\r\n-ERR no\r\n", json!([{ "error": "ERR no" }]));
    }

    #[test]
    fn a_field_that_comes_twice_is_not_lost() {
        check(b"%2\r\n+a\r\n:1\r\n+a\r\n:2\r\n", json!([["a", 1], ["a", 2]]));
    }

    #[test]
    fn arguments_may_have_any_bytes() {
        for (given, expected) in [
            (json!("a\u{0}b"), Some(b"a\0b".to_vec())),
            (json!(12), Some(b"12".to_vec())),
            (json!({ "b64": "/wA=" }), Some(b"\xff\0".to_vec())),
            (json!({ "b64": "_wA" }), Some(b"\xff\0".to_vec())),
            (json!({ "b64": "%" }), None),
            (json!({ "b64": "", "more": 1 }), None),
            (json!([]), None),
            (json!(null), None),
        ] {
            assert_eq!(to_argument(&given), expected, "{given}");
        }
    }
}
