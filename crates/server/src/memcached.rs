//! Connections on which memcached's protocol is spoken: from input to commands.
//!
//! The same as `life/pipeline.rs` does for Redis' protocol, without windows. Where a password is required, a client says
//! `set <anything> 0 0 <bytes>␍␊<user> <password>␍␊` first, as memcached has it.

use proactor::{CloseMode, ConnId};
use resp::Output;
use resp::memcached::{ItemLimits, MemcachedParser, Parsed, Verb, Words};
use settings::MEMCACHED_ITEM_SIZE_MAX;

use crate::clients::bounds::is_enough_output;
use crate::life::pipeline::{ROUNDS_PER_TURN, leave_rest};
use crate::thread::Thread;

/// The largest item that a client may send as its user and password.
const CREDENTIALS_BYTES_MAX: usize = 1024;

impl Thread {
    /// Runs the commands at the front of `input`; returns the bytes that they took.
    pub(crate) fn serve_memcached(
        &mut self,
        parser: &mut MemcachedParser,
        input: &[u8],
        out: &mut Output,
        conn: ConnId,
    ) -> usize {
        let mut consumed = 0;
        for _ in 0..ROUNDS_PER_TURN {
            match self.serve_item_request(parser, &input[consumed..], out) {
                Some(bytes) => consumed += bytes,
                None => return consumed,
            }
            if self.stops_reading() || is_enough_output(out) {
                break;
            }
        }
        leave_rest(&mut self.host, conn);
        consumed
    }

    /// Runs the request at the front of `input`; returns the bytes that it took, or `None` if it is not all there.
    #[inline]
    fn serve_item_request(
        &mut self,
        parser: &mut MemcachedParser,
        input: &[u8],
        out: &mut Output,
    ) -> Option<usize> {
        let is_known = self.host.session().access.is_authenticated();
        let item_bytes_max = if is_known {
            self.host.shared.settings.number(MEMCACHED_ITEM_SIZE_MAX) as usize
        } else {
            CREDENTIALS_BYTES_MAX
        };
        let mut words = Words::new();
        match parser.parse(input, ItemLimits { item_bytes_max }, &mut words) {
            Parsed::Request { verb, consumed, skipped } => {
                if is_known {
                    if let Some(key) = parser.binary_key() {
                        words[1] = key;
                    }
                    let command = self.host.shared.table.of_protocol(verb as usize);
                    self.call(command, &words, None, out);
                } else {
                    self.take_credentials(verb, &words, out);
                }
                drop(words);
                if self.host.session().state.is_put_off() {
                    return Some(0);
                }
                parser.skip(skipped);
                Some(consumed)
            }
            Parsed::Refused { reply, consumed, skipped } => {
                if !reply.is_empty() {
                    self.host.accounting.stats().count_error(reply.split(' ').next().unwrap_or_default());
                    out.extend_from_slice(reply.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                parser.skip(skipped);
                Some(consumed)
            }
            Parsed::Skipped { consumed } => Some(consumed),
            Parsed::Incomplete => None,
            Parsed::Broken => {
                self.host.session().state.close(CloseMode::AfterFlush);
                Some(input.len())
            }
            Parsed::Http => {
                self.host.abort_http();
                Some(input.len())
            }
        }
    }

    /// A request of a client that has not said its password: only that will do.
    #[cold]
    fn take_credentials(&mut self, verb: Verb, words: &[&[u8]], out: &mut Output) {
        let reply: &[u8] = match (verb, words.last()) {
            (Verb::Quit, _) => {
                self.host.session().state.close(CloseMode::AfterFlush);
                return;
            }
            (Verb::Set, Some(value)) => {
                let mut parts = value.split(|&byte| byte == b' ').filter(|part| !part.is_empty());
                match (parts.next(), parts.next()) {
                    (Some(user), Some(password)) if self.host.authenticate(user, password, words).is_ok() => {
                        b"STORED\r\n"
                    }
                    (Some(_), Some(_)) => b"CLIENT_ERROR authentication failure\r\n",
                    _ => b"CLIENT_ERROR bad authentication token format\r\n",
                }
            }
            _ => b"CLIENT_ERROR unauthenticated\r\n",
        };
        out.extend_from_slice(reply);
    }
}
