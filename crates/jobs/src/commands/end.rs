//! What becomes of a job that a worker has: JOB.DONE, JOB.FAIL, JOB.RELEASE; and JOB.KEEP, by which it keeps it for longer.

use command::{
    CommandError, CommandResult, Ctx, Entry, Run, Shape, block, integer, key, keyword_is, oneof, string,
};

use super::{CHANGING, parse_lease, parse_ms};
use crate::job::Jobs;

/// Bytes of a reason that are kept.
const WHY_BYTES_MAX: usize = 1024;

pub(super) const DONE: Entry = Entry {
    name: "job.done",
    summary: "Says that jobs are done. Returns how many of them the worker still had.",
    complexity: "O(M*log(N)) where M is the number of jobs and N the number of active ones.",
    arity: -3,
    args: &[key("queue", 0), string("id").multiple()],
    reply: Shape::Int,
    run: Run::Function(done),
    ..CHANGING
};

fn done(ctx: &mut Ctx) -> CommandResult {
    each(ctx, |jobs, ctx, id| jobs.done(&mut ctx.store, id))
}

pub(super) const RELEASE: Entry = Entry {
    name: "job.release",
    summary: "Gives jobs back that were not begun: they come next, and the attempt does not count.",
    run: Run::Function(release),
    ..DONE
};

fn release(ctx: &mut Ctx) -> CommandResult {
    each(ctx, |jobs, ctx, id| jobs.release(&mut ctx.store, id))
}

fn each(
    ctx: &mut Ctx,
    mut end: impl FnMut(&Jobs, &mut Ctx, &[u8]) -> Result<bool, CommandError>,
) -> CommandResult {
    let [_, queue, ids @ ..] = ctx.args else { return Err(CommandError::SYNTAX) };
    let jobs = Jobs::to_end(&mut ctx.store, queue)?;
    let mut ended = 0;
    for id in ids {
        ended += i64::from(end(&jobs, ctx, id)?);
    }
    ctx.reply.int(ended);
    Ok(())
}

pub(super) const FAIL: Entry = Entry {
    name: "job.fail",
    summary: "Says that an attempt has failed: the job comes again, at once or later, or is dead after its last attempt.",
    complexity: "O(log(N)) where N is the number of active, delayed or dead jobs.",
    arity: -3,
    args: &[
        key("queue", 0),
        string("id"),
        integer("ms").token("IN").optional(),
        string("text").token("WHY").optional(),
    ],
    reply: Shape::OneOf(&[Shape::AnyStatus, Shape::Null]),
    run: Run::Function(fail),
    ..CHANGING
};

fn fail(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, id, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let (mut due_ms, mut why) = (None, &b""[..]);
    let (pairs, []) = options.as_chunks::<2>() else { return Err(CommandError::SYNTAX) };
    for [word, value] in pairs {
        match *word {
            word if keyword_is(word, "in") => due_ms = Some(ctx.store.now() + parse_ms(value)?),
            word if keyword_is(word, "why") => why = &value[..value.len().min(WHY_BYTES_MAX)],
            _ => return Err(CommandError::SYNTAX),
        }
    }
    let jobs = Jobs::of(&ctx.store, queue)?;
    match jobs.fail(&mut ctx.store, id, due_ms, why)? {
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
            &[block("jobs", &[string("id").token("ID").multiple()]), string("worker").token("WORKER")],
        ),
    ],
    reply: Shape::OneOf(&[Shape::Int, Shape::OK]),
    run: Run::Function(keep),
    ..CHANGING
};

fn keep(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, lease_ms, whose, ref names @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let until_ms = ctx.store.now() + parse_lease(lease_ms)?;
    let jobs = Jobs::of(&ctx.store, queue)?;
    match *names {
        [worker] if keyword_is(whose, "worker") => {
            Jobs::set_time(&mut ctx.store, &jobs.names.workers(), worker, until_ms)?;
            ctx.reply.ok();
        }
        ref ids if keyword_is(whose, "id") => {
            let mut kept = 0;
            for id in ids {
                if jobs.is_active(&ctx.store, id)? {
                    jobs.set_due(&mut ctx.store, jobs.names.active(), id, until_ms)?;
                    kept += 1;
                }
            }
            ctx.reply.int(kept);
        }
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(())
}
