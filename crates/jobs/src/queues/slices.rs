//! Runs a command in slices of time, and lets other clients run in between.
//!
//! Searching a queue of a million jobs takes a tenth of a second or more. Other clients must not wait that
//! long for its shard. So a command that searches holds the shard for a *slice* of about [`SLICE_NS`], keeps
//! its [`Progress`] in its session, and runs again after its thread has served others, as a command does
//! whose shards were taken. Its client gets one reply; the client's later commands wait, as after any
//! command.
//!
//! In transactions and scripts, which must not be interrupted, the command does everything at once.

use ds::list::Bookmark;
use engine::{CommandError, CommandResult};
use shard::ShardId;

use crate::queues::Ctx;

/// A slice that has taken this long starts no further step. The last step, at most a node of a list, may
/// exceed it.
const SLICE_NS: u64 = 40_000;
/// A slice has at most this many steps, regardless of how fast they are.
const SLICE_STEPS: u32 = 16;

/// The progress of a command.
#[derive(Debug, Default)]
pub struct Progress {
    /// The position of its search.
    pub(crate) place: Place,
    /// The elements found so far, for the reply.
    pub(crate) found: Vec<Found>,
    /// Their size.
    pub(crate) found_bytes: usize,
    /// The number of elements removed or moved.
    pub(crate) done: usize,
    /// The number of elements that may still move.
    pub(crate) left: Option<usize>,
    /// Why it had to leave an element in place.
    pub(crate) refusal: Option<CommandError>,
    /// How long it worked before the current slice.
    pub(crate) worked_ns: u64,
    /// Whether it has run before.
    pub(crate) is_begun: bool,
}

/// The position of a search.
#[derive(Debug, Default)]
pub(crate) enum Place {
    /// At the beginning.
    #[default]
    Begin,
    /// In a list: this many elements are left, at the end from which workers take.
    Unread(usize),
    /// In a list: after this node. The flag says that the node still has to be compressed.
    Behind(Bookmark, bool),
    /// In a sorted set.
    Scored(ScoredPlace),
}

/// A position in a sorted set: after a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ScoredPlace {
    /// The member's score.
    pub(crate) score: f64,
    /// How many members with this score have been read.
    pub(crate) ties: usize,
    /// The member, if it is known.
    pub(crate) member: Option<Box<[u8]>>,
}

/// An element that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) position: Position,
    pub(crate) payload: Box<[u8]>,
}

/// The position of a found element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    /// At this index, as `LINDEX` counts.
    Index(i64),
    /// With this score.
    Score(f64),
}

/// The outcome of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There may be more.
    More,
    /// The step was not taken: it would take too long for the rest of the slice, or needs these shards as
    /// well.
    Later(Vec<ShardId>),
    /// Nothing is left to do.
    End,
}

/// The current slice of a command.
pub(crate) struct Slice {
    began_ns: u64,
    steps: u32,
    may_pause: bool,
}

impl Slice {
    /// Whether the slice has taken a step: if so, an expensive step has to wait for the next slice.
    pub(crate) fn is_begun(&self) -> bool {
        self.may_pause && self.steps > 0
    }
}

/// Runs a command in slices: calls `step` until nothing is left to do, and then `reply`.
pub(crate) fn run(
    ctx: &mut Ctx,
    mut step: impl FnMut(&mut Ctx, &mut Progress, &Slice) -> Result<Step, CommandError>,
    reply: impl FnOnce(&mut Ctx, &Progress) -> CommandResult,
) -> CommandResult {
    let may_pause = ctx.may_block();
    let taken = if may_pause { ctx.host.progress().take() } else { None };
    let mut progress = taken.unwrap_or_default();
    let mut slice = Slice { began_ns: (ctx.host.now_ns)(), steps: 0, may_pause };
    let worked_before_ns = progress.worked_ns;
    loop {
        let made = match step(ctx, &mut progress, &slice) {
            // The key has changed its type in the meantime.
            Err(_) if progress.is_begun => Step::End,
            made => made?,
        };
        progress.is_begun = true;
        let slice_ns = (ctx.host.now_ns)().saturating_sub(slice.began_ns);
        progress.worked_ns = worked_before_ns + slice_ns;
        slice.steps += 1;
        assert!(!may_pause || slice.steps <= SLICE_STEPS, "others run after so many steps");
        if made == Step::End {
            break;
        }
        let shards = match made {
            Step::Later(shards) => {
                assert!(may_pause, "transactions and scripts have entered all shards");
                shards
            }
            _ if may_pause && (slice_ns >= SLICE_NS || slice.steps == SLICE_STEPS) => Vec::new(),
            _ => continue,
        };
        *ctx.host.progress() = Some(progress);
        ctx.host.goes_on_with = Some(shards);
        return Err(CommandError::again([]));
    }
    reply(ctx, &progress)
}
