//! One client: what the server knows of it, and what its command is doing.
//!
//! Every state of a command, every way from one to another and who causes it is a table in `state.rs`, which alone changes the
//! state and asserts that table.
//!
//! Beside it stand what holds up all clients of a thread for a time (`pause.rs`), and what the messages about clients are made of (`stock.rs`).
//!
//! Not here: connections, threads, and whoever causes what (`server`, `life/`).

#![forbid(unsafe_code)]

mod parser;
mod pause;
mod question;
mod session;
mod state;
mod stock;
mod transaction;

pub use parser::{Parser, Protocol};
pub use pause::Pausing;
pub use question::{Answer, Class, Filter, Listed, Question, Request, Subject};
pub use session::{Aside, OutputClass, ReplyMode, Session, Watching};
pub use state::{Finish, Gathering, Part, Postponed, Retry, State, SyncWait, Wait};
pub use stock::{Emptied, Stock};
pub use transaction::{Executing, Multi};
