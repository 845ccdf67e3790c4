//! What an operator tells a running server: CONFIG (`configuring.rs`), MODULE (`module.rs`) and DEBUG (`debug.rs`).
//!
//! The commands, their refusals and their texts are here. What follows from them is done by the thread that runs them ([`Door`]).
//!
//! Not here: the settings themselves (`settings`) and how their values change (`config`).

#![forbid(unsafe_code)]

mod configuring;
mod debug;
mod module;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

use command::{CommandError, HostFn, Store, Tx};
use commands::keys::populate::Population;
use config::Id;
use persistence::Snapshots;
use proactor::Disk;
use settings::Settings;

pub use configuring::change;

/// The commands of this crate.
pub const ENTRIES: &[Entry] = &[configuring::CONFIG, debug::DEBUG, module::MODULE];

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

    /// Replaces the data by those of the snapshot, which is saved first if `saves`. All shards are entered.
    fn reload(&mut self, tx: &mut Tx, saves: bool) -> Result<(), String>;

    /// Replaces the data by those of the journal, when all of it is durable. All shards are entered.
    fn reload_journal(&mut self, tx: &mut Tx) -> Result<(), String>;

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

/// A call of a command of this crate.
type Ctx<'a, 't> = command::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = command::Entry<HostFn<dyn Door>>;
/// What runs a command of this crate.
type Run = command::Run<HostFn<dyn Door>>;

/// Whether a setting of no, yes and local allows something to the client whose command runs.
fn client_may(door: &mut dyn Door, id: Id) -> bool {
    match door.server().settings.number(id) {
        0 => false,
        1 => true,
        _ => door.is_local(),
    }
}

/// The error of a command that a setting of the start protects.
fn not_allowed(command: &str, setting: &str) -> CommandError {
    CommandError::new(format!(
        "ERR {command} command not allowed. If the {setting} option is set to \"local\", you can run it from a local \
         connection, otherwise you need to set this option in the configuration file, and then restart the server."
    ))
}
