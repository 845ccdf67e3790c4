//! Manages all clients of a server.
//!
//! | files | purpose |
//! |---|---|
//! | `session/` | one client: its state, and what its command is doing |
//! | `listeners.rs`, `dealing.rs` | listen, and assign connections to threads |
//! | `registry.rs`, `descriptors.rs` | their ids, names and number |
//! | `connections.rs` | those of one thread |
//! | `tls_keeper.rs` | TLS |
//! | `workload.rs`, `balance.rs`, `moves.rs`, `giving_way.rs` | balance connections over threads |
//! | `watchlist.rs`, `sizes.rs` | limits on what clients use |
//! | `commands/` | CLIENT, AUTH and HELLO |
//!
//! Nothing here depends on a thread. The commands ask the thread that runs them for what they need ([`Door`]). The
//! other parts belong to a thread or are shared by all, and get their input as arguments.
//!
//! A connection moves between two commands, or while its command blocks. A client that does not read its replies in time
//! stays. So do subscribers, clients that track keys, monitors, replicas and the primary, because other threads know
//! where they are.
//!
//! Not here: the rights of a client (`acl`), and its connection (the server).

#![forbid(unsafe_code)]

mod attack_log;
mod balance;
mod commands;
mod connections;
mod dealing;
mod descriptors;
mod error;
mod giving_way;
mod invalid;
mod listeners;
mod moves;
mod refusal;
mod registry;
pub mod session;
mod sizes;
mod tls_keeper;
mod watchlist;
mod workload;

use crate::session::{Finish, Session, Subject};
use ::acl::Users;
use config::Settings;
use engine::{CommandResult, HostFn};

pub use attack_log::AttackLog;
pub use balance::{Balance, Load, Order, choose};
pub use commands::{ENTRIES, line, stop_tracking};
pub use connections::Connections;
pub use dealing::Dealer;
pub use descriptors::{lower_maxclients, make_room};
pub use error::Error;
pub use giving_way::{GivingWay, LeftOver};
pub use invalid::Invalid;
pub use listeners::{ADDRESS_COUNT_MAX, Entrance, Listeners, Listening, kinds, listening};
pub use moves::{Mover, Moves, Whereabouts};
pub use refusal::refusal;
pub use registry::Registry;
pub use sizes::Sizes;
pub use tls_keeper::{Admission, Former, TlsKeeper, greet};
pub use watchlist::{Verdict, Watchlist};
pub use workload::Workload;

/// The thread that runs the commands of this crate.
pub trait Door {
    /// The client whose command runs.
    fn session(&mut self) -> &mut Session;

    /// To be called after the client has changed its name or library.
    fn note_label(&mut self) {
        let registry = self.server().registry;
        registry.note_label(self.session());
    }

    /// The state that all threads share.
    fn server(&self) -> Server;

    /// Asks all threads on behalf of the client. When all have answered, `finish` writes the reply.
    fn ask(&mut self, subject: &Subject, finish: Finish);

    /// Authenticates the client as a user. A failure is counted and logged, with the command's arguments.
    fn authenticate(&mut self, user: &[u8], password: &[u8], args: &[&[u8]]) -> CommandResult;

    /// The line of `CLIENT INFO` about the client. `args`: the arguments of its command, or of the one that its script
    /// runs.
    fn current_line(&self, args: &[&[u8]]) -> String;
}

/// State of all clients that the threads share.
#[derive(Clone, Copy)]
pub struct Server {
    /// All users.
    pub users: &'static Users,
    /// The current settings.
    pub settings: &'static Settings,
    /// The thread and connection of each client.
    pub registry: &'static Registry,
    /// Patterns with their subscribers, and the number of clients that track keys.
    pub directory: &'static pubsub::Directory,
    /// The version of Redis that the server reports to clients.
    pub redis_version: &'static str,
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The function of a command of this crate.
pub type Function = HostFn<dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The implementation of a command of this crate.
type Run = engine::Run<Function>;
