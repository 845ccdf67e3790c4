//! Tells clients that keys which they cache have changed (`CLIENT TRACKING`).
//!
//! ```text
//!   change, on any thread, under the shard's baton ── published like a message ──▶ the thread of the tracking client
//!   there: a push to it (RESP3), or on to the thread of the client to which it redirects ──▶ a message, or a push
//! ```
//!
//! Clients in broadcasting mode are told of all keys with their prefixes. They get what a thread's commands change in
//! one turn, such as a pipeline or a transaction, in one message for each prefix, before the replies to these commands
//! are sent.
//!
//! The reply to a client that reads a key is on its way before the key can change, and arrives before the news: see
//! `delivery.rs`. The shards know which keys are tracked (`shard::Tracking`), and `ClientTracking` knows to which
//! client the news are redirected.

use resp::{Proto, Reply};

use crate::broadcasts::Keys;

/// The channel on which RESP2 clients are told of changed keys.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Tells a client that `keys` have changed; `None`: all keys.
pub fn write_news(reply: &mut Reply, keys: Option<&Keys>) {
    if reply.proto() == Proto::Resp3 {
        reply.push(2);
        reply.bulk(b"invalidate");
    } else {
        reply.push(3);
        reply.bulk(b"message");
        reply.bulk(CHANNEL);
    }
    match keys {
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        None => reply.null(),
    }
}

/// Tells a client of RESP3 that the client to which it redirects is gone.
pub fn write_broken_redirect(reply: &mut Reply, redirect: u64) {
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.int(redirect as i64);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use resp::Output;

    use super::*;

    #[track_caller]
    fn check(proto: Proto, keys: Option<&Keys>, expected: &str) {
        let mut out = Output::new();
        write_news(&mut Reply::new(&mut out, proto), keys);
        assert_eq!(String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end(), expected);
    }

    #[test]
    fn news_are_a_push_or_a_message() {
        let keys = Keys::from([Arc::from(*b"a"), Arc::from(*b"b")]);
        check(Proto::Resp3, Some(&keys), ">2 $10 invalidate *2 $1 a $1 b");
        check(Proto::Resp3, None, ">2 $10 invalidate _");
        check(Proto::Resp2, Some(&keys), "*3 $7 message $20 __redis__:invalidate *2 $1 a $1 b");
    }
}
