//! QUEUE PROMOTE: names sorted sets whose due jobs the server moves to queues by itself.

use ds::Kind;
use ds::hash::{FieldValue, Hash};
use ds::zset::ZSet;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Begin, Change, Class, CommandError, CommandResult, Find, Group, KeyFlag, KeySpec, Keys, Route,
    Shape, Store, block, key, keyword_is, oneof, peek_into, string, token,
};
use keyspace::queue::{PROMOTIONS, Promoted, System};

use crate::queues::promotion::Promotion;
use crate::queues::{Ctx, Entry, Run};

/// The most promotions of a database.
const COUNT_MAX: usize = 64;
/// The longest name of a promotion.
const NAME_BYTES_MAX: usize = 512;

const BAD_NAME: CommandError = CommandError::fixed("ERR the name of a promotion has 1 to 512 bytes");
const TOO_MANY: CommandError =
    CommandError::fixed("ERR a database has at most 64 promotions: QUEUE PROMOTE DEL one");
const OF_SIDEKIQ: CommandError = CommandError::fixed(
    "ERR this set is Sidekiq's: CONFIG SET promote sidekiq moves its jobs as Sidekiq does",
);
const NOT_ALL: &[u8] =
    b"NOPERM the jobs say to which keys they go: No permissions to access all keys that begin with '";
const NOT_KEPT: CommandError = CommandError::fixed(
    "WRONGTYPE darter:promotions, which has what QUEUE PROMOTE said, holds something else",
);

pub(super) const PROMOTE: Entry = Entry {
    name: "promote",
    summary: "Has due jobs of a sorted set join their queues by themselves, or no longer, or returns of which sets.",
    complexity: "O(N) where N is the number of such sets",
    since: "7.2.0",
    group: Group::Queue,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::Queue, Acl::Admin, Acl::Dangerous],
    keys: &[
        after(Begin::Keyword("FROM", 3), &[RW, Access, Delete]),
        after(Begin::Keyword("TO", 5), &[RW, Insert]),
        after(Begin::Option("SADD", 7, 7, &[("STAMP", 1)]), &[RW, Insert]),
    ],
    route: Route::Global,
    args: &[oneof(
        "what",
        &[
            block(
                "promotion",
                &[
                    string("name"),
                    key("set", 0).token("FROM"),
                    key("queue", 1).token("TO"),
                    key("queues", 2).token("SADD").optional(),
                    string("member").token("STAMP").optional(),
                ],
            ),
            token("list", "LIST"),
            string("name").token("DEL"),
        ],
    )],
    reply: Shape::OneOf(&[Shape::OK, Shape::Int, Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Any))]),
    run: Run::Function(promote),
    ..Entry::DEFAULT
};

/// The one key after this word.
const fn after(begin: Begin, flags: &'static [KeyFlag]) -> KeySpec {
    KeySpec { flags, begin, find: Find::Range { last: 0, step: 1, limit: 0 }, notes: "" }
}

fn promote(ctx: &mut Ctx) -> CommandResult {
    match *ctx.args {
        [_, _, list] if keyword_is(list, "list") => {
            let all = promotions(&ctx.store)?;
            tell(ctx, &all);
        }
        [_, _, del, name] if keyword_is(del, "del") => {
            let is_gone = delete(&mut ctx.store, name)?;
            ctx.reply.int(is_gone.into());
        }
        [_, _, name, from, set, to, queue, ref options @ ..]
            if keyword_is(from, "from") && keyword_is(to, "to") =>
        {
            let mut promotion =
                Promotion { set: set.to_vec(), to: queue.to_vec(), listed: None, stamp: None };
            let (pairs, []) = options.as_chunks::<2>() else { return Err(CommandError::SYNTAX) };
            for [word, value] in pairs {
                let field = match *word {
                    word if keyword_is(word, "sadd") => &mut promotion.listed,
                    word if keyword_is(word, "stamp") => &mut promotion.stamp,
                    _ => return Err(CommandError::SYNTAX),
                };
                if field.replace(value.to_vec()).is_some() {
                    return Err(CommandError::SYNTAX);
                }
            }
            if let Some(begin) = promotion.open_begin()
                && !(ctx.host.may_change)(ctx.command, ctx.args, Keys::AllThatBegin(begin))
            {
                return Err(CommandError::new([NOT_ALL, begin, b"'"].concat()));
            }
            add(&mut ctx.store, name, &promotion)?;
            ctx.reply.ok();
        }
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(())
}

fn add(store: &mut Store, name: &[u8], promotion: &Promotion) -> CommandResult {
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(BAD_NAME);
    }
    promotion.check()?;
    let set = &*promotion.set;
    store.peek_as::<ZSet>(set)?;
    let (patterns, _) = store.tx.hold.shards().queues().patterns();
    match patterns.class_of(set, Kind::ZSet) {
        Some(class) if class.is_promoted() => return Err(OF_SIDEKIQ),
        Some(class) if class.system != System::Custom => {
            let system = class.system.name();
            return Err(CommandError::new(format!(
                "ERR this set belongs to {system}, which moves its jobs itself"
            )));
        }
        Some(_) | None => {}
    }
    let all = promotions(store)?;
    let is_other = |other: &&(Vec<u8>, Promotion)| other.0 != name && other.1.set == set;
    if let Some((other, _)) = all.iter().find(is_other) {
        let other = other.escape_ascii();
        return Err(CommandError::new(format!(
            "ERR jobs of this set are promoted already, as '{other}' says"
        )));
    }
    if all.len() >= COUNT_MAX && !all.iter().any(|(other, _)| other == name) {
        return Err(TOO_MANY);
    }
    let (text, limits) = (promotion.encode(), store.config().hash);
    store.upsert::<Hash>(PROMOTIONS)?.set(name, &text, &limits);
    store.changed_with(PROMOTIONS, Change::new(Class::Hash, "hset"), |store| {
        store.effect(&[b"HSET", PROMOTIONS, name, &text]);
    });
    publish_promotions(store);
    Ok(())
}

fn delete(store: &mut Store, name: &[u8]) -> Result<bool, CommandError> {
    promotions(store)?;
    let is_gone = store.write_as::<Hash>(PROMOTIONS)?.is_some_and(|mut fields| fields.remove(name));
    if is_gone {
        store.changed_with(PROMOTIONS, Change::new(Class::Hash, "hdel"), |store| {
            store.effect(&[b"HDEL", PROMOTIONS, name]);
        });
        store.delete_if_empty(PROMOTIONS);
        publish_promotions(store);
    }
    Ok(is_gone)
}

/// The promotions of the selected database, by name. Unreadable ones are skipped.
fn promotions(store: &Store) -> Result<Vec<(Vec<u8>, Promotion)>, CommandError> {
    let mut buffer = Vec::new();
    let fields = peek_into::<Hash>(store, PROMOTIONS, &mut buffer).map_err(|_| NOT_KEPT)?;
    let Some(fields) = fields else { return Ok(Vec::new()) };
    let read =
        |(name, text): (&[u8], FieldValue<'_>)| Some((name.to_vec(), Promotion::decode(&text.bytes())?));
    let mut all: Vec<(Vec<u8>, Promotion)> = fields.iter().filter_map(read).take(COUNT_MAX).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

/// Publishes the promotions of the selected database to all threads. The shard of [`PROMOTIONS`] is entered.
pub fn publish_promotions(store: &Store) {
    let db = store.client.db;
    let all = promotions(store).unwrap_or_default();
    let promoted = all.iter().map(|(name, promotion)| Promoted {
        db,
        set: promotion.set.as_slice().into(),
        name: name.as_slice().into(),
        text: promotion.encode().into(),
    });
    store.tx.hold.shards().queues().promotions().set(db, &promoted.collect::<Vec<_>>());
}

fn tell(ctx: &mut Ctx, all: &[(Vec<u8>, Promotion)]) {
    let reply = &mut ctx.reply;
    reply.array(all.len());
    for (name, Promotion { set, to, listed, stamp }) in all {
        reply.map(5);
        for (field, value) in [
            ("name", Some(name)),
            ("from", Some(set)),
            ("to", Some(to)),
            ("sadd", listed.as_ref()),
            ("stamp", stamp.as_ref()),
        ] {
            reply.bulk(field.as_bytes());
            match value {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            }
        }
    }
}
