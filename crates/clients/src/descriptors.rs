//! Makes sure that there are file descriptors for `maxclients` clients.

use config::Value;
use config::{MAXCLIENTS, Settings};
use process::processors::ThreadCount;

use process::system;

/// The file descriptors that the server needs beside those of clients and threads.
const RESERVED_FILES: u64 = 32;
/// The file descriptors that each thread needs.
const FILES_PER_THREAD: u64 = 4;

/// Raises the limit of open files for `maxclients`. Lowers `maxclients` if the system does not allow that many.
pub fn lower_maxclients(settings: &Settings) {
    let wanted = settings.number(MAXCLIENTS) as u64;
    if let Err(possible) = make_room(settings, wanted) {
        tracing::warn!("maxclients is {possible} rather than {wanted}: the system allows no more open files");
        settings.force(MAXCLIENTS, &Value { number: possible as i64, text: possible.to_string() });
    }
}

/// Raises the limit of open files for `clients` clients. The error is the number that is possible.
pub fn make_room(settings: &Settings, clients: u64) -> Result<(), u64> {
    let reserved = RESERVED_FILES + FILES_PER_THREAD * ThreadCount::of(settings).count as u64;
    let limit = system::raise_file_limit(clients.saturating_add(reserved));
    let possible = limit.saturating_sub(reserved).max(1);
    if possible < clients { Err(possible) } else { Ok(()) }
}
