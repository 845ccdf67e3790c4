//! The first part of a handover: clients that asked for notices leave for the target before anything is held here.
//!
//! A question in the stream asks replicas to [receive](crate::Notices) clients. The first that answers, or the one that
//! the command named, is the target. Then clients are told to go there, and served here until they have left, or for
//! [`LEAVE_MS_MAX`]. Clients that were silent are not waited for, because most libraries read a notice only with the
//! next reply.
//!
//! Without such clients, or without a replica that can receive them, a handover begins with the second part
//! (`handover.rs`).

use crate::failover::{Failover, FailoverState, Leaving, StreamMark};
use crate::link::receive;
use crate::notices::{Notice, RECEIVES_MS};
use crate::parts::RoleNews;
use crate::stage::FollowerAround;

/// How long replicas have to answer that they receive clients.
const ANSWER_MS_MAX: u64 = 1000;
/// How long clients are waited for.
const LEAVE_MS_MAX: u64 = 3000;
/// The time between two rounds.
const ROUND_MS: u64 = 20;
/// How long a client must have been silent to be left alone.
pub const SILENT_MS: u64 = 500;

/// The next step of the first part.
enum LeavingStep {
    /// To ask replicas.
    Ask,
    /// A round.
    Round,
    /// Nothing yet.
    Wait,
    /// It is over.
    End,
}

/// Continues the first part.
pub(crate) fn step<L>(failover: &Failover, around: &mut dyn FollowerAround<L>) {
    let now_ms = around.now_ms();
    let next = next(failover, now_ms, around);
    failover.wake_at(now_ms + ROUND_MS);
    match next {
        LeavingStep::Wait => {}
        LeavingStep::Round => {
            let parts = around.parts();
            let round = parts.following.notices.begin_round(around.thread_count());
            parts.threads.announce(RoleNews::Notice(Notice::Round(round)));
        }
        LeavingStep::Ask | LeavingStep::End => {
            if around.enter_all() && failover.state() == FailoverState::Announcing {
                let parts = around.parts();
                if matches!(next, LeavingStep::Ask) {
                    parts.primary.note_asked();
                    around.tx().tell_replicas(&[b"REPLCONF", b"GETACK", receive(RECEIVES_MS).as_bytes()]);
                    let sent_bytes = parts.log.log.sent_bytes();
                    let mark = StreamMark { sent_bytes, cut: parts.log.cut_for_replicas() };
                    failover.leaving().question = Some((mark, now_ms));
                } else {
                    failover.set_state(FailoverState::Waiting);
                    parts.hold_writes(true);
                }
                around.finish();
            }
            around.leave();
        }
    }
}

fn next<L>(failover: &Failover, now_ms: u64, around: &mut dyn FollowerAround<L>) -> LeavingStep {
    let parts = around.parts();
    let (mut leaving, mut under_way) = (failover.leaving(), failover.under_way());
    let Some((plan, _)) = &mut *under_way else { return LeavingStep::Wait };
    let Leaving { question, told_ms } = &mut *leaving;
    let Some((mark, asked_ms)) = question else { return LeavingStep::Ask };
    // Half of the time is for the second part.
    let is_over = plan.end_ms.is_some_and(|end_ms| now_ms - *asked_ms >= end_ms.saturating_sub(now_ms));
    let Some((told_ms, round_ms)) = told_ms else {
        let receiver = mark.cut.end().and_then(|end| parts.primary.receiver(plan.target.as_ref(), end));
        if let Some(target) = receiver {
            tracing::info!("Clients that asked for notices go to {}:{}.", target.host, target.port);
            parts.following.notices.begin_moving(&target, false, parts.settings, now_ms);
            plan.is_chosen = plan.target.is_none();
            plan.target = Some(target);
            *told_ms = Some((now_ms, now_ms));
            return LeavingStep::Round;
        }
        return if is_over || now_ms >= *asked_ms + ANSWER_MS_MAX {
            LeavingStep::End
        } else {
            LeavingStep::Wait
        };
    };
    match parts.following.notices.staying() {
        Some(0) => LeavingStep::End,
        _ if is_over || now_ms >= *told_ms + LEAVE_MS_MAX => LeavingStep::End,
        Some(_) if now_ms >= *round_ms + ROUND_MS => {
            *round_ms = now_ms;
            LeavingStep::Round
        }
        Some(_) | None => LeavingStep::Wait,
    }
}
