//! What the commands of this crate need from the thread that runs them.

use std::sync::atomic::AtomicBool;

use command::{CommandError, CommandResult, Store, Tx};
use commands::keys::populate::Population;
use config::Id;
use persistence::Snapshots;
use proactor::Disk;
use process::shutdown::How;
use settings::Settings;

/// What the commands of this crate need of the thread that runs them.
pub trait Door {
    /// What all threads know.
    fn server(&self) -> Server;

    /// Whether the client whose command runs is on this machine.
    fn is_local(&mut self) -> bool;

    /// Does what follows from a change of these settings; the setting and the reason if that fails.
    fn obey(&mut self, store: &mut Store, changed: &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)>;

    /// The users that stand in the configuration file.
    fn user_lines(&self) -> Vec<Vec<u8>>;

    /// Starts the counters again from 0.
    fn reset_stats(&mut self);

    /// Lets all threads make keys; the client is answered when they have.
    fn populate(&mut self, population: Population);

    /// Has a client go to a thread; the client whose command this is is told when it has set out.
    fn move_client(&mut self, id: u64, thread: u16) -> CommandResult;

    /// Replaces the data by those of the snapshot, which is saved first if `saves`. All shards are entered.
    fn reload(&mut self, tx: &mut Tx, saves: bool) -> Result<(), String>;

    /// Replaces the data by those of the journal, when all of it is durable. All shards are entered.
    fn reload_journal(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Saves a snapshot. All shards are entered.
    fn save(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Begins to save one in the background. All shards are entered, and nothing else is being saved.
    fn begin_save(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Begins to give the journal a new base. All shards are entered, and nothing else is being saved.
    fn begin_checkpoint(&mut self, tx: &mut Tx) -> Result<(), String>;

    /// Whether it is about to get one.
    fn has_checkpoint(&self) -> bool;

    /// It is to get one as soon as possible.
    fn schedule_checkpoint(&mut self);

    /// Why the server cannot end now, if a script runs for too long.
    fn busy_error(&self) -> Option<CommandError>;

    /// Ends the server; the client is answered if that fails.
    fn shut_down(&mut self, how: How);

    /// Has the server not end; false: it was not about to.
    fn abort_shutdown(&mut self) -> bool;

    /// Whether a journal is on.
    fn has_journal(&self) -> bool;

    /// Gives the stream for replicas an id that nobody knows. All shards are entered.
    fn change_replication_id(&mut self);
}

/// What all threads know, as far as operators are concerned.
#[derive(Clone, Copy)]
pub struct Server {
    /// The settings as they are now.
    pub settings: &'static Settings,
    /// What is known of the snapshots on disk.
    pub snapshots: &'static Snapshots,
    /// Where the configuration file is.
    pub disk: &'static Disk,
    /// Whether keys are expired in the background.
    pub active_expire: &'static AtomicBool,
}
