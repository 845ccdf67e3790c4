//! CLIENT KILL.

use std::sync::Arc;

use crate::session::{Class, Filter, Part, Subject};
use engine::Flag::*;
use engine::{CommandError, CommandResult, Rule, Shape, integer, keyword_is, oneof, string, token};
use resp::Reply;

use super::SUBCOMMAND;
use crate::{Ctx, Entry, Run};

pub(super) const CLIENT_KILL: Entry = Entry {
    name: "kill",
    summary: "Terminates open connections.",
    complexity: "O(N) where N is the number of client connections",
    since: "2.4.0",
    arity: -3,
    flags: &[Admin, NoScript, Loading, Stale],
    rules: &[Rule::KeepsCaching, Rule::AsksThreads],
    args: &[oneof(
        "filter",
        &[
            string("old-format").display("ip:port").deprecated_since("2.8.12"),
            oneof(
                "new-format",
                &[
                    integer("client-id").token("ID").optional().since("2.8.12"),
                    oneof(
                        "client-type",
                        &[
                            token("normal", "NORMAL"),
                            token("master", "MASTER").since("3.2.0"),
                            token("slave", "SLAVE"),
                            token("replica", "REPLICA").since("5.0.0"),
                            token("pubsub", "PUBSUB"),
                        ],
                    )
                    .token("TYPE")
                    .optional()
                    .since("2.8.12"),
                    string("username").token("USER").optional(),
                    string("addr").display("ip:port").token("ADDR").optional(),
                    string("laddr").display("ip:port").token("LADDR").optional().since("6.2.0"),
                    oneof("skipme", &[token("yes", "YES"), token("no", "NO")]).token("SKIPME").optional(),
                ],
            )
            .multiple(),
        ],
    )],
    history: &[
        ("2.8.12", "Added new filter format."),
        ("2.8.12", "`ID` option."),
        ("3.2.0", "Added `master` type in for `TYPE` option."),
        (
            "5.0.0",
            "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility.",
        ),
        ("6.2.0", "`LADDR` option."),
    ],
    reply: Shape::OneOf(&[Shape::OK, Shape::Int]),
    run: Run::Function(client_kill),
    ..SUBCOMMAND
};

/// The clients that the arguments select.
fn filter(ctx: &mut Ctx) -> Result<Filter, CommandError> {
    let asker = ctx.store.client.id;
    let users = ctx.host.server.users;
    let text = |arg: &[u8]| Some(String::from_utf8_lossy(arg).into_owned());
    if let [address] = ctx.args[2..] {
        return Ok(Filter { peer: text(address), ..Filter::default() });
    }
    let mut filter = Filter { except: Some(asker), ..Filter::default() };
    for pair in ctx.args[2..].chunks(2) {
        let [option, value] = *pair else { return Err(CommandError::SYNTAX) };
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = ds::num::parse_i64(value).filter(|id| *id > 0);
                let id = id.ok_or_else(|| CommandError::new("ERR client-id should be greater than 0"))?;
                filter.id = Some(id as u64);
            }
            b"type" => filter.class = Some(Class::parse(value)?),
            b"user" => {
                let account = users.find(value);
                let account = account.ok_or(CommandError::quoting("ERR No such user '", value, "'"))?;
                filter.user = Some(account.number);
            }
            b"addr" => filter.peer = text(value),
            b"laddr" => filter.local = text(value),
            b"skipme" if keyword_is(value, "YES") => filter.except = Some(asker),
            b"skipme" if keyword_is(value, "NO") => filter.except = None,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    Ok(filter)
}

fn client_kill(ctx: &mut Ctx) -> CommandResult {
    let filter = filter(ctx)?;
    let is_old_form = ctx.args.len() == 3;
    let finish = move |parts: Vec<Part>, reply: &mut Reply<'_>| match Part::total(&parts) {
        0 if is_old_form => reply.error("ERR No such client"),
        _ if is_old_form => reply.ok(),
        count => reply.int(count as i64),
    };
    ctx.host.ask(Subject::Kill(Arc::new(filter)), Box::new(finish));
    Ok(())
}
