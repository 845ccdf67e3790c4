//! REPLICAOF, FAILOVER, PSYNC and related commands.

use effectlog::{Reader, StreamPosition};
use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, Mode, Route, Rule, Shape, block, integer, keyword_is, oneof,
    parse_i64, string, token,
};

use config::{CLUSTER_MODE, REPL_DISKLESS_SYNC};

use crate::address::Address;
use crate::failover::FailoverPlan;
use crate::feed::Feed;
use crate::groups::{self, GROUP_BEAT, GROUP_STANDING};
use crate::parts::Parts;
use crate::primary::{CopyContent, Replica};
use crate::waiting::{WAIT, WAITAOF};
use crate::{Ctx, Entry, Run, handover, role};

/// The commands of this crate.
pub const ENTRIES: &[Entry] =
    &[FAILOVER, GROUP_BEAT, GROUP_STANDING, PSYNC, REPLCONF, REPLICAOF, ROLE, SLAVEOF, SYNC, WAIT, WAITAOF];

const FAILOVER: Entry = Entry {
    name: "failover",
    summary: "Starts a coordinated failover from a server to one of its replicas.",
    since: "6.2.0",
    group: Group::Server,
    flags: &[Admin, NoScript, Stale],
    args: &[
        block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()])
            .token("TO")
            .optional(),
        token("abort", "ABORT").optional(),
        integer("milliseconds").token("TIMEOUT").optional(),
    ],
    route: Route::Global,
    mode: Mode::Session,
    reply: Shape::OK,
    run: Run::Function(failover),
    ..Entry::DEFAULT
};

fn failover(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.parts.settings.is_on(CLUSTER_MODE) {
        return Err(CommandError::fixed("ERR FAILOVER not allowed in cluster mode."));
    }
    groups::refuse(ctx, "FAILOVER")?;
    tell_nothing(ctx);
    let state = &ctx.host.parts.following.failover;
    if matches!(ctx.args[1..], [word] if keyword_is(word, "ABORT")) {
        if !state.is_on() {
            return Err(CommandError::fixed("ERR No failover in progress."));
        }
        let Ctx { host, store, .. } = ctx;
        handover::abort(&host.parts, store.tx, &mut *host.draw_id, "it was aborted by hand");
        ctx.reply.ok();
        return Ok(());
    }
    let plan = plan(ctx)?;
    if state.is_on() {
        return Err(CommandError::fixed("ERR FAILOVER already in progress."));
    }
    if ctx.host.parts.following.is_replica() {
        return Err(CommandError::fixed("ERR FAILOVER is not valid when server is a replica."));
    }
    if let Some(error) = handover::refusal(&ctx.host.parts, &plan, ctx.host.now_ms) {
        return Err(error);
    }
    handover::begin(&ctx.host.parts, plan);
    ctx.reply.ok();
    Ok(())
}

/// Reads the options of `FAILOVER`.
fn plan(ctx: &mut Ctx) -> Result<FailoverPlan, CommandError> {
    let mut plan = FailoverPlan { target: None, is_chosen: false, forces: false, end_ms: None };
    let mut rest = &ctx.args[1..];
    while let [word, after @ ..] = rest {
        rest = match after {
            [text, rest @ ..] if keyword_is(word, "TIMEOUT") && plan.end_ms.is_none() => {
                let timeout_ms = u64::try_from(parse_i64(text)?).ok().filter(|timeout_ms| *timeout_ms > 0);
                let timeout_ms =
                    timeout_ms.ok_or(CommandError::fixed("ERR FAILOVER timeout must be greater than 0"))?;
                plan.end_ms = Some(ctx.host.now_ms.saturating_add(timeout_ms));
                rest
            }
            [host, port, rest @ ..] if keyword_is(word, "TO") && plan.target.is_none() => {
                // No replica listens at what is no port.
                let port = u16::try_from(parse_i64(port)?).unwrap_or(0);
                plan.target = Some(Address { host: String::from_utf8_lossy(host).into_owned(), port });
                rest
            }
            rest if keyword_is(word, "FORCE") && !plan.forces => {
                plan.forces = true;
                rest
            }
            _ => return Err(CommandError::SYNTAX),
        };
    }
    Ok(plan)
}

/// A command that may change the role is answered at once: it must not wait for replicas, which may no longer be
/// replicas of this server, or include the client that asks.
fn tell_nothing(ctx: &mut Ctx) {
    if !ctx.store.client.deny_blocking {
        ctx.store.tx.tell_nothing();
    }
}

const REPLICAOF: Entry = Entry {
    name: "replicaof",
    summary: "Configures a server as replica of another, or promotes it to a master.",
    since: "5.0.0",
    group: Group::Server,
    arity: 3,
    flags: &[Admin, NoScript, Stale, NoAsyncLoading],
    args: &[oneof(
        "args",
        &[
            block("host-port", &[string("host"), integer("port")]),
            block("no-one", &[token("no", "NO"), token("one", "ONE")]),
        ],
    )],
    route: Route::Global,
    mode: Mode::Session,
    reply: Shape::OK,
    run: Run::Function(replicaof),
    ..Entry::DEFAULT
};

const SLAVEOF: Entry = Entry {
    name: "slaveof",
    summary: "Sets a Redis server as a replica of another, or promotes it to being a master.",
    since: "1.0.0",
    deprecated: Some(("5.0.0", "`REPLICAOF`")),
    ..REPLICAOF
};

fn replicaof(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.parts.settings.is_on(CLUSTER_MODE) {
        return Err(CommandError::fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    groups::refuse(ctx, "REPLICAOF")?;
    tell_nothing(ctx);
    if ctx.host.parts.following.failover.is_on() {
        return Err(CommandError::fixed("ERR REPLICAOF not allowed while failing over."));
    }
    if keyword_is(ctx.args[1], "NO") && keyword_is(ctx.args[2], "ONE") {
        role::lead(&ctx.host.parts, &mut *ctx.host.draw_id);
        ctx.reply.ok();
        return Ok(());
    }
    if ctx.host.peer().feed.is_some() {
        return Err(CommandError::fixed("ERR Command is not valid when client is a replica."));
    }
    let port = ds::num::parse_i64(ctx.args[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CommandError::fixed("ERR Invalid master port"))?;
    let primary = Address { host: String::from_utf8_lossy(ctx.args[1]).into_owned(), port };
    if ctx.host.parts.following.primary().is_some_and(|known| known.is(&primary.host, primary.port)) {
        tracing::info!(
            "REPLICAOF would result into synchronization with the master we are already connected with"
        );
        ctx.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    role::follow(&ctx.host.parts, primary, ctx.host.now_ms);
    ctx.reply.ok();
    Ok(())
}

const PSYNC: Entry = Entry {
    name: "psync",
    summary: "An internal command used in replication.",
    complexity: "",
    since: "2.8.0",
    group: Group::Server,
    arity: -3,
    flags: &[Admin, NoScript, NoAsyncLoading, NoMulti],
    args: &[string("replicationid"), integer("offset")],
    // It may change the role.
    route: Route::Global,
    run: Run::Function(psync),
    ..Entry::DEFAULT
};

const SYNC: Entry = Entry { name: "sync", since: "1.0.0", arity: 1, args: &[], ..PSYNC };

/// It has no reply: the client's [`Feed`] sends what there is to say.
fn psync(ctx: &mut Ctx) -> CommandResult {
    let is_announced = ctx.args.len() > 1;
    if ctx.host.peer().feed.is_some() {
        return Ok(());
    }
    tell_nothing(ctx);
    if ctx.host.parts.following.failover.is_on() {
        return Err(CommandError::fixed("NOMASTERLINK Can't SYNC while failing over"));
    }
    if ctx.args.get(3).is_some_and(|word| keyword_is(word, "FAILOVER")) {
        take_over(ctx)?;
    }
    let following = ctx.host.parts.following;
    if following.is_replica() && !following.is_link_up() {
        return Err(CommandError::fixed("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let (primary, now_ms) = (ctx.host.parts.primary, ctx.host.now_ms);
    let client = ctx.store.client.id;
    let address = ctx.host.address.rsplit_once(':').map_or(ctx.host.address, |(address, _)| address);
    let address = address.trim_matches(['[', ']']).to_owned();
    let peer = ctx.host.peer();
    let (port, capabilities, content) = (peer.port, peer.capabilities, peer.content());
    if content == CopyContent::Functions && !capabilities.reads_marks {
        return Err(CommandError::fixed("ERR Filtered replica requires EOF capability"));
    }
    let address = peer.address.clone().unwrap_or(address);
    let replica =
        |content| primary.enter(Replica::new(client, (address.clone(), port), content, capabilities, now_ms));
    tracing::info!("Replica {address}:{port} asks for synchronization");
    let continued = if is_announced { place_of(ctx)? } else { None };
    let link = groups::link(ctx, continued.is_none())?;
    let feed = match continued {
        Some(place) => {
            primary.partial_count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let id = primary.history().id;
            let id = if capabilities.follows_renaming {
                format!(" {}", String::from_utf8_lossy(&id))
            } else {
                String::new()
            };
            let link = link.map_or_else(String::new, |link| format!(" {}", link.0));
            ctx.reply.simple(&format!("CONTINUE{id}{link}"));
            let from = if matches!(place, ResumePoint::Journal(_)) { "the journal" } else { "memory" };
            tracing::info!(
                "Partial resynchronization request from {address}:{port} accepted, from {from}, behind offset {}",
                parse_i64(ctx.args[2])?.saturating_sub(1)
            );
            if let Some(mark) = ctx.host.peer().mark.take() {
                ctx.store.tell_replicas(&[b"REPLCONF", b"GETACK", &mark]);
            }
            match place {
                ResumePoint::Memory(reader) => Feed::online(replica(content), reader, now_ms),
                ResumePoint::Journal(offset) => {
                    Feed::waiting(replica(CopyContent::Tail(offset)), false, false, None, now_ms)
                }
            }
        }
        None => {
            let wants_no_stream = ctx.host.peer().wants_no_stream;
            let mark = (capabilities.reads_marks && ctx.host.parts.settings.is_on(REPL_DISKLESS_SYNC))
                .then(|| (ctx.host.draw_id)());
            Feed::waiting(replica(content), is_announced, wants_no_stream, mark, now_ms).with_link(link)
        }
    };
    let role = ctx.host.parts.following.version();
    let peer = ctx.host.peer();
    (peer.feed, peer.role) = (Some(Box::new(feed)), role);
    ctx.host.is_fed = true;
    Ok(())
}

/// This server's primary asks it to change places: it leads from now on, and its primary continues as its replica.
fn take_over(ctx: &mut Ctx) -> CommandResult {
    if !ctx.host.parts.following.is_replica() {
        return Err(CommandError::fixed("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !ctx.args[1].eq_ignore_ascii_case(&ctx.host.parts.primary.history().id) {
        return Err(CommandError::fixed("ERR PSYNC FAILOVER replid must match my replid."));
    }
    let divergence = ctx.host.parts.following.divergence.load(std::sync::atomic::Ordering::Relaxed);
    let is_forced = ctx.args.get(4).is_some_and(|word| keyword_is(word, "FORCE"));
    if divergence > 0 && !is_forced {
        return Err(CommandError::new(format!(
            "ERR PSYNC FAILOVER is refused: {divergence} commands of the primary failed here, see master_link_divergence"
        )));
    }
    let Parts { log, settings, .. } = ctx.host.parts;
    if log.lacks_copy(settings) && !is_forced {
        return Err(CommandError::fixed(
            "ERR PSYNC FAILOVER is refused: the journal here has not got the last full copy yet",
        ));
    }
    role::lead(&ctx.host.parts, &mut *ctx.host.draw_id);
    Ok(())
}

/// Where in the stream a replica continues.
enum ResumePoint {
    /// In the part that is in memory.
    Memory(Reader),
    /// At this offset, in the journal.
    Journal(StreamPosition),
}

/// Where in the stream the client continues, if it knows the stream and that part is still available.
fn place_of(ctx: &mut Ctx) -> Result<Option<ResumePoint>, CommandError> {
    let (id, first) = (ctx.args[1], parse_i64(ctx.args[2])?);
    let primary = ctx.host.parts.primary;
    // It names the first byte that it lacks, counted from 1.
    let offset = u64::try_from(first).ok().and_then(|first| first.checked_sub(1)).map(StreamPosition::new);
    let history = primary.history();
    let place = offset.filter(|offset| history.knows(id, *offset)).and_then(|offset| {
        // Up to where it had another id the stream has been applied here.
        let applied = history.previous.map_or(StreamPosition::START, |(_, end)| end);
        let version = ctx.host.peer().capabilities.version();
        let log = ctx.host.parts.log;
        let reader = log.backlog.read_from_coming(offset, applied, version);
        let in_journal = || {
            let is_there = log.open().is_some_and(|journal| journal.reaches_back_to(offset));
            is_there.then_some(ResumePoint::Journal(offset))
        };
        reader.map(ResumePoint::Memory).or_else(in_journal)
    });
    if place.is_none() && id != b"?" {
        primary.refused_count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        tracing::info!(
            "Partial resynchronization not accepted: the replica asked for {} behind offset {}; {history}, and {} on is kept",
            id.escape_ascii(),
            offset.unwrap_or_default(),
            ctx.host.parts.log.backlog.first()
        );
    }
    Ok(place)
}

const REPLCONF: Entry = Entry {
    name: "replconf",
    is_system: true,
    summary: "An internal command for configuring the replication stream.",
    since: "3.0.0",
    group: Group::Server,
    flags: &[Admin, NoScript, Loading, Stale, AllowBusy],
    // A primary's question for the offset stands in the stream.
    rules: &[Rule::LeavesNothing],
    reply: Shape::OK,
    run: Run::Function(replconf),
    ..Entry::DEFAULT
};

/// The longest mark that a replica may ask for in the stream.
const MARK_BYTES_MAX: usize = 40;
/// The longest address that a replica may announce.
const ADDRESS_BYTES_MAX: usize = 255;

fn replconf(ctx: &mut Ctx) -> CommandResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> = ctx.args[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let now_ms = ctx.host.now_ms;
    // Nothing can be put into the stream of another server.
    let is_copy = ctx.host.parts.following.is_replica();
    let parts = ctx.host.parts;
    for (index, (option, value)) in pairs.iter().enumerate() {
        let (option, value) = (*option, *value);
        let peer = ctx.host.peer();
        if keyword_is(option, "ACK") {
            // It may be followed by what is durable there, and by how many commands failed. Nobody waits for a reply to this.
            let mut more = pairs[index + 1..].iter();
            let durable = more.clone().next().filter(|(option, _)| keyword_is(option, "FACK"));
            let divergence = more.find(|(option, _)| keyword_is(option, "DIVERGENCE"));
            let number = |text: &[u8]| parse_i64(text).ok().and_then(|number| u64::try_from(number).ok());
            if let (Some(feed), Some(offset)) = (&peer.feed, number(value).map(StreamPosition::new)) {
                let durable = durable.and_then(|(_, value)| number(value)).map(StreamPosition::new);
                feed.replica().acknowledge(offset, durable, now_ms);
                feed.replica().note_divergence(divergence.and_then(|(_, value)| number(value)).unwrap_or(0));
                if let Some((introduction, Some(link))) = &peer.node {
                    let group = &parts.log.synced.group;
                    group.receive(introduction, *link, (offset, durable), parts.clock.boot_ms());
                }
                parts.note_ack(now_ms);
            }
            return Ok(());
        } else if keyword_is(option, "GETACK") {
            // What a primary asks of its replicas.
            return Ok(());
        } else if keyword_is(option, "LISTENING-PORT") {
            peer.port = parse_i64(value)? as u16;
        } else if keyword_is(option, "IP-ADDRESS") {
            if value.len() > ADDRESS_BYTES_MAX {
                return Err(CommandError::new(format!(
                    "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                    value.len()
                )));
            }
            peer.address = Some(String::from_utf8_lossy(value).into_owned());
        } else if keyword_is(option, "CAPA") {
            peer.capabilities.note(value);
        } else if keyword_is(option, "MARK") && value.len() <= MARK_BYTES_MAX && !is_copy {
            peer.mark = Some(value.into());
        } else if keyword_is(option, "GROUP") {
            peer.node = Some((groups::introduced(&parts.log.synced.group, value)?, None));
        } else if keyword_is(option, "RDB-ONLY") {
            peer.wants_no_stream = match parse_i64(value)? {
                0 => false,
                1 => true,
                _ => {
                    return Err(CommandError::fixed("ERR value is out of range, value must between 0 and 1"));
                }
            };
        } else if keyword_is(option, "RDB-FILTER-ONLY") {
            peer.wants_functions = wants_functions(value)?;
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(CommandError::new(format!("ERR Unrecognized REPLCONF option: {option}")));
        }
    }
    ctx.reply.ok();
    Ok(())
}

/// Whether a filter keeps only the libraries of functions, rather than everything.
fn wants_functions(filter: &[u8]) -> Result<bool, CommandError> {
    let mut wants_functions = false;
    for word in filter.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
        if !keyword_is(word, "FUNCTIONS") {
            let word = String::from_utf8_lossy(word);
            return Err(CommandError::new(format!("ERR Unsupported rdb-filter-only option: {word}")));
        }
        wants_functions = true;
    }
    Ok(wants_functions)
}

const ROLE: Entry = Entry {
    name: "role",
    summary: "Returns the replication role.",
    since: "2.8.12",
    group: Group::Server,
    arity: 1,
    flags: &[NoScript, Loading, Stale, Fast],
    acl: &[Acl::Admin, Acl::Dangerous],
    reply: Shape::Array(&Shape::Any),
    run: Run::Function(role_of),
    ..Entry::DEFAULT
};

fn role_of(ctx: &mut Ctx) -> CommandResult {
    let following = ctx.host.parts.following;
    if let Some(Address { host, port }) = following.primary() {
        let offset = if following.is_link_up() { following.offset().get() as i64 } else { -1 };
        ctx.reply.array(5);
        ctx.reply.bulk(b"slave");
        ctx.reply.bulk(host.as_bytes());
        ctx.reply.int(i64::from(port));
        ctx.reply.bulk(following.state().name().as_bytes());
        ctx.reply.int(offset);
        return Ok(());
    }
    let replicas = ctx.host.parts.primary.replicas(ctx.host.now_ms);
    let online = || replicas.iter().filter(|replica| replica.state == "online");
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.int(ctx.host.parts.log.position().get() as i64);
    ctx.reply.array(online().count());
    for replica in online() {
        ctx.reply.array(3);
        ctx.reply.bulk(replica.address.as_bytes());
        ctx.reply.bulk(replica.port.to_string().as_bytes());
        ctx.reply.bulk(replica.offset.to_string().as_bytes());
    }
    Ok(())
}
