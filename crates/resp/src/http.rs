//! Detects HTTP where another protocol is expected.
//!
//! A web page can make a browser send requests to any port, including those of the machine it runs on. For a line-based
//! protocol, the body of such a request consists of lines like any other. One of two words comes before the body of
//! every request that a page may send without permission: the method `POST`, or else the name of the header `Host:`.

/// Whether `word`, the first of a request or of its line, is one that begins a line of HTTP before the body.
#[must_use]
pub fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}
