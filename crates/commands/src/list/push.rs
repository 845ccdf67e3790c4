//! LPUSH and RPUSH, and LPUSHX and RPUSHX, which push only to lists that exist.

use ds::list::{End, ListLimits};

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, ArgSlices, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, Host, KeySpec, Run, Shape,
    Store, key, note_deep_list, note_pushed, push_command, push_event, string,
};
use keyspace::List;

pub(super) const LPUSH: Entry = Entry {
    name: "lpush",
    summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple \
            arguments.",
    since: "1.0.0",
    group: Group::List,
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("element").multiple()],
    history: &[("2.4.0", "Accepts multiple `element` arguments.")],
    reply: Shape::Int,
    run: Run::Function(lpush),
    ..Entry::DEFAULT
};

fn lpush(ctx: &mut Ctx) -> CommandResult {
    push(ctx, End::Head)
}

pub(super) const RPUSH: Entry = Entry {
    name: "rpush",
    summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
    run: Run::Function(rpush),
    ..LPUSH
};

fn rpush(ctx: &mut Ctx) -> CommandResult {
    push(ctx, End::Tail)
}

pub(super) const LPUSHX: Entry = Entry {
    name: "lpushx",
    summary: "Prepends one or more elements to a list only when the list exists.",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple \
            arguments.",
    since: "2.2.0",
    group: Group::List,
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("element").multiple()],
    history: &[("4.0.0", "Accepts multiple `element` arguments.")],
    reply: Shape::Int,
    run: Run::Function(lpushx),
    ..Entry::DEFAULT
};

fn lpushx(ctx: &mut Ctx) -> CommandResult {
    push_if_exists(ctx, End::Head)
}

pub(super) const RPUSHX: Entry = Entry {
    name: "rpushx",
    summary: "Appends an element to a list only when the list exists.",
    run: Run::Function(rpushx),
    ..LPUSHX
};

fn rpushx(ctx: &mut Ctx) -> CommandResult {
    push_if_exists(ctx, End::Tail)
}

/// The number of values after which the thread serves its other clients.
const VALUES_PER_BREATH: usize = 1024;

#[inline]
fn push(ctx: &mut Ctx, end: End) -> CommandResult {
    let limits = ctx.store.config().list;
    let list = ctx.store.upsert::<List>(ctx.args[1])?;
    let grown = push_all(list, end, &ctx.args[2..], &limits, ctx.host);
    pushed(ctx, end, grown);
    Ok(())
}

fn push_if_exists(ctx: &mut Ctx, end: End) -> CommandResult {
    let limits = ctx.store.config().list;
    match ctx.store.write_as::<List>(ctx.args[1])? {
        None => ctx.reply.int(0),
        Some(list) => {
            let grown = push_all(list, end, &ctx.args[2..], &limits, ctx.host);
            ctx.note_grown(ctx.args[1]);
            pushed(ctx, end, grown);
        }
    }
    Ok(())
}

/// The length of a list, and whether it is to be compressed later.
type Grown = (usize, bool);

#[inline]
fn push_all(list: &mut List, end: End, values: &[&[u8]], limits: &ListLimits, host: &mut dyn Host) -> Grown {
    if values.len() > VALUES_PER_BREATH {
        for values in values.chunks(VALUES_PER_BREATH) {
            list.push_all(end, values);
            host.breathe();
        }
    } else {
        list.push_all(end, values);
    }
    let is_left = list.compress_inner(limits);
    (list.len(), is_left)
}

#[inline]
fn pushed(ctx: &mut Ctx, end: End, (len, is_left): Grown) {
    let key = ctx.args[1];
    if is_left {
        note_deep_list(&mut ctx.store, key);
    }
    note_pushed(&mut ctx.store, key, end, &ctx.args[2..]);
    ctx.changed(key, Change::new(Class::List, push_event(end)).times(ctx.args.len() - 2));
    ctx.reply.int(len as i64);
}

/// The most elements in one push that is recorded as an effect.
const EFFECT_ELEMENTS_MAX: usize = 1024;

/// Pushes elements that came from another key, and announces that; the effect is that of the removal there.
pub(crate) fn push_moved(
    store: &mut Store,
    key: &[u8],
    end: End,
    elements: &[&[u8]],
) -> Result<(), CommandError> {
    let limits = store.config().list;
    let list = store.upsert::<List>(key)?;
    list.push_all(end, elements);
    if list.compress_inner(&limits) {
        note_deep_list(store, key);
    }
    store.also_changed(key, Change::new(Class::List, push_event(end)).times(elements.len()));
    Ok(())
}

/// Records pushes to one end of a list.
pub(crate) fn state_pushes(store: &mut Store, key: &[u8], end: End, elements: &[&[u8]]) {
    for some in elements.chunks(EFFECT_ELEMENTS_MAX) {
        let mut effect: ArgSlices = [push_command(end), key].into_iter().collect();
        effect.extend_from_slice(some);
        store.effect(&effect);
    }
}
