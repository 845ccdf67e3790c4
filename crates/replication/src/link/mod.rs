//! The replica's side of Redis' replication link, as a state machine without I/O or clock.
//!
//! ```text
//!  connection ──bytes──▶ received ─▶ [ input ] ─▶ next ──▶ Event ──▶ the owner, which loads and runs
//!  connection ◀─bytes── take_output ◀─ handshake, ACKs, newlines
//! ```
//!
//! A [`Link`] is one attempt: it begins while its connection is being made and ends with that connection. Its owner
//! keeps the [`Position`] to resume from, which outlives it.
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
//! acknowledgements never claim more than was applied, and `REPLCONF GETACK` is answered when everything up to it was.
//! The owner runs commands without copying them.
//!
//! Invariants:
//! - how the bytes were cut into reads makes no difference;
//! - the input grows only by received bytes: an owner that is behind should receive nothing for a while. While
//!   [`Link::is_loading`], nothing is lent and the stream waits in the input;
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

use effectlog::StreamPosition;
use resp::{Limits, Parsed, RequestParser, encode_request};
use smallvec::SmallVec;

pub use self::error::LinkError;
use self::error::shown;
pub use self::handshake::Credentials;
use self::handshake::HandshakeStep;
pub(crate) use self::handshake::{ANSWERS_BEHIND, READS_ALL, RECEIVES};
use self::input::{Input, LineTooLong};

/// The interval of acknowledgements. During loading, the primary is told at this interval that the replica lives.
const ACK_INTERVAL_MS: u64 = 1000;
/// The interval if offsets have changed. A primary that hands over waits for them while all writes are held up.
const NEW_ACK_INTERVAL_MS: u64 = 10;
/// The interval until the stream has begun after a snapshot. A primary that has not finished sending ignores an
/// acknowledgement and waits for the next.
const FIRST_ACK_INTERVAL_MS: u64 = 100;
/// The longest line of the handshake, its end included.
const LINE_BYTES_MAX: usize = 1024;
/// The smallest possible snapshot: its magic, version and end.
const SNAPSHOT_BYTES_MIN: u64 = 10;
/// The largest accepted snapshot: a pebibyte.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 50;
/// The largest accepted offset: 4 EiB. Counting on from here cannot overflow, not even in signed numbers.
const OFFSET_MAX: StreamPosition = StreamPosition::new(1 << 62);
/// Bytes of the mark that ends a snapshot of unknown length.
const MARK_BYTES: usize = 40;

/// The id of a history of changes: 40 characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReplicationId([u8; 40]);

impl fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl ReplicationId {
    /// Parses `text` as an id.
    pub fn parse(text: &[u8]) -> Option<ReplicationId> {
        let id = text.try_into().ok()?;
        text.iter().all(u8::is_ascii_alphanumeric).then_some(ReplicationId(id))
    }

    /// Its characters.
    pub fn as_bytes(&self) -> &[u8; 40] {
        &self.0
    }
}

/// A place in a history: the number of bytes of its stream before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The history's id.
    pub id: ReplicationId,
    /// The bytes before it.
    pub offset: StreamPosition,
}

/// The settings of a link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// `masteruser` and `masterauth`.
    pub credentials: Option<Credentials>,
    /// The port that the primary shows for this replica.
    pub port: u16,
    /// The address that the primary shows for this replica. `None`: that of the connection.
    pub address: Option<String>,
    /// The position of the data, if their history is known.
    pub resume: Option<Position>,
    /// A mark that the primary puts into the stream where it continues. When the mark arrives, everything before it has
    /// arrived.
    pub mark: Option<[u8; MARK_BYTES]>,
    /// What this node of a group says of itself.
    pub node: Option<String>,
    /// Asks the other side to become the primary (`FAILOVER`).
    pub hands_over: bool,
    /// Whether the other side must take over even if commands of the stream failed there.
    pub forces: bool,
    /// Whether a snapshot may replace the data. Otherwise the other side must continue from `resume`; anything else is
    /// an error.
    pub takes_snapshots: bool,
    /// The silence after which the link is given up (`repl-timeout`).
    pub timeout_ms: u64,
    /// Limits of a command in the stream.
    pub limits: Limits,
}

/// The progress of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is no primary.
    None,
    /// The connection must be made.
    Connect,
    /// The connection is being made.
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

    /// The state with this number, in the order of declaration.
    pub(crate) fn of_number(number: u8) -> LinkState {
        LinkState::ALL[usize::from(number)]
    }

    /// The name that ROLE shows.
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

/// An event on the link.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The primary does not know an option of the handshake. This does no harm and is only logged.
    NotUnderstood {
        /// The option that it was told.
        option: &'static str,
        /// Its answer, with escapes.
        answer: String,
    },
    /// The stream continues at the position of the data. From here on, the history has this id.
    Continued(ReplicationId),
    /// A snapshot at this position follows and replaces all data. A primary that knows only `SYNC` names no position.
    FullSync(Option<Position>),
    /// The next bytes of the snapshot.
    Snapshot {
        /// At least one.
        bytes: &'a [u8],
        /// The bytes that follow, if the primary announced the length.
        left: Option<u64>,
    },
    /// The snapshot is complete. The owner must call [`Link::begin_loading`], and [`Link::loaded`] when the snapshot is
    /// in use.
    SnapshotEnd,
    /// A piece of the stream.
    Stream {
        /// Its bytes, for this server's own log. They are part of what [`Link::lent`] returns.
        bytes: &'a [u8],
        /// Where the words of the command are in it. Newlines between commands have no words, nor do commands for the
        /// link itself.
        words: SmallVec<[Range<usize>; 8]>,
        /// The offset after it. 0 is where an unknown history began.
        end: StreamPosition,
    },
}

/// The input that the link expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkStage {
    /// The connection to be made.
    Connecting,
    /// The answer to this step.
    Handshake(HandshakeStep),
    /// `$…`
    SnapshotHeader,
    /// This many bytes of a snapshot.
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
    stage: LinkStage,
    input: Input,
    parser: RequestParser,
    output: Vec<u8>,
    /// The stage after the event that was lent has been handled.
    stage_after: Option<LinkStage>,
    /// The history of the stream, if the primary named it.
    id: Option<ReplicationId>,
    /// The number that the primary of a group gave this link.
    number: Option<u64>,
    /// Whether it acknowledges nothing, because its node has not noted the primary's term or takes over from it.
    is_silent: bool,
    /// The applied bytes of the stream before the input.
    offset: StreamPosition,
    /// The offset up to which everything is on disk. `None`: not known, and not expected soon.
    durable_offset: Option<StreamPosition>,
    heard_ms: u64,
    said_ms: u64,
    /// The offsets in the last acknowledgement.
    said_offset: StreamPosition,
    said_durable: Option<StreamPosition>,
    /// Commands of the stream that failed here. A Darter primary is told.
    divergence: u64,
    /// The offset at which the primary asked. It wants to know when everything before it is on disk.
    durable_wanted: StreamPosition,
    /// Whether nothing has come after the snapshot yet.
    awaits_stream: bool,
    /// The time at which the primary asked for the offset, in the lent bytes.
    asked_ms: Option<u64>,
    /// For how long the primary asks to receive clients, in the lent bytes or in what was applied last.
    asked_to_receive: Option<u64>,
    /// The end of the mark in the stream, once it has come.
    mark_end: Option<StreamPosition>,
    /// Whether everything before the mark was applied, or no mark is expected.
    is_proven: bool,
}

impl Link {
    /// A link whose connection is being made.
    pub fn new(options: LinkOptions, now_ms: u64) -> Link {
        Link {
            is_proven: options.mark.is_none(),
            mark_end: None,
            options,
            stage: LinkStage::Connecting,
            input: Input::default(),
            parser: RequestParser::new(),
            output: Vec::new(),
            stage_after: None,
            id: None,
            number: None,
            is_silent: false,
            offset: StreamPosition::START,
            durable_offset: None,
            heard_ms: now_ms,
            said_ms: now_ms,
            said_offset: StreamPosition::START,
            said_durable: None,
            divergence: 0,
            durable_wanted: StreamPosition::START,
            awaits_stream: false,
            asked_ms: None,
            asked_to_receive: None,
        }
    }

    /// The connection is made: the handshake begins.
    pub fn opened(&mut self, now_ms: u64) {
        assert_eq!(self.stage, LinkStage::Connecting, "a connection is made once");
        self.heard_ms = now_ms;
        self.begin_handshake();
    }

    /// Adds received bytes.
    pub fn received(&mut self, bytes: &[u8], now_ms: u64) {
        self.heard_ms = now_ms;
        self.input.push(bytes);
    }

    /// Takes the bytes that must be sent now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Its progress.
    pub fn state(&self) -> LinkState {
        match self.stage {
            LinkStage::Connecting => LinkState::Connecting,
            LinkStage::Handshake(_) => LinkState::Handshake,
            LinkStage::SnapshotHeader | LinkStage::Counted(_) | LinkStage::Marked(_) | LinkStage::Loading => {
                LinkState::Sync
            }
            LinkStage::Stream => LinkState::Connected,
        }
    }

    /// Whether a snapshot has arrived completely and the link waits for [`Link::loaded`].
    pub fn is_loading(&self) -> bool {
        self.stage == LinkStage::Loading
    }

    /// Whether the applied part contains everything that the primary had when it continued the stream, or the primary
    /// does not mark that point.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// When something was last received.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms
    }

    /// The position from which the primary is asked to continue.
    pub fn asked(&self) -> Option<Position> {
        self.options.resume
    }

    /// The position of the data once the stream flows.
    pub fn position(&self) -> Option<Position> {
        let id = self.id.filter(|_| self.stage == LinkStage::Stream)?;
        Some(Position { id, offset: self.offset })
    }

    /// Received bytes that have not been handled.
    pub fn waiting_bytes(&self) -> usize {
        self.input.len()
    }

    /// Notes that the snapshot has arrived completely and is about to be loaded. A primary that did not announce its
    /// length waits for an acknowledgement, so one is sent: the stream can come meanwhile.
    pub fn begin_loading(&mut self, now_ms: u64) {
        self.deal_with_event();
        assert_eq!(self.stage, LinkStage::Loading, "a snapshot is loaded when it has come");
        self.say_loading(now_ms);
    }

    /// Tells the primary that this replica lives and may be sent the stream.
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
        assert_eq!(self.stage, LinkStage::Loading, "a snapshot is loaded when it has come");
        self.stage = LinkStage::Stream;
        self.awaits_stream = self.input.len() == 0;
        // Nothing is received while a snapshot is loaded if much has arrived already.
        self.heard_ms = now_ms;
        self.acknowledge(now_ms);
    }

    /// Sets the offset before which everything is known to be on disk. Each acknowledgement reports it. `None`: changes
    /// do not reach the disk.
    pub fn set_durable(&mut self, offset: Option<StreamPosition>) {
        // It was known to be on disk once, even if it no longer is.
        self.durable_offset = offset.map(|offset| offset.max(self.durable_offset.unwrap_or_default()));
    }

    /// The number that the primary of a group gave this link.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Lets it acknowledge nothing from now on, or again.
    pub fn set_silent(&mut self, is_silent: bool, now_ms: u64) {
        let was_silent = std::mem::replace(&mut self.is_silent, is_silent);
        if was_silent && !is_silent && self.stage == LinkStage::Stream {
            self.acknowledge(now_ms);
        }
    }

    /// Sets the number of commands of the stream that failed here. Each acknowledgement reports it.
    pub fn set_divergence(&mut self, count: u64) {
        self.divergence = count;
    }

    /// The durable offset to report. Data on disk have been applied, but perhaps not acknowledged here yet.
    fn durable(&self) -> Option<StreamPosition> {
        self.durable_offset.map(|durable| durable.min(self.offset))
    }

    /// Whether the primary must be told at once that more is on disk: it has asked, and not everything before its
    /// question was on disk.
    pub fn awaits_durable(&self) -> bool {
        self.stage == LinkStage::Stream
            && self.durable_offset.is_some()
            && self.said_durable < Some(self.durable_wanted)
    }

    /// Sends what is due and checks that the primary is alive. Must be called several times a second.
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

    /// The time of the next message to the primary, if one is planned.
    pub fn says_ms(&self) -> Option<u64> {
        if self.is_silent && self.stage == LinkStage::Stream {
            return None;
        }
        let interval_ms = match self.stage {
            LinkStage::Stream if self.awaits_durable() && self.durable() > self.said_durable => 0,
            LinkStage::Stream if (self.offset, self.durable()) != (self.said_offset, self.said_durable) => {
                NEW_ACK_INTERVAL_MS
            }
            LinkStage::Stream if self.awaits_stream => FIRST_ACK_INTERVAL_MS,
            LinkStage::Stream | LinkStage::Loading => ACK_INTERVAL_MS,
            LinkStage::Connecting
            | LinkStage::Handshake(_)
            | LinkStage::SnapshotHeader
            | LinkStage::Counted(_)
            | LinkStage::Marked(_) => return None,
        };
        Some(self.said_ms + interval_ms)
    }

    /// The next event, if enough has arrived. The previous one counts as handled, unless it is a piece of the stream.
    ///
    /// # Errors
    /// The primary refuses, or does not speak the protocol.
    pub fn next(&mut self, now_ms: u64) -> Result<Option<Event<'_>>, LinkError> {
        self.deal_with_event();
        loop {
            match self.stage {
                LinkStage::Connecting | LinkStage::Loading => return Ok(None),
                LinkStage::Handshake(step) => {
                    let Some(line) = self.line()? else { return Ok(None) };
                    if let Some(event) = self.answered(step, &line, now_ms)? {
                        return Ok(Some(event));
                    }
                }
                LinkStage::SnapshotHeader => {
                    let Some(line) = self.line()? else { return Ok(None) };
                    // A newline shows that the primary is at work.
                    if !line.is_empty() {
                        self.stage = snapshot_stage(&line)?;
                    }
                }
                LinkStage::Counted(left) => return Ok(self.lend_counted(left)),
                LinkStage::Marked(mark) => return Ok(self.lend_marked(&mark)),
                LinkStage::Stream => return self.lend_piece(now_ms),
            }
        }
    }

    /// All pieces of the stream that are lent.
    pub fn lent(&self) -> &[u8] {
        self.input.lent()
    }

    /// All lent pieces of the stream, mutable: the link does not read them again.
    pub fn lent_mut(&mut self) -> &mut [u8] {
        self.input.lent_mut()
    }

    /// Takes back the lent part of the stream after these bytes, to lend it again.
    pub fn take_back(&mut self, kept_bytes: usize) {
        if kept_bytes < self.input.lent().len() {
            self.input.take_back(kept_bytes);
            self.parser.reset();
        }
    }

    /// Notes that all lent pieces of the stream were applied.
    pub fn settle(&mut self) {
        assert_eq!(self.stage, LinkStage::Stream, "before the stream nothing is to be applied");
        let applied_bytes = self.input.consume_lent();
        assert!(applied_bytes > 0, "nothing was lent to be applied");
        self.offset = self.offset.plus(applied_bytes);
        self.awaits_stream = false;
        self.is_proven |= self.mark_end.is_some_and(|end| end <= self.offset);
        if let Some(now_ms) = self.asked_ms.take() {
            self.durable_wanted = self.offset;
            self.acknowledge(now_ms);
        }
    }

    /// For how long the primary asks to receive clients, if it has asked in what was applied. Ask once.
    pub fn take_asked_to_receive(&mut self) -> Option<u64> {
        self.asked_to_receive.take()
    }

    fn deal_with_event(&mut self) {
        if self.stage != LinkStage::Stream {
            self.input.consume_lent();
            self.stage = self.stage_after.take().unwrap_or(self.stage);
        }
    }

    fn lend_counted(&mut self, left: u64) -> Option<Event<'_>> {
        if left == 0 {
            self.stage_after = Some(LinkStage::Loading);
            return Some(Event::SnapshotEnd);
        }
        let length = self.input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return None;
        }
        let left = left - length as u64;
        self.stage_after = Some(LinkStage::Counted(left));
        Some(Event::Snapshot { bytes: self.input.lend(length), left: Some(left) })
    }

    /// Lends the bytes before the mark, except for those that may be its beginning.
    fn lend_marked(&mut self, mark: &[u8; MARK_BYTES]) -> Option<Event<'_>> {
        let found = memchr::memmem::find(self.input.rest(), mark);
        if found == Some(0) {
            self.input.lend(MARK_BYTES);
            self.stage_after = Some(LinkStage::Loading);
            return Some(Event::SnapshotEnd);
        }
        let length = found.unwrap_or_else(|| self.input.len().saturating_sub(MARK_BYTES - 1));
        (length > 0).then(|| Event::Snapshot { bytes: self.input.lend(length), left: None })
    }

    fn lend_piece(&mut self, now_ms: u64) -> Result<Option<Event<'_>>, LinkError> {
        let begin = self.offset.plus(self.input.lent().len());
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
            let receive = asked_to_receive(&input[words[2].clone()]);
            self.asked_to_receive = receive.or(self.asked_to_receive);
            let is_mark = |mark: [u8; MARK_BYTES]| input[words[2].clone()] == mark;
            if self.options.mark.is_some_and(is_mark) {
                self.mark_end = Some(begin.plus(length));
            }
            words.clear();
        }
        Ok(Some(Event::Stream { bytes: self.input.lend(length), words, end: begin.plus(length) }))
    }

    /// Tells the primary how far the stream was applied.
    fn acknowledge(&mut self, now_ms: u64) {
        if self.is_silent {
            return;
        }
        let durable = self.durable();
        assert!(self.offset >= self.said_offset, "offset {} was acknowledged", self.said_offset);
        (self.said_ms, self.said_offset, self.said_durable) = (now_ms, self.offset, durable);
        // A primary that does not speak PSYNC expects no acknowledgement.
        if self.id.is_none() {
            return;
        }
        let mut words = vec!["REPLCONF".to_owned(), "ACK".to_owned(), self.offset.to_string()];
        if let Some(durable) = durable {
            words.extend(["FACK".to_owned(), durable.to_string()]);
        }
        if self.divergence > 0 {
            // Redis ignores further words.
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

/// The word of the question that asks replicas to receive clients for so long; 0: no longer. Servers that do not know it
/// read a question for the offset.
pub(crate) fn receive(for_ms: u64) -> String {
    format!("receive-{for_ms}")
}

/// The milliseconds in that word.
fn asked_to_receive(word: &[u8]) -> Option<u64> {
    resp::parse_integer(word.strip_prefix(b"receive-")?).and_then(|for_ms| u64::try_from(for_ms).ok())
}

/// How the snapshot arrives that this line announces.
fn snapshot_stage(line: &[u8]) -> Result<LinkStage, LinkError> {
    let wrong_length = || LinkError::SnapshotLength(shown(line));
    match line {
        [b'$', b'E', b'O', b'F', b':', mark @ ..] => {
            mark.try_into().map(LinkStage::Marked).map_err(|_| wrong_length())
        }
        [b'$', length @ ..] => {
            let length = resp::parse_integer(length).and_then(|length| u64::try_from(length).ok());
            let length = length.filter(|length| (SNAPSHOT_BYTES_MIN..=SNAPSHOT_BYTES_MAX).contains(length));
            length.map(LinkStage::Counted).ok_or_else(wrong_length)
        }
        [b'-', ..] => Err(LinkError::Aborted(shown(line))),
        _ => Err(LinkError::NoSnapshot(shown(line))),
    }
}
