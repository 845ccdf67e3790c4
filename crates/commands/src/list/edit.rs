//! The commands that change a list in the middle, and LTRIM.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer,
    key, keyword_is, oneof, parse_i64, string, token,
};
use keyspace::List;

use crate::index_range::index_range;

pub(super) const LSET: Entry = Entry {
    name: "lset",
    summary: "Sets the value of an element in a list by its index.",
    complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list \
            is O(1).",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: &[Write, DenyOom],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), integer("index"), string("element")],
    reply: Shape::OK,
    run: Run::Function(lset),
    ..Entry::DEFAULT
};

fn lset(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let list = ctx.store.write_as::<List>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    if !list.set(parse_i64(ctx.args[2])?, ctx.args[3]) {
        return Err(CommandError::INDEX_OUT_OF_RANGE);
    }
    ctx.changed(key, Change::new(Class::List, "lset"));
    ctx.reply.ok();
    Ok(())
}

pub(super) const LINSERT: Entry = Entry {
    name: "linsert",
    summary: "Inserts an element before or after another element in a list.",
    complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means \
            that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting \
            somewhere on the right end (tail) is O(N).",
    since: "2.2.0",
    group: Group::List,
    arity: 5,
    flags: &[Write, DenyOom],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[
        key("key", 0),
        oneof("where", &[token("before", "BEFORE"), token("after", "AFTER")]),
        string("pivot"),
        string("element"),
    ],
    reply: Shape::Int,
    run: Run::Function(linsert),
    ..Entry::DEFAULT
};

fn linsert(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let before = if keyword_is(ctx.args[2], "before") {
        true
    } else if keyword_is(ctx.args[2], "after") {
        false
    } else {
        return Err(CommandError::SYNTAX);
    };
    let mut pace = Pace::new(ctx.host);
    let Some(list) = ctx.store.write_as::<List>(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    match list.insert_relative(ctx.args[3], before, ctx.args[4], |count| pace.steps(count)) {
        None => ctx.reply.int(-1),
        Some(len) => {
            ctx.note_grown(key);
            ctx.changed(key, Change::new(Class::List, "linsert"));
            ctx.reply.int(len as i64);
        }
    }
    Ok(())
}

pub(super) const LREM: Entry = Entry {
    name: "lrem",
    summary: "Removes elements from a list. Deletes the list if the last element was removed.",
    complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: &[Write],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), integer("count"), string("element")],
    reply: Shape::Int,
    run: Run::Function(lrem),
    ..Entry::DEFAULT
};

fn lrem(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let count = parse_i64(ctx.args[2])?;
    let mut pace = Pace::new(ctx.host);
    let list = ctx.store.write_as::<List>(key)?;
    let removed = list.map_or(0, |list| list.remove_matching(count, ctx.args[3], |count| pace.steps(count)));
    if removed > 0 {
        ctx.changed(key, Change::new(Class::List, "lrem").times(removed));
        ctx.store.delete_if_empty(key);
    }
    ctx.reply.int(removed as i64);
    Ok(())
}

pub(super) const LTRIM: Entry = Entry {
    name: "ltrim",
    summary: "Removes elements from both ends a list. Deletes the list if all elements were trimmed.",
    complexity: "O(N) where N is the number of elements to be removed by the operation.",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: &[Write],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), integer("start"), integer("stop")],
    reply: Shape::OK,
    run: Run::Function(ltrim),
    ..Entry::DEFAULT
};

fn ltrim(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let (start, stop) = (parse_i64(ctx.args[2])?, parse_i64(ctx.args[3])?);
    if let Some(list) = ctx.store.write_as::<List>(key)? {
        let len = list.len();
        let range = index_range(start, stop, len);
        list.trim(range.start, range.len());
        // Redis announces this even if the whole list stays.
        let change = Change::new(Class::List, "ltrim").times(len - range.len());
        if range.len() < len {
            ctx.changed(key, change);
        } else {
            ctx.store.also_changed(key, change);
        }
        ctx.store.delete_if_empty(key);
    }
    ctx.reply.ok();
    Ok(())
}
