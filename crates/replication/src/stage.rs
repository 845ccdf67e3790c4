//! What following a primary needs from the thread that does it.

use command::{Client, Command, Table, Tx};
use persistence::Role;
use proactor::ConnId;

use crate::Door;
use crate::address::Address;
use crate::following::Following;
use crate::history::ReplicationId;
use crate::incoming::Incoming;
use crate::link_settings::LinkSettings;
use crate::primary::Primary;
use crate::wide::Help;

/// The commands that may stand in the stream, with the names that all servers have for them.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    /// All commands.
    pub table: &'static Table,
    /// What becomes of each.
    pub roles: &'static [Role],
    /// So many databases there are.
    pub databases: u32,
}

/// What came of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ran {
    /// It ran.
    Done,
    /// It failed with this error.
    Failed(String),
    /// It needs more shards, and has done nothing.
    Again,
}

/// What runs commands of the stream.
pub trait Stage {
    /// The transaction of the thread.
    fn tx(&mut self) -> &mut Tx<'static>;

    /// For whom commands run.
    fn client(&mut self) -> Client;

    /// How many threads there are, which may be asked; this is the first one. A shard is at home where its number, counted round, says.
    fn thread_count(&self) -> usize;

    /// Asks another thread for help.
    fn ask(&mut self, thread: usize, help: Help);

    /// Whether there is anything for which a command may have to wait.
    fn may_hold_back(&self) -> bool;

    /// Whether the command, whose shards are entered, may run now, for all that a snapshot or the journal says.
    fn may_run(&mut self, command: &'static Command, args: &[&[u8]], db: u32) -> bool;

    /// Runs the command, whose shards are entered.
    fn run(&mut self, command: &'static Command, args: &[&[u8]], db: u32) -> Ran;

    /// What was run is complete: those who waited for it are served.
    fn finish(&mut self);

    /// Leaves all shards; what was recorded is published before.
    fn leave(&mut self);
}

/// What following needs of the thread that does it.
pub trait Around<L>: Stage {
    /// What all threads know of the primary.
    fn following(&self) -> &'static Following;

    /// What this server is to its own replicas.
    fn primary(&self) -> &'static Primary;

    /// The thread, for what changes the role.
    fn door(&mut self) -> &mut dyn Door;

    /// The commands that may stand in the stream.
    fn vocabulary(&self) -> Vocabulary;

    /// On the monotonic clock.
    fn now_ms(&self) -> u64;

    /// What the settings say of the link; where it resumes is left out.
    fn link_settings(&self) -> LinkSettings;

    /// Has a connection made, and says later what came of it.
    fn dial(&mut self, address: Address, attempt: u64);

    /// Has what comes kept and read, and says later what came of it.
    fn receive_snapshot(&mut self, attempt: u64) -> Result<Incoming, String>;

    /// The last slice of the own log that is on the disk, and up to which offset that is, as far as that is known; `None`: what is applied does not get
    /// there, because there is no journal, it has no base yet or is never synced, or the disk takes nothing.
    fn durable(&self) -> Option<(u64, u64)>;

    /// Enters all shards; false: some are taken.
    fn enter_all(&mut self) -> bool;

    /// Puts what was read in the place of all data, and has the log begin anew at this offset; all shards are entered. Returns which
    /// database is selected in the stream.
    fn put_in_place(&mut self, loaded: L, offset: u64) -> Option<u32>;

    /// The log goes on as a copy where it is; all shards are entered.
    fn go_on_copying(&mut self);

    /// The own replicas are disconnected: they come back and ask where they are.
    fn drop_replicas(&mut self);

    /// A random id.
    fn random_id(&mut self) -> ReplicationId;

    /// Sends this to the primary.
    fn send(&mut self, conn: ConnId, bytes: &[u8]);

    /// Nothing more is read of the connection for now, or it is again.
    fn set_reading(&mut self, conn: ConnId, reads: bool);

    /// Has [`Follower::received`](crate::Follower::received) called in the next turn, whether anything has come or not.
    fn come_back(&mut self, conn: ConnId);

    /// Closes the connection.
    fn close(&mut self, conn: ConnId);
}
