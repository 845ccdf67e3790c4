//! The subcommands of ACL that create, change, show and test users.

use engine::{CommandError, CommandResult, Secrets, Shape, string};
use resp::Reply;

use super::{Ctx, Entry, Run, SUBCOMMAND};
use crate::check::CallerDb;
use crate::selector::Selector;
use crate::user::has_spaces;
use crate::users::DEFAULT;

pub(super) const ACL_SETUSER: Entry = Entry {
    name: "setuser",
    summary: "Creates and modifies an ACL user and its rules.",
    complexity: "O(N). Where N is the number of rules provided.",
    arity: -3,
    args: &[string("username"), string("rule").optional().multiple()],
    history: &[
        ("6.2.0", "Added Pub/Sub channel patterns."),
        ("7.0.0", "Added selectors and key based permissions."),
        ("9.1.0", "Added database permissions, as in Valkey."),
    ],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    secrets: Secrets::From(2),
    run: Run::Function(acl_setuser),
    ..SUBCOMMAND
};

fn acl_setuser(ctx: &mut Ctx) -> CommandResult {
    let (name, rules) = (ctx.args[2], &ctx.args[3..]);
    if has_spaces(name) {
        return Err(CommandError::fixed("ERR Usernames can't contain spaces or null characters"));
    }
    // A new user cannot have clients yet.
    if ctx.host.users.set(ctx.host.grammar, name, rules)? {
        ctx.host.has_changed = true;
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) const ACL_DELUSER: Entry = Entry {
    name: "deluser",
    summary: "Deletes ACL users, and terminates their connections.",
    complexity: "O(1) amortized time considering the typical user.",
    arity: -3,
    args: &[string("username").multiple()],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::Int,
    secrets: Secrets::From(2),
    run: Run::Function(acl_deluser),
    ..SUBCOMMAND
};

fn acl_deluser(ctx: &mut Ctx) -> CommandResult {
    let names = &ctx.args[2..];
    if names.contains(&DEFAULT) {
        return Err(CommandError::fixed("ERR The 'default' user cannot be removed"));
    }
    let removed_count = ctx.host.users.remove(names);
    ctx.host.has_changed = true;
    ctx.reply.int(removed_count as i64);
    Ok(())
}

pub(super) const ACL_GETUSER: Entry = Entry {
    name: "getuser",
    summary: "Lists the ACL rules of a user.",
    complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
    arity: 3,
    args: &[string("username")],
    history: &[
        ("6.2.0", "Added Pub/Sub channel patterns."),
        (
            "7.0.0",
            "Added selectors and changed the format of key and channel patterns from a list to their rule representation.",
        ),
    ],
    reply: Shape::OneOf(&[Shape::Map(&Shape::Bulk, &Shape::Any), Shape::Null]),
    secrets: Secrets::From(2),
    run: Run::Function(acl_getuser),
    ..SUBCOMMAND
};

fn acl_getuser(ctx: &mut Ctx) -> CommandResult {
    let Some(account) = ctx.host.users.find(ctx.args[2]) else {
        ctx.reply.null();
        return Ok(());
    };
    let (user, reply) = (&account.user, &mut ctx.reply);
    let (first, others) = user.selectors().split_first().expect("a user has a selector");
    reply.map(3 + field_count(first));
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    for flag in flags {
        reply.bulk(flag.as_bytes());
    }
    reply.bulk(b"passwords");
    reply.array(user.passwords.len());
    for hash in &user.passwords {
        reply.bulk(hash.as_bytes());
    }
    write_selector(reply, first);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(field_count(selector));
        write_selector(reply, selector);
    }
    Ok(())
}

/// The number of fields of a selector.
fn field_count(selector: &Selector) -> usize {
    3 + usize::from(!selector.describe_databases().is_empty())
}

/// The fields of a selector: those of Redis, and its databases if not all are allowed.
fn write_selector(reply: &mut Reply<'_>, selector: &Selector) {
    let fields = [
        ("commands", selector.describe_commands()),
        ("keys", selector.describe_keys()),
        ("channels", selector.describe_channels()),
        ("databases", selector.describe_databases()),
    ];
    for (name, rules) in fields.into_iter().take(field_count(selector)) {
        reply.bulk(name.as_bytes());
        reply.bulk(&rules);
    }
}

pub(super) const ACL_LIST: Entry = Entry {
    name: "list",
    summary: "Dumps the effective rules in ACL file format.",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    reply: Shape::BULKS,
    run: Run::Function(acl_list),
    ..SUBCOMMAND
};

fn acl_list(ctx: &mut Ctx) -> CommandResult {
    let latest = ctx.host.users.latest();
    let users = latest.users();
    ctx.reply.array(users.len());
    for user in users {
        ctx.reply.bulk(&user.line());
    }
    Ok(())
}

pub(super) const ACL_USERS: Entry = Entry {
    name: "users",
    summary: "Lists all ACL users.",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    reply: Shape::BULKS,
    run: Run::Function(acl_users),
    ..SUBCOMMAND
};

fn acl_users(ctx: &mut Ctx) -> CommandResult {
    let latest = ctx.host.users.latest();
    let users = latest.users();
    ctx.reply.array(users.len());
    for user in users {
        ctx.reply.bulk(&user.name);
    }
    Ok(())
}

pub(super) const ACL_DRYRUN: Entry = Entry {
    name: "dryrun",
    summary: "Simulates the execution of a command by a user, without executing the command.",
    complexity: "O(1).",
    since: "7.0.0",
    arity: -4,
    args: &[string("username"), string("command"), string("arg").optional().multiple()],
    reply: Shape::OneOf(&[Shape::OK, Shape::Bulk]),
    secrets: Secrets::From(4),
    run: Run::Function(acl_dryrun),
    ..SUBCOMMAND
};

fn acl_dryrun(ctx: &mut Ctx) -> CommandResult {
    let (name, args) = (ctx.args[2], &ctx.args[3..]);
    let account = ctx.host.users.find(name);
    let account = account.ok_or(CommandError::quoting("ERR User '", name, "' not found"))?;
    let command = ctx.store.tx.table.named(args);
    let command = command.map_err(|_| CommandError::quoting("ERR Command '", args[0], "' not found"))?;
    if !command.entry.takes(args.len()) {
        return Err(CommandError::wrong_arity(&command.full_name));
    }
    let caller_db = CallerDb { db: ctx.store.client.db, count: ctx.store.db_count() };
    match account.user.check(caller_db, command, args) {
        Ok(()) => ctx.reply.ok(),
        Err(denied) => ctx.reply.bulk(&denied.full_text(&account.user, command, args)),
    }
    Ok(())
}
