//! CLIENT LIST and CLIENT INFO: a line about each connection.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::session::{Listed, Part, Protocol, RequestSize, Session, Subject, flags};
use engine::Flag::*;
use engine::{CommandResult, Rule, Shape, Table, integer, oneof, string, token};
use proactor::Usage;
use pubsub::ClientTracking;
use resp::Proto;
use shard::Scope;

use super::SUBCOMMAND;
use super::filter::*;
use crate::{Ctx, Entry, Run};

pub(super) const CLIENT_INFO: Entry = Entry {
    name: "info",
    summary: "Returns information about the connection.",
    since: "6.2.0",
    arity: 2,
    tips: &["nondeterministic_output"],
    reply: Shape::Verbatim,
    run: Run::Function(client_info),
    ..SUBCOMMAND
};

fn client_info(ctx: &mut Ctx) -> CommandResult {
    let line = ctx.host.line(ctx.args);
    ctx.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

pub(super) const CLIENT_LIST: Entry = Entry {
    name: "list",
    summary: "Lists open connections.",
    complexity: "O(N) where N is the number of client connections",
    since: "2.4.0",
    arity: -2,
    flags: &[Admin, NoScript, Loading, Stale],
    rules: &[Rule::KeepsCaching, Rule::AsksThreads],
    args: &[
        oneof(
            "client-type",
            &[
                token("normal", "NORMAL"),
                token("master", "MASTER"),
                token("replica", "REPLICA"),
                token("pubsub", "PUBSUB"),
            ],
        )
        .token("TYPE")
        .optional()
        .since("5.0.0"),
        integer("client-id").token("ID").optional().multiple().since("6.2.0"),
        string("username").token("USER").optional().since("9.0.0"),
        string("addr").display("ip:port").token("ADDR").optional().since("9.0.0"),
        string("laddr").display("ip:port").token("LADDR").optional().since("9.0.0"),
        SKIPME.since("9.0.0"),
        MAXAGE,
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
    history: &[
        ("2.8.12", "Added unique client `id` field."),
        ("5.0.0", "Added optional `TYPE` filter."),
        ("6.0.0", "Added `user` field."),
        ("6.2.0", "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter."),
        ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
        ("7.0.3", "Added `ssub` field."),
        (
            "9.0.0",
            "Added filters USER, ADDR, LADDR, SKIPME, MAXAGE, NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA, IP and the NOT- variants of filters, as in Valkey.",
        ),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::Verbatim,
    run: Run::Function(client_list),
    ..SUBCOMMAND
};

fn client_list(ctx: &mut Ctx) -> CommandResult {
    let filter = parse(ctx, For::List)?;
    let ids = filter.ids().map(<[u64]>::to_vec);
    let listed = Listed { filter, asked: RequestSize::of(ctx.args) };
    let finish = move |parts: Vec<Part>, reply: &mut resp::Reply<'_>| {
        let mut lines = Part::sorted_lines(parts);
        if let Some(ids) = ids {
            let find = |id: &u64| lines.binary_search_by_key(id, |(id, _)| *id).ok();
            lines = ids.iter().filter_map(find).map(|index| lines[index].clone()).collect();
        }
        let text: Vec<u8> = lines.into_iter().flat_map(|(_, line)| line).collect();
        reply.verbatim("txt", &text);
    };
    ctx.host.ask(Subject::List(Arc::new(listed)), Box::new(finish));
    Ok(())
}

/// The size of Redis' fixed reply buffer. Output beyond it is counted as a list of blocks.
const REPLY_BUFFER_BYTES: usize = 16 * 1024;

/// The line of `CLIENT LIST` about a client.
pub fn line(session: &Session, usage: Usage, argument_bytes: usize, now_ms: u64, table: &Table) -> String {
    let age_seconds = now_ms.saturating_sub(session.created_ms) / 1000;
    let idle_seconds = now_ms.saturating_sub(session.active_ms) / 1000;
    let (queued, multi_bytes) = match session.transaction() {
        None => (-1, 0),
        Some(multi) => (multi.queued.len() as i64, multi.memory_bytes),
    };
    let listed_bytes = usage.output_bytes.saturating_sub(REPLY_BUFFER_BYTES);
    let total_bytes = session.memory_bytes(usage) - session.state.argument_bytes() + argument_bytes;
    let address = |text: &str| if session.is_unix { format!("{text}:0") } else { text.to_owned() };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut line = String::with_capacity(400);
    let _ = writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={age_seconds} idle={idle_seconds} flags={} db={} sub={} psub={} \
         ssub={} multi={queued} watch={} qbuf={} qbuf-free={} argv-mem={argument_bytes} multi-mem={multi_bytes} \
         rbs={} rbp={} obl={} oll={} omem={listed_bytes} tot-mem={total_bytes} events={} cmd={} user={} \
         redir={} resp={} lib-name={} lib-ver={}",
        session.client.id,
        address(&session.peer),
        address(&session.local),
        session.descriptor,
        text(&session.name),
        flags(session),
        session.client.db,
        session.subscriptions.channels(Scope::Global).len(),
        session.subscriptions.patterns().len(),
        session.subscriptions.channels(Scope::Shard).len(),
        session.watching.keys.len(),
        usage.input_bytes,
        usage.input_capacity_bytes - usage.input_bytes.min(usage.input_capacity_bytes),
        usage.output_capacity_bytes,
        session.output_bytes_peak.max(usage.output_bytes),
        usage.output_bytes.min(REPLY_BUFFER_BYTES),
        listed_bytes.div_ceil(REPLY_BUFFER_BYTES),
        if usage.output_bytes > 0 { "rw" } else { "r" },
        session.last_command.map_or("NULL", |id| table.get(id).full_name.as_str()),
        text(&session.access.user().name),
        ClientTracking::redirect_of(session.tracking.as_deref()),
        match (session.protocol, session.client.proto) {
            (Protocol::Memcached, _) => 0,
            (Protocol::Redis, Proto::Resp2) => 2,
            (Protocol::Redis, Proto::Resp3) => 3,
        },
        text(&session.lib_name),
        text(&session.lib_version),
    );
    if session.follows_redirects {
        line.truncate(line.trim_end().len());
        line.push_str(" capa=r\n");
    }
    line
}
