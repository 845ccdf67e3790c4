//! The part of memcached's text protocol that `kv` uses.

use memchr::memchr;

/// Appends a request for one value.
pub(crate) fn get(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"get ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// Appends a request that stores a value. `expiry_s` 0: for ever.
pub(crate) fn set(key: &[u8], expiry_s: u64, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.extend_from_slice(format!(" 0 {expiry_s} {}\r\n", value.len()).as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The length of the reply at the front of `input`, and whether it is an error; `None` if it is incomplete.
///
/// ```text
/// STORED␍␊          VALUE <key> <flags> <bytes>␍␊<value>␍␊END␍␊          END␍␊          SERVER_ERROR out of memory␍␊
/// ```
pub(crate) fn measure(input: &[u8]) -> Result<Option<(usize, bool)>, String> {
    let mut at = 0;
    loop {
        let Some(end) = memchr(b'\n', &input[at..]) else { return Ok(None) };
        let line = String::from_utf8_lossy(&input[at..at + end]);
        at += end + 1;
        let mut words = line.split_whitespace();
        match words.next() {
            Some("VALUE") => {
                let bytes: Option<usize> = words.nth(2).and_then(|word| word.parse().ok());
                at += bytes.ok_or_else(|| format!("{line:?}"))? + "\r\n".len();
                if at > input.len() {
                    return Ok(None);
                }
            }
            Some("STORED" | "NOT_STORED" | "END" | "DELETED" | "NOT_FOUND") => return Ok(Some((at, false))),
            Some("ERROR" | "CLIENT_ERROR" | "SERVER_ERROR") => return Ok(Some((at, true))),
            _ => return Err(format!("{line:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: &str, is_error: bool) {
        let followed = format!("{reply}END\r\n");
        assert_eq!(measure(followed.as_bytes()), Ok(Some((reply.len(), is_error))), "{reply:?}");
        for end in 0..reply.len() {
            assert_eq!(measure(&reply.as_bytes()[..end]), Ok(None), "{reply:?} cut at {end}");
        }
    }

    #[test]
    fn replies() {
        check("STORED\r\n", false);
        check("END\r\n", false);
        check("VALUE k 0 5\r\nEND\r\n\r\nEND\r\n", false);
        check("VALUE k 0 0\r\n\r\nEND\r\n", false);
        check("SERVER_ERROR out of memory storing object\r\n", true);
        check("ERROR\r\n", true);
        assert!(measure(b"-ERR unknown command\r\n").is_err());
        assert!(measure(b"VALUE k 0\r\n").is_err());
    }

    #[test]
    fn requests() {
        let mut out = Vec::new();
        set(b"k", 7, b"abc", &mut out);
        get(b"k", &mut out);
        assert_eq!(out, b"set k 0 7 3\r\nabc\r\nget k\r\n");
    }
}
