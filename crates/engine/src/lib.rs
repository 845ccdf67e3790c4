//! Defines what a command is: its declaration, its function, and the store that the function sees.
//!
//! A command is one [`Entry`] (its declaration, from which everything about it is derived) and, below it, one function
//! `fn(&mut Ctx) -> CommandResult`. The function is plain single-threaded code: the shards of its keys were entered
//! before it starts, and it sees them as one store through [`Ctx`].
//!
//! Invariants: no system call, no clock, no lock in this crate or in the function of a data command.
//!
//! Not here: the commands themselves (`commands`, `scripting`, `server` and others), and how a thread enters the shards
//! before a command runs (`server`, `life/dispatch.rs`).

#![forbid(unsafe_code)]

mod arg;
mod args;
mod change;
mod ctx;
pub mod dump;
mod entry;
mod error;
mod garbage;
mod key_spec;
mod key_use;
mod list_end;
mod local;
#[doc(hidden)]
pub mod mutant;
mod own;
mod pace;
mod parse;
mod route;
mod run;
mod secrets;
mod shape;
mod store;
mod table;
mod take_or_wait;
mod task;
mod tx;

pub use arg::{Arg, ArgKind, block, double, integer, key, oneof, pattern, string, token, unix_time};
pub use args::{ArgSlices, OwnedArgs};
pub use change::Change;
pub use ctx::{CommandFn, Ctx, Entry, Host, HostFn, OwnCall};
pub use entry::{Acl, Callee, Channels, Flag, Group, KeyFlagsOf, Mode, Route, Rule, Run};
pub use error::{CommandError, CommandResult};
pub use garbage::Garbage;
pub use key_spec::{Begin, Find, KeyFlag, KeyRef, KeySpec, UP_TO_WORD};
pub use key_use::{KeyUse, Keys};
pub use keyspace::Class;
pub use list_end::{end_word, pop_command, pop_event, push_command, push_event};
pub use local::{Local, OwnedEffect, function_of};
pub use own::OwnFunctions;
pub use pace::Pace;
pub use parse::{
    keyword_is, parse_count, parse_cursor, parse_f64, parse_i64, parse_timeout_in_ms,
    parse_timeout_in_seconds,
};
pub use route::{Cursor, Needs};
pub use secrets::{SecretOption, Secrets};
pub use shape::Shape;
pub use store::Store;
pub use store::exchange::{content, has_stream, ready_after, replace_dbs};
pub use store::lookup::{note_beside, note_place, peek_into, peek_shown, upsert_in_place};
pub use store::queues::observer::{note_added, note_pushed, note_put_back};
pub use store::queues::room::Room;
pub use store::queues::taking::{Gate, Removed, Taking, is_closed, room, take_from};
pub use store::queues::{
    are_any_promoted, beside, is_paused, know_jobs, note_deep_list, note_promoted, pause,
};
pub use store::storing::got_room;
pub use table::{Command, CommandId, Rates, Table, subcommand_error};
pub use take_or_wait::{TakeOrWait, Took};
pub use task::{
    BlockOn, Blocked, Client, DueAt, Finds, Forget, Handoff, HandoffPool, IdleWaits, IsServed, JobsDue,
    JobsNews, Medium, Outcome, Published, Receiver, Restore, SOON_MS, Serve, ServedAt, Suffices, Task,
    Ticket, TxMessage, Wait, When, Work,
};
pub use tx::{Due, Located, Tx};

/// The shards of this store.
pub type Shards = shard::Shards<Task, Wait>;
/// One shard of this store.
pub type Shard = shard::Shard<Wait>;
