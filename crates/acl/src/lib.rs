//! Access control: users, what they may do, the user that each client acts as, and the log of denied commands.
//!
//! ```text
//!   rules ──▶ user.rs: on, passwords, selectors ──▶ selector.rs: commands, keys, channels
//!   user  ──▶ describe.rs: the rules that make it, as ACL LIST and the ACL file have them
//!
//!   settings, lines of the configuration (declare.rs), text of the ACL file (file.rs), ACL SETUSER
//!     └──▶ users.rs: all accounts ──▶ access.rs: as whom a client acts
//!                                       └──▶ check.rs: does one of the selectors allow all of its call?
//!                                              └──▶ denial_log.rs: what none of them allowed
//!   wrong passwords ──▶ throttle.rs: how many from one address are looked at
//! ```
//!
//! The commands (`commands/`) work on these. [`UserAdministration`] is what they work with. The ACL file is
//! on a disk that is passed in (`storage.rs`).
//!
//! [`Users`] are created from a [`Grammar`] (the table of commands, and what new users may do) and changed by rules and
//! by texts. Each client holds an [`Access`], which checks its calls. The caller adds denials to the log, with the time
//! and what it knows about the client.
//!
//! A user is an immutable value: changing one creates another. Each selector keeps its rules about commands, in order,
//! beside the resulting set of commands, because the rules are what is shown.
//!
//! Invariants: no I/O except on that disk, and no clock; a call of a client without restrictions takes no lock
//! ([`Access::needs_check`]).
//!
//! Not here: AUTH and HELLO (`clients/commands/authentication.rs`), what a change of users means for clients, and settings
//! (`server`).

#![forbid(unsafe_code)]

mod access;
mod administration;
mod check;
mod commands;
mod declare;
mod denial_log;
mod describe;
mod file;
mod password;
mod rule_error;
mod seat;
mod selector;
mod storage;
mod throttle;
mod user;
mod users;

pub use access::{Access, Lack, TOO_MANY_PASSWORDS, WRONG_PASSWORD};
pub use administration::UserAdministration;
pub use check::{CallerDb, Denied, Reason};
pub use commands::{ENTRIES, Entry, Function};
pub use declare::{BadUser, UserLine};
pub use denial_log::{Context, Denial, DenialLog, LogEntry};
pub use file::parse_file;
pub use password::PasswordHash;
pub use rule_error::RuleError;
pub use seat::Seat;
pub use selector::Selector;
pub use storage::Storage;
pub use throttle::{Origin, THROTTLE_S, Throttle};
pub use user::{Grammar, User, has_spaces, merge_selectors};
pub use users::{Account, DEFAULT, Latest, Users};
