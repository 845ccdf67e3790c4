//! One client: what the server knows of it, and what its command is doing.
//!
//! Every state of a command, every way from one to another and who causes it is a table in `state.rs`, which alone changes the
//! state and asserts that table.
//!
//! Not here: connections, threads, and whoever causes what (`server`, `life/`).

#![forbid(unsafe_code)]

mod parser;
mod question;
mod session;
mod state;
mod transaction;

pub use parser::{Parser, Protocol};
pub use question::{Answer, Class, Filter, Listed, Question, Request, Subject};
pub use session::{Aside, OutputClass, ReplyMode, Session, Watching};
pub use state::{Finish, Gathering, Part, Postponed, Retry, State, SyncWait, Wait};
pub use transaction::{Executing, Multi};
