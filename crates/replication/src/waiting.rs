//! WAIT and WAITAOF: a client waits until replicas, or the disk, have what it wrote.
//!
//! The client waits for the last slice with a write of its own. When that slice is closed, its end is an offset, which
//! replicas acknowledge. They do so once a second, so the stream also asks them. The question comes after that slice,
//! because the offset in the answer does not include the question.
//!
//! Not here: how a client waits, and when replicas are asked (`server`, `life/syncing.rs`).

use config::APPENDONLY;
use effectlog::Lsn;
use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, Mode, Shape, Tx, integer, parse_i64, parse_timeout_in_ms,
};
use resp::Reply;

use crate::{Ctx, Entry, Run};

/// A client's question about its writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wish {
    /// They must be on the disk of this server.
    pub is_local: bool,
    /// This many replicas must have them.
    pub replicas: u64,
    /// The replicas must have them on their disks: `WAITAOF`.
    pub is_durable: bool,
}

/// The condition for which a client waits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Awaited {
    /// Its question.
    pub wish: Wish,
    /// The last slice with a write of the client.
    pub written: Lsn,
    /// The slice of the journal that must be on this server's disk for its writes to be there.
    pub kept: Lsn,
}

/// How far a client's writes have got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// They are on the disk of this server.
    pub is_local: bool,
    /// The number of replicas that have them, on their disks if that was asked.
    pub replicas: u64,
}

impl Awaited {
    /// Whether this fulfils the request.
    pub fn is_met_by(&self, reached: Reached) -> bool {
        reached.replicas >= self.wish.replicas && (reached.is_local || !self.wish.is_local)
    }

    /// The reply of WAIT, or of WAITAOF.
    pub fn reply(&self, reached: Reached, reply: &mut Reply<'_>) {
        if self.wish.is_durable {
            reply.array(2);
            reply.int(i64::from(reached.is_local));
        }
        reply.int(reached.replicas as i64);
    }
}

/// The error of `WAITAOF` without a journal.
pub const NO_JOURNAL: CommandError =
    CommandError::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

const WAIT_AT_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.";

const WAITAOF_AT_REPLICA: &str = "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.";

pub(crate) const WAIT: Entry = Entry {
    name: "wait",
    summary: "Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed.",
    since: "3.0.0",
    group: Group::Generic,
    arity: 3,
    acl: &[Acl::Connection],
    mode: Mode::Session,
    args: &[integer("numreplicas"), integer("timeout")],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    reply: Shape::Int,
    run: Run::Function(wait),
    ..Entry::DEFAULT
};

fn wait(ctx: &mut Ctx) -> CommandResult {
    if ctx.host.parts.following.is_replica() {
        return Err(CommandError::fixed(WAIT_AT_REPLICA));
    }
    let replicas = parse_i64(ctx.args[1])?.max(0) as u64;
    let timeout_ms = parse_timeout_in_ms(ctx.args[2], ctx.store.now())?;
    await_copies(ctx, Wish { replicas, ..Wish::default() }, timeout_ms);
    Ok(())
}

pub(crate) const WAITAOF: Entry = Entry {
    name: "waitaof",
    summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master and/or replicas.",
    since: "7.2.0",
    group: Group::Generic,
    arity: 4,
    flags: &[NoScript],
    acl: &[Acl::Connection],
    mode: Mode::Session,
    args: &[integer("numlocal"), integer("numreplicas"), integer("timeout")],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    reply: Shape::Tuple(&[Shape::Int, Shape::Int]),
    run: Run::Function(waitaof),
    ..Entry::DEFAULT
};

fn waitaof(ctx: &mut Ctx) -> CommandResult {
    let local = parse_i64(ctx.args[1])?;
    if !(0..=1).contains(&local) {
        return Err(CommandError::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = u64::try_from(parse_i64(ctx.args[2])?);
    let replicas = replicas.map_err(|_| CommandError::OUT_OF_RANGE_POSITIVE)?;
    let timeout_ms = parse_timeout_in_ms(ctx.args[3], ctx.store.now())?;
    if ctx.host.parts.following.is_replica() {
        return Err(CommandError::fixed(WAITAOF_AT_REPLICA));
    }
    if local > 0 && !ctx.host.parts.settings.is_on(APPENDONLY) {
        return Err(NO_JOURNAL);
    }
    await_copies(ctx, Wish { is_local: local > 0, replicas, is_durable: true }, timeout_ms);
    Ok(())
}

/// Replies if the request is already fulfilled or the client may not wait here. Otherwise the client waits.
fn await_copies(ctx: &mut Ctx, wish: Wish, timeout_ms: u64) {
    let may_wait = !ctx.store.client.deny_blocking;
    let tx = &mut *ctx.store.tx;
    if may_wait {
        // What the transaction wrote is published and included.
        tx.commit();
        note_written(tx, ctx.host.written_slice);
    }
    let (written, parts) = (*ctx.host.written_slice, ctx.host.parts);
    let kept =
        if tx.hold.has_unpublished() { Lsn::MAX } else { parts.log.unkept(written).unwrap_or(Lsn::NONE) };
    let awaited = Awaited { wish, written, kept };
    let reached = parts.reached(&awaited);
    if may_wait && !awaited.is_met_by(reached) {
        ctx.host.waits_for = Some((awaited, timeout_ms));
    } else {
        awaited.reply(reached, &mut ctx.reply);
    }
}

/// Notes that the changes that `tx` has committed belong to a client, whose last slice with a write is `written_slice`.
#[inline]
pub fn note_written(tx: &mut Tx<'_>, written_slice: &mut Lsn) {
    let written = std::mem::take(&mut tx.written);
    if written != Lsn::NONE {
        *written_slice = written;
    }
}
