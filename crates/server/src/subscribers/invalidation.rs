//! Telling clients that what they keep in caches of their own has changed (`CLIENT TRACKING`).
//!
//! ```text
//!   change, on any thread, under the shard's baton ── published like a message ──▶ the thread of the tracking client
//!   there: a push to it (RESP3), or on to the thread of the client to which it redirects ──▶ a message, or a push
//! ```
//!
//! Clients in broadcasting mode hear of all keys with their prefixes. What a thread's commands change in one turn, a pipeline
//! or a transaction, say, comes to them in one message for each prefix, before the replies to these commands leave.
//!
//! The reply of whoever reads a key is on its way before the key can change, and travels ahead of the news: see
//! `delivery.rs`. Which keys are tracked is known to their shards (`shard::Tracking`).

use std::sync::atomic::Ordering;

use command::{Command, Forget, OwnedArgs, Published, Task, Work};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use shard::Subscriber;

use crate::message::Message;
use crate::session::Session;
use crate::subscribers::outbox::Keys;
use crate::thread::{Thread, ThreadHost};

/// The channel on which RESP2 clients hear of changes.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Session {
    /// `redir` of `CLIENT LIST`, and what `CLIENT GETREDIR` answers.
    pub(crate) fn redirects_to(&self) -> i64 {
        self.tracking.as_ref().map_or(-1, |tracking| tracking.redirect as i64)
    }

    /// Before `command`: what `CLIENT CACHING` said is over if it was about the one before. It reaches over CLIENT's
    /// subcommands, and over whole transactions.
    pub(crate) fn next_after_caching(&mut self, command: &Command) {
        let Some(tracking) = &mut self.tracking else { return };
        if tracking.next_after_caching(command, self.multi.is_some()) {
            self.note_tracking();
        }
    }

    /// Whether the next command's keys are remembered follows from what was asked for.
    pub(crate) fn note_tracking(&mut self) {
        self.client.tracks = self.tracking.as_ref().is_some_and(|tracking| tracking.remembers());
    }
}

impl ThreadHost {
    /// All keys of a database are gone.
    pub(crate) fn tell_of_flush(&self) {
        if self.shared.tracking_count.load(Ordering::Relaxed) > 0 {
            self.shared.broadcast(|| Message::Flushed);
        }
    }
}

impl Thread {
    /// A session ends, and what it tracks.
    pub(crate) fn end_tracking(&mut self, session: &mut Session) {
        let Some(tracking) = session.tracking.take() else { return };
        self.host.shared.tracking_count.fetch_sub(1, Ordering::Relaxed);
        if !tracking.broadcasts {
            return;
        }
        let subscriber = Subscriber { thread: self.host.id, connection: session.client.connection };
        for id in self.host.shared.shards.ids() {
            let forget = Work::Forget(Forget::Prefixes(subscriber));
            self.send_task(id, Task::new(forget, id, session.client, OwnedArgs::default()));
        }
    }

    /// Tells clients of this thread, or those to whom they redirect, that a key has changed.
    pub(crate) fn deliver_invalidation(&mut self, published: &Published) {
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            self.tell_tracker(conn, Some(&Keys::from([published.message.clone()])));
        }
    }

    /// Tells all clients of this thread that track keys that all keys have changed.
    pub(crate) fn invalidate_all(&mut self) {
        let tracking = self.host.connections.iter_mut().filter(|(_, session)| session.tracking.is_some());
        let conns: Vec<ConnId> = tracking.map(|(conn, _)| conn).collect();
        for conn in conns {
            self.tell_tracker(conn, None);
        }
    }

    /// Sends what this turn has to tell those who track prefixes.
    #[inline]
    pub(crate) fn send_broadcasts(&mut self) {
        while let Some((thread, connection, keys)) = self.host.broadcasts.pop_first() {
            if thread == self.host.id {
                self.tell_tracker(ConnId::from_bits(connection), Some(&keys));
            } else {
                self.host.send(thread, Message::Changed(connection, keys));
            }
        }
    }

    /// Tells a client that tracks keys, or the one to which it redirects, that `keys` have changed; `None`: all keys.
    pub(crate) fn tell_tracker(&mut self, conn: ConnId, keys: Option<&Keys>) {
        let Some(session) = self.host.connections.session(conn) else { return };
        let Some(tracking) = &mut session.tracking else { return };
        if tracking.redirect == 0 {
            return self.tell_of(conn, keys);
        }
        let redirect = tracking.redirect;
        let target = self.host.shared.clients().get(&redirect).copied();
        tracking.is_broken = target.is_none();
        match (target, keys) {
            (Some(target), _) if target.thread == self.host.id => {
                self.tell_of(ConnId::from_bits(target.connection), keys);
            }
            (Some(target), Some(keys)) => {
                self.host.send(target.thread, Message::ChangedFor(target.connection, keys.clone()));
            }
            (Some(target), None) => {
                self.host.send(target.thread, Message::FlushedFor(target.connection));
            }
            (None, _) if session.client.proto == Proto::Resp3 => {
                self.push_to(conn, |reply| {
                    reply.push(2);
                    reply.bulk(b"tracking-redir-broken");
                    reply.int(redirect as i64);
                });
            }
            (None, _) => {}
        }
    }

    /// Tells a client that `keys` have changed; `None`: all keys.
    pub(crate) fn tell_of(&mut self, conn: ConnId, keys: Option<&Keys>) {
        let Some(session) = self.host.connections.session(conn) else { return };
        let is_push = session.client.proto == Proto::Resp3;
        if !is_push && !session.is_subscriber() {
            return;
        }
        self.push_to(conn, |reply| {
            if is_push {
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
        });
    }

    fn push_to(&mut self, conn: ConnId, write: impl FnOnce(&mut Reply)) {
        let Some(session) = self.host.connections.session(conn) else { return };
        let mut out = Output::new();
        write(&mut Reply::new(&mut out, session.client.proto));
        if let Some(output) = self.host.driver.output_mut(conn) {
            output.append(&mut out);
        }
        self.check_output(conn);
    }
}
