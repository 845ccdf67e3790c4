//! CLIENT KILL.

use std::sync::Arc;

use crate::session::{Condition, Filter, Part, Subject};
use engine::Flag::*;
use engine::{CommandError, CommandResult, Rule, Shape, integer, oneof, string, token};
use resp::Reply;

use super::SUBCOMMAND;
use super::filter::*;
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
                    SKIPME,
                    MAXAGE.since("7.4.0"),
                    NAME,
                    IDLE,
                    FLAGS,
                    LIB_NAME,
                    LIB_VER,
                    DB,
                    CAPA,
                    IP,
                    NOT_ID,
                    NOT_TYPE,
                    NOT_ADDR,
                    NOT_LADDR,
                    NOT_USER,
                    NOT_FLAGS,
                    NOT_NAME,
                    NOT_LIB_NAME,
                    NOT_LIB_VER,
                    NOT_DB,
                    NOT_CAPA,
                    NOT_IP,
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
        ("7.4.0", "`MAXAGE` option."),
        (
            "9.0.0",
            "Several ids, filters NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA, IP and the NOT- variants of filters, as in Valkey.",
        ),
    ],
    reply: Shape::OneOf(&[Shape::OK, Shape::Int]),
    run: Run::Function(client_kill),
    ..SUBCOMMAND
};

/// The clients that the arguments select.
fn selected(ctx: &Ctx) -> Result<Filter, CommandError> {
    match ctx.args[2..] {
        [address] => {
            let mut filter = Filter::default();
            filter.add(Condition::Peer(String::from_utf8_lossy(address).into_owned()), false);
            Ok(filter)
        }
        _ => parse(ctx, For::Kill),
    }
}

fn client_kill(ctx: &mut Ctx) -> CommandResult {
    let filter = selected(ctx)?;
    let is_old_form = ctx.args.len() == 3;
    let finish = move |parts: Vec<Part>, reply: &mut Reply<'_>| match Part::total(&parts) {
        0 if is_old_form => reply.error("ERR No such client"),
        _ if is_old_form => reply.ok(),
        count => reply.int(count as i64),
    };
    ctx.host.ask(Subject::Kill(Arc::new(filter)), Box::new(finish));
    Ok(())
}
