//! Questions to all threads: what only each thread knows of its own connections.
//!
//! The asking client waits, without holding anything, until every thread has answered; then its reply is made of
//! the parts.

use std::sync::Arc;

use command::Client;
use proactor::ConnId;
use resp::{Output, Reply};

use crate::message::Message;
use crate::session::State;
use crate::thread::{Thread, ThreadHost};

/// What one thread answers.
#[derive(Debug)]
pub(crate) enum Part {
    /// Lines of text, each with the number by which all of them are sorted.
    Lines(Vec<(u64, Vec<u8>)>),
    /// How many it found.
    Count(u64),
}

impl Part {
    /// The lines of all parts by their numbers.
    pub(crate) fn sorted_lines(parts: Vec<Part>) -> Vec<(u64, Vec<u8>)> {
        let mut lines: Vec<(u64, Vec<u8>)> = parts
            .into_iter()
            .flat_map(|part| match part {
                Part::Lines(lines) => lines,
                Part::Count(_) => Vec::new(),
            })
            .collect();
        lines.sort_by_key(|(number, _)| *number);
        lines
    }

    /// The sum of all counts.
    pub(crate) fn total(parts: &[Part]) -> u64 {
        parts.iter().map(|part| if let Part::Count(count) = part { *count } else { 0 }).sum()
    }
}

/// What every thread does to answer.
pub(crate) type Each = Arc<dyn Fn(&mut Thread) -> Part + Send + Sync>;
/// Makes the reply of the parts.
pub(crate) type Finish = Box<dyn FnOnce(Vec<Part>, &mut Reply<'_>) + Send>;

/// A question on its way to a thread.
pub(crate) struct Question {
    asker: Client,
    each: Each,
}

/// An answer on its way back.
pub(crate) struct Answer {
    asker: Client,
    part: Part,
}

impl Answer {
    /// One that says nothing.
    pub(crate) fn to(asker: Client) -> Answer {
        Answer { asker, part: Part::Count(0) }
    }
}

/// What the asking client waits for.
pub(crate) struct Gathering {
    parts: Vec<Part>,
    expected: usize,
    finish: Finish,
}

impl std::fmt::Debug for Gathering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gathering({} of {})", self.parts.len(), self.expected)
    }
}

impl ThreadHost {
    /// Asks all threads on behalf of the current client, which gets its reply when all have answered.
    pub(crate) fn ask(&mut self, each: Each, finish: Finish) {
        self.gather(|asker| Message::Ask(Question { asker, each: each.clone() }), finish);
    }

    /// Sends all threads a message that they answer with a part.
    pub(crate) fn gather(&mut self, message: impl Fn(Client) -> Message, finish: Finish) {
        let expected = self.shared.threads.len();
        let session = self.session();
        let asker = session.client;
        session.state = State::Gathering(Gathering { parts: Vec::new(), expected, finish });
        for thread in 0..expected as u16 {
            self.send(thread, message(asker));
        }
    }

    /// Has the current client wait until somebody sends its answer.
    pub(crate) fn await_answer(&mut self, finish: Finish) -> Client {
        let session = self.session();
        session.state = State::Gathering(Gathering { parts: Vec::new(), expected: 1, finish });
        session.client
    }

    /// Answers for this thread.
    pub(crate) fn send_answer(&mut self, asker: Client, part: Part) {
        self.send(asker.thread, Message::Answer(Answer { asker, part }));
    }
}

impl Thread {
    pub(crate) fn answer(&mut self, question: Question) {
        let part = (question.each)(self);
        self.host.send_answer(question.asker, part);
    }

    pub(crate) fn take_answer(&mut self, answer: Answer) {
        let conn = ConnId::from_bits(answer.asker.connection);
        let Some(session) = self.host.connections.session(conn) else { return };
        let State::Gathering(gathering) = &mut session.state else { return };
        gathering.parts.push(answer.part);
        if gathering.parts.len() < gathering.expected {
            return;
        }
        let State::Gathering(gathering) = std::mem::take(&mut session.state) else { return };
        let mut out = Output::new();
        (gathering.finish)(gathering.parts, &mut Reply::new(&mut out, answer.asker.proto));
        self.reply_and_go_on(conn, &mut out);
    }
}
