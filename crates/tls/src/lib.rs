//! TLS with rustls: settings, certificates, and the codec of a connection.
//!
//! ```text
//!   Options ──▶ Identity::read ──▶ server_config / client_config ──▶ Secured, a codec of `proactor`
//!               the only I/O:       what rustls does not offer is      one session each
//!               certificates, keys  refused by name
//! ```
//!
//! Invariants: a configuration is created completely or not at all; a session keeps the configuration that it
//! started with, so new certificates disconnect no client. Only rustls (validity of certificates)
//! and [`Options`]' session cache read a clock, and only the keeper has a thread.
//!
//! A server keeps its configuration in a [`TlsKeeper`], which reads the files again when they change.
//!
//! Not here: the settings, and who is accepted (crate `clients`).

#![forbid(unsafe_code)]

/// The library that encrypts and signs.
#[cfg(not(quick))]
use rustls::crypto::aws_lc_rs as library;
#[cfg(quick)]
use rustls::crypto::ring as library;

mod encrypted;
mod error;
mod files;
mod keeper;
mod options;
mod resumption;
mod secured;
mod sides;
mod suites;
mod trust;

pub use error::Error;
pub use files::Identity;
pub use keeper::{Admission, Former, TlsKeeper, WantedTls};
pub use options::{Authentication, Caching, Options};
pub use secured::{Handshake, Handshakes, Secured, common_name, name_in_log};
pub use sides::{client_config, named_client_config, server_config};
