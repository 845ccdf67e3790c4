//! Asks all threads a question, and gathers their answers.
//!
//! The client waits, without holding anything, until every thread has answered. Its reply is then built from the
//! answers.
//!
//! Clients move between threads meanwhile (`connections/moving.rs`), but each is asked exactly once. A lock orders
//! questions and departures ([`Registry::questions`](clients::Registry::questions)). A connection leaves only after its
//! thread has answered all earlier questions, and arrives before any later one.

use clients::session::{Finish, Question, Session, Subject};
use engine::Client;

use crate::connections::network::Network;
use crate::message::Message;

/// Asks all threads on behalf of a client, which gets its reply when all have answered.
pub(crate) fn ask(session: &mut Session, net: &mut Network, subject: &Subject, finish: Finish) {
    let mut questions = net.registry.questions();
    *questions += 1;
    let number = *questions;
    // This thread, too, gets the question after the messages that others have sent it before.
    net.messages.fetch();
    let ask = |asker| Message::Ask(Question { asker, subject: subject.clone(), number });
    gather(session, net, ask, finish);
}

/// Sends a message to all threads, each of which answers with a part.
pub(crate) fn gather(
    session: &mut Session,
    net: &mut Network,
    message: impl Fn(Client) -> Message,
    finish: Finish,
) {
    let asker = session.client;
    session.state.gather(net.messages.thread_count(), finish);
    net.messages.send_all(|| message(asker));
}
