//! How a command works a little at a time, and lets other clients in between.
//!
//! To search a queue of a million jobs takes a tenth of a second and more, in which nobody else is to wait for its shard. So a command that
//! searches holds it for a *slice* of at most some [`SLICE_NS`], keeps how far it has come ([`Progress`]) in its session, and runs
//! again when its thread has served others: as a command does that could not have its shards. Its client gets one reply, and what that
//! client has sent behind it waits, as behind any command.
//!
//! In transactions and scripts, which nothing may interrupt, it does everything at once.

use command::{CommandError, CommandResult};
use ds::list::Bookmark;

use crate::Ctx;

/// A slice that has taken so long goes no further. What it has begun, a node of a list at most, adds to that.
const SLICE_NS: u64 = 40_000;
/// A slice has at most so many steps, however fast they are.
const SLICE_STEPS: u32 = 16;

/// How far a command has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Where its search is.
    pub(crate) place: Place,
    /// What it has found, to be replied.
    pub(crate) found: Vec<Found>,
    /// Bytes of that.
    pub(crate) found_bytes: usize,
    /// Elements that it has removed or moved.
    pub(crate) done: usize,
    /// Elements that it may still move.
    pub(crate) left: Option<usize>,
    /// For how long it has worked, up to the current slice.
    pub(crate) worked_ns: u64,
    /// It has run before.
    pub(crate) is_begun: bool,
}

/// Where a search is.
#[derive(Debug, Default)]
pub(crate) enum Place {
    /// At its beginning.
    #[default]
    Begin,
    /// So many elements of a list are left, at the end from which workers take.
    Unread(usize),
    /// Behind this node of a list, which is yet to be compressed if that is said.
    Behind(Bookmark, bool),
    /// In a sorted set.
    Scored(ScoredPlace),
}

/// A place in a sorted set: behind a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ScoredPlace {
    /// Its score.
    pub(crate) score: f64,
    /// Members of this score up to there.
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

/// Where it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    /// At this index, as `LINDEX` counts.
    Index(i64),
    /// With this score.
    Score(f64),
}

/// What a step of a search came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There may be more.
    More,
    /// The step was not made: it is too much for the rest of the slice.
    Later,
    /// Nothing is left to be done.
    End,
}

/// The slice in which a command works now.
pub(crate) struct Slice {
    began_ns: u64,
    steps: u32,
    may_pause: bool,
}

impl Slice {
    /// Whether something was done in it, and what takes longer than most is to wait for the next.
    pub(crate) fn is_begun(&self) -> bool {
        self.may_pause && self.steps > 0
    }
}

/// Runs a command by steps, in slices: `step` until there is no more, and then `reply`.
pub(crate) fn run(
    ctx: &mut Ctx,
    mut step: impl FnMut(&mut Ctx, &mut Progress, &Slice) -> Result<Step, CommandError>,
    reply: impl FnOnce(&mut Ctx, &Progress),
) -> CommandResult {
    let may_pause = ctx.may_block();
    let taken = if may_pause { ctx.host.take_progress() } else { None };
    let mut progress = taken.unwrap_or_default();
    let mut slice = Slice { began_ns: ctx.host.now_ns(), steps: 0, may_pause };
    let worked_before_ns = progress.worked_ns;
    loop {
        let made = match step(ctx, &mut progress, &slice) {
            // It has become something else meanwhile.
            Err(_) if progress.is_begun => Step::End,
            made => made?,
        };
        progress.is_begun = true;
        let slice_ns = ctx.host.now_ns().saturating_sub(slice.began_ns);
        progress.worked_ns = worked_before_ns + slice_ns;
        slice.steps += 1;
        if made == Step::End {
            break;
        }
        if made == Step::Later || may_pause && (slice_ns >= SLICE_NS || slice.steps == SLICE_STEPS) {
            ctx.host.go_on_later(ctx.command.id, ctx.args, progress);
            return Err(CommandError::again([]));
        }
    }
    reply(ctx, &progress);
    Ok(())
}
