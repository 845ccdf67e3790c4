//! Asks all threads a question, and gathers their answers.
//!
//! The client waits, without holding anything, until every thread has answered. Its reply is then built from the
//! answers.
//!
//! Clients move between threads meanwhile (`connections/moving.rs`), but each is asked exactly once. A lock orders
//! questions and departures ([`Registry::questions`](clients::Registry::questions)). A connection leaves only after its
//! thread has answered all earlier questions, and arrives before any later one.

use clients::session::{Finish, Question, Subject};
use engine::Client;

use crate::message::Message;
use crate::thread::ThreadHost;

impl ThreadHost {
    /// Asks all threads on behalf of the current client, which gets its reply when all have answered.
    pub(crate) fn ask(&mut self, subject: &Subject, finish: Finish) {
        let mut questions = self.shared.registry.questions();
        *questions += 1;
        let number = *questions;
        // This thread, too, gets the question after the messages that others have sent it before.
        self.net.mailroom.fetch();
        self.gather(|asker| Message::Ask(Question { asker, subject: subject.clone(), number }), finish);
    }

    /// Sends a message to all threads, each of which answers with a part.
    pub(crate) fn gather(&mut self, message: impl Fn(Client) -> Message, finish: Finish) {
        let expected = self.shared.threads.len();
        let session = self.session();
        let asker = session.client;
        session.state.gather(expected, finish);
        self.net.mailroom.send_all(|| message(asker));
    }

    /// Makes the current client wait until its answer is sent.
    pub(crate) fn await_answer(&mut self, finish: Finish) -> Client {
        let session = self.session();
        session.state.gather(1, finish);
        session.client
    }
}
