//! The commands on the members of one set, and SMOVE.

use ds::set::{Set, SetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, key, note_added, string,
};

use crate::scan;

pub(super) const SADD: Entry = Entry {
    name: "sadd",
    summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple \
            arguments.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("member").multiple()],
    history: &[("2.4.0", "Accepts multiple `member` arguments.")],
    reply: Shape::Int,
    run: Run::Function(sadd),
    ..Entry::DEFAULT
};

fn sadd(ctx: &mut Ctx) -> CommandResult {
    let (key, members) = (ctx.args[1], &ctx.args[2..]);
    let limits = ctx.store.config().set;
    let mut set = ctx.store.upsert::<Set>(key)?;
    if members.len() > 1 {
        set.expect(members[0], members.len(), &limits);
    }
    let (mut added, mut pace) = (0, Pace::new(ctx.host));
    for member in members {
        added += usize::from(set.insert(member, &limits));
        pace.step();
    }
    drop(set);
    if added > 0 {
        ctx.changed(key, Change::new(Class::Set, "sadd").times(added));
    }
    note_added(&mut ctx.store, key, members);
    ctx.reply.int(added as i64);
    Ok(())
}

pub(super) const SREM: Entry = Entry {
    name: "srem",
    summary: "Removes one or more members from a set. Deletes the set if the last member was removed.",
    complexity: "O(N) where N is the number of members to be removed.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: &[Write, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), string("member").multiple()],
    history: &[("2.4.0", "Accepts multiple `member` arguments.")],
    reply: Shape::Int,
    run: Run::Function(srem),
    ..Entry::DEFAULT
};

fn srem(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let (mut removed, mut pace) = (0, Pace::new(ctx.host));
    if let Some(mut set) = ctx.store.write_as::<Set>(key)? {
        for member in &ctx.args[2..] {
            removed += usize::from(set.remove(member));
            pace.step();
        }
    }
    if removed > 0 {
        ctx.changed(key, Change::new(Class::Set, "srem").times(removed));
        ctx.store.delete_if_empty(key);
    }
    ctx.reply.int(removed as i64);
    Ok(())
}

pub(super) const SMOVE: Entry = Entry {
    name: "smove",
    summary: "Moves a member from one set to another.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Set,
    arity: 4,
    flags: &[Write, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[key("source", 0), key("destination", 1), string("member")],
    reply: Shape::Int,
    run: Run::Function(smove),
    ..Entry::DEFAULT
};

fn smove(ctx: &mut Ctx) -> CommandResult {
    let [_, source, destination, member] = *ctx.args else { unreachable!("the arity says so") };
    let refused = ctx.store.peek_as::<Set>(destination).err();
    let moved = match ctx.store.write_as::<Set>(source)? {
        None => false,
        Some(mut set) => {
            if let Some(error) = refused {
                return Err(error);
            }
            if source == destination { set.lend().contains(member) } else { set.remove(member) }
        }
    };
    if moved && source != destination {
        ctx.store.also_changed(source, Change::new(Class::Set, "srem"));
        ctx.store.delete_if_empty(source);
        let limits = ctx.store.config().set;
        let is_new = ctx.store.upsert::<Set>(destination)?.insert(member, &limits);
        // Only now, because an expired destination is deleted first.
        ctx.changed(destination, if is_new { Change::new(Class::Set, "sadd") } else { Change::NONE });
    }
    ctx.reply.int(moved.into());
    Ok(())
}

pub(super) const SCARD: Entry = Entry {
    name: "scard",
    summary: "Returns the number of members in a set.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Set,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(scard),
    ..Entry::DEFAULT
};

fn scard(ctx: &mut Ctx) -> CommandResult {
    let len = ctx.store.read_as::<Set>(ctx.args[1])?.map_or(0, SetRef::len);
    ctx.reply.int(len as i64);
    Ok(())
}

pub(super) const SISMEMBER: Entry = Entry {
    name: "sismember",
    summary: "Determines whether a member belongs to a set.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Set,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0), string("member")],
    reply: Shape::Int,
    run: Run::Function(sismember),
    ..Entry::DEFAULT
};

fn sismember(ctx: &mut Ctx) -> CommandResult {
    let found = ctx.store.read_as::<Set>(ctx.args[1])?.is_some_and(|set| set.contains(ctx.args[2]));
    ctx.reply.int(found.into());
    Ok(())
}

pub(super) const SMISMEMBER: Entry = Entry {
    name: "smismember",
    summary: "Determines whether multiple members belong to a set.",
    complexity: "O(N) where N is the number of elements being checked for membership",
    since: "6.2.0",
    group: Group::Set,
    arity: -3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("member").multiple()],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(smismember),
    ..Entry::DEFAULT
};

fn smismember(ctx: &mut Ctx) -> CommandResult {
    let set = ctx.store.read_as::<Set>(ctx.args[1])?;
    let (members, mut pace) = (&ctx.args[2..], Pace::new(ctx.host));
    ctx.reply.array(members.len());
    for member in members {
        ctx.reply.int(set.is_some_and(|set| set.contains(member)).into());
        pace.step();
    }
    Ok(())
}

pub(super) const SMEMBERS: Entry = Entry {
    name: "smembers",
    summary: "Returns all members of a set.",
    complexity: "O(N) where N is the set cardinality.",
    since: "1.0.0",
    group: Group::Set,
    arity: 2,
    flags: &[ReadOnly],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Set(&Shape::Bulk),
    run: Run::Function(smembers),
    ..Entry::DEFAULT
};

fn smembers(ctx: &mut Ctx) -> CommandResult {
    let set = ctx.store.read_as::<Set>(ctx.args[1])?;
    let mut pace = Pace::new(ctx.host);
    ctx.reply.set(set.map_or(0, SetRef::len));
    if let Some(set) = set {
        ctx.reply.bulks(|bulks| {
            set.visit_ahead(|bytes, len| {
                bulks.push_ahead(bytes, len);
                pace.step();
            });
        });
    }
    Ok(())
}

pub(super) const SSCAN: Entry = Entry {
    name: "sscan",
    summary: "Iterates over members of a set.",
    group: Group::Set,
    acl: &[Acl::Set],
    run: Run::Function(sscan),
    ..scan::ENTRY
};

fn sscan(ctx: &mut Ctx) -> CommandResult {
    scan::reply_step::<Set>(ctx, false, |set, cursor, options, reply, count, pace| {
        set.scan(cursor, options.count, &mut |member| {
            pace.step();
            if options.wants(member) {
                reply.bulk(member);
                *count += 1;
            }
        })
    })
}
