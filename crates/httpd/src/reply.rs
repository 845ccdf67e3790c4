//! Answers: their status and headers, and the texts of refusals.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// An HTTP response.
pub(crate) type Answer = Response<Full<Bytes>>;

/// The policy that lets the console load its own files and talk to this server, and nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const ALWAYS: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// An answer with a body of this type, which must not be cached.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.extend(ALWAYS);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// An answer in JSON.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(value).expect("keys are strings and numbers are finite or null");
    answer(StatusCode::OK, "application/json", text)
}

/// An answer with a line of text.
pub(crate) fn text(status: StatusCode, line: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", format!("{line}\n"))
}

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    pub(crate) fn bad(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, why)
    }

    pub(crate) fn forbidden(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, why)
    }

    /// The answer in JSON, for the console's scripts.
    pub(crate) fn answer(&self) -> Answer {
        let body = serde_json::json!({ "error": self.why });
        let mut answer = answer(self.status, "application/json", body.to_string());
        let extra = match self.status {
            StatusCode::UNAUTHORIZED => {
                Some((header::WWW_AUTHENTICATE, "Basic realm=\"Darter\", charset=\"UTF-8\""))
            }
            StatusCode::TOO_MANY_REQUESTS => Some((header::RETRY_AFTER, acl::THROTTLE_S)),
            StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, "GET, HEAD, POST")),
            _ => None,
        };
        if let Some((name, value)) = extra {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}
