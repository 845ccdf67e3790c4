//! The traits by which following a primary reaches its thread.

use effectlog::StreamPosition;
use engine::{Client, Command, Table, Tx};
use persistence::Role;
use proactor::ConnId;

use crate::address::Address;
use crate::history::ReplicationId;
use crate::incoming::Incoming;
use crate::parts::Parts;
use crate::wide::Help;

/// The commands that a stream may contain, by the names that all servers use.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    /// All commands.
    pub table: &'static Table,
    /// How each command is treated.
    pub roles: &'static [Role],
    /// The number of databases.
    pub databases: u32,
}

/// The outcome of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ran {
    /// It ran.
    Done,
    /// It failed with this error.
    Failed(String),
    /// It needs more shards, and has done nothing.
    Again,
}

/// Runs commands of the stream.
pub trait Stage {
    /// The transaction of the thread.
    fn tx(&mut self) -> &mut Tx<'static>;

    /// The client for whom commands run.
    fn client(&mut self) -> Client;

    /// The number of threads, all of which may be asked for help. This is the first one. A shard's home thread is its
    /// number modulo this.
    fn thread_count(&self) -> usize;

    /// Asks another thread for help.
    fn ask(&mut self, thread: usize, help: Help);

    /// Whether any command might have to wait.
    fn may_hold_back(&self) -> bool;

    /// Whether the snapshot in progress and the journal allow the command to run now. Its shards are entered.
    fn may_run(&mut self, command: &'static Command, args: &[&[u8]], db: u32) -> bool;

    /// Runs the command. Its shards are entered.
    fn run(&mut self, command: &'static Command, args: &[&[u8]], db: u32) -> Ran;

    /// Completes a unit: serves its waiters.
    fn finish(&mut self);

    /// Leaves all shards after publishing what was recorded.
    fn leave(&mut self);
}

/// The services of the thread that follows a primary.
pub trait FollowerAround<L>: Stage {
    /// What the threads share.
    fn parts(&self) -> Parts;

    /// The commands that a stream may contain.
    fn vocabulary(&self) -> Vocabulary;

    /// The time on the monotonic clock.
    fn now_ms(&self) -> u64;

    /// Begins to connect; the outcome is reported later.
    fn dial(&mut self, address: Address, attempt: u64);

    /// Begins to store and load a snapshot; the outcome is reported later.
    fn receive_snapshot(&mut self, attempt: u64) -> Result<Incoming, String>;

    /// Enters all shards. Returns false if some are taken.
    fn enter_all(&mut self) -> bool;

    /// Replaces all data with the loaded data and restarts the log at this offset. All shards are entered. Returns the
    /// database selected in the stream.
    fn put_in_place(&mut self, loaded: L, offset: StreamPosition) -> Option<u32>;

    /// A random id.
    fn random_id(&mut self) -> ReplicationId;

    /// Sends this to the primary.
    fn send(&mut self, conn: ConnId, bytes: &[u8]);

    /// Stops or resumes reading from the connection.
    fn set_reading(&mut self, conn: ConnId, reads: bool);

    /// Makes the thread call [`Follower::received`](crate::Follower::received) in the next turn, even if nothing has
    /// arrived.
    fn come_back(&mut self, conn: ConnId);

    /// Closes the connection.
    fn close(&mut self, conn: ConnId);
}
