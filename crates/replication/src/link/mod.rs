//! The replica's side of Redis' replication link, as a state machine without I/O or clock.
//!
//! ```text
//!  connection ──bytes──▶ received ─▶ [ input ] ─▶ next ──▶ Event ──▶ whoever loads and runs
//!  connection ◀─bytes── take_output ◀─ handshake, ACKs, newlines
//! ```
//!
//! A [`Link`] is one attempt: it begins while its connection is being made and ends with that connection. Its owner
//! keeps what has to outlive it, the [`Position`] to resume from.
//!
//! ```text
//!  R PING                                        M +PONG
//!  R AUTH, REPLCONF …                            M a line for each
//!  R PSYNC <id> <offset + 1>  |  PSYNC ? -1      M newlines, then
//!                                                    +CONTINUE [<id>]           the stream
//!                                                    +FULLRESYNC <id> <offset>  a snapshot, then the stream
//!  snapshot:  $<length>\r\n <bytes>  |  $EOF:<mark>\r\n <bytes> <mark>
//! ```
//!
//! Events are pulled: [`Link::next`] lends one at a time, and the next call says that the last one was handled. Pieces
//! of the stream are lent one after the other, until [`Link::settle`] says that all of them were applied. So
//! acknowledgements never claim what was not applied, `REPLCONF GETACK` is answered when it and everything before it
//! was, and nothing is copied for those who run commands.
//!
//! Invariants:
//! - how the bytes were cut into reads makes no difference;
//! - the input grows only by what is received: an owner that is behind should receive nothing for a while. While
//!   [`Link::is_loading`] nothing is lent, and the stream waits in the input;
//! - after an error the link is over.
//!
//! Not here: sockets, when to connect again, what happens to the data.

mod error;
mod handshake;
mod input;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use resp::{Limits, Parsed, RequestParser, encode_request};
use smallvec::SmallVec;

pub use self::error::LinkError;
use self::error::shown;
pub use self::handshake::Credentials;
use self::handshake::Step;
pub(crate) use self::handshake::{ANSWERS_BEHIND, READS_ALL};
use self::input::{Input, LineTooLong};

/// How often offsets are acknowledged, and the primary is told during loading that the replica lives.
const ACK_INTERVAL_MS: u64 = 1000;
/// How soon if they have changed: whoever hands over waits for that with all writes held up.
const NEW_ACK_INTERVAL_MS: u64 = 10;
/// How soon as long as the stream has not begun behind a snapshot: a primary that was not done with sending takes no notice, and waits for the next.
const FIRST_ACK_INTERVAL_MS: u64 = 100;
/// The longest line of the handshake, its end included.
const LINE_BYTES_MAX: usize = 1024;
/// A snapshot has at least its magic, version and end.
const SNAPSHOT_BYTES_MIN: u64 = 10;
/// No snapshot is larger: a pebibyte.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 50;
/// No stream is longer: 4 EiB. What is counted from here on stays below the largest number, also of those that have a sign.
const OFFSET_MAX: u64 = 1 << 62;
/// Bytes of the mark that ends a snapshot of unknown length.
const MARK_BYTES: usize = 40;

/// The name of a history of changes: 40 characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReplicationId([u8; 40]);

impl fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl ReplicationId {
    /// The id that `text` is, if it is one.
    pub fn parse(text: &[u8]) -> Option<ReplicationId> {
        let id = text.try_into().ok()?;
        text.iter().all(u8::is_ascii_alphanumeric).then_some(ReplicationId(id))
    }

    /// Its characters.
    pub fn as_bytes(&self) -> &[u8; 40] {
        &self.0
    }
}

/// A place in a history: how many bytes of its stream lie before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Whose history.
    pub id: ReplicationId,
    /// The bytes before.
    pub offset: u64,
}

/// What the link is told by settings.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// `masteruser` and `masterauth`.
    pub credentials: Option<Credentials>,
    /// The port that the primary shows for this replica.
    pub port: u16,
    /// The address that the primary shows for this replica; without one it is that of the connection.
    pub address: Option<String>,
    /// Where the data stand, if their history is known.
    pub resume: Option<Position>,
    /// What the primary is to put into the stream when it goes on there, so that it is known when everything before has come.
    pub mark: Option<[u8; MARK_BYTES]>,
    /// Asks the other side to become the primary (`FAILOVER`).
    pub hands_over: bool,
    /// It is to do so even if commands of the stream failed there.
    pub forces: bool,
    /// A snapshot may take the place of the data. Otherwise the other side must continue from `resume`; anything else is an error.
    pub takes_snapshots: bool,
    /// After how much silence the link is given up (`repl-timeout`).
    pub timeout_ms: u64,
    /// What a command of the stream may be.
    pub limits: Limits,
}

/// How far a replica has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is no primary.
    None,
    /// A connection is to be made.
    Connect,
    /// It is being made.
    Connecting,
    /// The primary is asked for the stream.
    Handshake,
    /// A snapshot is received or loaded.
    Sync,
    /// The stream flows.
    Connected,
}

impl LinkState {
    const ALL: [LinkState; 6] = [
        LinkState::None,
        LinkState::Connect,
        LinkState::Connecting,
        LinkState::Handshake,
        LinkState::Sync,
        LinkState::Connected,
    ];

    /// The state with this number, in the order of their declaration.
    pub(crate) fn of_number(number: u8) -> LinkState {
        LinkState::ALL[usize::from(number)]
    }

    /// What ROLE calls it.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::None => "none",
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// What comes over the link.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The primary does not know an option of the handshake, which does not matter. For the log.
    NotUnderstood {
        /// What it was told.
        option: &'static str,
        /// Its answer, with escapes.
        answer: String,
    },
    /// The stream continues where the data stand. The history has this id from here on.
    Continued(ReplicationId),
    /// All data are replaced: a snapshot follows, which stands at this position. A primary that knows only `SYNC` says none.
    FullSync(Option<Position>),
    /// The next bytes of the snapshot.
    Snapshot {
        /// At least one.
        bytes: &'a [u8],
        /// How many follow, if the primary has said.
        left: Option<u64>,
    },
    /// That was all of it. [`Link::begin_loading`] is to be called, and [`Link::loaded`] when it is in use.
    SnapshotEnd,
    /// A piece of the stream.
    Stream {
        /// What came, for the own log. It is part of what [`Link::lent`] returns.
        bytes: &'a [u8],
        /// Where the words of the command are in it. There is none in the newlines between commands, and in what was meant for the link itself.
        words: SmallVec<[Range<usize>; 8]>,
        /// The offset behind it; 0 is where an unknown history began.
        end: u64,
    },
}

/// What the link expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// That the connection is made.
    Connecting,
    /// The answer to this.
    Handshake(Step),
    /// `$…`
    SnapshotHeader,
    /// So many bytes of a snapshot.
    Counted(u64),
    /// A snapshot up to this mark.
    Marked([u8; MARK_BYTES]),
    /// Nothing, until the snapshot is loaded.
    Loading,
    /// Commands.
    Stream,
}

/// A replica's connection to its primary.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    stage: Stage,
    input: Input,
    parser: RequestParser,
    output: Vec<u8>,
    /// What the stage is when the event that was lent is dealt with.
    stage_after: Option<Stage>,
    /// The history that the stream is of, if the primary said.
    id: Option<ReplicationId>,
    /// Bytes of it before the input, which are applied.
    offset: u64,
    /// Everything before this is on disk; `None`: nothing is known to be, or is to be soon.
    durable_offset: Option<u64>,
    heard_ms: u64,
    said_ms: u64,
    /// The offsets that were acknowledged last.
    said_offset: u64,
    said_durable: Option<u64>,
    /// Commands of the stream that failed here, which a primary that is a Darter is told.
    divergence: u64,
    /// The primary has asked here, and so wants to know when everything before is on disk.
    durable_wanted: u64,
    /// Nothing has come behind the snapshot.
    awaits_stream: bool,
    /// When the primary asked for the offset, in what is lent.
    asked_ms: Option<u64>,
    /// Where the mark ends in the stream, once it has come.
    mark_end: Option<u64>,
    /// Everything before the mark was applied, or none is expected.
    is_proven: bool,
}

impl Link {
    /// A link whose connection is being made.
    pub fn new(options: LinkOptions, now_ms: u64) -> Link {
        Link {
            is_proven: options.mark.is_none(),
            mark_end: None,
            options,
            stage: Stage::Connecting,
            input: Input::default(),
            parser: RequestParser::new(),
            output: Vec::new(),
            stage_after: None,
            id: None,
            offset: 0,
            durable_offset: None,
            heard_ms: now_ms,
            said_ms: now_ms,
            said_offset: 0,
            said_durable: None,
            divergence: 0,
            durable_wanted: 0,
            awaits_stream: false,
            asked_ms: None,
        }
    }

    /// The connection is made: the handshake begins.
    pub fn opened(&mut self, now_ms: u64) {
        assert_eq!(self.stage, Stage::Connecting, "a connection is made once");
        self.heard_ms = now_ms;
        self.begin_handshake();
    }

    /// Bytes have come.
    pub fn received(&mut self, bytes: &[u8], now_ms: u64) {
        self.heard_ms = now_ms;
        self.input.push(bytes);
    }

    /// What is to be sent now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How far it has come.
    pub fn state(&self) -> LinkState {
        match self.stage {
            Stage::Connecting => LinkState::Connecting,
            Stage::Handshake(_) => LinkState::Handshake,
            Stage::SnapshotHeader | Stage::Counted(_) | Stage::Marked(_) | Stage::Loading => LinkState::Sync,
            Stage::Stream => LinkState::Connected,
        }
    }

    /// Whether a snapshot has come whole and [`Link::loaded`] is waited for.
    pub fn is_loading(&self) -> bool {
        self.stage == Stage::Loading
    }

    /// Whether what was applied has everything that the primary had when it went on with the stream, or the primary does not say when that is so.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// When something was last received.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms
    }

    /// Where the primary is asked to go on.
    pub fn asked(&self) -> Option<Position> {
        self.options.resume
    }

    /// Where the data stand once the stream flows.
    pub fn position(&self) -> Option<Position> {
        let id = self.id.filter(|_| self.stage == Stage::Stream)?;
        Some(Position { id, offset: self.offset })
    }

    /// Bytes that have come and are not dealt with.
    pub fn waiting_bytes(&self) -> usize {
        self.input.len()
    }

    /// The snapshot has come whole and is about to be loaded. The primary is to send the stream meanwhile: one that did not say how long the snapshot is
    /// waits for an acknowledgement.
    pub fn begin_loading(&mut self, now_ms: u64) {
        self.deal_with_event();
        assert_eq!(self.stage, Stage::Loading, "a snapshot is loaded when it has come");
        self.say_loading(now_ms);
    }

    /// Says that this replica lives, and may be sent the stream.
    fn say_loading(&mut self, now_ms: u64) {
        self.said_ms = now_ms;
        if self.id.is_some() {
            self.send(&["REPLCONF", "ACK", "0"]);
        } else {
            self.output.push(b'\n');
        }
    }

    /// The snapshot is loaded and its data are in use.
    pub fn loaded(&mut self, now_ms: u64) {
        assert_eq!(self.stage, Stage::Loading, "a snapshot is loaded when it has come");
        self.stage = Stage::Stream;
        self.awaits_stream = self.input.len() == 0;
        // If much has come, nothing more is received while a snapshot is loaded.
        self.heard_ms = now_ms;
        self.acknowledge(now_ms);
    }

    /// Everything before `offset` is on disk, as far as that is known; that is told with each acknowledgement. `None`: what comes does not get there.
    pub fn set_durable(&mut self, offset: Option<u64>) {
        // It once was, though it may not be known any more.
        self.durable_offset = offset.map(|offset| offset.max(self.durable_offset.unwrap_or(0)));
    }

    /// So many commands of the stream failed here; that is told with each acknowledgement.
    pub fn set_divergence(&mut self, count: u64) {
        self.divergence = count;
    }

    /// What is to be told of what is on disk. What is there was applied; that may not have been said here yet.
    fn durable(&self) -> Option<u64> {
        self.durable_offset.map(|durable| durable.min(self.offset))
    }

    /// Whether the primary is to be told at once that more is on disk: it has asked, and not all of what came before that was.
    pub fn awaits_durable(&self) -> bool {
        self.stage == Stage::Stream
            && self.durable_offset.is_some()
            && self.said_durable < Some(self.durable_wanted)
    }

    /// Says what is due, and whether the primary is still there. To be called several times a second.
    ///
    /// # Errors
    /// The primary was silent for too long.
    pub fn tick(&mut self, now_ms: u64) -> Result<(), LinkError> {
        if !self.is_loading() && now_ms.saturating_sub(self.heard_ms) > self.options.timeout_ms {
            return Err(LinkError::Silent { state: self.state(), timeout_ms: self.options.timeout_ms });
        }
        if self.says_ms().is_some_and(|says_ms| says_ms <= now_ms) {
            if self.is_loading() {
                self.say_loading(now_ms);
            } else {
                self.acknowledge(now_ms);
            }
        }
        Ok(())
    }

    /// When something is to be said next, if anything is.
    pub fn says_ms(&self) -> Option<u64> {
        let interval_ms = match self.stage {
            Stage::Stream if self.awaits_durable() && self.durable() > self.said_durable => 0,
            Stage::Stream if (self.offset, self.durable()) != (self.said_offset, self.said_durable) => {
                NEW_ACK_INTERVAL_MS
            }
            Stage::Stream if self.awaits_stream => FIRST_ACK_INTERVAL_MS,
            Stage::Stream | Stage::Loading => ACK_INTERVAL_MS,
            Stage::Connecting
            | Stage::Handshake(_)
            | Stage::SnapshotHeader
            | Stage::Counted(_)
            | Stage::Marked(_) => return None,
        };
        Some(self.said_ms + interval_ms)
    }

    /// The next event, if enough has come. The one before has been dealt with, unless it is a piece of the stream.
    ///
    /// # Errors
    /// The primary refuses, or does not speak the protocol.
    pub fn next(&mut self, now_ms: u64) -> Result<Option<Event<'_>>, LinkError> {
        self.deal_with_event();
        loop {
            match self.stage {
                Stage::Connecting | Stage::Loading => return Ok(None),
                Stage::Handshake(step) => {
                    let Some(line) = self.line()? else { return Ok(None) };
                    if let Some(event) = self.answered(step, &line, now_ms)? {
                        return Ok(Some(event));
                    }
                }
                Stage::SnapshotHeader => {
                    let Some(line) = self.line()? else { return Ok(None) };
                    // A newline says that the primary is at work.
                    if !line.is_empty() {
                        self.stage = snapshot_stage(&line)?;
                    }
                }
                Stage::Counted(left) => return Ok(self.lend_counted(left)),
                Stage::Marked(mark) => return Ok(self.lend_marked(&mark)),
                Stage::Stream => return self.lend_piece(now_ms),
            }
        }
    }

    /// All pieces of the stream that are lent.
    pub fn lent(&self) -> &[u8] {
        self.input.lent()
    }

    /// The same, to be changed: nobody reads them again.
    pub fn lent_mut(&mut self) -> &mut [u8] {
        self.input.lent_mut()
    }

    /// Of the stream what is lent behind these bytes is to be lent again.
    pub fn take_back(&mut self, kept_bytes: usize) {
        if kept_bytes < self.input.lent().len() {
            self.input.take_back(kept_bytes);
            self.parser.reset();
        }
    }

    /// All pieces of the stream that are lent were applied.
    pub fn settle(&mut self) {
        assert_eq!(self.stage, Stage::Stream, "before the stream nothing is to be applied");
        self.offset += self.input.consume_lent() as u64;
        self.awaits_stream = false;
        self.is_proven |= self.mark_end.is_some_and(|end| end <= self.offset);
        if let Some(now_ms) = self.asked_ms.take() {
            self.durable_wanted = self.offset;
            self.acknowledge(now_ms);
        }
    }

    fn deal_with_event(&mut self) {
        if self.stage != Stage::Stream {
            self.input.consume_lent();
            self.stage = self.stage_after.take().unwrap_or(self.stage);
        }
    }

    fn lend_counted(&mut self, left: u64) -> Option<Event<'_>> {
        if left == 0 {
            self.stage_after = Some(Stage::Loading);
            return Some(Event::SnapshotEnd);
        }
        let length = self.input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return None;
        }
        let left = left - length as u64;
        self.stage_after = Some(Stage::Counted(left));
        Some(Event::Snapshot { bytes: self.input.lend(length), left: Some(left) })
    }

    /// What is left before the mark, but for bytes that may be its beginning.
    fn lend_marked(&mut self, mark: &[u8; MARK_BYTES]) -> Option<Event<'_>> {
        let found = memchr::memmem::find(self.input.rest(), mark);
        if found == Some(0) {
            self.input.lend(MARK_BYTES);
            self.stage_after = Some(Stage::Loading);
            return Some(Event::SnapshotEnd);
        }
        let length = found.unwrap_or_else(|| self.input.len().saturating_sub(MARK_BYTES - 1));
        (length > 0).then(|| Event::Snapshot { bytes: self.input.lend(length), left: None })
    }

    fn lend_piece(&mut self, now_ms: u64) -> Result<Option<Event<'_>>, LinkError> {
        let begin = self.offset + self.input.lent().len() as u64;
        let input = self.input.unlent();
        if input.first().is_some_and(|first| !matches!(first, b'*' | b'\r' | b'\n')) {
            return Err(LinkError::Inline { offset: begin });
        }
        let (length, mut words): (usize, SmallVec<[Range<usize>; 8]>) =
            match self.parser.parse(input, &self.options.limits) {
                Ok(Parsed::Incomplete) => return Ok(None),
                Ok(Parsed::Request { consumed }) => (consumed, self.parser.words(&input[..consumed])),
                Ok(Parsed::Empty { consumed }) => (consumed, SmallVec::new()),
                Err(error) => return Err(LinkError::Stream { offset: begin, error }),
            };
        if is_question_for_offset(words.iter().map(|word| &input[word.clone()])) {
            self.asked_ms = Some(now_ms);
            let is_mark = |mark: [u8; MARK_BYTES]| input[words[2].clone()] == mark;
            if self.options.mark.is_some_and(is_mark) {
                self.mark_end = Some(begin + length as u64);
            }
            words.clear();
        }
        Ok(Some(Event::Stream { bytes: self.input.lend(length), words, end: begin + length as u64 }))
    }

    /// Tells the primary how far the stream was applied.
    fn acknowledge(&mut self, now_ms: u64) {
        let durable = self.durable();
        (self.said_ms, self.said_offset, self.said_durable) = (now_ms, self.offset, durable);
        // Who speaks no PSYNC expects none.
        if self.id.is_none() {
            return;
        }
        let mut words = vec!["REPLCONF".to_owned(), "ACK".to_owned(), self.offset.to_string()];
        if let Some(durable) = durable {
            words.extend(["FACK".to_owned(), durable.to_string()]);
        }
        if self.divergence > 0 {
            // Redis does not look at what comes behind.
            words.extend(["DIVERGENCE".to_owned(), self.divergence.to_string()]);
        }
        self.send(&words);
    }

    fn send(&mut self, args: &[impl AsRef<[u8]>]) {
        encode_request(args, &mut self.output);
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let state = self.state();
        self.input.line(LINE_BYTES_MAX).map_err(|LineTooLong| LinkError::LineTooLong { state })
    }
}

/// Whether it is `REPLCONF GETACK *`.
fn is_question_for_offset<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    let expected: [&[u8]; 2] = [b"REPLCONF", b"GETACK"];
    words.len() == 3 && words.zip(expected).all(|(word, expected)| word.eq_ignore_ascii_case(expected))
}

/// How the snapshot comes that a line announces.
fn snapshot_stage(line: &[u8]) -> Result<Stage, LinkError> {
    let wrong_length = || LinkError::SnapshotLength(shown(line));
    match line {
        [b'$', b'E', b'O', b'F', b':', mark @ ..] => {
            mark.try_into().map(Stage::Marked).map_err(|_| wrong_length())
        }
        [b'$', length @ ..] => {
            let length = resp::parse_integer(length).and_then(|length| u64::try_from(length).ok());
            let length = length.filter(|length| (SNAPSHOT_BYTES_MIN..=SNAPSHOT_BYTES_MAX).contains(length));
            length.map(Stage::Counted).ok_or_else(wrong_length)
        }
        [b'-', ..] => Err(LinkError::Aborted(shown(line))),
        _ => Err(LinkError::NoSnapshot(shown(line))),
    }
}
