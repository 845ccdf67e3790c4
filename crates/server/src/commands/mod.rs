//! The commands of the server itself: sessions, transactions, administration.

use command::{CommandError, Entry};

mod acl;
mod authentication;
mod catalog;
mod client;
mod cluster;
mod config;
mod connection;
mod debug;
mod info;
mod latency;
mod memory;
mod monitor;
mod pubsub;
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
        info::ENTRIES,
        latency::ENTRIES,
        memory::ENTRIES,
        monitor::ENTRIES,
        pubsub::ENTRIES,
        scripting::ENTRIES,
        server::ENTRIES,
        slowlog::ENTRIES,
        transactions::ENTRIES,
    ]);
    families
}

/// The error of a subcommand with arguments that it cannot have.
fn subcommand_error(args: &[&[u8]]) -> CommandError {
    command::subcommand_error("ERR unknown subcommand or wrong number of arguments for '", args)
}
