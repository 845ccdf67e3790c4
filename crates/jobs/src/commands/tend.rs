//! The commands for operators: JOB.DROP and JOB.RETRY.

use ds::zset::ZSet;
use engine::{
    CommandError, CommandResult, Ctx, Entry, Run, Shape, integer, key, keyword_is, oneof, string, token,
};

use super::{CHANGING, bad_word, parse_positive};
use crate::job::Jobs;

/// Dead jobs that JOB.RETRY … ALL retries without COUNT: few enough not to hold up other commands.
const COUNT_DEFAULT: u64 = 1000;

pub(super) const DROP: Entry = Entry {
    name: "job.drop",
    summary: "Drops a job that is active, delayed, dead, or waits and was put with options. Returns how many there were.",
    complexity: "O(log(N)) where N is the number of jobs in the same state.",
    arity: 3,
    args: &[key("queue", 0), string("id")],
    reply: Shape::Int,
    run: Run::Function(drop_job),
    ..CHANGING
};

fn drop_job(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, id] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let was_there = Jobs::of(&ctx.store, queue)?.drop(&mut ctx.store, id)?;
    ctx.reply.int(was_there.into());
    Ok(())
}

pub(super) const RETRY: Entry = Entry {
    name: "job.retry",
    summary: "Has a dead or delayed job, or dead ones, the oldest first, run now, with all attempts before them. Returns how many.",
    complexity: "O(M*log(N)) where M is the number of jobs that run and N that of dead or delayed ones.",
    arity: -3,
    args: &[
        key("queue", 0),
        oneof("which", &[string("id"), token("all", "ALL")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(retry),
    ..CHANGING
};

fn retry(ctx: &mut Ctx) -> CommandResult {
    let jobs = Jobs::of(&ctx.store, ctx.args[1])?;
    let count = match ctx.args[2..] {
        [id] if !keyword_is(id, "all") => {
            let was_there = jobs.retry(&mut ctx.store, id)?;
            ctx.reply.int(was_there.into());
            return Ok(());
        }
        [_] => COUNT_DEFAULT,
        [all, word, count] if keyword_is(all, "all") && keyword_is(word, "count") => {
            parse_positive(count, "count")?
        }
        _ => return Err(bad_word(ctx.args[2], "JOB.RETRY takes an id, or ALL and then COUNT with a number")),
    };
    let dead: Vec<Vec<u8>> = match ctx.store.peek_as::<ZSet>(&jobs.names.dead())? {
        Some(dead) => dead.iter().take(count as usize).map(|(id, _)| id.to_vec()).collect(),
        None => Vec::new(),
    };
    let mut retried = 0;
    for id in &dead {
        retried += i64::from(jobs.retry(&mut ctx.store, id)?);
    }
    ctx.reply.int(retried);
    Ok(())
}
