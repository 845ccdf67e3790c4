//! Commands of operators.
//!
//! | file | commands |
//! |---|---|
//! | `configuring.rs` | CONFIG |
//! | `saving.rs` | SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE |
//! | `shutdown.rs` | SHUTDOWN |
//! | `debug.rs`, `module.rs` | DEBUG, MODULE |
//! | `catalog/` | COMMAND, and the page of commands |
//! | `cluster/` | CLUSTER, READONLY, READWRITE, ASKING |
//! | `migrate/` | MIGRATE |
//!
//! The commands, their refusals and their texts are here. The thread that runs them carries them out ([`Door`], and the
//! doors of the folders).
//!
//! Not here: the settings, and how their values change (`config`); FAILOVER and REPLICAOF (`replication`).

#![forbid(unsafe_code)]

pub mod catalog;
pub mod cluster;
mod configuring;
mod debug;
mod door;
pub mod migrate;
mod module;
mod saving;
mod shutdown;
#[cfg(test)]
mod tests;

use config::Id;
use config::{ENABLE_DEBUG_COMMAND, ENABLE_MODULE_COMMAND};
use engine::{Command, CommandError, HostFn};

pub use configuring::change;
pub use door::{Door, Server};

/// The commands of this crate, without those of the folders.
pub const ENTRIES: &[Entry] = &[
    saving::BGREWRITEAOF,
    saving::BGSAVE,
    configuring::CONFIG,
    debug::DEBUG,
    saving::LASTSAVE,
    module::MODULE,
    saving::SAVE,
    shutdown::SHUTDOWN,
];

/// A call of a command of this crate.
type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<HostFn<dyn Door>>;
/// The function that runs a command of this crate.
type Run = engine::Run<HostFn<dyn Door>>;

/// Whether a setting of no, yes and local allows something to the client whose command runs.
fn client_may(door: &mut dyn Door, id: Id) -> bool {
    match door.server().settings.number(id) {
        0 => false,
        1 => true,
        _ => door.is_local(),
    }
}

/// Why a command is refused before it is queued for EXEC: a setting of the start protects it.
pub fn refuses_to_queue(door: &mut dyn Door, command: &Command) -> Option<CommandError> {
    let (name, id, setting) = match &*command.full_name {
        "debug" => ("DEBUG", ENABLE_DEBUG_COMMAND, "enable-debug-command"),
        "module|load" | "module|loadex" | "module|unload" => {
            ("MODULE", ENABLE_MODULE_COMMAND, "enable-module-command")
        }
        _ => return None,
    };
    (!client_may(door, id)).then(|| not_allowed(name, setting))
}

/// The error of something that has failed for this reason.
fn failed(why: String) -> CommandError {
    CommandError::new(format!("ERR {why}"))
}

/// The error of a command that a setting of the start protects.
fn not_allowed(command: &str, setting: &str) -> CommandError {
    CommandError::new(format!(
        "ERR {command} command not allowed. If the {setting} option is set to \"local\", you can run it from a local \
         connection, otherwise you need to set this option in the configuration file, and then restart the server."
    ))
}
