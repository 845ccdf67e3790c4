//! Asks all threads.
//!
//! The client waits, without holding anything, until every thread has answered; then its reply is built from the
//! answers.

use command::Client;
use session::{Finish, Question, Subject, WEIGHT};

use crate::message::Message;
use crate::thread::ThreadHost;

impl ThreadHost {
    /// Asks all threads on behalf of the current client, which gets its reply when all have answered.
    pub(crate) fn ask(&mut self, subject: &Subject, finish: Finish) {
        self.gather(
            |asker| Message::Ask(Question { asker, subject: subject.clone(), weight: WEIGHT }),
            finish,
        );
    }

    /// Sends all threads a message that each answers with a part.
    pub(crate) fn gather(&mut self, message: impl Fn(Client) -> Message, finish: Finish) {
        let expected = self.shared.threads.len();
        let session = self.session();
        let asker = session.client;
        session.state.gather(expected, finish);
        let _nobody_sets_out = self.shared.registry.block_road();
        self.mailroom.send_all(|| message(asker));
    }

    /// Makes the current client wait until its answer is sent.
    pub(crate) fn await_answer(&mut self, finish: Finish) -> Client {
        let session = self.session();
        session.state.gather(1, finish);
        session.client
    }
}
