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
//! The commands, their refusals and their texts are here. The thread that runs them carries them out ([`OperatorTask`]).
//!
//! Not here: the settings, and how their values change (`config`); FAILOVER and REPLICAOF (`replication`).

#![forbid(unsafe_code)]

pub mod catalog;
pub mod cluster;
mod configuring;
mod controls;
mod debug;
pub mod migrate;
mod module;
mod saving;
mod shutdown;
#[cfg(test)]
mod tests;

use config::{ENABLE_DEBUG_COMMAND, ENABLE_MODULE_COMMAND, Id, Settings};
use engine::{Command, CommandError, CommandResult};

pub use configuring::change;
pub use controls::{Controls, Obey, OperatorTask, Server};

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
type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, Controls<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The way a command of this crate runs.
type Run = engine::Run<Function>;

/// Whether a setting of no, yes and local allows something to a client.
fn allows(settings: &Settings, id: Id, is_local: impl FnOnce() -> bool) -> bool {
    match settings.number(id) {
        0 => false,
        1 => true,
        _ => is_local(),
    }
}

/// Why a command is refused before it is queued for EXEC: a setting of the start protects it.
pub fn refuses_to_queue(
    settings: &Settings,
    command: &Command,
    is_local: impl FnOnce() -> bool,
) -> Option<CommandError> {
    let (name, id, setting) = match &*command.full_name {
        "debug" => ("DEBUG", ENABLE_DEBUG_COMMAND, "enable-debug-command"),
        "module|load" | "module|loadex" | "module|unload" => {
            ("MODULE", ENABLE_MODULE_COMMAND, "enable-module-command")
        }
        _ => return None,
    };
    (!allows(settings, id, is_local)).then(|| not_allowed(name, setting))
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
