//! Base64 (RFC 4648), for keys of arbitrary bytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the encoded `bytes` to `out`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let byte = |index| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * index)) as usize & 63];
            out.push(if index <= three.len() { letter } else { b'=' });
        }
    }
}

/// Appends the decoded `text` to `out`, ignoring bytes outside the alphabet, as memcached does. Returns false if the
/// number of letters is 0 or no multiple of four, or if the padding is too long.
#[must_use]
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let value = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        b'=' => Some(64),
        _ => None,
    };
    let letters: Vec<u8> = text.iter().filter_map(value).collect();
    if letters.is_empty() || !letters.len().is_multiple_of(4) {
        return false;
    }
    for four in letters.chunks_exact(4) {
        let padding = four.iter().filter(|&&letter| letter == 64).count();
        let bits = four.iter().fold(0, |bits, &letter| bits << 6 | u32::from(letter & 63));
        if padding > 2 {
            return false;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
        // Everything after padding is ignored.
        if padding > 0 {
            break;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for (bytes, text) in [
            (&b"f"[..], "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\x00\xff\xfe", "AP/+"),
        ] {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(bytes, &mut encoded);
            assert_eq!(encoded, text.as_bytes());
            assert!(decode(text.as_bytes(), &mut decoded));
            assert_eq!(decoded, bytes);
        }
        for text in ["", "!!!", "Zg", "Zg=", "Z===", "===="] {
            assert!(!decode(text.as_bytes(), &mut Vec::new()), "{text:?}");
        }
    }
}
