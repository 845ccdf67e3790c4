//! QUEUE: what there is to be seen of queues, and done to them.

mod info;
mod list;
mod pause;

use command::{Acl, CommandResult, Group};

use crate::{Ctx, Entry, Run};

/// The commands of this crate.
pub const ENTRIES: &[Entry] = &[QUEUE];

const QUEUE: Entry = Entry {
    name: "queue",
    summary: "A container for commands on queues.",
    complexity: "Depends on subcommand.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -2,
    acl: &[Acl::Queue],
    run: Run::Container,
    subcommands: &[HELP, info::INFO, list::LIST, pause::PAUSE, pause::RESUME],
    ..Entry::DEFAULT
};

const HELP: Entry = Entry {
    since: "7.2.0",
    group: Group::Queue,
    acl: &[Acl::Queue],
    run: Run::Function(help),
    ..Entry::HELP
};

fn help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "INFO <queue>",
        "    Show rates, waiting times, who waits and what lies beside the queue.",
        "LIST [MATCH <pattern>] [SYSTEM <name>]",
        "    List the queues of the database.",
        "PAUSE <queue> [<queue> ...]",
        "    Have whoever takes from the queues find them empty.",
        "RESUME <queue> [<queue> ...]",
        "    Let the elements of the queues be taken again.",
    ])
}
