//! Properties of every HTTP request and reply, checked by tests and by the fuzzer.
//!
//! - `Host`: an accepted name is one that no other site can have, or one in the setting.
//! - Credentials: the decoded user and password are those that were encoded.
//! - Query fields, and bodies of commands: accepted or refused; a command that no button of the console runs is refused.
//! - Replies become valid JSON.

use hyper::header::{self, HeaderMap, HeaderValue};

use crate::guard::{basic, check_command, check_host, check_site};
use crate::json::{base64, of_reply};
use crate::query::Query;
use crate::run_command::{arguments, is_allowed, queue};

/// Puts any bytes into all places of a request.
pub fn check_request(input: &[u8]) {
    let lines: Vec<&[u8]> = input.splitn(5, |&byte| byte == b'\n').collect();
    check_headers(&lines);
    if let Ok(text) = std::str::from_utf8(input) {
        check_query(text);
        check_credentials(text);
    }
    check_body(input);
    if let Ok(Some((reply, _))) = resp::decode(input) {
        let json = of_reply(&reply).to_string();
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
    }
}

fn check_headers(lines: &[&[u8]]) {
    const TOKEN: &str = "0123456789abcdef";
    let names =
        [header::HOST, header::CONTENT_TYPE, header::ORIGIN, "sec-fetch-site".parse().expect("a good name")];
    let mut headers = HeaderMap::new();
    for (name, value) in names.into_iter().zip(lines) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    // Without the token no command runs, whatever else the request contains.
    assert!(check_command(&headers, TOKEN).is_err());
    let _ = check_site(&headers);
    if check_host(&headers, "darter.example").is_ok() {
        let host = headers[header::HOST].to_str().expect("it was read").to_ascii_lowercase();
        let is_address = host.bytes().any(|byte| byte.is_ascii_digit() || byte == b':');
        assert!(is_address || host.contains("localhost") || host.contains("darter.example"), "{host}");
    }
}

fn check_query(text: &str) {
    let query = Query::parse(text);
    if let Ok((_, key)) = queue(&query) {
        assert!(!key.is_empty());
    }
    let _ = (query.text("role"), query.number("count", 20), query.allows("name", b"a"));
}

fn check_credentials(text: &str) {
    if let Some(read) = basic(text) {
        assert!(!read.user.is_empty() && !read.user.contains(&b':'));
    }
    if let Some((user, password)) = text.split_once(':').filter(|(user, _)| !user.is_empty()) {
        let read = basic(&format!("Basic {}", base64(text.as_bytes()))).expect("it is well formed");
        assert_eq!((&*read.user, &*read.password), (user.as_bytes(), password.as_bytes()));
    }
}

fn check_body(body: &[u8]) {
    if let Ok((_, args)) = arguments(body) {
        assert!(is_allowed(&args));
        assert!(args.iter().map(Vec::len).sum::<usize>() <= body.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::check_request;

    proptest! {
        #[test]
        fn any_bytes(input in prop::collection::vec(any::<u8>(), 0..200)) {
            check_request(&input);
        }

        #[test]
        fn requests_that_mean_something(
            host in "(localhost|127\\.0\\.0\\.1|\\[::1\\]|evil\\.example|darter\\.example)\\.?(:[0-9]{0,5})?",
            body in r#"\{("db": ?[0-9-]{1,3}, ?)?"args": ?\[("queue"|"QUEUE"|"job.drop"|"cron"|"run"|"get"|[0-9]{1,3}|\{"b64": ?"[A-Za-z0-9_=-]{0,8}"\})(, ?("[ -~&&[^"\\]]{0,5}"|null|1e3))?\]\}"#,
            query in "((db|key|count|role)=[A-Za-z0-9%+_-]{0,6}&){0,3}",
        ) {
            check_request(format!("{host}\napplication/json\nhttp://{host}\nsame-origin").as_bytes());
            check_request(body.as_bytes());
            check_request(query.as_bytes());
        }
    }
}
