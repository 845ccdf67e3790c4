//! Deletes entries by id: XDEL, and XDELEX and XACKDEL of Redis 8.2, which consider whether entries are pending in
//! groups.

use std::collections::BTreeMap;

use ds::stream::{Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, Store, block,
    integer, key, keyword_is, oneof, parse_i64, string, token,
};

use super::{effects, ids};

const NUMBER_NOT_POSITIVE: &str = "ERR Number of IDs must be a positive integer";
const NUMBER_TOO_LARGE: &str = "ERR The `numids` parameter must match the number of arguments";
const NO_IDS: &str = "ERR IDS option is required";

/// The outcome for an id, in the reply.
const NOT_THERE: i64 = -1;
const DELETED: i64 = 1;
const STILL_NEEDED: i64 = 2;

pub(super) const XDEL: Entry = Entry {
    name: "xdel",
    summary: "Returns the number of messages after removing them from a stream.",
    complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -3,
    flags: &[Write, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), string("id").multiple()],
    reply: Shape::Int,
    run: Run::Function(xdel),
    ..Entry::DEFAULT
};

fn xdel(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let Some(stream) = ctx.store.write_as::<Stream>(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let ids = ids::parse_all(&ctx.args[2..])?;
    let deleted = ids.into_iter().filter(|&id| stream.log.delete(id)).count();
    if deleted > 0 {
        ctx.changed(key, Change::new(Class::Stream, "xdel").times(deleted));
    }
    ctx.reply.int(deleted as i64);
    Ok(())
}

/// The effect on the groups in which an entry is pending.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum References {
    /// It stays pending, as an id without an entry.
    #[default]
    Keep,
    /// It is no longer pending in any group.
    Delete,
    /// An entry that is pending in a group, or that a group has not reached yet, is not deleted.
    Mind,
}

impl References {
    /// `KEEPREF`, `DELREF` or `ACKED`.
    pub(super) fn from_word(word: &[u8]) -> Option<References> {
        let words =
            [("keepref", References::Keep), ("delref", References::Delete), ("acked", References::Mind)];
        words.iter().find(|(known, _)| keyword_is(word, known)).map(|(_, references)| *references)
    }

    /// `[KEEPREF|DELREF|ACKED] IDS numids id …`
    fn parse<'a>(mut args: &'a [&'a [u8]]) -> Result<(References, &'a [&'a [u8]]), CommandError> {
        let (mut references, mut ids) = (None, None);
        while let [word, rest @ ..] = args {
            args = rest;
            match (word, rest) {
                (word, _) if references.is_none() && References::from_word(word).is_some() => {
                    references = References::from_word(word);
                }
                (word, [number, rest @ ..]) if keyword_is(word, "ids") => {
                    let number = parse_i64(number).ok().and_then(|number| usize::try_from(number).ok());
                    let number = number
                        .filter(|number| *number > 0)
                        .ok_or_else(|| CommandError::new(NUMBER_NOT_POSITIVE))?;
                    let (listed, after) =
                        rest.split_at_checked(number).ok_or_else(|| CommandError::new(NUMBER_TOO_LARGE))?;
                    ids = Some(listed);
                    args = after;
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        let ids = ids.ok_or_else(|| CommandError::new(NO_IDS))?;
        Ok((references.unwrap_or(References::Keep), ids))
    }

    /// Deletes the entry `id` from `stream`. `None` if it is still needed; otherwise whether it existed.
    pub(super) fn delete(
        self,
        stream: &mut Stream,
        id: StreamId,
        acknowledged: &mut Acknowledged,
    ) -> Option<bool> {
        match self {
            References::Keep => {}
            References::Delete => acknowledged.take(stream, id),
            References::Mind => {
                let needs = |group: &ds::stream::Group| group.last_id < id || group.pending(id).is_some();
                if stream.groups.values().any(needs) {
                    return None;
                }
            }
        }
        Some(stream.log.delete(id))
    }
}

/// Entries that were pending in groups and no longer are.
#[derive(Default)]
pub(super) struct Acknowledged(BTreeMap<Box<[u8]>, Vec<StreamId>>);

impl Acknowledged {
    /// Makes no group wait for `id` any more.
    pub(super) fn take(&mut self, stream: &mut Stream, id: StreamId) {
        for (name, group) in &mut stream.groups {
            if group.acknowledge(id) {
                self.note(name, id);
            }
        }
    }

    fn note(&mut self, group: &[u8], id: StreamId) {
        self.0.entry(group.into()).or_default().push(id);
    }

    /// How many there are, counted for each group.
    pub(super) fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// States it in commands that every replica knows.
    pub(super) fn state(&self, store: &mut Store, key: &[u8]) {
        self.0.iter().for_each(|(group, ids)| effects::acknowledged(store, key, group, ids));
    }
}

/// The options for references in groups.
pub(super) const REFERENCES: engine::Arg =
    oneof("condition", &[token("keepref", "KEEPREF"), token("delref", "DELREF"), token("acked", "ACKED")])
        .optional();
const IDS: engine::Arg = block("ids", &[integer("numids"), string("id").multiple()]).token("IDS");

pub(super) const XDELEX: Entry = Entry {
    name: "xdelex",
    summary: "Deletes entries from a stream, with a choice of what happens to references in its groups.",
    since: "8.2.0",
    arity: -5,
    args: &[key("key", 0), REFERENCES, IDS],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(xdelex),
    ..XDEL
};

fn xdelex(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let stream = ctx.store.write_as::<Stream>(key)?;
    let (references, texts) = References::parse(&ctx.args[2..])?;
    let Some(stream) = stream else { return reply_not_there(ctx, texts.len()) };
    let ids = ids::parse_all(texts)?;
    ctx.reply.array(ids.len());
    let (mut acknowledged, mut deleted) = (Acknowledged::default(), Vec::new());
    for id in ids {
        ctx.reply.int(match references.delete(stream, id, &mut acknowledged) {
            None => STILL_NEEDED,
            Some(false) => NOT_THERE,
            Some(true) => {
                deleted.push(id);
                DELETED
            }
        });
    }
    finish(ctx, key, &acknowledged, &deleted)
}

pub(super) const XACKDEL: Entry = Entry {
    name: "xackdel",
    summary: "Acknowledges entries for a consumer group and deletes them from the stream.",
    complexity: "O(1) for each entry.",
    since: "8.2.0",
    arity: -6,
    args: &[key("key", 0), string("group"), REFERENCES, IDS],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(xackdel),
    ..XDEL
};

fn xackdel(ctx: &mut Ctx) -> CommandResult {
    let (key, group) = (ctx.args[1], ctx.args[2]);
    let stream = ctx.store.write_as::<Stream>(key)?;
    let (references, texts) = References::parse(&ctx.args[3..])?;
    let Some(stream) = stream.filter(|stream| stream.groups.contains_key(group)) else {
        return reply_not_there(ctx, texts.len());
    };
    let ids = ids::parse_all(texts)?;
    ctx.reply.array(ids.len());
    let (mut acknowledged, mut deleted) = (Acknowledged::default(), Vec::new());
    for id in ids {
        if !stream.groups.get_mut(group).is_some_and(|group| group.acknowledge(id)) {
            ctx.reply.int(NOT_THERE);
            continue;
        }
        acknowledged.note(group, id);
        let outcome = references.delete(stream, id, &mut acknowledged);
        if outcome == Some(true) {
            deleted.push(id);
        }
        // An entry that was already gone counts as deleted, too.
        ctx.reply.int(if outcome.is_some() { DELETED } else { STILL_NEEDED });
    }
    finish(ctx, key, &acknowledged, &deleted)
}

fn reply_not_there(ctx: &mut Ctx, count: usize) -> CommandResult {
    ctx.reply.array(count);
    (0..count).for_each(|_| ctx.reply.int(NOT_THERE));
    Ok(())
}

/// Announces the changes. Redis 7 does not know the commands, so their effects are stated in others.
fn finish(ctx: &mut Ctx, key: &[u8], acknowledged: &Acknowledged, deleted: &[StreamId]) -> CommandResult {
    if !deleted.is_empty() {
        ctx.store.also_changed(key, Change::new(Class::Stream, "xdel").times(deleted.len()));
    }
    let count = acknowledged.count();
    if count + deleted.len() > 0 {
        ctx.store.changed_with(key, Change::UNNAMED.times(count).untold(), |store| {
            acknowledged.state(store, key);
            effects::deleted(store, key, deleted);
        });
    }
    Ok(())
}
