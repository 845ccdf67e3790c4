//! Manages all clients of a server.
//!
//! | files | purpose |
//! |---|---|
//! | `session/` | one client: its state, and what its command is doing |
//! | `caller.rs` | the client whose command runs |
//! | `listeners.rs`, `dealing.rs` | listen, and assign connections to threads |
//! | `registry.rs`, `descriptors.rs` | their ids, names and number |
//! | `connections.rs` | those of one thread |
//! | `timeouts.rs` | when blocked clients time out |
//! | `tls_settings.rs` | what the settings say about TLS |
//! | `workload.rs`, `balance.rs`, `moves.rs`, `giving_way.rs` | balance connections over threads |
//! | `watchlist.rs`, `sizes.rs` | limits on what clients use |
//! | `commands/` | CLIENT, AUTH and HELLO |
//!
//! Nothing here depends on a thread. The commands work with the client whose command runs ([`Caller`]). The other parts
//! belong to a thread or are shared by all, and get their input as arguments.
//!
//! A connection moves between two commands, or while its command blocks. A client that does not read its replies in time
//! stays. So do subscribers, clients that track keys, monitors, replicas and the primary, because other threads know
//! where they are.
//!
//! Not here: the rights of a client (`acl`), and its connection (the server).

#![forbid(unsafe_code)]

mod attack_log;
mod balance;
mod caller;
mod commands;
mod connections;
mod dealing;
mod descriptors;
mod error;
mod giving_way;
mod invalid;
mod listeners;
mod moves;
mod notices;
mod refusal;
mod registry;
pub mod session;
mod sizes;
mod timeouts;
mod tls_settings;
mod watchlist;
mod workload;

use engine::CommandResult;

pub use attack_log::AttackLog;
pub use balance::{Balance, Load, Order, choose};
pub use caller::{Caller, Server};
pub use commands::{ENTRIES, line, stop_tracking};
pub use connections::Connections;
pub use dealing::Dealer;
pub use descriptors::{lower_maxclients, make_room};
pub use error::Error;
pub use giving_way::{GivingWay, LeftOver};
pub use invalid::Invalid;
pub use listeners::{ADDRESS_COUNT_MAX, Entrance, Listeners, Listening, kinds, listening};
pub use moves::{FORMER_NAMES_MAX, Mover, Moves, Whereabouts, may_go};
pub use notices::{HandoverFate, Notified, REDIRECT, fate_at_handover, notify};
pub use refusal::refusal;
pub use registry::Registry;
pub use sizes::Sizes;
pub use timeouts::{Alarm, Timeouts};
pub use tls_settings::{greet, wanted_tls};
pub use watchlist::{Verdict, Watchlist};
pub use workload::Workload;

/// A call of a command of this crate.
pub type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, Caller<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The way a command of this crate runs.
type Run = engine::Run<Function>;
