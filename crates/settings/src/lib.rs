//! Every setting of the server, declared once, and the values that the server was started with.
//!
//! `table.rs` declares them; the crate `config` reads, stores, changes and writes their values. Reading a number costs
//! one load of an atomic. Values that parts of the server read often, or in a form of their own, have typed methods of
//! [`Settings`].
//!
//! ```text
//!   files, command line ──▶ Settings::read ─┬▶ Settings      number(ID), text(ID); data_config(), output_limit() …
//!                                           └▶ Found         users, renamed commands, directives without effect, errors
//!   CONFIG SET          ──▶ Settings::change ─▶ Changed      the server carries out its consequences, or undoes it
//! ```
//!
//! Not here: the mechanism (`config`), and the consequences of a change (`server/control/consequences.rs`).

#![forbid(unsafe_code)]

mod consequence;
mod error;
mod found;
mod help;
mod ignored;
mod special;
mod table;
mod values;

pub use consequence::Consequence;
pub use error::Error;
pub use found::{Found, Rename};
pub use help::help;
pub use special::{OutputLimit, SHUTDOWN_FORCE, SHUTDOWN_NOSAVE, SHUTDOWN_NOW, SHUTDOWN_SAVE};
pub use table::*;
pub use values::{EntryMode, Settings};
