//! Records what transactions changed, as commands that make the same changes to another store.
//!
//! An *effect* is one command of Redis' protocol: not the request, but what it did. A *unit* contains the effects of
//! one top-level command, `EXEC` or script, and of the waiters that it served; it is atomic. A *record* contains one or
//! more units that were run without leaving the shards in between. A thread's [`Recorder`] encodes effects as they are
//! stated and hands a whole record to its [`Sink`] *before any of the shards is left*, so no thread sees a change whose
//! record has no place in the order yet.
//!
//! ```text
//!   commands ──state──▶ Recorder ──commit──▶ lane of the Log ──▶ Collector ──▶ Slice, Slice, … (bytes of replication)
//!                          ×  threads                         one, merges
//! ```
//!
//! A *slice* is a piece of the stream that is written, sent and applied as a whole. The [`Log`] gives each record its place
//! as it is committed, the [`Collector`] closes slices. (Tests also record on a [`Tape`], which keeps all in memory.)
//!
//! Invariants: a record is complete or absent; two records that entered the same shard are in the order in which they
//! did; an effect depends neither on the clock nor on randomness, only on the effects before it.
//!
//! Effects are commands of Redis 7.0 where possible. `RENAME`, `LMOVE` and `SUNIONSTORE` are stated as themselves,
//! `FLUSHALL` and `SWAPDB` once, `SPOP` as `SREM`, relative expiries as absolute ones. Flags and cas numbers of memcached's
//! items, which Redis does not know, are a command of Darter's (`DARTER.MARK`). While the log is off, nothing is recorded.
//!
//! Two tests check all of this: `crates/commands/tests/effects_replay.rs` replays the effects of random workloads into an
//! empty store and compares `DEBUG DIGEST`. `crates/sim/tests/suite/effects_stream.rs` merges the records of many threads
//! and sends the stream to a real redis-server, and to a server with other threads and shards.
//!
//! Not here: I/O, clocks, files. Crate `engine` states effects.

#![forbid(unsafe_code)]

mod backlog;
mod boundary;
mod collector;
mod dialect;
mod lane;
mod line;
mod log;
mod mutant;
mod places;
mod record;
mod recorder;
mod slice;
mod stream;
mod sync;
mod tape;

pub use backlog::{Backlog, Found, Held, Reader};
pub use boundary::Cut;
pub use collector::{Closing, Collector};
pub use dialect::{Dialect, RedisVersion};
pub use log::{LaneEnds, Log, Ticks, Watch};
#[cfg(loom)]
pub use mutant::Mutant;
pub use places::{AtomicLsn, AtomicStreamPosition, Lsn, Stamp, StreamPosition};
pub use record::{Effect, Effects, NO_DB, Record, Unit, Units};
pub use recorder::{RecordPlace, Recorder, Sink};
pub use slice::{SharedSlice, Slice};
pub use stream::Stream;
pub use tape::Tape;
