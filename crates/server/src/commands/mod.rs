//! The commands of the server itself: sessions, transactions, administration.

use command::{CommandError, Entry, Table};
use resp::memcached::Verb;

mod acl;
mod authentication;
mod catalog;
mod client;
mod cluster;
mod config;
mod connection;
mod debug;
pub(crate) mod function;
mod info;
mod latency;
mod memcached;
mod memory;
pub(crate) mod migrate;
mod module;
mod monitor;
mod pubsub;
mod replication;
mod scripting;
mod server;
mod slowlog;
mod transactions;

/// All families of commands of this server.
pub(crate) fn families() -> Vec<&'static [Entry]> {
    let mut families = commands::FAMILIES.to_vec();
    families.extend([
        acl::ENTRIES,
        authentication::ENTRIES,
        catalog::ENTRIES,
        client::ENTRIES,
        cluster::ENTRIES,
        config::ENTRIES,
        connection::ENTRIES,
        debug::ENTRIES,
        function::ENTRIES,
        info::ENTRIES,
        latency::ENTRIES,
        memory::ENTRIES,
        migrate::ENTRIES,
        module::ENTRIES,
        monitor::ENTRIES,
        pubsub::ENTRIES,
        replication::ENTRIES,
        scripting::ENTRIES,
        server::ENTRIES,
        slowlog::ENTRIES,
        transactions::ENTRIES,
    ]);
    families
}

/// All commands of this server, those of memcached's protocol included: each at the number of its verb.
pub(crate) fn table() -> Table {
    let container = Entry { name: "memcached", ..Entry::DEFAULT };
    let of_data = |verb: &Verb| commands::memcached::entry(*verb);
    let entries = Verb::ALL.iter().map(|verb| of_data(verb).unwrap_or_else(|| memcached::entry(*verb)));
    Table::new(&families()).with_protocol(&container, entries)
}

/// The error of a subcommand with arguments that it cannot have.
fn subcommand_error(args: &[&[u8]]) -> CommandError {
    command::subcommand_error("ERR unknown subcommand or wrong number of arguments for '", args)
}

/// The error of a command that a setting of the start protects.
fn not_allowed(command: &str, setting: &str) -> CommandError {
    CommandError::new(format!(
        "ERR {command} command not allowed. If the {setting} option is set to \"local\", you can run it from a local \
         connection, otherwise you need to set this option in the configuration file, and then restart the server."
    ))
}
