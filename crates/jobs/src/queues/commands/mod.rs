//! QUEUE: the commands that show and change queues.
//!
//! | file | commands |
//! |---|---|
//! | `find` | QUEUE FIND |
//! | `info` | QUEUE INFO |
//! | `limit` | QUEUE LIMIT |
//! | `list` | QUEUE LIST |
//! | `moving` | QUEUE MOVE |
//! | `pause` | QUEUE PAUSE, QUEUE RESUME |
//! | `peek` | QUEUE PEEK |
//! | `promote` | QUEUE PROMOTE |
//! | `remove` | QUEUE REMOVE |

mod find;
mod info;
mod limit;
mod list;
mod moving;
mod pause;
mod peek;
pub(crate) mod promote;
mod remove;

use engine::{Acl, Begin, CommandError, CommandResult, Find, Group, KeyFlag, KeySpec, Shape};
use keyspace::Kind;

use crate::queues::slices::{Found, Position};
use crate::queues::{Ctx, Entry, Run};

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
    subcommands: &[
        find::FIND,
        HELP,
        info::INFO,
        limit::LIMIT,
        list::LIST,
        moving::MOVE,
        pause::PAUSE,
        peek::PEEK,
        promote::PROMOTE,
        remove::REMOVE,
        pause::RESUME,
    ],
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
        "FIND <queue> TEXT <text>|ID <id> [CURSOR <cursor>] [COUNT <count>]",
        "    Find elements, newest first. Returns a cursor, 0 at the end, and positions and payloads.",
        "INFO <queue>",
        "    Show rates, waiting times, who waits and what lies beside the queue.",
        "LIMIT <queue> [[RATE <count> PER <window-ms>] [ACTIVE <count>] [PER GROUP <count>]|OFF]",
        "    Limit what is taken from the queue, or show its limits.",
        "LIST [MATCH <pattern>] [SYSTEM <name>]",
        "    List the queues of the database.",
        "MOVE <from> <to> [COUNT <count>] [TEXT <text>]",
        "    Move elements, oldest first. Returns how many.",
        "PAUSE <queue> [<queue> ...]",
        "    Make the queues look empty to whatever takes from them.",
        "PEEK <queue> [COUNT <count>]",
        "    Show the elements that workers will take next.",
        "PROMOTE <name> FROM <set> TO <queue> [SADD <queues>] [STAMP <member>]|LIST|DEL <name>",
        "    Have due jobs of a sorted set join their queues by themselves.",
        "REMOVE <queue> TEXT <text>|ID <id> [COUNT <count>]",
        "    Remove elements, oldest first. Returns how many.",
        "RESUME <queue> [<queue> ...]",
        "    Let elements of the queues be taken again.",
    ])
}

/// Jobs in a stream have ids and groups: the commands for streams apply.
const IS_STREAM: CommandError = CommandError::fixed(
    "WRONGTYPE Operation against a stream: XRANGE finds its entries, XINFO and XPENDING tell of its groups, XDEL removes entries",
);

/// The error for a key of this type, which holds no jobs that can be searched.
pub(crate) fn wrong_type(kind: Kind) -> CommandError {
    if kind == Kind::Stream { IS_STREAM } else { CommandError::WRONG_TYPE }
}

/// The keys that a job system has beside its jobs. The command learns them from the content of the queue.
const BESIDE: KeySpec = KeySpec {
    flags: &[KeyFlag::RW, KeyFlag::Update, KeyFlag::Incomplete],
    begin: Begin::Unknown,
    find: Find::Unknown,
    notes: "What a job system keeps of a job beside its queue",
};

/// The number of elements returned by default.
const COUNT_DEFAULT: usize = 10;

/// Positions and payloads.
const FOUND: Shape =
    Shape::Array(&Shape::Tuple(&[Shape::OneOf(&[Shape::Int, Shape::Double, Shape::Bulk]), Shape::Bulk]));

fn parse_count(arg: &[u8]) -> Result<usize, CommandError> {
    let count = engine::parse_count(arg).ok().filter(|count| *count > 0);
    count.ok_or_else(|| CommandError::new("ERR count should be greater than 0"))
}

fn reply_found(ctx: &mut Ctx, found: &[Found]) {
    ctx.reply.array(found.len());
    for Found { position, payload } in found {
        ctx.reply.array(2);
        match position {
            Position::Index(index) => ctx.reply.int(*index),
            Position::Score(score) => ctx.reply.double(*score),
        }
        ctx.reply.bulk(payload);
    }
}
