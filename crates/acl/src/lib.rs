//! Access control: users, and what they may do.
//!
//! ```text
//!   rules ──▶ user.rs: on, passwords, selectors ──▶ selector.rs: commands, keys, channels
//!   call  ──▶ check.rs: does one of the selectors allow all of it?
//!   user  ──▶ describe.rs: the rules that make it, as ACL LIST and the ACL file have them ──▶ file.rs
//! ```
//!
//! A user is a value without ties to anything: changing one makes another. Of every selector the rules about commands are
//! kept beside the set of commands that follows from them, in their order, because that is how they are shown.
//!
//! Not here: who is authenticated as whom, the log, and where files lie (`server::users`).

mod check;
mod describe;
mod file;
mod password;
mod rule_error;
mod selector;
mod user;

pub use check::{Denied, Reason};
pub use file::parse_file;
pub use password::PasswordHash;
pub use rule_error::RuleError;
pub use selector::Selector;
pub use user::{Grammar, User, has_spaces, merge_selectors};
