//! XGROUP: consumer groups and their consumers.

use ds::stream::{Group, Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, Class, CommandError, CommandResult, Ctx, Entry, KeySpec, Run, Shape, Store, integer,
    key, keyword_is, oneof, parse_i64, string, subcommand_error, token,
};

use keyspace::Value;

use super::effects::{self, Owner, entries_read_text};
use super::{ids, quoting_two};

/// `ENTRIESREAD` of a group for which it is unknown.
pub(super) const ENTRIES_READ_UNKNOWN: i64 = -1;

const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
     use the MKSTREAM option to create an empty stream automatically.";
const EXISTS: &str = "BUSYGROUP Consumer Group name already exists";
const ENTRIES_READ_NEGATIVE: &str = "ERR value for ENTRIESREAD must be positive or -1";
/// The most arguments that CREATE has.
const CREATE_ARGS_MAX: usize = 8;

pub(super) const XGROUP: Entry = Entry {
    name: "xgroup",
    summary: "A container for consumer groups commands.",
    complexity: "Depends on subcommand.",
    since: "5.0.0",
    group: engine::Group::Stream,
    arity: -2,
    run: Run::Container,
    subcommands: &[CREATE, CREATECONSUMER, DELCONSUMER, DESTROY, HELP, SETID],
    ..Entry::DEFAULT
};

/// The common part of the subcommands about a group.
const SUBCOMMAND: Entry = Entry {
    since: "5.0.0",
    group: engine::Group::Stream,
    flags: &[Write],
    acl: &[Acl::Stream],
    ..Entry::DEFAULT
};

const ID: Arg = oneof("id-selector", &[string("id"), token("new-id", "$")]);
const ENTRIES_READ: Arg = integer("entriesread").token("ENTRIESREAD").display("entries-read").optional();
/// The argument for a new group, for which Redis has another name.
const ENTRIES_READ_FIRST: Arg = integer("entries-read").token("ENTRIESREAD").optional();

const CREATE: Entry = Entry {
    name: "create",
    summary: "Creates a consumer group.",
    arity: -5,
    flags: &[Write, DenyOom],
    keys: &[KeySpec::one(2, &[RW, Insert])],
    args: &[key("key", 0), string("group"), ID, token("mkstream", "MKSTREAM").optional(), ENTRIES_READ_FIRST],
    history: &[("7.0.0", "Added the `entries_read` named argument.")],
    reply: Shape::OK,
    run: Run::Function(create),
    ..SUBCOMMAND
};

fn create(ctx: &mut Ctx) -> CommandResult {
    let (key, name) = (ctx.args[2], ctx.args[3]);
    let options = GroupOptions::parse(ctx.args, true)?;
    let last = ctx.store.write_as::<Stream>(key)?.map(|stream| stream.log.last_id);
    if last.is_none() && !options.makes_stream {
        return Err(CommandError::new(NO_KEY));
    }
    if ctx.args.len() > CREATE_ARGS_MAX {
        return Err(subcommand_error(ctx.args));
    }
    let last_id = match ctx.args[4] {
        b"$" => last.unwrap_or_default(),
        id => ids::parse_strict(id, 0)?,
    };
    if last.is_none() {
        ctx.store.upsert::<Stream>(key)?;
        ctx.store.also_changed(key, Change::UNNAMED.times(0));
    }
    let groups = &mut ctx.store.upsert::<Stream>(key)?.groups;
    if groups.contains_key(name) {
        return Err(CommandError::new(EXISTS));
    }
    groups.insert(name.into(), Group::new(last_id, options.entries_read));
    ctx.reply.ok();
    ctx.store.changed_with(key, Change::new(Class::Stream, "xgroup-create").untold(), |store| {
        let (id, read) = (last_id.to_string(), entries_read_text(options.entries_read));
        let words: [&[u8]; 5] = [b"XGROUP", b"CREATE", key, name, id.as_bytes()];
        let rest: [&[u8]; 3] = [b"MKSTREAM", b"ENTRIESREAD", read.as_bytes()];
        store.effect(&[&words[..], &rest].concat());
    });
    Ok(())
}

const SETID: Entry = Entry {
    name: "setid",
    summary: "Sets the last-delivered ID of a consumer group.",
    arity: -5,
    keys: &[KeySpec::one(2, &[RW, Update])],
    args: &[key("key", 0), string("group"), ID, ENTRIES_READ],
    history: &[("7.0.0", "Added the optional `entries_read` argument.")],
    reply: Shape::OK,
    run: Run::Function(set_id),
    ..SUBCOMMAND
};

fn set_id(ctx: &mut Ctx) -> CommandResult {
    let (key, name) = (ctx.args[2], ctx.args[3]);
    let options = GroupOptions::parse(ctx.args, false)?;
    let (last, group) = existing_group(&mut ctx.store, ctx.args)?;
    if !matches!(ctx.args.len(), 5 | 7) {
        return Err(subcommand_error(ctx.args));
    }
    group.last_id = match ctx.args[4] {
        b"$" => last,
        id => ids::parse(id, 0)?,
    };
    group.set_entries_read(options.entries_read);
    let progress = effects::GroupProgress::of(group);
    ctx.reply.ok();
    ctx.store.changed_with(key, Change::new(Class::Stream, "xgroup-setid").untold(), |store| {
        progress.state(store, key, name);
    });
    Ok(())
}

const DESTROY: Entry = Entry {
    name: "destroy",
    summary: "Destroys a consumer group.",
    complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
    arity: 4,
    keys: &[KeySpec::one(2, &[RW, Delete])],
    args: &[key("key", 0), string("group")],
    reply: Shape::Int,
    run: Run::Function(destroy),
    ..SUBCOMMAND
};

fn destroy(ctx: &mut Ctx) -> CommandResult {
    let (key, name) = (ctx.args[2], ctx.args[3]);
    let stream = ctx.store.write_as::<Stream>(key)?.ok_or_else(|| CommandError::new(NO_KEY))?;
    let removed = stream.groups.remove_entry(name);
    let was_there = removed.is_some();
    if let Some(group) = removed {
        // There may be many pending entries: they are freed like a stream that has nothing else.
        let rest = Stream { groups: [group].into(), ..Stream::new() };
        ctx.store.free(Value::Stream(Box::new(rest)));
        ctx.changed(key, Change::new(Class::Stream, "xgroup-destroy").untold());
        // Tell the clients that wait in the group.
        ctx.store.got_more(key);
    }
    ctx.reply.int(i64::from(was_there));
    Ok(())
}

const CREATECONSUMER: Entry = Entry {
    name: "createconsumer",
    summary: "Creates a consumer in a consumer group.",
    since: "6.2.0",
    arity: 5,
    flags: &[Write, DenyOom],
    keys: &[KeySpec::one(2, &[RW, Insert])],
    args: &[key("key", 0), string("group"), string("consumer")],
    reply: Shape::Int,
    run: Run::Function(create_consumer),
    ..SUBCOMMAND
};

fn create_consumer(ctx: &mut Ctx) -> CommandResult {
    let (key, name, consumer) = (ctx.args[2], ctx.args[3], ctx.args[4]);
    let now_ms = ctx.store.now();
    let (_, group) = existing_group(&mut ctx.store, ctx.args)?;
    let (_, is_created) = group.find_or_create(consumer, now_ms);
    if is_created {
        effects::created(&mut ctx.store, Owner { key, group: name, consumer });
    }
    ctx.reply.int(i64::from(is_created));
    Ok(())
}

const DELCONSUMER: Entry = Entry {
    name: "delconsumer",
    summary: "Deletes a consumer from a consumer group.",
    arity: 5,
    keys: &[KeySpec::one(2, &[RW, Delete])],
    args: &[key("key", 0), string("group"), string("consumer")],
    reply: Shape::Int,
    run: Run::Function(delete_consumer),
    ..SUBCOMMAND
};

fn delete_consumer(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[2];
    let deleted = existing_group(&mut ctx.store, ctx.args)?.1.delete(ctx.args[4]);
    if deleted.is_some() {
        ctx.changed(key, Change::new(Class::Stream, "xgroup-delconsumer").untold());
    }
    ctx.reply.int(deleted.unwrap_or(0) as i64);
    Ok(())
}

const HELP: Entry =
    Entry { group: engine::Group::Stream, acl: &[Acl::Stream], run: Run::Function(help), ..Entry::HELP };

fn help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ])
}

/// The group at arguments 2 and 3, and the largest id in its stream so far.
fn existing_group<'s>(
    store: &'s mut Store,
    args: &[&[u8]],
) -> Result<(StreamId, &'s mut Group), CommandError> {
    let (key, name) = (args[2], args[3]);
    let stream = store.write_as::<Stream>(key)?.ok_or_else(|| CommandError::new(NO_KEY))?;
    let last_id = stream.log.last_id;
    let group = stream.groups.get_mut(name);
    let group = group
        .ok_or_else(|| quoting_two("NOGROUP No such consumer group '", name, "' for key name '", key, "'"))?;
    Ok((last_id, group))
}

/// The options of CREATE and SETID.
struct GroupOptions {
    makes_stream: bool,
    entries_read: Option<i64>,
}

impl GroupOptions {
    fn parse(args: &[&[u8]], may_make_stream: bool) -> Result<GroupOptions, CommandError> {
        let mut options = GroupOptions { makes_stream: false, entries_read: None };
        let mut rest = &args[5..];
        while !rest.is_empty() {
            rest = match *rest {
                [word, ref rest @ ..] if may_make_stream && keyword_is(word, "mkstream") => {
                    options.makes_stream = true;
                    rest
                }
                [word, number, ref rest @ ..] if keyword_is(word, "entriesread") => {
                    options.entries_read = match parse_i64(number)? {
                        ENTRIES_READ_UNKNOWN => None,
                        read @ 0.. => Some(read),
                        _ => return Err(CommandError::new(ENTRIES_READ_NEGATIVE)),
                    };
                    rest
                }
                _ => return Err(subcommand_error(args)),
            };
        }
        Ok(options)
    }
}
