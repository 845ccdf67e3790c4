//! Settings, as in `redis.conf` and `CONFIG`: `settings/` declares each of them once, everything else is the mechanism,
//! which knows none of them.
//!
//! ```text
//!   Invocation::parse(table, args)   ─▶ help, version, work on a folder, or arguments that lead to a configuration
//!   arguments.note_environment(vars) ─▶ variables count as well
//!   Settings::read(arguments)        ─┬▶ Settings: number(ID), text(ID); data_config(), output_limit() …
//!                                     └▶ Found:    users, renamed commands, directives without effect, errors
//!   settings.change(pairs), undo     ─▶ CONFIG SET: changes all or none, names them, undoes them; the server carries out
//!                                       their consequences
//!   settings.rewritten(old, …)       ─▶ CONFIG REWRITE: the text of the file with the present values
//!   TABLE.flags(), page()            ─▶ --help, docs/settings.md
//! ```
//!
//! The mechanism: a [`Table`] of [`Setting`]s; `source.rs` reads directives from files and what they include;
//! `merge.rs` applies them, the command line last; `values.rs` holds the values, an atomic number for the hot path and a
//! text for CONFIG GET.
//!
//! Not here: the command CONFIG (`ops/configuring.rs`), and the consequences of a change
//! (`server/ops/consequences.rs`).

#![forbid(unsafe_code)]

mod argument;
mod command_line;
mod consequence;
mod environment;
mod error;
#[cfg(test)]
mod example;
mod folder_task;
mod foreign;
mod help;
mod kind;
mod merge;
mod rewrite;
mod schedule;
mod secret_arguments;
mod setting;
mod settings;
mod source;
mod table;
mod values;

pub use command_line::{Arguments, Configuration, Invocation};
pub use consequence::Consequence;
pub use environment::ENVIRONMENT_PREFIX;
pub use error::{Error, Refusal, shown};
pub use folder_task::{Export, FolderTask};
pub use foreign::Foreign;
pub use kind::{Read, SettingKind, Special, Value, memory_bytes};
pub use merge::{Applied, WithoutEffect};
pub use schedule::{Schedule, Zone};
pub use secret_arguments::secret_arguments;
pub use setting::{Change, Id, Setting};
pub use settings::*;
pub use source::{Directive, directives};
pub use table::Table;
pub use values::{Changed, Values};
