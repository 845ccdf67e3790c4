//! Gives the HTTP thread what it needs from the server.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acl::{Access, Users};
use clients::Entrance;
use config::Settings;
use httpd::{ServerConfig, Source};
use jobs::queues::Row;
use observe::Facts;
use proactor::Socket;

use super::facts::Asked;
use crate::message::Message;
use crate::shared::Shared;

/// A server as HTTP sees it.
pub(crate) struct Served {
    shared: &'static Shared,
    /// The number of connections, which are dealt out to the threads in turn.
    turn: AtomicUsize,
}

impl Served {
    pub(crate) fn new(shared: &'static Shared) -> Served {
        Served { shared, turn: AtomicUsize::new(0) }
    }
}

impl Source for Served {
    fn facts(&self) -> Box<dyn Facts + '_> {
        let clock = &self.shared.machine.clock;
        Box::new(Asked { shared: self.shared, now_us: clock.now_us(), monotonic_ms: clock.monotonic_ms() })
    }

    fn queues(&self) -> Vec<Row> {
        jobs::queues::rows(self.shared.shards.queues(), self.shared.machine.clock.steady_ms())
    }

    fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    fn users(&self) -> &Users {
        &self.shared.users
    }

    fn is_stalled(&self) -> bool {
        self.shared.journal.progress.is_full()
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.shared.tls.accepting()
    }

    fn now_ms(&self) -> u64 {
        self.shared.machine.clock.now_ms()
    }

    fn connect(&self, peer: &str, access: Option<Access>) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let threads = &self.shared.threads;
        let thread = &threads[self.turn.fetch_add(1, Ordering::Relaxed) % threads.len()];
        let socket = Socket::from_unix(theirs, peer)?;
        thread.send(match access {
            Some(access) => Message::Visit(socket, Box::new(access)),
            None => Message::Adopt(socket, Entrance::default()),
        });
        Ok(ours)
    }
}
