//! Assigns new connections to threads, and says which protocol each speaks.

use crate::listeners::{Entrance, Listening};
use proactor::Driver;

/// Assigns new connections to threads. Owned by the thread that accepts them.
#[derive(Debug, Default)]
pub struct Dealer {
    /// The protocol of each listener, by its number. A listener without an entry has Redis' protocol.
    entrances: Vec<Entrance>,
    next_thread: usize,
}

impl Dealer {
    /// Records the protocol of listener number `listener`.
    pub fn note(&mut self, listener: usize, entrance: Entrance) {
        self.entrances.resize(self.entrances.len().max(listener + 1), Entrance::default());
        self.entrances[listener] = entrance;
    }

    /// Lets `driver` accept connections on these listeners too.
    pub fn listen(&mut self, driver: &mut Driver, listeners: Listening) {
        for (entrance, listener) in listeners {
            let local = listener.local().to_owned();
            match driver.listen(listener) {
                Ok(number) => {
                    self.note(number, entrance);
                    tracing::info!("listening on {local}");
                }
                Err(error) => tracing::error!("cannot accept connections on {local}: {error}"),
            }
        }
    }

    /// The thread and protocol for a connection from `listener`. The threads take turns, so that few connections still
    /// use all of them.
    pub fn deal(&mut self, listener: usize, thread_count: usize) -> (u16, Entrance) {
        let entrance = self.entrances.get(listener).copied().unwrap_or_default();
        let thread = self.next_thread % thread_count;
        self.next_thread = thread + 1;
        (thread as u16, entrance)
    }
}

#[cfg(test)]
mod tests {
    use crate::session::Protocol;

    use super::*;

    #[test]
    fn each_thread_has_its_turn_and_each_listener_its_protocol() {
        let mut dealer = Dealer::default();
        let memcached = Entrance { protocol: Protocol::Memcached, is_secured: true };
        dealer.note(2, memcached);
        let dealt: Vec<_> = [0, 2, 1, 7].map(|listener| dealer.deal(listener, 3)).into();
        let redis = Entrance::default();
        assert_eq!(dealt, [(0, redis), (1, memcached), (2, redis), (0, redis)]);
    }
}
