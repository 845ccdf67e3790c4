//! `BF.RESERVE`, and the commands that add items: `BF.ADD`, `BF.MADD`, `BF.INSERT`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, double, integer,
    key, keyword_is, parse_f64, parse_i64, string, token,
};
use keyspace::Value;
use sketches::bloom::{Added, EXPANSION_MAX};
use sketches::{Bloom, CreateError, Sketch};

use super::{EXISTS, NO_MEMORY, NOT_FOUND, UNKNOWN_ARGUMENT};

/// The most items that a filter is created for.
const CAPACITY_MAX: i64 = 1 << 30;
/// A larger error than this is taken for it.
const ERROR_MAX: f64 = 0.25;

const BAD_ERROR_RATE: CommandError = CommandError::fixed("ERR bad error rate");
const ERROR_RATE_RANGE: CommandError =
    CommandError::fixed("ERR error rate must be in the range (0.000000, 1.000000)");
const BAD_CAPACITY: CommandError = CommandError::fixed("ERR bad capacity");
const CAPACITY_RANGE: CommandError = CommandError::fixed("ERR capacity must be in the range [1, 1073741824]");
const NO_EXPANSION: CommandError = CommandError::fixed("ERR no expansion");
const BAD_EXPANSION: CommandError = CommandError::fixed("ERR bad expansion");
const EXPANSION_RANGE: CommandError = CommandError::fixed("ERR expansion must be in the range [0, 32768]");
const EXPANSION_OF_FIXED: CommandError = CommandError::fixed("Nonscaling filters cannot expand");
const BAD_ERROR_RATE_TO_INSERT: CommandError = CommandError::fixed("Bad error rate");
const BAD_EXPANSION_TO_INSERT: CommandError = CommandError::fixed("Bad expansion");
const BAD_CAPACITY_TO_INSERT: CommandError = CommandError::fixed("Bad capacity");
const NOT_CREATED: CommandError = CommandError::fixed("ERR could not create filter");
const FULL: &str = "ERR non scaling filter is full";
const TOO_LARGE: &str = "ERR problem inserting into filter";

/// What a filter is created with.
#[derive(Clone, Copy)]
struct Parameters {
    capacity: u64,
    error: f64,
    expansion: u32,
    scales: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { capacity: 100, error: 0.01, expansion: 2, scales: true }
    }
}

impl Parameters {
    fn create(self) -> Result<Bloom, CommandError> {
        let error = self.error.min(ERROR_MAX);
        Bloom::new(self.capacity, error, self.expansion, self.scales && self.expansion > 0).map_err(|error| {
            match error {
                CreateError::TooLarge => NO_MEMORY,
                CreateError::Invalid => NOT_CREATED,
            }
        })
    }
}

fn is_error_rate(error: f64) -> bool {
    error > 0.0 && error < 1.0
}

pub(super) const BF_RESERVE: Entry = Entry {
    name: "bf.reserve",
    summary: "Creates an empty Bloom filter for a number of items and an error rate.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Bloom,
    arity: -4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Bloom],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[
        key("key", 0),
        double("error_rate"),
        integer("capacity"),
        integer("expansion").token("EXPANSION").optional(),
        token("nonscaling", "NONSCALING").optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(reserve),
    ..Entry::DEFAULT
};

fn reserve(ctx: &mut Ctx) -> CommandResult {
    let [_, key, error, capacity, ref options @ ..] = *ctx.args else { unreachable!("the arity says so") };
    if options.len() > 3 {
        return Err(CommandError::wrong_arity("bf.reserve"));
    }
    let error = parse_f64(error).map_err(|_| BAD_ERROR_RATE)?;
    if !is_error_rate(error) {
        return Err(ERROR_RATE_RANGE);
    }
    let capacity = parse_i64(capacity).map_err(|_| BAD_CAPACITY)?;
    if !(1..=CAPACITY_MAX).contains(&capacity) {
        return Err(CAPACITY_RANGE);
    }
    let mut parameters = Parameters { capacity: capacity as u64, error, ..Parameters::default() };
    let mut expansion = None;
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        if keyword_is(word, "NONSCALING") {
            parameters.scales = false;
        } else if keyword_is(word, "EXPANSION") {
            expansion = Some(*rest.next().ok_or(NO_EXPANSION)?);
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if let Some(expansion) = expansion {
        let expansion = parse_i64(expansion).map_err(|_| BAD_EXPANSION)?;
        if expansion != 0 && !parameters.scales {
            return Err(EXPANSION_OF_FIXED);
        }
        let valid = u32::try_from(expansion).ok().filter(|&expansion| u64::from(expansion) <= EXPANSION_MAX);
        parameters.expansion = valid.ok_or(EXPANSION_RANGE)?;
    }
    if ctx.store.write_as::<Bloom>(key)?.is_some() {
        return Err(EXISTS);
    }
    let filter = parameters.create()?;
    store_new(ctx, key, filter);
    ctx.changed(key, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}

pub(super) const BF_ADD: Entry = Entry {
    name: "bf.add",
    summary: "Adds an item to a Bloom filter. Creates the filter if it doesn't exist.",
    complexity: "O(k), where k is the number of hash functions used by the last sub-filter",
    since: "1.0.0",
    group: Group::Bloom,
    arity: 3,
    flags: &[Write, DenyOom],
    acl: &[Acl::Bloom],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("item")],
    reply: Shape::Bool,
    run: Run::Function(add),
    ..Entry::DEFAULT
};

fn add(ctx: &mut Ctx) -> CommandResult {
    let (key, item) = (ctx.args[1], ctx.args[2]);
    let added = match ctx.store.write_as::<Bloom>(key)? {
        Some(filter) => filter.add(item),
        None => {
            let mut filter = Parameters::default().create()?;
            let added = filter.add(item);
            store_new(ctx, key, filter);
            added
        }
    };
    if added == Added::New {
        ctx.changed(key, Change::UNNAMED);
    }
    reply_added(ctx, added);
    Ok(())
}

fn reply_added(ctx: &mut Ctx, added: Added) {
    match added {
        Added::New => ctx.reply.bool(true),
        Added::Present => ctx.reply.bool(false),
        Added::Full => ctx.reply.error(FULL),
        Added::TooLarge => ctx.reply.error(TOO_LARGE),
    }
}

/// Stores a filter that was just created.
fn store_new(ctx: &mut Ctx, key: &[u8], filter: Bloom) {
    ctx.store.set(key, Value::Sketch(Box::new(Sketch::Bloom(filter))));
}

pub(super) const BF_MADD: Entry = Entry {
    name: "bf.madd",
    summary: "Adds items to a Bloom filter. Creates the filter if it doesn't exist.",
    complexity: "O(k * n), where k is the number of hash functions and n is the number of items",
    arity: -3,
    args: &[key("key", 0), string("item").multiple()],
    reply: Shape::Array(&Shape::Bool),
    run: Run::Function(madd),
    ..BF_ADD
};

fn madd(ctx: &mut Ctx) -> CommandResult {
    add_all(ctx, 2, Some(Parameters::default()))
}

/// Adds the arguments from index `first` on.
fn add_all(ctx: &mut Ctx, first: usize, parameters: Option<Parameters>) -> CommandResult {
    let key = ctx.args[1];
    let items = &ctx.args[first..];
    let (mut created, mut has_changed) = (None, false);
    let filter = match ctx.store.write_as::<Bloom>(key)? {
        Some(filter) => filter,
        None => created.insert(parameters.ok_or(NOT_FOUND)?.create()?),
    };
    let mut pace = Pace::new(ctx.host);
    let (mark, mut count) = (ctx.reply.deferred(), 0);
    for item in items {
        pace.step();
        let added = filter.add(item);
        has_changed |= added == Added::New;
        count += 1;
        match added {
            Added::New => ctx.reply.bool(true),
            Added::Present => ctx.reply.bool(false),
            Added::TooLarge => ctx.reply.error(TOO_LARGE),
            Added::Full => {
                ctx.reply.error(FULL);
                break;
            }
        }
    }
    ctx.reply.finish_array(mark, count);
    if let Some(filter) = created {
        store_new(ctx, key, filter);
        has_changed = true;
    }
    if has_changed {
        ctx.changed(key, Change::UNNAMED);
    }
    Ok(())
}

pub(super) const BF_INSERT: Entry = Entry {
    name: "bf.insert",
    summary: "Adds items to a Bloom filter. Creates the filter with these parameters if it doesn't exist.",
    arity: -4,
    args: &[
        key("key", 0),
        integer("capacity").token("CAPACITY").optional(),
        double("error").token("ERROR").optional(),
        integer("expansion").token("EXPANSION").optional(),
        token("nocreate", "NOCREATE").optional(),
        token("nonscaling", "NONSCALING").optional(),
        string("item").token("ITEMS").multiple(),
    ],
    run: Run::Function(insert),
    ..BF_MADD
};

fn insert(ctx: &mut Ctx) -> CommandResult {
    let arity = || CommandError::wrong_arity("bf.insert");
    let (mut parameters, mut creates) = (Parameters::default(), true);
    let mut at = 2;
    loop {
        let word = *ctx.args.get(at).ok_or_else(arity)?;
        let value = ctx.args.get(at + 1).copied();
        at += 2;
        if keyword_is(word, "ITEMS") {
            break;
        } else if keyword_is(word, "CAPACITY") {
            let capacity = parse_i64(value.ok_or_else(arity)?).ok();
            let capacity = capacity.filter(|capacity| (1..=CAPACITY_MAX).contains(capacity));
            parameters.capacity = capacity.ok_or(BAD_CAPACITY_TO_INSERT)? as u64;
        } else if keyword_is(word, "ERROR") {
            let error = parse_f64(value.ok_or_else(arity)?).ok().filter(|error| is_error_rate(*error));
            parameters.error = error.ok_or(BAD_ERROR_RATE_TO_INSERT)?;
        } else if keyword_is(word, "EXPANSION") {
            let expansion =
                parse_i64(value.ok_or_else(arity)?).ok().and_then(|number| u32::try_from(number).ok());
            let expansion = expansion.filter(|&expansion| u64::from(expansion) <= EXPANSION_MAX);
            parameters.expansion = expansion.ok_or(BAD_EXPANSION_TO_INSERT)?;
        } else if keyword_is(word, "NOCREATE") {
            (creates, at) = (false, at - 1);
        } else if keyword_is(word, "NONSCALING") {
            (parameters.scales, at) = (false, at - 1);
        } else {
            return Err(UNKNOWN_ARGUMENT);
        }
    }
    let first = at - 1;
    if first == ctx.args.len() {
        return Err(arity());
    }
    add_all(ctx, first, creates.then_some(parameters))
}
