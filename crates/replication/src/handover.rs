//! `FAILOVER`: this server hands over to one of its replicas, and then follows it.
//!
//! ```text
//!           FAILOVER            it has everything              it goes on with the stream
//!   Nothing ────────▶ Waiting ────────────────────▶ Asking ───────────────────────────────▶ Nothing, and this is a replica
//!      ▲ │              ▲ │ ABORT, timeout          │  │ ABORT, it refuses
//!      │ └▶ Announcing ─┘ │                         │  │
//!      └────────┴─────────┴─────────────────────────┼──┘ (this server leads again)
//!                                                   └▶ Joining: it is a primary already
//! ```
//!
//! If clients asked for notices, they leave first (`Announcing`, `leaving.rs`). From then on commands that write wait,
//! and nothing expires, until the end. Each thread begins this when it
//! hears of the failover, and tasks in progress still write. So a *mark* is set in the stream while all shards are
//! held. A replica that has acknowledged the mark has everything, provided that nothing was sent after the mark. That
//! is checked once more while all shards are held; if something was sent, another mark is set.
//!
//! A mark asks for the offset, and a live replica answers it at once. So the server does not hand over to a replica
//! that had everything and then hung. A Redis replica answers with the offset before the question, which it has applied
//! before it reads anything else. Darter answers with the offset after it.
//!
//! In `Asking` the role has changed. The old primary sends the request to take over only once: if the answer was lost,
//! the target is a primary already. A target that continues where this server's stream ended is the one that was asked.
//!
//! Not here: what the target does (`commands.rs`), and the link to it (`follower.rs`).

use config::MAINT_SECONDS;
use effectlog::StreamPosition;
use engine::{CommandError, Tx};

use crate::address::Address;
use crate::failover::{Failover, FailoverPlan, FailoverState, StreamMark};
use crate::following::Following;
use crate::history::ReplicationId;
use crate::leaving;
use crate::link::receive;
use crate::notices::Notice;
use crate::parts::{Parts, RoleNews};
use crate::role;
use crate::stage::FollowerAround;

/// The question for the offset, as it is written in the stream.
pub const QUESTION: [&[u8]; 3] = [b"REPLCONF", b"GETACK", b"*"];
/// The length of the question in the stream.
const QUESTION_BYTES: u64 = 37;

/// Begins a failover. All shards are held.
pub(crate) fn begin(parts: &Parts, plan: FailoverPlan) {
    match &plan.target {
        Some(Address { host, port }) => tracing::info!("FAILOVER requested to {host}:{port}."),
        None => tracing::info!("FAILOVER requested."),
    }
    let failover = &parts.following.failover;
    assert!(!failover.is_on(), "one failover at a time");
    let notices = &parts.following.notices;
    let is_announced = notices.has_recipients() && parts.primary.has_receiver(plan.target.as_ref());
    *failover.under_way() = Some((plan, None));
    if notices.has_recipients() {
        let (number, seconds) = (notices.next_number(), parts.settings.number(MAINT_SECONDS) as u64);
        parts.threads.announce(RoleNews::Notice(Notice::FailingOver { number, seconds }));
    }
    if is_announced {
        return failover.set_state(FailoverState::Announcing);
    }
    failover.set_state(FailoverState::Waiting);
    parts.hold_writes(true);
}

/// Begins a failover to the first replica that has everything, before this server ends. All shards are held.
///
/// # Errors
/// There is no replica that could take over.
pub fn begin_before_end(parts: &Parts, timeout_ms: u64) -> Result<(), CommandError> {
    let now_ms = parts.clock.monotonic_ms();
    let end_ms = Some(now_ms.saturating_add(timeout_ms));
    let plan = FailoverPlan { target: None, is_chosen: false, forces: false, end_ms };
    match refusal(parts, &plan, now_ms) {
        Some(error) => Err(error),
        None => {
            begin(parts, plan);
            Ok(())
        }
    }
}

/// Tells clients that the failover is over: those who stayed where to go, if the target `leads`.
fn tell_clients(parts: &Parts, leads: Option<&Address>) {
    let (notices, now_ms) = (&parts.following.notices, parts.clock.monotonic_ms());
    match leads {
        Some(target) => {
            notices.begin_moving(target, true, parts.settings, now_ms);
            parts.threads.announce(RoleNews::Notice(Notice::Round(0)));
        }
        None => notices.end_moving(),
    }
    let number = notices.next_number();
    parts.threads.announce(RoleNews::Notice(Notice::FailedOver { number }));
}

/// Ends the failover in progress without success; this server leads again. The caller holds all shards, in `tx`.
pub(crate) fn abort(parts: &Parts, tx: &mut Tx<'_>, draw_id: impl FnOnce() -> ReplicationId, why: &str) {
    tracing::warn!("Aborting the failover: {why}");
    if parts.following.is_replica() {
        role::lead(parts, draw_id);
    } else if parts.following.notices.is_moving() {
        // Those who have come there are sent back.
        tx.tell_replicas(&[b"REPLCONF", b"GETACK", receive(0).as_bytes()]);
    }
    parts.following.failover.end();
    tell_clients(parts, None);
    parts.hold_writes(false);
}

/// Ends the failover in progress, if there is one: the target has taken over and is followed. The caller holds all
/// shards.
pub(crate) fn succeed(parts: &Parts) {
    let failover = &parts.following.failover;
    if failover.is_on() {
        tracing::info!("Failover completed: the former replica is the primary");
        failover.end();
        tell_clients(parts, parts.following.primary().as_ref());
        parts.hold_writes(false);
    }
}

/// The reason to refuse this failover, if there is one.
pub(crate) fn refusal(parts: &Parts, plan: &FailoverPlan, now_ms: u64) -> Option<CommandError> {
    let FailoverPlan { target, forces, end_ms, .. } = plan;
    let replicas = parts.primary.replicas(now_ms);
    let is_there =
        |target: &Address| replicas.iter().find(|replica| target.is(&replica.address, replica.port));
    let why = match target.as_ref().map(is_there) {
        _ if replicas.is_empty() => "ERR FAILOVER requires connected replicas.",
        found if *forces && (found.is_none() || end_ms.is_none()) => {
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP."
        }
        Some(None) => "ERR FAILOVER target HOST and PORT is not a replica.",
        Some(Some(replica)) if replica.state != "online" => "ERR FAILOVER target replica is not online.",
        Some(Some(replica)) if replica.divergence > 0 && !forces => {
            "ERR FAILOVER target replica lacks what commands did that failed there, see divergence in INFO. FORCE hands over to it all the same."
        }
        None if replicas.iter().all(|replica| replica.divergence > 0) => {
            "ERR FAILOVER requires a replica on which no command has failed, see divergence in INFO."
        }
        None | Some(Some(_)) => return None,
    };
    Some(CommandError::fixed(why))
}

/// Continues the failover in progress. The thread of the link must call this several times a second and when a replica
/// has acknowledged something.
pub(crate) fn step<L>(following: &Following, around: &mut dyn FollowerAround<L>) {
    let failover = &following.failover;
    match failover.state() {
        FailoverState::Nothing | FailoverState::Asking | FailoverState::Joining => {}
        FailoverState::Announcing => leaving::step(failover, around),
        FailoverState::Waiting => {
            let (now_ms, primary) = (around.now_ms(), around.parts().primary);
            failover.forget_lost_target(|target| primary.has_receiver(Some(target)));
            let is_over = failover
                .under_way()
                .as_ref()
                .is_some_and(|(plan, _)| plan.end_ms.is_some_and(|end_ms| end_ms <= now_ms));
            if (is_over || has_news(failover, around)) && around.enter_all() {
                decide(failover, is_over, around);
                around.finish();
            }
            around.leave();
        }
        FailoverState::Refused => {
            if around.enter_all() && failover.state() == FailoverState::Refused {
                let parts = around.parts();
                let id = around.random_id();
                abort(&parts, around.tx(), || id, "Failover target rejected psync request");
                around.finish();
            }
            around.leave();
        }
    }
}

/// Whether there is something to decide: no mark is set yet, or a replica has acknowledged it.
fn has_news<L>(failover: &Failover, around: &mut dyn FollowerAround<L>) -> bool {
    match &*failover.under_way() {
        None => false,
        Some((_, None)) => true,
        Some((plan, Some(mark))) => reached(mark, plan, &around.parts()).is_some(),
    }
}

/// Hands over, gives up, or sets a mark. The caller holds all shards.
fn decide<L>(failover: &Failover, is_over: bool, around: &mut dyn FollowerAround<L>) {
    let mut under_way = failover.under_way();
    let Some((plan, mark)) = &mut *under_way else { return };
    let parts = around.parts();
    let sent_bytes = parts.log.log.sent_bytes();
    assert!(mark.as_ref().is_none_or(|mark| mark.sent_bytes <= sent_bytes), "what was sent stays sent");
    let synced = mark.as_ref().filter(|mark| mark.sent_bytes == sent_bytes);
    let target = match synced.and_then(|mark| reached(mark, plan, &parts)) {
        Some(target) => {
            tracing::info!("Failover target is synced, failing over.");
            Some(target)
        }
        None if is_over && plan.forces => {
            tracing::warn!("Failover time out exceeded, failing over.");
            plan.target.clone()
        }
        None => None,
    };
    if let Some(target) = target {
        // In this order: whoever reads that it asks finds a replica.
        role::follow(&parts, target, around.now_ms());
        assert!(parts.following.is_replica(), "the role changes before it is asked to take over");
        return failover.set_state(FailoverState::Asking);
    }
    if is_over {
        drop(under_way);
        let id = around.random_id();
        return abort(&parts, around.tx(), || id, "Replica never caught up before timeout");
    }
    // This makes an answer with the offset before the question cover all earlier slices.
    parts.log.cut_for_replicas();
    parts.primary.note_asked();
    around.tx().tell_replicas(&QUESTION);
    let sent_bytes = parts.log.log.sent_bytes();
    *mark = Some(StreamMark { sent_bytes, cut: parts.log.cut_for_replicas() });
}

/// A replica that `plan` allows and that has acknowledged everything up to `mark`.
fn reached(mark: &StreamMark, plan: &FailoverPlan, parts: &Parts) -> Option<Address> {
    let end = mark.cut.end()?;
    assert!(
        end.since(StreamPosition::START) >= QUESTION_BYTES,
        "the stream has the question before the mark"
    );
    parts.primary.caught_up(plan.target.as_ref(), end.minus(QUESTION_BYTES)..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_has_so_many_bytes() {
        let mut encoded = Vec::new();
        resp::encode_request(&QUESTION, &mut encoded);
        assert_eq!(encoded.len() as u64, QUESTION_BYTES);
    }
}
