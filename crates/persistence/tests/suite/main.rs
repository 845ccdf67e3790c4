//! Saving and loading without a server.
#![expect(clippy::disallowed_types, reason = "tests have threads")]

mod checks;
mod hostile_append_only;
mod loading;
mod recovery;
mod spool;
