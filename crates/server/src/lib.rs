//! The server: wires all parts together, and runs the threads that serve clients.
//!
//! A command travels through `life/pipeline.rs` (bytes → arguments), `life/dispatch.rs` (which shards; enter, delegate
//! or queue) and its function to the connection's output. If it ran on another thread, its reply comes through
//! `life/homecoming.rs`.

mod background;
mod commands;
mod connections;
mod crash;
mod error;
mod life;
mod memcached;
mod message;
mod messages;
mod ops;
mod replication;
mod reports;
mod scripts;
mod shared;
mod shutdown;
mod simulated;
mod snapshot;
mod start;
mod subscribers;
mod thread;
mod users;
mod version;

pub use ::journal::Step as JournalStep;
pub use ::replication::CopyContent;
pub use persistence::{Spool, SpoolProgress, SpoolState, WriterStep};
pub use simulated::{SimulatedServer, SimulatedThread, simulate};
pub use start::run;

/// All commands of the server, for tests that use their declarations.
pub fn table() -> engine::Table {
    engine::Table::new(&commands::families())
}

#[cfg(test)]
mod tests {
    use config::Invocation;
    use config::{Settings, TABLE};

    /// The settings of a server that is started with these arguments, for tests of its parts.
    pub(crate) fn settings(args: &[&str]) -> Settings {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        match Invocation::parse(&TABLE, &args) {
            Ok(Invocation::Serve(arguments)) => Settings::read(&arguments).expect("they are right").0,
            other => panic!("no command line of a server: {other:?}"),
        }
    }
}
