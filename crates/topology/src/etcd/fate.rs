//! Decides from an error of etcd whether the request may have been carried out.
//!
//! An error is an unknown outcome, unless etcd is known to give it before it changes anything. The request may then be carried
//! out much later. In particular unknown:
//!
//! - *timeouts, and everything of status 503*: seen carried out up to 12 s later, and there is no bound.
//! - *database space exceeded* (429): the member that finds its space exhausted while it applies a transaction applies it all
//!   the same, and answers with this error (`quotaApplierV3` in etcd's sources, 3.4 to 3.6).
//! - *permission denied* (403) of a transaction: one with a range that we may not read was seen applied by the other members
//!   but not by the one that was asked.
//! - *an answer that is not etcd's*: a proxy may have passed the request on.

use super::wire::ErrorAnswer;
use crate::error::Error;
use crate::shorten;

/// The longest message that is passed on to people.
const MESSAGE_BYTES_MAX: usize = 300;

/// The fate of a request that was answered with an error.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The token is not valid, here or any more. Nothing was done.
    NewToken(Error),
    /// Nothing was done, and nothing will be.
    NotDone(Error),
    /// It may have been done, or will be.
    Unknown(Error),
}

impl Fate {
    /// The error, whatever it says.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Fate::NewToken(error) | Fate::NotDone(error) | Fate::Unknown(error) => error,
        }
    }
}

/// Judges an answer of `member` whose status is not 200.
pub(crate) fn fate_of(member: &str, status: u16, body: &[u8]) -> Fate {
    let Ok(answer) = serde_json::from_slice::<ErrorAnswer>(body) else {
        let why = format!("status {status}, and no error of etcd");
        return Fate::Unknown(Error::Nonsense { member: member.to_owned(), why });
    };
    let message = answer.message.trim_start_matches("etcdserver: ");
    let text = format!("{} ({member}, status {status})", shorten(message, MESSAGE_BYTES_MAX));
    let is = |words: &str| message.contains(words);
    match (status, answer.code) {
        (401, _) => Fate::NewToken(Error::Denied(text)),
        (403, _) => Fate::Unknown(Error::Denied(text)),
        (400, 3) if is("user name is empty") => {
            Fate::NotDone(Error::Denied(format!("set cluster-etcd-user: {text}")))
        }
        (400, 3) if is("authentication failed") => Fate::NotDone(Error::Denied(text)),
        (400, 3 | 11) | (404, 5) | (412, 9) => Fate::NotDone(Error::Failed(text)),
        (429, _) if is("database space exceeded") => Fate::Unknown(Error::NoSpace(text)),
        (429, _) => Fate::NotDone(Error::Failed(text)),
        (500, 2) if is("too many requests") => Fate::NotDone(Error::Failed(text)),
        _ => Fate::Unknown(Error::Failed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        let fate = fate_of("m1", status, body.as_bytes());
        let found = match &fate {
            Fate::NewToken(_) => "new token",
            Fate::NotDone(_) => "not done",
            Fate::Unknown(_) => "unknown",
        };
        assert_eq!(found, expected, "{fate:?}");
    }

    /// The answers that were seen of etcd 3.4.23.
    #[test]
    fn an_error_is_an_unknown_outcome_unless_it_is_known() {
        let etcd = |message: &str, code: u16| {
            format!(r#"{{"error":"etcdserver: {message}","message":"etcdserver: {message}","code":{code}}}"#)
        };
        for (status, message, code) in [
            (503, "request timed out", 14),
            (503, "request timed out, possibly due to previous leader failure", 14),
            (503, "leader changed", 14),
            (503, "no leader", 14),
            (503, "transport is closing", 14),
            (408, "grpc: the client connection is closing", 1),
            (500, "context deadline exceeded", 2),
            (500, "raft: stopped", 2),
            (429, "mvcc: database space exceeded", 8),
            (403, "permission denied", 7),
            (504, "context deadline exceeded", 4),
            (400, "something that is not known", 9),
        ] {
            check(status, &etcd(message, code), "unknown");
        }
        for (status, message, code) in [
            (500, "too many requests", 2),
            (429, "grpc: received message larger than max (3000000 vs. 2097152)", 8),
            (400, "request is too large", 3),
            (400, "duplicate key given in txn request", 3),
            (400, "mvcc: required revision has been compacted", 11),
            (404, "requested lease not found", 5),
            (412, "lease already exists", 9),
            (400, "user name is empty", 3),
            (400, "authentication failed, invalid user ID or password", 3),
        ] {
            check(status, &etcd(message, code), "not done");
        }
        check(401, &etcd("invalid auth token", 16), "new token");
        for rubbish in ["", "<html>429</html>", "{}", r#"{"code":"x"}"#, r#"{"message":"m"}"#] {
            check(429, rubbish, "unknown");
            check(400, rubbish, "unknown");
        }
    }
}
