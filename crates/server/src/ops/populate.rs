//! DEBUG POPULATE on all threads: each creates the keys of its home shards, in slices.
//!
//! Not here: the keys, and which of them are yet to be created (`commands/keys/populate.rs`).

use std::sync::Arc;

use clients::session::{Part, Session};
use commands::keys::populate::{Population, Share};
use engine::CommandError;
use proactor::ConnId;

use crate::connections::network::Network;
use crate::life::gather::gather;
use crate::message::Message;
use crate::thread::Thread;

/// Makes all threads create keys. The client gets its reply when they are done.
pub(super) fn begin(session: &mut Session, net: &mut Network, population: Population) {
    let population = Arc::new(population);
    let share = |asker| {
        let population = population.clone();
        Message::Populate(Box::new(Share::new(population, asker)))
    };
    let asked = population.clone();
    gather(
        session,
        net,
        share,
        Box::new(move |_, reply| {
            if asked.lacks_room() {
                reply.error(CommandError::OUT_OF_MEMORY.text());
            } else if asked.is_given_up() {
                reply.error(b"ERR not all keys were created, because the client disconnected");
            } else {
                reply.ok();
            }
        }),
    );
}

impl Thread {
    /// Creates some keys of its share, and sends the rest of the share to itself.
    pub(crate) fn populate(&mut self, mut share: Box<Share>) {
        if share.asker.thread == self.host.net.id {
            let conn = ConnId::from_bits(share.asker.connection);
            if self.host.net.connections.session(conn).is_none_or(|session| session.has_hung_up) {
                share.give_up();
            }
        }
        if share.is_over() {
            return self.host.net.messages.answer(share.asker, Part::Count(0));
        }
        self.leave_all();
        let (shards, thread) = (&self.host.shared.shards, self.host.net.id);
        share.make_slice(shards, thread, |id, work| {
            let is_entered = self.tx.hold.try_enter(id) || self.tx.hold.wait(id, false);
            if is_entered {
                work(&mut self.tx);
                self.tx.finish(&mut self.host);
                self.leave_all();
            }
            is_entered
        });
        self.post_all();
        self.host.net.messages.put_off(Message::Populate(share));
    }
}
