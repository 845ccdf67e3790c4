//! HELLO and AUTH.

use acl::DEFAULT;
use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, Mode, SecretOption, Secrets, Shape, block, integer, keyword_is,
    string,
};
use resp::Proto;

use crate::commands::client::valid_name;
use crate::{Ctx, Entry, Run};

pub(super) const AUTH: Entry = Entry {
    name: "auth",
    summary: "Authenticates the connection.",
    complexity: "O(N) where N is the number of passwords defined for the user",
    since: "1.0.0",
    group: Group::Connection,
    arity: -2,
    flags: &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy],
    acl: &[Acl::Connection],
    mode: Mode::Session,
    args: &[string("username").optional().since("6.0.0"), string("password")],
    history: &[("6.0.0", "Added ACL style (username and password).")],
    reply: Shape::OK,
    secrets: Secrets::From(1),
    run: Run::Function(auth),
    ..Entry::DEFAULT
};

fn auth(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    match *ctx.args {
        [_, _] if host.server.users.takes_any_password() => {
            return Err(CommandError::new(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                 your configuration is correct?",
            ));
        }
        [_, password] => host.authenticate(DEFAULT, password, ctx.args)?,
        [_, user, password] => host.authenticate(user, password, ctx.args)?,
        _ => return Err(CommandError::SYNTAX),
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) const HELLO: Entry = Entry {
    name: "hello",
    summary: "Handshakes with the Redis server.",
    since: "6.0.0",
    group: Group::Connection,
    arity: -1,
    flags: &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy],
    acl: &[Acl::Connection],
    mode: Mode::Session,
    args: &[block(
        "arguments",
        &[
            integer("protover"),
            block("auth", &[string("username"), string("password")]).token("AUTH").optional(),
            string("clientname").token("SETNAME").optional(),
        ],
    )
    .optional()],
    history: &[(
        "6.2.0",
        "`protover` made optional; when called without arguments the command reports the current connection's context.",
    )],
    reply: Shape::Map(&Shape::Bulk, &Shape::Any),
    secrets: Secrets::Options {
        from: 2,
        options: &[SecretOption::secret("auth", 2), SecretOption::open("setname", 1)],
    },
    run: Run::Function(hello),
    ..Entry::DEFAULT
};

fn hello(ctx: &mut Ctx) -> CommandResult {
    let proto = match ctx.args.get(1) {
        None => None,
        Some(version) => Some(match ds::num::parse_i64(version) {
            Some(2) => Proto::Resp2,
            Some(3) => Proto::Resp3,
            Some(_) => return Err(CommandError::new("NOPROTO unsupported protocol version")),
            None => return Err(CommandError::new("ERR Protocol version is not an integer or out of range")),
        }),
    };
    let (mut credentials, mut name) = (None, None);
    let mut rest = ctx.args.get(2..).unwrap_or_default();
    while let [option, values @ ..] = rest {
        rest = match values {
            [user, password, rest @ ..] if keyword_is(option, "AUTH") => {
                credentials = Some((*user, *password));
                rest
            }
            [new_name, rest @ ..] if keyword_is(option, "SETNAME") => {
                name = Some(valid_name(new_name)?);
                rest
            }
            _ => return Err(CommandError::quoting("ERR Syntax error in HELLO option '", option, "'")),
        };
    }
    let host = &mut *ctx.host;
    if let Some((user, password)) = credentials {
        host.authenticate(user, password, ctx.args)?;
    }
    if !host.session.access.is_authenticated() {
        return Err(CommandError::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
             the same time",
        ));
    }
    if let Some(name) = name {
        host.session.name = name.to_vec();
        host.note_label();
    }
    let (client, server) = (&mut host.session.client, host.server);
    client.proto = proto.unwrap_or(client.proto);
    if client.proto == Proto::Resp2 {
        // RESP2 has no messages apart from replies.
        host.session.recipient = None;
    }
    let client = &host.session.client;
    let (id, proto) = (client.id, client.proto);
    ctx.reply.set_proto(proto);
    ctx.reply.map(7);
    ctx.reply.bulk(b"server");
    ctx.reply.bulk(b"redis");
    ctx.reply.bulk(b"version");
    ctx.reply.bulk(server.redis_version.as_bytes());
    ctx.reply.bulk(b"proto");
    ctx.reply.int(if proto == Proto::Resp3 { 3 } else { 2 });
    ctx.reply.bulk(b"id");
    ctx.reply.int(id as i64);
    ctx.reply.bulk(b"mode");
    ctx.reply.bulk(server.settings.mode().as_bytes());
    ctx.reply.bulk(b"role");
    ctx.reply.bulk(b"master");
    ctx.reply.bulk(b"modules");
    ctx.reply.array(0);
    Ok(())
}
