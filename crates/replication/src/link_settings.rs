//! The settings of the link to the primary.

use config::{MASTERAUTH, MASTERUSER, REPL_TIMEOUT, REPLICA_ANNOUNCE_IP, REPLICA_ANNOUNCE_PORT, Settings};
use resp::Limits;

use crate::link::Credentials;
use crate::notices::listening_port;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// `masteruser` and `masterauth`.
    pub credentials: Option<Credentials>,
    /// The port that the primary shows for this replica.
    pub port: u16,
    /// The address that the primary shows for it.
    pub address: Option<String>,
    /// The silence after which the link ends.
    pub timeout_ms: u64,
    /// Limit of the stream that waits while a snapshot is loaded: as much as a primary keeps for a replica.
    pub unloaded_bytes_max: u64,
    /// Limits of the commands in the stream.
    pub limits: Limits,
}

impl LinkSettings {
    /// The current settings.
    pub fn of(settings: &Settings) -> LinkSettings {
        let text = |id| Some(settings.text(id).to_string()).filter(|text| !text.is_empty());
        let announced = settings.number(REPLICA_ANNOUNCE_PORT);
        let port = if announced > 0 { announced as u16 } else { listening_port(settings) };
        LinkSettings {
            credentials: text(MASTERAUTH).map(|password| Credentials { user: text(MASTERUSER), password }),
            port,
            address: text(REPLICA_ANNOUNCE_IP),
            timeout_ms: settings.number(REPL_TIMEOUT) as u64 * 1000,
            unloaded_bytes_max: crate::Limits::of(settings).bytes_max,
            // This server must accept whatever its primary has accepted.
            limits: Limits { bulk_bytes_max: resp::BULK_BYTES_LIMIT, ..settings.request_limits(true) },
        }
    }
}
