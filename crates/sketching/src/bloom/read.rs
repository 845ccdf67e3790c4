//! The commands that read a Bloom filter: `BF.EXISTS`, `BF.MEXISTS`, `BF.CARD`, `BF.INFO`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, key, keyword_is, oneof,
    string, token,
};
use keyspace::Type;
use sketches::Bloom;

use super::NOT_FOUND;

const NO_INFORMATION: CommandError = CommandError::fixed("Invalid information value");

pub(super) const BF_EXISTS: Entry = Entry {
    name: "bf.exists",
    summary: "Determines whether an item was added to a Bloom filter.",
    complexity: "O(k), where k is the number of hash functions used by the last sub-filter",
    since: "1.0.0",
    group: Group::Bloom,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Bloom],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("item")],
    reply: Shape::Bool,
    run: Run::Function(exists),
    ..Entry::DEFAULT
};

fn exists(ctx: &mut Ctx) -> CommandResult {
    // A key of another type contains nothing, as in RedisBloom.
    let filter = ctx.store.read(ctx.args[1]).and_then(Bloom::of);
    ctx.reply.bool(filter.is_some_and(|filter| filter.contains(ctx.args[2])));
    Ok(())
}

pub(super) const BF_MEXISTS: Entry = Entry {
    name: "bf.mexists",
    summary: "Determines whether items were added to a Bloom filter.",
    complexity: "O(k * n), where k is the number of hash functions and n is the number of items",
    arity: -3,
    args: &[key("key", 0), string("item").multiple()],
    reply: Shape::Array(&Shape::Bool),
    run: Run::Function(mexists),
    ..BF_EXISTS
};

fn mexists(ctx: &mut Ctx) -> CommandResult {
    let items = &ctx.args[2..];
    let filter = ctx.store.read(ctx.args[1]).and_then(Bloom::of);
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(items.len());
    for item in items {
        pace.step();
        ctx.reply.bool(filter.is_some_and(|filter| filter.contains(item)));
    }
    Ok(())
}

pub(super) const BF_CARD: Entry = Entry {
    name: "bf.card",
    summary: "Returns the number of items that were added to a Bloom filter.",
    complexity: "O(1)",
    since: "2.4.4",
    arity: 2,
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(card),
    ..BF_EXISTS
};

fn card(ctx: &mut Ctx) -> CommandResult {
    let count = ctx.store.read_as::<Bloom>(ctx.args[1])?.map_or(0, Bloom::len);
    ctx.reply.int(count as i64);
    Ok(())
}

pub(super) const BF_INFO: Entry = Entry {
    name: "bf.info",
    summary: "Returns information about a Bloom filter.",
    complexity: "O(1)",
    since: "1.0.0",
    arity: -2,
    args: &[
        key("key", 0),
        oneof(
            "single_value",
            &[
                token("capacity", "CAPACITY"),
                token("size", "SIZE"),
                token("filters", "FILTERS"),
                token("items", "ITEMS"),
                token("expansion", "EXPANSION"),
            ],
        )
        .optional(),
    ],
    reply: Shape::OneOf(&[
        Shape::Map(&Shape::AnyStatus, &Shape::OneOf(&[Shape::Int, Shape::Null])),
        Shape::Tuple(&[Shape::OneOf(&[Shape::Int, Shape::Null])]),
    ]),
    run: Run::Function(info),
    ..BF_EXISTS
};

/// The words of `BF.INFO`, and how each is called in the reply.
const INFORMATION: [(&str, &str); 5] = [
    ("CAPACITY", "Capacity"),
    ("SIZE", "Size"),
    ("FILTERS", "Number of filters"),
    ("ITEMS", "Number of items inserted"),
    ("EXPANSION", "Expansion rate"),
];

fn info(ctx: &mut Ctx) -> CommandResult {
    let [_, key, ref word @ ..] = *ctx.args else { unreachable!("the arity says so") };
    if word.len() > 1 {
        return Err(CommandError::wrong_arity("bf.info"));
    }
    let filter = ctx.store.read_as::<Bloom>(key)?.ok_or(NOT_FOUND)?;
    let expansion = filter.scales().then(|| filter.expansion().into());
    let values = [
        Some(filter.capacity()),
        Some(filter.reported_bytes()),
        Some(filter.filter_count() as u64),
        Some(filter.len()),
        expansion,
    ];
    let chosen = match word {
        [word] => {
            let index = INFORMATION.iter().position(|(name, _)| keyword_is(word, name));
            let index = index.ok_or(NO_INFORMATION)?;
            index..index + 1
        }
        _ => 0..values.len(),
    };
    let is_named = word.is_empty() || ctx.reply.proto() == resp::Proto::Resp3;
    if is_named {
        ctx.reply.map(chosen.len())
    } else {
        ctx.reply.array(1)
    }
    for index in chosen {
        if is_named {
            ctx.reply.simple(INFORMATION[index].1);
        }
        match values[index] {
            Some(value) => ctx.reply.int(value as i64),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}
