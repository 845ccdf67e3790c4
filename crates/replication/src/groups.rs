//! What the nodes of a group say to each other: `REPLCONF group`, with which a replica introduces itself before PSYNC, and
//! two internal commands, outside of the stream's connection so that a busy stream delays no grant.
//!
//! ```text
//!   replica ── GROUP-BEAT 17:b:<life>:<to> <link> <offset> <beat> ──▶ primary     an acknowledgement and a grant, if <beat> ≠ 0
//!           ◀── the time of the next beat, by the primary's clock ──
//!   any node ── GROUP-STANDING ──▶ any node                                       what it has, for a recovery (rule 10)
//! ```

use effectlog::StreamPosition;
use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Rule, Shape, keyword_is, parse_i64, string};
use group::{Ack, LinkId};

use crate::membership::{Introduction, Membership};
use crate::{Ctx, Entry, Run};

/// How long a handover may take before it is given up, and the most that may be asked for.
const HANDOVER_MS: u64 = 5_000;
const HANDOVER_MS_MAX: u64 = 60_000;

/// The error for a replica that means another primary or another term. It tries again.
const NOT_MINE: &str = "NOMASTERLINK this node does not lead in the term in which you follow";

pub(crate) const GROUP_BEAT: Entry = Entry {
    name: "group-beat",
    is_system: true,
    summary: "An internal command for the grants of a group's replicas.",
    since: "",
    group: Group::Server,
    arity: 5,
    flags: &[Admin, NoScript, Loading, Stale, AllowBusy, NoMulti],
    args: &[string("node"), string("link"), string("offset"), string("beat")],
    rules: &[Rule::LeavesNothing],
    reply: Shape::Int,
    run: Run::Function(group_beat),
    ..Entry::DEFAULT
};

fn group_beat(ctx: &mut Ctx) -> CommandResult {
    let parts = ctx.host.parts;
    let group = &parts.log.synced.group;
    let introduction = introduced(group, ctx.args[1])?;
    let number = |text: &[u8]| {
        let number = parse_i64(text).ok().and_then(|number| u64::try_from(number).ok());
        number.ok_or(CommandError::fixed("ERR GROUP-BEAT takes whole numbers that are not negative"))
    };
    let link = LinkId(number(ctx.args[2])?);
    let (offset, beat_ms) = (StreamPosition::new(number(ctx.args[3])?), number(ctx.args[4])?);
    let now_ms = parts.clock.boot_ms();
    if beat_ms > 0 {
        let Introduction { term, from, to } = introduction;
        group.receive_grant(&Ack { term, from, to, link, offset, beat_ms }, now_ms);
        parts.note_ack(ctx.host.now_ms);
    }
    let beat = group.beat(link, now_ms).ok_or(CommandError::fixed(NOT_MINE))?;
    ctx.reply.int(beat.sent_ms as i64);
    Ok(())
}

pub(crate) const GROUP_STANDING: Entry = Entry {
    name: "group-standing",
    summary: "An internal command for the recovery of a group: node, whether its data are whole, term of the last data, offset.",
    arity: 1,
    args: &[],
    reply: Shape::Array(&Shape::Any),
    run: Run::Function(group_standing),
    ..GROUP_BEAT
};

fn group_standing(ctx: &mut Ctx) -> CommandResult {
    let parts = ctx.host.parts;
    let group = &parts.log.synced.group;
    if !group.is_on() {
        return Err(NO_GROUP);
    }
    let standing = group.standing(&parts);
    ctx.reply.array(4);
    ctx.reply.bulk(standing.node.as_str().as_bytes());
    ctx.reply.int(i64::from(standing.is_whole));
    ctx.reply.int(standing.last_term.0 as i64);
    ctx.reply.int(standing.written.get() as i64);
    Ok(())
}

const NO_GROUP: CommandError =
    CommandError::fixed("ERR this server is in no group: it was started without cluster-etcd");

/// The node that introduces itself, if this server leads in its term.
pub(crate) fn introduced(group: &Membership, text: &[u8]) -> Result<Introduction, CommandError> {
    if !group.is_on() {
        return Err(NO_GROUP);
    }
    let introduction = Introduction::parse(text)
        .ok_or(CommandError::fixed("ERR a node of a group introduces itself as term:node:life:life"))?;
    if group.receives(&introduction) { Ok(introduction) } else { Err(CommandError::fixed(NOT_MINE)) }
}

/// The link over which the client follows from now on, if it is a node of this server's group.
pub(crate) fn link(ctx: &mut Ctx, is_copy: bool) -> Result<Option<LinkId>, CommandError> {
    let group = &ctx.host.parts.log.synced.group;
    let Some((introduction, link)) = &mut ctx.host.peer().node else { return Ok(None) };
    if !group.receives(introduction) {
        return Err(CommandError::fixed(NOT_MINE));
    }
    *link = group.link(&introduction.from.node, is_copy);
    match link {
        Some(link) => Ok(Some(*link)),
        None => Err(CommandError::fixed(
            "NOMASTERLINK your data are still counted on: this node leaves you out of the in-sync set first",
        )),
    }
}

/// Refuses a command that changes the role, because a group decides that.
pub(crate) fn refuse(ctx: &Ctx, command: &str) -> CommandResult {
    match ctx.host.parts.log.synced.group.is_on() {
        false => Ok(()),
        true => Err(CommandError::new(format!(
            "ERR {command} not allowed: the group decides who leads. CLUSTER FAILOVER hands over to another node."
        ))),
    }
}

/// `CLUSTER FAILOVER [TO node] [TIMEOUT milliseconds]`: hands over to another member (Group rule 12). The reply says that it
/// has begun. All shards are held.
pub fn hand_over_group(ctx: &mut Ctx) -> CommandResult {
    let (mut node, mut limit_ms) = (None, HANDOVER_MS);
    for pair in ctx.args[2..].chunks(2) {
        match pair {
            [word, value] if keyword_is(word, "TO") => {
                let name = std::str::from_utf8(value).ok().and_then(|name| name.parse().ok());
                node = Some(name.ok_or(CommandError::fixed("ERR TO takes the id of a node"))?);
            }
            [word, value] if keyword_is(word, "TIMEOUT") => {
                let limit = parse_i64(value)?;
                limit_ms =
                    u64::try_from(limit).ok().filter(|limit| (1..=HANDOVER_MS_MAX).contains(limit)).ok_or(
                        CommandError::fixed("ERR TIMEOUT is out of range, it is 1 to 60000 milliseconds"),
                    )?;
            }
            _ => return Err(CommandError::SYNTAX),
        }
    }
    let parts = ctx.host.parts;
    let group = &parts.log.synced.group;
    if !group.is_leading() {
        return Err(CommandError::fixed(
            "ERR this node does not lead: send CLUSTER FAILOVER to the primary, which 'darter --cluster status' names",
        ));
    }
    if !ctx.store.client.deny_blocking {
        ctx.store.tx.tell_nothing();
    }
    if !group.hand_over(&parts, node.as_ref(), limit_ms) {
        return Err(CommandError::fixed(
            "ERR that node is not in sync, or another change is under way: see 'darter --cluster status', and try again",
        ));
    }
    ctx.reply.ok();
    Ok(())
}
