//! `CF.RESERVE`, and the commands that add and delete items: `CF.ADD`, `CF.ADDNX`, `CF.INSERT`, `CF.INSERTNX`, `CF.DEL`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key,
    keyword_is, parse_i64, string, token,
};
use keyspace::{Type, Value};
use sketches::cuckoo::{Inserted, Parameters, TABLES_MAX};
use sketches::{CreateError, Cuckoo, Sketch};

use super::{EXISTS, NOT_FOUND};

/// The most items that a filter is created for.
const CAPACITY_MAX: i64 = 1 << 30;
/// For how many a filter is created without saying so.
const CAPACITY: u64 = 1024;
/// The least that an item is added to a filter for: two buckets.
const CAPACITY_TO_INSERT_MIN: i64 = 4;

const BAD_CAPACITY: CommandError = CommandError::fixed("Bad capacity");
const CAPACITY_RANGE: CommandError =
    CommandError::fixed("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]");
const CAPACITY_TO_INSERT_RANGE: CommandError =
    CommandError::fixed("Capacity must be in the range [cf-bucket-size * 2, 1073741824]");
const UNKNOWN_ARGUMENT: CommandError = CommandError::fixed("Unknown argument received");
const NO_MEMORY: CommandError = CommandError::fixed("ERR Insufficient memory to create filter");
const NOT_CREATED: CommandError = CommandError::fixed("ERR Could not create filter");
const TOO_MANY_TABLES: CommandError = CommandError::fixed("Maximum expansions reached");
const FULL: CommandError = CommandError::fixed("Filter is full");
const NO_MEMORY_TO_GROW: CommandError = CommandError::fixed("ERR Insufficient memory");
const NOTHING_TO_DELETE: CommandError = CommandError::fixed("Not found");

fn create(capacity: u64, parameters: Parameters) -> Result<Cuckoo, CommandError> {
    Cuckoo::new(capacity, parameters).map_err(|error| match error {
        CreateError::TooLarge => NO_MEMORY,
        CreateError::Invalid => NOT_CREATED,
    })
}

fn store_new(ctx: &mut Ctx, key: &[u8], filter: Cuckoo) {
    ctx.store.set(key, Value::Sketch(Box::new(Sketch::Cuckoo(filter))));
}

pub(super) const CF_RESERVE: Entry = Entry {
    name: "cf.reserve",
    summary: "Creates an empty cuckoo filter for a number of items.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Cuckoo,
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Cuckoo],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[
        key("key", 0),
        integer("capacity"),
        integer("bucketsize").token("BUCKETSIZE").optional(),
        integer("maxiterations").token("MAXITERATIONS").optional(),
        integer("expansion").token("EXPANSION").optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(reserve),
    ..Entry::DEFAULT
};

fn reserve(ctx: &mut Ctx) -> CommandResult {
    let [_, key, capacity, ref options @ ..] = *ctx.args else { unreachable!("the arity says so") };
    let (options, []) = options.as_chunks::<2>() else { return Err(CommandError::wrong_arity("cf.reserve")) };
    let capacity = parse_i64(capacity).map_err(|_| BAD_CAPACITY)?;
    let mut parameters = Parameters::default();
    for [word, value] in options {
        if keyword_is(word, "MAXITERATIONS") {
            parameters.iterations_max = option(value, "MAXITERATIONS", 1, u16::MAX)?;
        } else if keyword_is(word, "BUCKETSIZE") {
            parameters.bucket_size = option(value, "BUCKETSIZE", 1, sketches::cuckoo::BUCKET_SIZE_MAX)?;
        } else if keyword_is(word, "EXPANSION") {
            parameters.expansion = option(value, "EXPANSION", 0, sketches::cuckoo::EXPANSION_MAX)?;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if !(i64::from(parameters.bucket_size) * 2..=CAPACITY_MAX).contains(&capacity) {
        return Err(CAPACITY_RANGE);
    }
    if ctx.store.write_as::<Cuckoo>(key)?.is_some() {
        return Err(EXISTS);
    }
    let filter = create(capacity as u64, parameters)?;
    store_new(ctx, key, filter);
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}

/// The value of an option in its range.
fn option(value: &[u8], name: &str, least: u16, most: u16) -> Result<u16, CommandError> {
    let number = parse_i64(value).map_err(|_| CommandError::new(format!("Couldn't parse {name}")))?;
    u16::try_from(number)
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| CommandError::new(format!("{name}: value must be in the range [{least}, {most}]")))
}

pub(super) const CF_ADD: Entry = Entry {
    name: "cf.add",
    summary: "Adds an item to a cuckoo filter. Creates the filter if it doesn't exist.",
    complexity: "O(k + i), where k is the number of sub-filters and i is maxIterations",
    since: "1.0.0",
    group: Group::Cuckoo,
    arity: 3,
    flags: &[Write, DenyOom],
    acl: &[Acl::Cuckoo],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("item")],
    reply: Shape::Bool,
    run: Run::Function(add),
    ..Entry::DEFAULT
};

fn add(ctx: &mut Ctx) -> CommandResult {
    add_one(ctx, Cuckoo::add)
}

pub(super) const CF_ADDNX: Entry = Entry {
    name: "cf.addnx",
    summary: "Adds an item to a cuckoo filter if it is not there. Creates the filter if it doesn't exist.",
    run: Run::Function(addnx),
    ..CF_ADD
};

fn addnx(ctx: &mut Ctx) -> CommandResult {
    add_one(ctx, Cuckoo::add_new)
}

/// How an item is added.
type Add = fn(&mut Cuckoo, &[u8]) -> Inserted;

/// The filter at `key`, or a new one in `created`; neither has as many tables as there can be.
fn open<'s>(
    found: Option<&'s mut Cuckoo>,
    created: &'s mut Option<Cuckoo>,
    capacity: Option<u64>,
) -> Result<&'s mut Cuckoo, CommandError> {
    let filter = match found {
        Some(filter) => filter,
        None => created.insert(create(capacity.ok_or(NOT_FOUND)?, Parameters::default())?),
    };
    if filter.table_count() >= TABLES_MAX { Err(TOO_MANY_TABLES) } else { Ok(filter) }
}

fn add_one(ctx: &mut Ctx, add: Add) -> CommandResult {
    let (key, item) = (ctx.args[1], ctx.args[2]);
    let mut created = None;
    let filter = open(ctx.store.write_as::<Cuckoo>(key)?, &mut created, Some(CAPACITY))?;
    let tables_before = filter.table_count();
    let inserted = add(filter, item);
    let has_changed = inserted == Inserted::New || filter.table_count() > tables_before;
    if let Some(filter) = created {
        store_new(ctx, key, filter);
    }
    if has_changed {
        ctx.changed(key, Change::UNNAMED);
    }
    match inserted {
        Inserted::New => ctx.reply.bool(true),
        Inserted::Present => ctx.reply.bool(false),
        Inserted::Full => return Err(FULL),
        Inserted::TooLarge => return Err(NO_MEMORY_TO_GROW),
    }
    Ok(())
}

pub(super) const CF_INSERT: Entry = Entry {
    name: "cf.insert",
    summary: "Adds items to a cuckoo filter. Creates the filter with this capacity if it doesn't exist.",
    complexity: "O(n * (k + i)), where n is the number of items, k is the number of sub-filters and i is \
                 maxIterations",
    arity: -4,
    args: &[
        key("key", 0),
        integer("capacity").token("CAPACITY").optional(),
        token("nocreate", "NOCREATE").optional(),
        string("item").token("ITEMS").multiple(),
    ],
    reply: Shape::Array(&Shape::OneOf(&[Shape::Bool, Shape::Int])),
    run: Run::Function(insert),
    ..CF_ADD
};

fn insert(ctx: &mut Ctx) -> CommandResult {
    let resp3 = ctx.reply.proto() == resp::Proto::Resp3;
    add_all(ctx, "cf.insert", Cuckoo::add, |reply, inserted| match inserted {
        Inserted::New => reply.bool(true),
        Inserted::Present => reply.bool(false),
        Inserted::Full | Inserted::TooLarge if resp3 => reply.bool(false),
        Inserted::Full | Inserted::TooLarge => reply.int(-1),
    })
}

pub(super) const CF_INSERTNX: Entry = Entry {
    name: "cf.insertnx",
    summary: "Adds those items to a cuckoo filter that are not there. Creates the filter with this capacity if it \
              doesn't exist.",
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(insertnx),
    ..CF_INSERT
};

fn insertnx(ctx: &mut Ctx) -> CommandResult {
    add_all(ctx, "cf.insertnx", Cuckoo::add_new, |reply, inserted| match inserted {
        Inserted::New => reply.int(1),
        Inserted::Present => reply.int(0),
        Inserted::Full | Inserted::TooLarge => reply.int(-1),
    })
}

/// Adds the arguments behind `ITEMS`.
fn add_all(ctx: &mut Ctx, name: &str, add: Add, reply: impl Fn(&mut resp::Reply, Inserted)) -> CommandResult {
    let (capacity, first) = options(ctx.args, name)?;
    let (key, items) = (ctx.args[1], &ctx.args[first..]);
    let (mut created, mut has_changed) = (None, false);
    let filter = open(ctx.store.write_as::<Cuckoo>(key)?, &mut created, capacity)?;
    let tables_before = filter.table_count();
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.steps(1 + filter.table_count());
        let inserted = add(filter, item);
        has_changed |= inserted == Inserted::New;
        reply(&mut ctx.reply, inserted);
    }
    has_changed |= filter.table_count() > tables_before;
    if let Some(filter) = created {
        store_new(ctx, key, filter);
        has_changed = true;
    }
    if has_changed {
        ctx.changed(key, Change::UNNAMED);
    }
    Ok(())
}

/// The capacity of a filter that is created, unless none is, and the index of the first item.
fn options(args: &[&[u8]], name: &str) -> Result<(Option<u64>, usize), CommandError> {
    let arity = || CommandError::wrong_arity(name);
    let (mut capacity, mut creates, mut at) = (CAPACITY, true, 2);
    loop {
        let word = args.get(at).ok_or_else(arity)?;
        at += 1;
        if keyword_is(word, "ITEMS") {
            break;
        } else if keyword_is(word, "CAPACITY") {
            let number = parse_i64(args.get(at).ok_or_else(arity)?).map_err(|_| BAD_CAPACITY)?;
            if !(CAPACITY_TO_INSERT_MIN..=CAPACITY_MAX).contains(&number) {
                return Err(CAPACITY_TO_INSERT_RANGE);
            }
            (capacity, at) = (number as u64, at + 1);
        } else if keyword_is(word, "NOCREATE") {
            creates = false;
        } else {
            return Err(UNKNOWN_ARGUMENT);
        }
    }
    if at == args.len() { Err(arity()) } else { Ok((creates.then_some(capacity), at)) }
}

pub(super) const CF_DEL: Entry = Entry {
    name: "cf.del",
    summary: "Deletes an item from a cuckoo filter once.",
    complexity: "O(k), where k is the number of sub-filters",
    since: "1.0.0",
    group: Group::Cuckoo,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::Cuckoo],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), string("item")],
    reply: Shape::Bool,
    run: Run::Function(del),
    ..Entry::DEFAULT
};

fn del(ctx: &mut Ctx) -> CommandResult {
    let (key, item) = (ctx.args[1], ctx.args[2]);
    // Of a key of another type, too, RedisBloom says that there is nothing.
    if ctx.store.read(key).and_then(Cuckoo::of).is_none() {
        return Err(NOTHING_TO_DELETE);
    }
    let is_deleted = ctx.store.write_as::<Cuckoo>(key)?.is_some_and(|filter| filter.remove(item));
    if is_deleted {
        ctx.changed(key, Change::UNNAMED);
    }
    ctx.reply.bool(is_deleted);
    Ok(())
}
