//! Decides what one replica is sent: a state machine that its thread steps and that writes to the connection's output.
//!
//! It writes at most [`AHEAD_BYTES`] ahead of the socket, so a replica that does not read takes no memory. The bytes
//! that the replica has yet to fetch are in the snapshot's file and in the backlog.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use effectlog::{Backlog, Found, Reader, RedisVersion, StreamPosition};
use group::LinkId;
use heap::{Exempt, Exemption};
use persistence::{Spool, SpoolState};
use proactor::{BlockingTasks, Waker};
use resp::Output;

use crate::history::ReplicationId;
use crate::limits::Limits;
use crate::primary::{Replica, ReplicaStage, Start};
use crate::tail::{Next, Read, Tail};

/// The most output that may be queued before more is written.
const AHEAD_BYTES: usize = 1 << 20;
/// A piece of a snapshot.
const PIECE_BYTES: usize = 64 * 1024;
/// The reason for disconnecting a replica that has fallen behind what is kept for it.
const TOO_FAR: &str = "it is further behind than client-output-buffer-limit allows";
/// The interval of newlines, which show that the server is alive while there is nothing else to send.
const NEWLINE_MS: u64 = 1000;

/// The current phase of a feed.
enum Phase {
    /// Newlines, until its snapshot begins.
    Waiting,
    /// The snapshot, read up to `place`, and then the stream, unless the replica wants none.
    Sending { spool: Arc<Spool>, place: u64, has_head: bool, reader: Option<Reader> },
    /// The part of the stream that it lacks, from the journal.
    CatchingUp { tail: Tail, reader: Reader },
    /// Nothing, until the replica reports that it has loaded a snapshot of unannounced length.
    Confirming { reader: Reader, ack_count: u64 },
    /// The stream.
    Online { reader: Reader },
    /// Nothing more: the replica asked only for a snapshot and has it.
    Done,
}

/// See the head of this file.
pub struct Feed {
    replica: Arc<Replica>,
    phase: Phase,
    /// The link over which a node of this server's group follows: it is told with the position.
    link: Option<LinkId>,
    /// Whether the replica is told the position of its snapshot, because it used PSYNC.
    is_announced: bool,
    wants_no_stream: bool,
    /// The mark at the end of the snapshot, if its length is not sent first.
    mark: Option<ReplicationId>,
    /// The time of the last write, or of the last progress of the socket.
    moved_ms: u64,
    /// The bytes that were written and not yet sent at that time.
    pending_bytes: usize,
    /// The memory of output that has not been sent. It does not count against `maxmemory`, because each eviction adds
    /// to it.
    output_memory: Exemption,
    /// The number of commands left out because the replica does not understand them, and whether that was logged.
    left_out: u64,
    has_told: bool,
    newline_ms: u64,
    /// The time since which it has exceeded the soft limit.
    behind_since_ms: Option<u64>,
}

/// The surroundings of a feed: its thread's state and services.
pub struct Around<'a> {
    /// On the monotonic clock.
    pub now_ms: u64,
    /// The stream.
    pub backlog: &'a Arc<Backlog>,
    /// The id of the stream.
    pub id: ReplicationId,
    /// Commands left out of streams because replicas do not understand them.
    pub unsupported_count: &'a AtomicU64,
    /// How far and how long replicas may lag.
    pub limits: Limits,
    /// Wakes the thread.
    pub waker: Arc<Waker>,
    /// Runs the reads.
    pub blocking_tasks: &'a BlockingTasks,
    /// Reads the journal between two positions of the stream, in the form that this release of Redis understands
    /// (`None`: unchanged).
    pub read_back: &'a dyn Fn(Range<StreamPosition>, Option<RedisVersion>) -> Option<Read>,
}

impl Around<'_> {
    /// A function that wakes the thread.
    fn wake(&self) -> Box<dyn Fn() + Send + Sync> {
        let waker = Arc::clone(&self.waker);
        Box::new(move || waker.wake())
    }
}

/// The outcome of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FeedStep {
    /// It has written something, and may have more.
    Wrote,
    /// It waits for the replica or for a snapshot.
    Waits,
    /// It waits until the socket has taken some of what it wrote.
    Full,
    /// It waits for the disk and must be stepped again soon.
    Soon,
    /// It has sent the stream up to this position.
    CaughtUp(StreamPosition),
    /// The replica must be disconnected, for this reason.
    Ends(Cow<'static, str>),
}

impl Feed {
    /// The feed of a replica that waits for a snapshot.
    pub(crate) fn waiting(
        replica: Arc<Replica>,
        is_announced: bool,
        wants_no_stream: bool,
        mark: Option<ReplicationId>,
        now_ms: u64,
    ) -> Feed {
        Feed {
            replica,
            phase: Phase::Waiting,
            link: None,
            is_announced,
            wants_no_stream,
            mark,
            moved_ms: now_ms,
            pending_bytes: 0,
            output_memory: Exemption::none(Exempt::Replicas),
            left_out: 0,
            has_told: false,
            newline_ms: now_ms,
            behind_since_ms: None,
        }
    }

    /// Adds the link over which a node of this server's group follows.
    pub(crate) fn with_link(self, link: Option<LinkId>) -> Feed {
        Feed { link, ..self }
    }

    /// The feed of a replica that continues at its own position.
    pub(crate) fn online(replica: Arc<Replica>, reader: Reader, now_ms: u64) -> Feed {
        replica.skip_snapshot();
        replica.set_stage(ReplicaStage::Online);
        let feed = Feed::waiting(replica, true, false, None, now_ms);
        Feed { phase: Phase::Online { reader }, ..feed }
    }

    /// Its replica.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Writes the next bytes into `output`. `pending_bytes` of the connection's output have not been sent yet.
    pub fn step(&mut self, output: &mut Output, pending_bytes: usize, around: &Around<'_>) -> FeedStep {
        heap::at_once(|| self.write_next(output, pending_bytes, around))
    }

    fn write_next(&mut self, output: &mut Output, pending_bytes: usize, around: &Around<'_>) -> FeedStep {
        let has_room = pending_bytes < AHEAD_BYTES;
        let output_bytes = output.len();
        let step = match &mut self.phase {
            Phase::Waiting => self.await_snapshot(output, around),
            Phase::Sending { .. } if has_room => self.send_snapshot(output, around),
            Phase::CatchingUp { tail, .. } if has_room => match tail.next(AHEAD_BYTES) {
                Next::Bytes(bytes) => {
                    output.extend_from_slice(bytes);
                    FeedStep::Wrote
                }
                Next::Later => FeedStep::Waits,
                Next::End => self.go_online(around),
                Next::Failed(why) => {
                    FeedStep::Ends(format!("reading the journal for it failed: {why}").into())
                }
            },
            Phase::Confirming { ack_count, .. } if self.replica.ack_count() > *ack_count => {
                self.go_online(around)
            }
            Phase::Online { reader } if has_room => {
                let step = send_stream(reader, output);
                self.left_out += reader.take_left_out();
                step
            }
            Phase::Sending { .. } | Phase::CatchingUp { .. } | Phase::Online { .. } => FeedStep::Full,
            Phase::Confirming { .. } | Phase::Done => FeedStep::Waits,
        };
        self.output_memory.resize(pending_bytes + output.len().saturating_sub(output_bytes));
        if step == FeedStep::Wrote || pending_bytes != self.pending_bytes {
            (self.moved_ms, self.pending_bytes) = (around.now_ms, pending_bytes);
        }
        if self.left_out > 0 {
            self.note_left_out(around);
        }
        self.reason_to_end(around).map_or(step, |why| FeedStep::Ends(why.into()))
    }

    #[cold]
    fn note_left_out(&mut self, around: &Around<'_>) {
        around.unsupported_count.fetch_add(std::mem::take(&mut self.left_out), Ordering::Relaxed);
        if !std::mem::replace(&mut self.has_told, true) {
            tracing::warn!(
                "replica {} does not speak Darter's protocol: the expiry of hash fields, and memcached's flags and cas numbers, are not sent to it",
                self.replica
            );
        }
    }

    /// The reason to disconnect the replica, if there is one.
    fn reason_to_end(&mut self, around: &Around<'_>) -> Option<&'static str> {
        let reader = match &self.phase {
            Phase::Sending { reader, .. } => reader.as_ref(),
            Phase::CatchingUp { reader, .. }
            | Phase::Confirming { reader, .. }
            | Phase::Online { reader } => Some(reader),
            Phase::Waiting | Phase::Done => return None,
        };
        let alive_ms = match &self.phase {
            Phase::Online { .. } => self.replica.acked_ms(),
            _ => self.moved_ms.max(self.newline_ms),
        };
        if around.now_ms.saturating_sub(alive_ms) > around.limits.timeout_ms {
            return Some("nothing was received from it for repl-timeout");
        }
        let behind_bytes = reader.map_or(0, |reader| around.backlog.end().since(reader.position()));
        if behind_bytes > around.limits.bytes_max {
            return Some(TOO_FAR);
        }
        let (bytes, ms) = around.limits.soft?;
        if behind_bytes <= bytes {
            self.behind_since_ms = None;
            return None;
        }
        let since_ms = *self.behind_since_ms.get_or_insert(around.now_ms);
        (around.now_ms.saturating_sub(since_ms) >= ms)
            .then_some("it has been behind for longer than client-output-buffer-limit allows")
    }

    fn await_snapshot(&mut self, output: &mut Output, around: &Around<'_>) -> FeedStep {
        let Some((position, start)) = self.replica.take_start(around.backlog) else {
            // A replica that continues has been told so already, and newlines would count as part of the stream.
            if self.replica.tail_from().is_none() {
                self.write_newline(output, around.now_ms);
            }
            // The cut was made, and the stream reaches it in a moment.
            return if self.replica.is_waiting() { FeedStep::Waits } else { FeedStep::Soon };
        };
        // The stream after the cut was kept for the replica. It is dropped only beyond the limit.
        let Start { spool, held: _held, .. } = start;
        let reader = around.backlog.read_from(position, self.replica.capabilities.version());
        let Some(reader) = reader else { return FeedStep::Ends(TOO_FAR.into()) };
        assert_eq!(reader.position(), position, "the stream goes on where the snapshot ends");
        let Some(spool) = spool else { return self.catch_up(reader, around) };
        let reader = (!self.wants_no_stream).then_some(reader);
        if self.is_announced {
            let id = String::from_utf8_lossy(&around.id);
            let link = self.link.map_or_else(String::new, |link| format!(" {}", link.0));
            output.extend_from_slice(format!("+FULLRESYNC {id} {position}{link}\r\n").as_bytes());
        }
        spool.on_progress(around.wake());
        self.replica.set_stage(ReplicaStage::Sending);
        self.phase = Phase::Sending { spool, place: 0, has_head: false, reader };
        FeedStep::Wrote
    }

    /// Begins to send the missing part of the stream, up to where `reader` continues.
    fn catch_up(&mut self, reader: Reader, around: &Around<'_>) -> FeedStep {
        let from = self.replica.tail_from().unwrap_or_else(|| reader.position());
        let read = (around.read_back)(from..reader.position(), self.replica.capabilities.version());
        match read.map(|read| Tail::begin(read, around.wake(), around.blocking_tasks)) {
            Some(Ok(tail)) => {
                self.replica.set_stage(ReplicaStage::Online);
                self.phase = Phase::CatchingUp { tail, reader };
                FeedStep::Wrote
            }
            Some(Err(_)) | None => {
                FeedStep::Ends("the part of the stream that it lacks cannot be read".into())
            }
        }
    }

    fn send_snapshot(&mut self, output: &mut Output, around: &Around<'_>) -> FeedStep {
        let Phase::Sending { spool, place, has_head, .. } = &mut self.phase else { return FeedStep::Waits };
        let progress = spool.progress();
        if progress.state == SpoolState::Failed {
            return FeedStep::Ends("its snapshot could not be written".into());
        }
        if !*has_head {
            match &self.mark {
                Some(mark) => output.extend_from_slice(&[b"$EOF:", &mark[..], b"\r\n"].concat()),
                None if progress.state == SpoolState::Complete => {
                    output.extend_from_slice(format!("${}\r\n", progress.bytes).as_bytes());
                }
                None => {
                    self.write_newline(output, around.now_ms);
                    return FeedStep::Waits;
                }
            }
            *has_head = true;
        }
        let mut piece = [0; PIECE_BYTES];
        let start = *place;
        while *place - start < AHEAD_BYTES as u64 {
            match spool.read_at(*place, &mut piece) {
                Ok(Some(0)) => break,
                Ok(Some(count)) => {
                    output.extend_from_slice(&piece[..count]);
                    *place += count as u64;
                }
                Ok(None) => return if *place > start { FeedStep::Wrote } else { FeedStep::Soon },
                Err(_) => return FeedStep::Ends("its snapshot could not be read".into()),
            }
        }
        let is_complete = progress.state == SpoolState::Complete;
        assert!(!is_complete || *place <= progress.bytes, "a complete snapshot does not grow");
        if is_complete && *place == progress.bytes {
            output.extend_from_slice(self.mark.as_ref().map_or(&[][..], |mark| &mark[..]));
            self.end_snapshot(around);
            return FeedStep::Wrote;
        }
        if *place > start { FeedStep::Wrote } else { FeedStep::Waits }
    }

    fn end_snapshot(&mut self, around: &Around<'_>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        let Phase::Sending { reader: Some(reader), .. } = phase else { return };
        let ack_count = self.replica.ack_count();
        self.phase = Phase::Confirming { reader, ack_count };
        if self.mark.is_none() {
            self.go_online(around);
        }
    }

    fn go_online(&mut self, around: &Around<'_>) -> FeedStep {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        if let Phase::Confirming { reader, .. } | Phase::CatchingUp { reader, .. } = phase {
            self.replica.set_stage(ReplicaStage::Online);
            self.replica.note_alive(around.now_ms);
            self.phase = Phase::Online { reader };
        }
        FeedStep::Wrote
    }

    fn write_newline(&mut self, output: &mut Output, now_ms: u64) {
        if now_ms.saturating_sub(self.newline_ms) >= NEWLINE_MS {
            self.newline_ms = now_ms;
            output.extend_from_slice(b"\n");
        }
    }
}

/// Writes the next part of the stream, up to the limit for output ahead of the socket.
fn send_stream(reader: &mut Reader, output: &mut Output) -> FeedStep {
    let mut wrote = 0;
    while wrote < AHEAD_BYTES {
        match reader.next(AHEAD_BYTES - wrote) {
            Found::Bytes(bytes) => {
                output.extend_from_slice(bytes);
                let count = bytes.len();
                reader.advance(count);
                wrote += count;
            }
            Found::Nothing => return FeedStep::CaughtUp(reader.position()),
            Found::Gone => return FeedStep::Ends("it is too far behind the stream".into()),
        }
    }
    FeedStep::Wrote
}

#[cfg(test)]
mod tests {
    use effectlog::{Dialect, Lsn, SharedSlice, Slice, Stamp};
    use heap::Exempt;

    use super::*;

    /// A snapshot's cut is known before the stream reaches it: the log thread still has to add the slice or begin the
    /// backlog. The replica waits for that, and then gets everything after the cut, however small the backlog is.
    #[test]
    fn a_replica_begins_at_its_cut_whenever_it_looks() {
        let (log, mut recorders, ends) = effectlog::Log::new(1, Box::new(|| 0));
        log.turn_on(Lsn::NONE.next());
        let mut collector = effectlog::Collector::new(&log, ends);
        collector.begin(Lsn::NONE.next(), StreamPosition::START);
        let mut commit = |byte: u8, count: usize| {
            recorders[0].push(0, &[&vec![byte; count]]);
            recorders[0].commit(Stamp::NONE).expect("it is on");
        };
        let backlog = Arc::new(Backlog::new(1, Box::new(|_| {})));
        backlog.set_limits(10, 1 << 20);
        commit(b'a', 100);
        let (held, cut) = (backlog.hold(), log.cut());
        let close = |collector: &mut effectlog::Collector| match collector.close(false, Vec::new) {
            effectlog::Closing::Done(slice) => SharedSlice::new(slice, Exempt::Stream),
            other => panic!("{other:?}"),
        };
        let before = close(&mut collector);
        assert_eq!(cut.end(), Some(before.end()));
        let replica = Arc::new(Replica::new(
            1,
            (String::new(), 0),
            crate::primary::CopyContent::Redis,
            crate::peer::Capabilities::default(),
            0,
        ));
        replica.begin(Start { cut, spool: Some(Arc::new(Spool::new())), held });
        let mut feed = Feed::waiting(Arc::clone(&replica), true, false, Some([b'm'; 40]), 0);
        let (blocking_tasks, unsupported_count) = (BlockingTasks::default(), AtomicU64::new(0));
        let mut step = |output: &mut Output| {
            feed.step(
                output,
                0,
                &Around {
                    now_ms: 0,
                    backlog: &backlog,
                    id: [b'i'; 40],
                    unsupported_count: &unsupported_count,
                    limits: Limits::of(&config::Settings::default()),
                    waker: Arc::new(Waker::without_bell()),
                    blocking_tasks: &blocking_tasks,
                    read_back: &|_, _| None,
                },
            )
        };
        let mut output = Output::new();
        assert_eq!(step(&mut output), FeedStep::Soon, "there is no backlog");
        backlog.begin(StreamPosition::START, Lsn::NONE);
        assert_eq!(step(&mut output), FeedStep::Soon, "the slice is not added");
        backlog.push(before.clone(), Dialect::default());
        for _ in 0..10 {
            commit(b'b', 1000);
            backlog.push(close(&mut collector), Dialect::default());
        }
        assert_eq!(step(&mut output), FeedStep::Wrote);
        let expected = format!("+FULLRESYNC {} {}\r\n", "i".repeat(40), before.end());
        assert_eq!(output.to_vec(), expected.as_bytes());
    }

    #[test]
    fn a_step_writes_all_there_is_up_to_what_may_lie_ahead() {
        let backlog = Arc::new(Backlog::new(1, Box::new(|_| {})));
        backlog.set_limits(1 << 30, 1 << 30);
        backlog.begin(StreamPosition::START, Lsn::NONE);
        let caught_up = |bytes| FeedStep::CaughtUp(StreamPosition::START.plus(bytes));
        let push = |payload: Vec<u8>| {
            let slice = Slice { position: backlog.end(), payload, ..Slice::default() };
            backlog.push(SharedSlice::new(slice, Exempt::Stream), Dialect::default());
        };
        let (mut reader, mut output) =
            (backlog.read_from(StreamPosition::START, None).expect("it begins there"), Output::new());
        [b"ab", b"cd", b"ef"].iter().for_each(|piece| push(piece.to_vec()));
        assert_eq!(send_stream(&mut reader, &mut output), caught_up(6));
        assert_eq!(output.to_vec(), b"abcdef");
        output.clear();
        [AHEAD_BYTES - 1, 3].into_iter().for_each(|count| push(vec![b'x'; count]));
        assert_eq!((send_stream(&mut reader, &mut output), output.len()), (FeedStep::Wrote, AHEAD_BYTES));
        assert_eq!(send_stream(&mut reader, &mut output), caught_up(6 + AHEAD_BYTES + 2));
    }
}
