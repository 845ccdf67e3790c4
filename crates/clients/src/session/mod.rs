//! Holds the state of one client, and of its command.
//!
//! `state.rs` has a table of every state of a command, and of every transition with its cause. Only that file changes
//! the state, and it asserts the table. `pause.rs` implements `CLIENT PAUSE`, which pauses all clients of a thread.
//! `pool.rs` keeps the parts of messages about clients for reuse.
//!
//! Not here: connections, threads, and the causes of transitions (`server`, `life/`).

mod client;
mod filter;
mod needs;
mod parser;
mod pause;
mod pool;
mod question;
mod state;
mod transaction;

pub use client::{Aside, OutputClass, ReplyMode, Session, Watching};
pub use filter::{Class, Condition, Filter, flags};
pub use needs::Judge;
pub use parser::{Parser, Protocol};
pub use pause::Pausing;
pub use pool::{Emptied, MessagePool};
pub use question::{Answer, Listed, Question, RequestSize, Subject};
pub use state::{CommandState, Finish, Gathering, Part, Postponed, Retry, SyncWait, Wait};
pub use transaction::{Executing, Multi};
