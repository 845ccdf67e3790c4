//! The mechanism of settings, as in `redis.conf` and `CONFIG`, without any setting.
//!
//! The owner of a table, the server, gives and gets:
//!
//! ```text
//!   Table { settings, foreign, groups, others }           declared once, in constants; E: the consequence of a change
//!   Invocation::parse(table, args)       ─▶ help, version, work on a folder, or arguments that lead to a configuration
//!   arguments.note_environment(vars)     ─▶ variables count as well
//!   arguments.read(table)                ─▶ directives: files, what they include, the environment, the command line last
//!   Values::new(table)                   ─▶ the defaults
//!   values.apply(directives, other)      ─▶ directives without effect, and errors; other directives go to `other`
//!   values.number(id), is_on, text       ─▶ an atomic for the hot path; a text for CONFIG GET
//!   values.change(pairs), undo           ─▶ CONFIG SET: changes all or none, names them, undoes them
//!   values.rewritten(old, name, lines)   ─▶ CONFIG REWRITE: the text of the file with the present values
//!   table.flags(), page()                ─▶ --help, docs/settings.md
//! ```
//!
//! Not here: the settings themselves, typed access to them, and the consequences of a change.

#![forbid(unsafe_code)]

mod argument;
mod command_line;
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
mod source;
mod table;
mod values;

pub use command_line::{Arguments, Configuration, Invocation};
pub use environment::ENVIRONMENT_PREFIX;
pub use error::{Error, Refusal, shown};
pub use folder_task::{Export, FolderTask};
pub use foreign::Foreign;
pub use kind::{Read, SettingKind, Special, Value, memory_bytes};
pub use merge::{Found, WithoutEffect};
pub use schedule::{Schedule, Zone};
pub use secret_arguments::secret_arguments;
pub use setting::{Change, Id, Setting};
pub use source::{Directive, directives};
pub use table::Table;
pub use values::{Changed, Values};
