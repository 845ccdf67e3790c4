//! The commands of the server itself: sessions, transactions, administration.

use command::Entry;

mod connection;
mod scripting;
mod transactions;

/// All families of commands of this server.
pub(crate) fn families() -> Vec<&'static [Entry]> {
    let mut families = commands::FAMILIES.to_vec();
    families.extend([connection::ENTRIES, scripting::ENTRIES, transactions::ENTRIES]);
    families
}
