//! The commands with which a worker ends or keeps a job that it has: JOB.DONE, JOB.FAIL, JOB.RELEASE and
//! JOB.KEEP.
//!
//! A worker names a job by its id, or by its id and attempt (*fenced*). A fenced command does nothing if
//! another attempt has begun in the meantime.

use engine::{
    Arg, CommandError, CommandResult, Ctx, Entry, Run, Shape, block, integer, key, keyword_is, oneof, string,
};

use smallvec::SmallVec;

use super::{CHANGING, bad_word, check_worker, parse_attempt, parse_lease, parse_ms};
use crate::clock::follow;
use crate::job::{Claim, Jobs};

/// The most bytes of a reason that are kept.
const WHY_BYTES_MAX: usize = 1024;

const PAIRS: &str = "behind ATTEMPT each id needs the number of its attempt";
const FAIL_TAKES: &str = "JOB.FAIL takes ATTEMPT, IN and WHY, each with its value";
const KEEP_TAKES: &str = "JOB.KEEP takes ID and ids, ATTEMPT and ids with attempts, or WORKER and one name";

/// Jobs by their ids and attempts.
const ATTEMPTS: Arg = block("attempts", &[string("id"), integer("attempt")]).token("ATTEMPT").multiple();

pub(super) const DONE: Entry = Entry {
    name: "job.done",
    summary: "Says that jobs are done. Returns how many of them the worker still had.",
    complexity: "O(M*log(N)) where M is the number of jobs and N the number of active ones.",
    arity: -3,
    args: &[key("queue", 0), oneof("jobs", &[string("id").multiple(), ATTEMPTS])],
    reply: Shape::Int,
    run: Run::Function(done),
    ..CHANGING
};

fn done(ctx: &mut Ctx) -> CommandResult {
    each(ctx, |jobs, ctx, claim| jobs.done(&mut ctx.store, claim))
}

pub(super) const RELEASE: Entry = Entry {
    name: "job.release",
    summary: "Gives jobs back that were not begun: they come next, and the attempt does not count.",
    run: Run::Function(release),
    ..DONE
};

fn release(ctx: &mut Ctx) -> CommandResult {
    each(ctx, |jobs, ctx, claim| jobs.release(&mut ctx.store, claim))
}

fn each(
    ctx: &mut Ctx,
    mut end: impl FnMut(&Jobs, &mut Ctx, Claim<'_>) -> Result<bool, CommandError>,
) -> CommandResult {
    let [_, queue, ref words @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    // ATTEMPT as the first word is never an id.
    let (is_fenced, words) = match words {
        [first, attempts @ ..] if keyword_is(first, "attempt") => (true, attempts),
        ids => (false, ids),
    };
    let claims = claims(words, is_fenced)?;
    let jobs = Jobs::to_end(&mut ctx.store, queue)?;
    let mut ended = 0;
    for claim in claims {
        ended += i64::from(end(&jobs, ctx, claim)?);
    }
    ctx.reply.int(ended);
    Ok(())
}

/// The jobs that a command names by id or, fenced, by pairs of id and attempt.
fn claims<'a>(words: &[&'a [u8]], is_fenced: bool) -> Result<SmallVec<[Claim<'a>; 4]>, CommandError> {
    if words.is_empty() {
        return Err(bad_word(b"ATTEMPT", PAIRS));
    }
    if !is_fenced {
        return Ok(words.iter().map(|id| Claim::on_any(id)).collect());
    }
    let (pairs, []) = words.as_chunks::<2>() else { return Err(bad_word(words[words.len() - 1], PAIRS)) };
    pairs.iter().map(|[id, attempt]| Ok(Claim { id, attempt: Some(parse_attempt(attempt)?) })).collect()
}

pub(super) const FAIL: Entry = Entry {
    name: "job.fail",
    summary: "Says that an attempt has failed: the job comes again, at once or later, or is dead after its last attempt.",
    complexity: "O(log(N)) where N is the number of active, delayed or dead jobs.",
    arity: -3,
    args: &[
        key("queue", 0),
        string("id"),
        integer("attempt").token("ATTEMPT").optional(),
        integer("ms").token("IN").optional(),
        string("text").token("WHY").optional(),
    ],
    reply: Shape::OneOf(&[Shape::AnyStatus, Shape::Null]),
    run: Run::Function(fail),
    ..CHANGING
};

fn fail(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, id, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let (mut claim, mut due_ms, mut why) = (Claim::on_any(id), None, &b""[..]);
    let (pairs, rest) = options.as_chunks::<2>();
    for [word, value] in pairs {
        match *word {
            word if keyword_is(word, "attempt") => claim.attempt = Some(parse_attempt(value)?),
            word if keyword_is(word, "in") => due_ms = Some(ctx.store.now() + parse_ms(value)?),
            word if keyword_is(word, "why") => why = &value[..value.len().min(WHY_BYTES_MAX)],
            word => return Err(bad_word(word, FAIL_TAKES)),
        }
    }
    if let [word] = rest {
        return Err(bad_word(word, FAIL_TAKES));
    }
    let jobs = Jobs::of(&ctx.store, queue)?;
    match jobs.fail(&mut ctx.store, claim, due_ms, why)? {
        Some(state) => ctx.reply.simple(state.name()),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) const KEEP: Entry = Entry {
    name: "job.keep",
    summary: "Makes leases longer: those of some jobs, or all of a worker's. Returns how many jobs it still had, or OK.",
    complexity: "O(M*log(N)) where M is the number of jobs and N the number of active ones.",
    arity: -5,
    args: &[
        key("queue", 0),
        integer("lease-ms"),
        oneof(
            "whose",
            &[
                block("jobs", &[string("id").token("ID").multiple()]),
                ATTEMPTS,
                string("worker").token("WORKER"),
            ],
        ),
    ],
    reply: Shape::OneOf(&[Shape::Int, Shape::OK]),
    run: Run::Function(keep),
    ..CHANGING
};

fn keep(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, lease_ms, whose, ref names @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let until_ms = ctx.store.now() + parse_lease(lease_ms)?;
    follow(&mut ctx.store, queue);
    if let [worker] = *names
        && keyword_is(whose, "worker")
    {
        check_worker(worker)?;
        let jobs = Jobs::of(&ctx.store, queue)?;
        // Forget dead workers here too: in a queue without due times nothing else does.
        jobs.forget_workers(&mut ctx.store)?;
        Jobs::set_time(&mut ctx.store, &jobs.names.workers(), worker, until_ms)?;
        ctx.reply.ok();
        return Ok(());
    }
    let is_fenced = keyword_is(whose, "attempt");
    if !is_fenced && !keyword_is(whose, "id") {
        return Err(bad_word(whose, KEEP_TAKES));
    }
    let claims = claims(names, is_fenced)?;
    let jobs = Jobs::of(&ctx.store, queue)?;
    let mut kept = 0;
    for claim in claims {
        kept += i64::from(jobs.extend(&mut ctx.store, claim, until_ms)?);
    }
    ctx.reply.int(kept);
    Ok(())
}
