//! The services that the commands of this crate need from the thread that runs them.

use std::sync::atomic::AtomicBool;

use commands::keys::populate::Population;
use config::Id;
use config::Settings;
use engine::{CommandError, CommandResult, Store, Tx};
use persistence::Snapshots;
use proactor::Disk;
use process::shutdown::How;

/// The thread that runs the commands of this crate.
pub trait Door {
    /// State that all threads share.
    fn server(&self) -> Server;

    /// Whether the client is on this machine.
    fn is_local(&mut self) -> bool;

    /// Applies the consequences of changed settings. If one fails, returns the setting and the reason.
    fn obey(&mut self, store: &mut Store, changed: &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)>;

    /// The users in the configuration file, as lines.
    fn user_lines(&self) -> Vec<Vec<u8>>;

    /// Resets all counters.
    fn reset_stats(&mut self);

    /// Lets all threads create keys. The client gets the reply when they have.
    fn populate(&mut self, population: Population);

    /// Moves a client to a thread. The client that asked for it gets the reply when the move has begun.
    fn move_client(&mut self, id: u64, thread: u16) -> CommandResult;

    /// Replaces the data by that of the snapshot. If `saves`, the snapshot is saved first. All shards are entered.
    fn reload(&mut self, tx: &mut Tx, saves: bool) -> Result<(), String>;

    /// Replaces the data by that of the journal, after all of it is durable. All shards are entered.
    fn reload_journal(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Saves a snapshot. All shards are entered.
    fn save(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Begins to save a snapshot in the background. All shards are entered, and no other save is running.
    fn begin_save(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Begins a checkpoint: a new base for the journal. All shards are entered, and no other save is running.
    fn begin_checkpoint(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Whether a checkpoint is running.
    fn has_checkpoint(&self) -> bool;

    /// Schedules a checkpoint as soon as possible.
    fn schedule_checkpoint(&mut self);

    /// Why the server cannot end now: a script runs for too long.
    fn busy_error(&self) -> Option<CommandError>;

    /// Ends the server. The client gets a reply only if that fails.
    fn shut_down(&mut self, how: How);

    /// Aborts the shutdown; false if the server is not shutting down.
    fn abort_shutdown(&mut self) -> bool;

    /// Whether the journal is on.
    fn has_journal(&self) -> bool;

    /// Gives the replication stream a new id, so that no replica can continue it. All shards are entered.
    fn change_replication_id(&mut self);
}

/// State that all threads share, for the commands of operators.
#[derive(Clone, Copy)]
pub struct Server {
    /// The current settings.
    pub settings: &'static Settings,
    /// The state of the snapshots on disk.
    pub snapshots: &'static Snapshots,
    /// The disk with the configuration file.
    pub disk: &'static Disk,
    /// Whether keys are expired in the background.
    pub active_expire: &'static AtomicBool,
}
