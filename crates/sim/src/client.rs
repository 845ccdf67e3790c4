//! A simulated client: sends requests in a pipeline, receives replies, and disconnects in various ways.

use std::collections::VecDeque;

use proactor::{SimClient, SimReceived, SimTap};
use resp::Value;

/// The arguments of a request, with the command's name first.
pub type Request = Vec<Vec<u8>>;

/// Makes a request from words: `request("SET", ["a", "1"])`.
pub fn request<I>(command: &str, args: I) -> Request
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let args = args.into_iter().map(|arg| arg.as_ref().to_vec());
    [command.as_bytes().to_vec()].into_iter().chain(args).collect()
}

/// How a client leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// Resets the connection.
    Reset,
    /// Closes the connection without reading what is on its way.
    Close,
    /// Closes its sending side, and continues to read.
    Finish,
}

/// A connection to the server.
#[derive(Debug)]
pub struct Client {
    /// `None` once it has left.
    link: Option<SimClient>,
    tap: SimTap,
    outbox: VecDeque<u8>,
    input: Vec<u8>,
    /// Number of requests without a reply.
    unanswered: usize,
    /// Whether the server has closed the connection, or it was cut.
    pub has_ended: bool,
}

impl Client {
    pub(crate) fn new(link: SimClient) -> Client {
        let tap = link.tap();
        Client {
            link: Some(link),
            tap,
            outbox: VecDeque::new(),
            input: Vec::new(),
            unanswered: 0,
            has_ended: false,
        }
    }

    /// Queues a request. It is sent when the network accepts it.
    pub fn send(&mut self, request: &[Vec<u8>]) {
        let mut bytes = Vec::new();
        resp::encode_request(request, &mut bytes);
        self.outbox.extend(bytes);
        self.unanswered += 1;
    }

    /// Number of requests that have no reply yet.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Moves bytes both ways. Returns the complete replies.
    pub(crate) fn pump(&mut self) -> Vec<Value> {
        let Some(link) = &self.link else { return Vec::new() };
        while !self.outbox.is_empty() {
            match link.send(self.outbox.make_contiguous()) {
                Some(0) => break,
                Some(len) => drop(self.outbox.drain(..len)),
                None => {
                    self.has_ended = true;
                    break;
                }
            }
        }
        match link.receive(usize::MAX) {
            SimReceived::Nothing => return Vec::new(),
            SimReceived::End | SimReceived::Reset => {
                self.has_ended = true;
                return Vec::new();
            }
            SimReceived::Bytes(bytes) => self.input.extend(bytes),
        }
        let (replies, used) = decode_all(&self.input);
        self.input.drain(..used);
        self.unanswered = self.unanswered.saturating_sub(replies.len());
        replies
    }

    /// Leaves, wherever its requests may be.
    pub fn depart(&mut self, how: Departure) {
        let Some(link) = self.link.take() else { return };
        match how {
            Departure::Reset => link.reset(),
            Departure::Close => drop(link),
            Departure::Finish => {
                link.finish();
                self.link = Some(link);
            }
        }
    }

    /// Makes it a slow reader: limits how many unread bytes the server may send.
    pub fn set_window(&self, window_bytes: usize) {
        self.link.iter().for_each(|link| link.set_window(window_bytes));
    }

    /// Every reply that the server has ever queued for this client, received or not.
    pub fn all_replies(&self) -> Vec<Value> {
        decode_all(&self.tap.bytes()).0
    }
}

fn decode_all(bytes: &[u8]) -> (Vec<Value>, usize) {
    let (mut replies, mut used) = (Vec::new(), 0);
    while let Some((value, len)) = resp::decode(&bytes[used..]).expect("the server speaks the protocol") {
        replies.push(value);
        used += len;
    }
    (replies, used)
}
