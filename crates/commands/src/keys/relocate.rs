//! Renames keys, copies them, and moves them to another database.
//!
//! The effect is the command itself, regardless of the shards of its keys: its size does not depend on the
//! size of the value.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Databases, Entry, Group, KeySpec, Mode, Run, Shape,
    integer, key, keyword_is, token,
};
use keyspace::{UnixMs, Value};

use super::parse_db;

pub(super) const RENAME: Entry = Entry {
    name: "rename",
    summary: "Renames a key and overwrites the destination.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: &[Write],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[OW, Update])],
    args: &[key("key", 0), key("newkey", 1)],
    reply: Shape::OK,
    run: Run::Function(rename),
    ..Entry::DEFAULT
};

fn rename(ctx: &mut Ctx) -> CommandResult {
    rename_key(ctx, true)?;
    ctx.reply.ok();
    Ok(())
}

pub(super) const RENAMENX: Entry = Entry {
    name: "renamenx",
    summary: "Renames a key only when the target key name doesn't exist.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[OW, Insert])],
    args: &[key("key", 0), key("newkey", 1)],
    history: &[(
        "3.2.0",
        "The command no longer returns an error when source and destination names are the same.",
    )],
    reply: Shape::Int,
    run: Run::Function(renamenx),
    ..Entry::DEFAULT
};

fn renamenx(ctx: &mut Ctx) -> CommandResult {
    let renamed = rename_key(ctx, false)?;
    ctx.reply.int(i64::from(renamed));
    Ok(())
}

fn rename_key(ctx: &mut Ctx, overwrite: bool) -> Result<bool, CommandError> {
    let (source, target) = (ctx.args[1], ctx.args[2]);
    if ctx.store.write(source).is_none() {
        return Err(CommandError::NO_SUCH_KEY);
    }
    if source == target || !overwrite && ctx.store.write(target).is_some() {
        return Ok(false);
    }
    let record = ctx.store.take(source).expect("it was found just before");
    let (expiry, access, marks) = (record.lend().expiry(), record.lend().access(), record.lend().marks());
    replace_as_new(ctx, target, record.into_value(), expiry);
    ctx.store.set_marks(target, marks.of_changed_value());
    ctx.store.set_access(target, access);
    let effect: [&[u8]; 3] = [b"RENAME", source, target];
    ctx.store.changed(source, Change::UNNAMED, &effect);
    ctx.store.also_changed(target, Change::UNNAMED.times(0));
    ctx.store.notify(Class::Generic, "rename_from", source);
    ctx.store.notify(Class::Generic, "rename_to", target);
    Ok(true)
}

/// Stores a value under `key`. To Redis, which deletes the previous value, the key is always new.
fn replace_as_new(ctx: &mut Ctx, key: &[u8], value: Value, expiry: Option<UnixMs>) {
    let is_there = ctx.store.write(key).is_some();
    ctx.store.replace(key, value, expiry);
    if is_there {
        ctx.store.notify(Class::New, "new", key);
    }
}

pub(super) const COPY: Entry = Entry {
    name: "copy",
    summary: "Copies the value of a key to a new key.",
    complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
    since: "6.2.0",
    group: Group::Generic,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RO, Access]), KeySpec::one(2, &[OW, Update])],
    databases: Databases::OwnAndAfter(3, "DB"),
    args: &[
        key("source", 0),
        key("destination", 1),
        integer("destination-db").token("DB").optional(),
        token("replace", "REPLACE").optional(),
    ],
    reply: Shape::Int,
    mode: Mode::Heavy,
    run: Run::Function(copy),
    ..Entry::DEFAULT
};

fn copy(ctx: &mut Ctx) -> CommandResult {
    let (source, target) = (ctx.args[1], ctx.args[2]);
    let source_db = ctx.store.client.db;
    let (mut target_db, mut overwrite) = (source_db, false);
    let mut rest = ctx.args[3..].iter();
    while let Some(word) = rest.next() {
        if keyword_is(word, "REPLACE") {
            overwrite = true;
        } else if keyword_is(word, "DB") {
            let number = rest.next().ok_or(CommandError::SYNTAX)?;
            target_db = parse_db(ctx, number)?.ok_or(CommandError::DB_OUT_OF_RANGE)?;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if source_db == target_db && source == target {
        return Err(CommandError::SAME_OBJECT);
    }
    let copied = copy_key(ctx, source, (target_db, target), overwrite);
    ctx.reply.int(i64::from(copied));
    Ok(())
}

fn copy_key(ctx: &mut Ctx, source: &[u8], (target_db, target): (u32, &[u8]), overwrite: bool) -> bool {
    let source_db = ctx.store.client.db;
    let Some(record) = ctx.store.read_record(source) else { return false };
    let (expiry, marks) = (record.expiry(), record.marks());
    let value = record.value().to_value();
    ctx.store.client.db = target_db;
    if !overwrite && ctx.store.write(target).is_some() {
        ctx.store.client.db = source_db;
        return false;
    }
    replace_as_new(ctx, target, value, expiry);
    ctx.store.set_marks(target, marks.of_changed_value());
    ctx.store.changed_with(target, Change::new(Class::Generic, "copy_to"), |store| {
        store.client.db = source_db;
        let mut number = itoa::Buffer::new();
        let number = number.format(target_db).as_bytes();
        store.effect(&[b"COPY", source, target, b"DB", number, b"REPLACE"]);
    });
    ctx.store.client.db = source_db;
    true
}

pub(super) const MOVE: Entry = Entry {
    name: "move",
    summary: "Moves a key to another database.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    databases: Databases::OwnAnd(2),
    args: &[key("key", 0), integer("db")],
    reply: Shape::Int,
    run: Run::Function(move_key),
    ..Entry::DEFAULT
};

fn move_key(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let source_db = ctx.store.client.db;
    let target_db = parse_db(ctx, ctx.args[2])?.ok_or(CommandError::DB_OUT_OF_RANGE)?;
    if source_db == target_db {
        return Err(CommandError::SAME_OBJECT);
    }
    ctx.store.client.db = target_db;
    let is_taken = ctx.store.write(key).is_some();
    ctx.store.client.db = source_db;
    let moved = match ctx.store.write(key).is_some() && !is_taken {
        false => None,
        true => ctx.store.take(key),
    };
    ctx.reply.int(i64::from(moved.is_some()));
    if let Some(record) = moved {
        ctx.store.client.db = target_db;
        let (expiry, access, marks) = (record.lend().expiry(), record.lend().access(), record.lend().marks());
        ctx.store.replace(key, record.into_value(), expiry);
        ctx.store.set_marks(key, marks.of_changed_value());
        ctx.store.set_access(key, access);
        ctx.store.client.db = source_db;
        ctx.changed(key, Change::new(Class::Generic, "move_from"));
        ctx.store.client.db = target_db;
        ctx.store.also_changed(key, Change::new(Class::Generic, "move_to").times(0));
        ctx.store.client.db = source_db;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    #[test]
    fn events_come_in_redis_order() {
        for (lines, expected) in [
            (&["SET a 1", "COPY a b", "COPY a b REPLACE"][..], "new new copy_to new copy_to"),
            (&["SET a 1", "COPY a b DB 1", "COPY a b DB 1 REPLACE"], "new new copy_to new copy_to"),
            (&["SET a 1", "MOVE a 1"], "new new move_from move_to"),
            (&["SET a 1", "SET b 2", "RENAME a b"], "new new new rename_from rename_to"),
            (&["SET a 1", "RENAME a b", "RENAME b b"], "new new rename_from rename_to"),
        ] {
            let mut clients = Clients::new();
            clients.notify(&[Class::Generic, Class::New]);
            for line in lines {
                clients.run(0, line);
            }
            assert_eq!(clients.events().join(" "), expected, "{lines:?}");
        }
    }
}
