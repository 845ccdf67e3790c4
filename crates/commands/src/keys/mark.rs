//! DARTER.MARK: the effect that attaches the marks of memcached's protocol to an item.
//!
//! Redis' protocol has no command for flags and cas numbers. Without them in the journal, clients of
//! memcached's protocol would get back other values than they stored, because libraries use the flags for a
//! value's encoding.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, key, string};
use keyspace::Marks;

pub(super) const DARTER_MARK: Entry = Entry {
    name: "darter.mark",
    summary: "Sets the flags and the cas number that clients of memcached's protocol see.",
    since: "",
    group: Group::Generic,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::Keyspace, Acl::Dangerous],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), string("marks")],
    reply: Shape::Int,
    note: "Internal to Darter, for its journal and replicas; `marks` are `flags [cas [state]]`",
    run: Run::Function(darter_mark),
    ..Entry::DEFAULT
};

fn darter_mark(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let marks = Marks::from_text(ctx.args[2]).ok_or(CommandError::fixed("ERR invalid marks"))?;
    let is_there = ctx.store.write(key).is_some();
    if is_there {
        ctx.store.set_marks(key, marks);
        ctx.changed(key, Change::UNNAMED);
    }
    ctx.reply.int(is_there.into());
    Ok(())
}
