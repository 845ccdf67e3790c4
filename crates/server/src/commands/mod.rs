//! The commands of the server itself: sessions, transactions, administration.

use command::{CommandError, Entry};
use resp::Reply;

mod authentication;
mod catalog;
mod client;
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
        authentication::ENTRIES,
        catalog::ENTRIES,
        client::ENTRIES,
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

/// Answers `<container> HELP`.
fn write_help(reply: &mut Reply<'_>, container: &str, lines: &[&str]) {
    reply.array(lines.len() + 3);
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines {
        reply.simple(line);
    }
    reply.simple("HELP");
    reply.simple("    Prints this help.");
}

/// The error of a subcommand with arguments that it cannot have.
fn subcommand_error(args: &[&[u8]]) -> CommandError {
    let container = String::from_utf8_lossy(args[0]).to_uppercase();
    let sub = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]).into_owned();
    CommandError::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try {container} HELP."
    ))
}
