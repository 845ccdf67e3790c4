//! The users of the server: what `acl` needs of settings and files, and what it means for clients.
//!
//! ```text
//!   ACL SETUSER ─▶ acl::Users has changed ─┬─▶ next command of a client: it has missed a change, looks its account
//!                                          │   up again (`permission.rs`)
//!                                          └─▶ message to all threads: clients that must go, or wait for what they may
//!                                              not have (`departure.rs`)
//! ```
//!
//! Not here: rules, users, what they allow, and the log of what was denied (crate `acl`); the commands
//! (`commands/acl`).

mod departure;
mod files;
mod permission;

use acl::{Grammar, Users};
use command::Table;
use settings::{ACL_PUBSUB_DEFAULT, Settings};

pub(crate) use files::users_at_start;

/// What rules are understood by.
pub(crate) fn grammar<'t>(settings: &Settings, table: &'t Table) -> Grammar<'t> {
    Grammar { table, all_channels: settings.is_on(ACL_PUBSUB_DEFAULT) }
}

/// The default user alone, that nobody has changed.
pub(crate) fn default_users(settings: &Settings, table: &Table) -> Users {
    Users::new(grammar(settings, table), settings.password().as_deref().map(str::as_bytes))
}
