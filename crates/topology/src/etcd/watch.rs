//! Watching etcd: a stream of events says when to read, and a clock does so as well.
//!
//! A watch of etcd may be silent although much changes: its member is stopped, has lost its quorum, or was restored. It may
//! skip revisions that were removed. So no document is taken from an event. Each line of the stream leads to a linearizable
//! reading, and so does each interval without one; what `next` returns is always such a reading.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::client::Client;
use super::keys::Keys;
use super::member::HttpConnection;
use super::wire::{self, WatchLine};
use super::{reading, wire::WatchResult};
use crate::error::Error;
use crate::outcome::{Reading, Sight};
use crate::store::Watch;

/// How long a change may go unseen if the stream is silent.
const POLL: Duration = Duration::from_secs(2);
/// How soon after a reading the next one begins at the earliest, so that a flood of events is one reading.
const GAP: Duration = Duration::from_millis(5);
/// How soon after an attempt to open a stream the next one begins.
const REOPEN: Duration = Duration::from_millis(500);
/// How long a member has to open one. Writing a file, etcd may be slow.
const OPEN: Duration = Duration::from_secs(1);
/// How long a caller is held up after an error at least, if it waits that long.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// How much of a line is kept: more than any line without events has.
const LINE_KEPT_BYTES: usize = 4 << 10;
/// The longest line. A fragment has 2 MB.
const LINE_BYTES_MAX: usize = 16 << 20;

/// See the head of this file.
pub(crate) struct EtcdWatch {
    client: Client,
    listener: Listener,
}

/// The stream that is heard, and the last reading.
struct Listener {
    keys: Keys,
    stream: Option<EventStream>,
    /// When the stream may be opened again.
    reopen_at: Option<Instant>,
    /// When the last reading began; `None`: something has changed since, perhaps.
    read_at: Option<Instant>,
    /// The reading that the last call returned.
    last: Option<Reading>,
}

/// An open stream of events.
struct EventStream {
    /// The member that sends it.
    at: usize,
    body: Incoming,
    lines: Lines,
    _link: HttpConnection,
}

/// The meaning of a piece of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Something may have changed.
    pub(crate) is_due: bool,
    /// No more will come.
    pub(crate) is_over: bool,
}

/// The lines of a stream, of which only the beginnings are kept.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    kept: Vec<u8>,
    size_bytes: usize,
}

impl Lines {
    /// Takes a piece of the stream.
    pub(crate) fn take(&mut self, mut piece: &[u8]) -> News {
        let mut news = News::default();
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.keep(&piece[..end]);
            let line = self.end();
            news.is_due |= line.is_due;
            news.is_over |= line.is_over;
            piece = &piece[end + 1..];
        }
        self.keep(piece);
        news.is_over |= self.size_bytes > LINE_BYTES_MAX;
        news
    }

    fn keep(&mut self, piece: &[u8]) {
        let free = LINE_KEPT_BYTES - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(free)]);
        self.size_bytes = self.size_bytes.saturating_add(piece.len());
    }

    /// Says what the line means that has ended.
    fn end(&mut self) -> News {
        let is_whole = self.size_bytes == self.kept.len();
        let line = std::mem::take(&mut self.kept);
        self.size_bytes = 0;
        if line.is_empty() {
            return News::default();
        }
        if !is_whole {
            // Only events are that long.
            return News { is_due: true, is_over: false };
        }
        match serde_json::from_slice(&line) {
            Ok(WatchLine { result: Some(result), error: None }) => {
                let WatchResult { created, canceled, events } = result;
                News { is_due: created || canceled || events.is_some(), is_over: canceled }
            }
            // An error, or nothing that etcd writes.
            _ => News { is_due: true, is_over: true },
        }
    }
}

impl EtcdWatch {
    pub(super) fn new(client: Client, keys: Keys) -> EtcdWatch {
        let listener = Listener { keys, stream: None, reopen_at: None, read_at: None, last: None };
        EtcdWatch { client, listener }
    }
}

impl Listener {
    /// Reads, and says whether anything differs.
    async fn read(&mut self, client: &mut Client) -> Result<Option<Reading>, Error> {
        self.read_at = Some(Instant::now());
        let read = reading::read(client, &self.keys).await;
        // A member that does not answer sends no events either.
        self.stream.take_if(|stream| stream.at != client.at);
        let (reading, _) = read?;
        if self.last.as_ref().is_some_and(|last| last.is_like(&reading)) {
            return Ok(None);
        }
        self.last = Some(reading.clone());
        Ok(Some(reading))
    }

    /// Opens a stream at the member that answers, or else the next time at another one.
    async fn open(client: &mut Client, keys: &Keys) -> Option<EventStream> {
        let credentials = client.credentials.clone();
        let at = client.at;
        let member = &mut client.members[at];
        let request = wire::watch(&keys.news()).to_string();
        let opened = match member.prepare(&credentials).await {
            Ok(()) => member.open_stream("watch", request.into(), OPEN).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok((link, body)) => Some(EventStream { at, body, lines: Lines::default(), _link: link }),
            Err(error) => {
                tracing::debug!("cannot watch etcd: {error}");
                client.at = (at + 1) % client.members.len();
                None
            }
        }
    }

    /// Waits until `end` for a piece of the stream.
    async fn listen(stream: &mut Option<EventStream>, end: Instant) -> News {
        let Some(open) = stream else {
            sleep_until(end).await;
            return News::default();
        };
        let news = match timeout_at(end, open.body.frame()).await {
            Err(_) => return News::default(),
            Ok(Some(Ok(frame))) => frame.data_ref().map_or(News::default(), |piece| open.lines.take(piece)),
            // The end of a stream is no news, but what follows is not heard.
            Ok(None | Some(Err(_))) => News { is_due: true, is_over: true },
        };
        if news.is_over {
            *stream = None;
        }
        news
    }

    /// See [`Watch::next`].
    async fn wait(&mut self, client: &mut Client, end: Instant) -> Result<Sight, Error> {
        loop {
            let now = Instant::now();
            if self.stream.is_none() && self.reopen_at.is_none_or(|at| at <= now) {
                self.reopen_at = Some(now + REOPEN);
                self.stream = Listener::open(client, &self.keys).await;
                // The stream does not contain earlier changes.
                self.read_at = self.read_at.filter(|_| self.stream.is_none());
            }
            if self.read_at.is_none_or(|at| at + POLL <= Instant::now())
                && let Some(reading) = self.read(client).await?
            {
                return Ok(Sight::Changed(reading));
            }
            let now = Instant::now();
            if now >= end {
                return Ok(Sight::Silent);
            }
            let poll_at = self.read_at.map_or(now, |at| at + POLL);
            let reopen_at = self.reopen_at.filter(|_| self.stream.is_none()).unwrap_or(poll_at);
            let news = Listener::listen(&mut self.stream, end.min(poll_at).min(reopen_at)).await;
            if news.is_due {
                let gap_ends = self.read_at.map_or(now, |at| at + GAP);
                sleep_until(gap_ends.min(end)).await;
                self.read_at = None;
            }
        }
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self, wait: Duration) -> Result<Sight, Error> {
        let listener = &mut self.listener;
        self.client.run(async |client| {
            let end = Instant::now() + wait;
            let seen = listener.wait(client, end).await;
            if seen.is_err() {
                sleep_until((Instant::now() + AFTER_ERROR).min(end)).await;
            }
            seen
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: News = News { is_due: false, is_over: false };
    const DUE: News = News { is_due: true, is_over: false };
    const OVER: News = News { is_due: true, is_over: true };

    #[test]
    fn lines_say_when_to_read() {
        for (line, expected) in [
            (r#"{"result":{"header":{},"created":true}}"#, DUE),
            (r#"{"result":{"header":{},"events":[{"kv":{}}]}}"#, DUE),
            // Progress.
            (r#"{"result":{"header":{}}}"#, NOTHING),
            ("", NOTHING),
            (r#"{"result":{"header":{},"watch_id":"1","canceled":true,"compact_revision":"7"}}"#, OVER),
            (
                r#"{"result":{"created":true,"canceled":true,"cancel_reason":"permission denied","watch_id":"-1"}}"#,
                OVER,
            ),
            (r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#, OVER),
            ("<html>", OVER),
            ("null", OVER),
        ] {
            let mut lines = Lines::default();
            assert_eq!(lines.take(line.as_bytes()), NOTHING, "it has not ended: {line}");
            assert_eq!(lines.take(b"\n"), expected, "{line}");
        }
    }

    #[test]
    fn long_lines_take_no_memory_and_end() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let mut news = NOTHING;
        let mut taken_bytes = 0;
        while !news.is_over {
            news = lines.take(&piece);
            taken_bytes += piece.len();
            assert!(taken_bytes <= LINE_BYTES_MAX + piece.len());
        }
        assert!(lines.kept.capacity() <= 2 * LINE_KEPT_BYTES);
        let mut lines = Lines::default();
        lines.take(&piece);
        assert_eq!(lines.take(b"\n"), DUE, "events");
        assert_eq!(lines.take(b"{\"result\":{}}\n"), NOTHING, "and the next line counts again");
    }
}
