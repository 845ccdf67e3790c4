//! The state that the commands of this crate work with, and the tasks that their thread does for them.

use std::sync::atomic::AtomicBool;

use commands::keys::populate::Population;
use config::{Id, Settings};
use engine::{Client, CommandError, CommandResult, Store, Tx};
use persistence::Snapshots;
use proactor::Disk;
use process::shutdown::{How, Shutdown};

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
    /// Whether a checkpoint has to begin as soon as possible.
    pub is_checkpoint_scheduled: &'static AtomicBool,
    /// The shutdown, if one is under way.
    pub shutdown: &'static Shutdown<Client>,
}

/// The state that the commands of this crate work with.
pub struct Controls<'h> {
    /// State that all threads share.
    pub server: Server,
    /// Whether the client is on this machine.
    pub is_local: bool,
    /// Whether the journal is on.
    pub has_journal: bool,
    /// Whether a checkpoint is running.
    pub has_checkpoint: bool,
    /// Why the server cannot end now: a script runs for too long.
    pub busy_error: Option<CommandError>,
    /// Collects the users in the configuration file, as lines.
    pub user_lines: &'h dyn Fn() -> Vec<Vec<u8>>,
    /// Applies the consequences of changed settings. If one fails, returns the setting and the reason.
    pub obey: &'h mut Obey<'h>,
    /// Does something for the client. If it fails, returns the reason.
    pub carry_out: &'h mut dyn FnMut(&mut Tx, OperatorTask) -> Result<(), String>,
}

/// Applies the consequences of changed settings. If one fails, returns the setting and the reason.
pub type Obey<'h> = dyn FnMut(&mut Store, &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)> + 'h;

/// Something that the thread does for an operator.
#[derive(Debug)]
pub enum OperatorTask {
    /// Reset all counters.
    ResetStats,
    /// Let all threads create keys. The client gets the reply when they have.
    Populate(Population),
    /// Move a client to a thread. The client that asked for it gets the reply when the move has begun.
    MoveClient {
        /// The client that moves.
        id: u64,
        /// The number of the thread.
        thread: u16,
    },
    /// Save a snapshot. All shards are entered.
    Save,
    /// Begin to save a snapshot in the background. All shards are entered, and no other save is running.
    BeginSave,
    /// Begin a checkpoint: a new base for the journal. All shards are entered, and no other save is running.
    BeginCheckpoint,
    /// Replace the data by that of the snapshot. All shards are entered.
    Reload {
        /// Whether the snapshot is saved first.
        saves: bool,
    },
    /// Replace the data by that of the journal, after all of it is durable. All shards are entered.
    ReloadJournal,
    /// End the server. The client gets a reply only if that fails.
    ShutDown(How),
    /// Give the replication stream a new id, so that no replica can continue it. All shards are entered.
    RenameStream,
}

impl Controls<'_> {
    /// Does something for the client, whose command runs in `tx`.
    pub(crate) fn carry_out(&mut self, tx: &mut Tx, task: OperatorTask) -> CommandResult {
        (self.carry_out)(tx, task).map_err(crate::failed)
    }

    /// Whether a setting of no, yes and local allows something to the client.
    pub(crate) fn allows(&self, id: Id) -> bool {
        crate::allows(self.server.settings, id, || self.is_local)
    }
}
