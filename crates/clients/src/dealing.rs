//! Which thread gets a new connection, and what is spoken on it.

use proactor::Driver;
use session::Protocol;

use crate::listeners::Listening;

/// What the accepting thread knows of its listeners, and whose turn it is.
#[derive(Debug, Default)]
pub struct Dealer {
    /// What is spoken at each listener, by its number; Redis' protocol at those that are not there.
    protocols: Vec<Protocol>,
    next_thread: usize,
}

impl Dealer {
    /// `protocol` is spoken at listener number `listener`.
    pub fn note(&mut self, listener: usize, protocol: Protocol) {
        self.protocols.resize(self.protocols.len().max(listener + 1), Protocol::default());
        self.protocols[listener] = protocol;
    }

    /// Has `driver` accept connections on these as well.
    pub fn listen(&mut self, driver: &mut Driver, listeners: Listening) {
        for (protocol, listener) in listeners {
            let local = listener.local().to_owned();
            match driver.listen(listener) {
                Ok(number) => {
                    self.note(number, protocol);
                    tracing::info!("ready to accept connections on {local}");
                }
                Err(error) => tracing::error!("cannot accept connections on {local}: {error}"),
            }
        }
    }

    /// The thread for a connection accepted at `listener`: each in turn, so that few connections still use all of them.
    pub fn deal(&mut self, listener: usize, thread_count: usize) -> (u16, Protocol) {
        let protocol = self.protocols.get(listener).copied().unwrap_or_default();
        let thread = self.next_thread % thread_count;
        self.next_thread = thread + 1;
        (thread as u16, protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_turn_and_each_listener_its_protocol() {
        let mut dealer = Dealer::default();
        dealer.note(2, Protocol::Memcached);
        let dealt: Vec<_> = [0, 2, 1, 7].map(|listener| dealer.deal(listener, 3)).into();
        let (redis, memcached) = (Protocol::Redis, Protocol::Memcached);
        assert_eq!(dealt, [(0, redis), (1, memcached), (2, redis), (0, redis)]);
    }
}
