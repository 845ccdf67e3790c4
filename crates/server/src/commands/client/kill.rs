//! CLIENT KILL.

use std::sync::Arc;

use command::Flag::*;
use command::{CommandError, CommandResult, Rule, Shape, integer, keyword_is, oneof, string, token};
use proactor::{CloseMode, ConnId};
use resp::Reply;

use super::SUBCOMMAND;
use super::list::Class;
use crate::commands::own::{Ctx, Entry, Run};
use crate::life::state::Part;
use crate::session::Session;
use crate::thread::Thread;

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

/// Which clients are meant: those that everything given here holds for.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    class: Option<Class>,
    /// The number of its user.
    user: Option<u64>,
    peer: Option<String>,
    local: Option<String>,
    /// Not the client that asks.
    except: Option<u64>,
}

impl Filter {
    fn parse(ctx: &mut Ctx) -> Result<Filter, CommandError> {
        let asker = ctx.store.client.id;
        let users = &ctx.host.shared.users;
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
                    let id = id.ok_or(CommandError::new("ERR client-id should be greater than 0"))?;
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

    fn takes(&self, session: &Session) -> bool {
        let is_at = |address: &str, wanted: &Option<String>| match wanted {
            None => true,
            Some(wanted) if session.is_unix => wanted.strip_suffix(":0") == Some(address),
            Some(wanted) => wanted == address,
        };
        self.except != Some(session.client.id)
            && self.id.is_none_or(|id| id == session.client.id)
            && self.class.is_none_or(|class| class.has(session))
            && self.user.is_none_or(|number| number == session.access.user_number())
            && is_at(&session.peer, &self.peer)
            && is_at(&session.local, &self.local)
    }
}

fn client_kill(ctx: &mut Ctx) -> CommandResult {
    let filter = Filter::parse(ctx)?;
    let asker = ctx.store.client.id;
    let is_old_form = ctx.args.len() == 3;
    let each = move |thread: &mut Thread| Part::Count(thread.kill(&filter, asker));
    let finish = move |parts: Vec<Part>, reply: &mut Reply<'_>| match Part::total(&parts) {
        0 if is_old_form => reply.error("ERR No such client"),
        _ if is_old_form => reply.ok(),
        count => reply.int(count as i64),
    };
    ctx.host.ask(Arc::new(each), Box::new(finish));
    Ok(())
}

impl Thread {
    /// Closes the clients of this thread that `filter` takes; the one that asks gets its answer before.
    fn kill(&mut self, filter: &Filter, asker: u64) -> u64 {
        let is_meant = |(conn, session): (ConnId, &mut Session)| filter.takes(session).then_some(conn);
        let meant: Vec<ConnId> = self.host.connections.iter_mut().filter_map(is_meant).collect();
        for &conn in &meant {
            match self.host.connections.session(conn) {
                Some(session) if session.client.id == asker => session.close_after_reply = true,
                _ => self.close(conn, CloseMode::Now),
            }
        }
        meant.len() as u64
    }
}
