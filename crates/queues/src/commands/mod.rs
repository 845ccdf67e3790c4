//! QUEUE: what there is to be seen of queues, and done to them.

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
    subcommands: &[HELP],
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
    ctx.help(&[])
}
