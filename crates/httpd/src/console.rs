//! The files of the console, which are part of the program.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use crate::reply::{self, Answer};

/// A file of the console.
#[derive(Debug)]
pub(crate) struct File {
    paths: &'static [&'static str],
    content_type: &'static str,
    content: &'static [u8],
    /// Identifies the content (`ETag`), so that browsers need not load it again.
    validator: String,
}

/// All files of the console.
#[derive(Debug)]
pub(crate) struct Console([File; 4]);

impl Console {
    pub(crate) fn new() -> Console {
        let file = |paths, content_type, content: &'static [u8]| {
            let digest: String =
                Sha256::digest(content)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            File { paths, content_type, content, validator: format!("\"{digest}\"") }
        };
        Console([
            file(&["/", "/index.html"], "text/html; charset=utf-8", include_bytes!("../console/index.html")),
            file(&["/app.js"], "text/javascript; charset=utf-8", include_bytes!("../console/app.js")),
            file(&["/jobs.js"], "text/javascript; charset=utf-8", include_bytes!("../console/jobs.js")),
            file(&["/style.css"], "text/css; charset=utf-8", include_bytes!("../console/style.css")),
        ])
    }

    /// The file at this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.0.iter().find(|file| file.paths.contains(&path))
    }
}

impl File {
    /// The file, or the answer that the browser's copy is current.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Answer {
        let known =
            headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_known = known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == self.validator);
        let mut answer = if is_known {
            reply::answer(StatusCode::NOT_MODIFIED, self.content_type, &b""[..])
        } else {
            reply::answer(StatusCode::OK, self.content_type, self.content)
        };
        let validator = HeaderValue::from_str(&self.validator).expect("it is digits in quotes");
        answer.headers_mut().insert(header::ETAG, validator);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_has_a_file_is_told_so() {
        let console = Console::new();
        let file = console.file("/").unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(file.answer(&headers).status(), StatusCode::OK);
        headers.insert(header::IF_NONE_MATCH, format!("\"other\", W/{}", file.validator).parse().unwrap());
        assert_eq!(file.answer(&headers).status(), StatusCode::NOT_MODIFIED);
        assert_ne!(file.validator, console.file("/app.js").unwrap().validator);
        assert!(console.file("/secret").is_none());
    }
}
