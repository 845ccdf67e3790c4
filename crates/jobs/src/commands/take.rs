//! JOB.TAKE: takes the next jobs, with a lease, of the first queue that has some and is not limited. Waits if
//! there are none.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Begin, CommandError, CommandResult, Ctx, Entry, Find, KeySpec, Route, Run, Shape, TakeOrWait, Took,
    UP_TO_WORD, When, got_room, integer, key, keyword_is, note_place, oneof, string, token,
};

use super::{CHANGING, bad_word, check_worker, parse_lease, parse_ms, parse_positive};
use crate::clock::follow;
use crate::job::{Jobs, Lease, Taken};
use crate::limits::has_some;
use crate::order::Order;

/// The most jobs that one command takes.
const COUNT_MAX: u64 = 1000;

const TAKES: &str =
    "JOB.TAKE takes WAIT, COUNT, and STRICT, FAIR or WEIGHTS with weights; FROM and the queues come last";

pub(super) const TAKE: Entry = Entry {
    name: "job.take",
    summary: "Takes jobs from the first of several queues that has some, with a lease: they come back unless they are done in time.",
    complexity: "O(Q+M*log(N)) where Q is the number of queues, M that of the jobs taken and N that of active ones.",
    arity: -6,
    // Not DenyOom: a full server can be drained.
    flags: &[Write, Blocking],
    keys: &[KeySpec {
        flags: &[RW, Access, Delete],
        begin: Begin::Option(
            "FROM",
            4,
            4,
            &[("WAIT", 1), ("COUNT", 1), ("STRICT", 0), ("FAIR", 0), ("WEIGHTS", UP_TO_WORD)],
        ),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: "",
    }],
    route: Route::KeysInTurn,
    args: &[
        string("worker"),
        integer("lease-ms").token("LEASE"),
        integer("wait-ms").token("WAIT").optional(),
        integer("count").token("COUNT").optional(),
        oneof(
            "order",
            &[
                token("strict", "STRICT"),
                token("fair", "FAIR"),
                integer("weight").token("WEIGHTS").multiple(),
            ],
        )
        .optional(),
        key("queue", 0).token("FROM").multiple(),
    ],
    reply: Shape::OneOf(&[
        Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Bulk, Shape::Int, Shape::Bulk])),
        Shape::Null,
    ]),
    run: Run::Function(take),
    ..CHANGING
};

struct Request<'k, 'a> {
    worker: &'a [u8],
    lease_ms: i64,
    wait_ms: Option<u64>,
    count: u64,
    order: Order<'k, 'a>,
    queues: &'k [&'a [u8]],
}

impl<'k, 'a> Request<'k, 'a> {
    fn parse(args: &'k [&'a [u8]]) -> Result<Request<'k, 'a>, CommandError> {
        let [_, worker, lease, lease_ms, ref rest @ ..] = *args else { return Err(CommandError::SYNTAX) };
        if !keyword_is(lease, "lease") {
            return Err(bad_word(lease, "LEASE and its milliseconds come after the worker"));
        }
        check_worker(worker)?;
        let (lease_ms, mut rest) = (parse_lease(lease_ms)?, rest);
        let mut request =
            Request { worker, lease_ms, wait_ms: None, count: 1, order: Order::Strict, queues: &[] };
        let mut has_order = false;
        loop {
            let [word, value, more @ ..] = rest else {
                return Err(bad_word(rest.first().unwrap_or(&lease), TAKES));
            };
            match *word {
                word if keyword_is(word, "from") => {
                    request.queues = &rest[1..];
                    request.order.check(request.queues.len())?;
                    return Ok(request);
                }
                word if keyword_is(word, "wait") => request.wait_ms = Some(parse_ms(value)?.cast_unsigned()),
                word if keyword_is(word, "count") => {
                    request.count = parse_positive(value, "count")?.min(COUNT_MAX);
                }
                word if has_order => return Err(bad_word(word, TAKES)),
                word => {
                    (request.order, rest) = Order::parse(rest).ok_or_else(|| bad_word(word, TAKES))?;
                    has_order = true;
                    continue;
                }
            }
            rest = more;
        }
    }

    /// Takes from `queue` and replies with the jobs. False, without a reply, if the queue has nothing. If it `owes`
    /// the jobs to a client that may be gone, it names the command that gives them back.
    fn try_queue(&self, ctx: &mut Ctx, queue: &[u8], owes: bool) -> Result<bool, CommandError> {
        note_place(&mut ctx.store, queue);
        let (jobs, has_list) = Jobs::to_take(&mut ctx.store, queue)?;
        if !has_list && !jobs.has_groups(&ctx.store) {
            return Ok(false);
        }
        follow(&mut ctx.store, queue);
        let lease = Lease { worker: self.worker, until_ms: ctx.store.now() + self.lease_ms };
        let mut taken: Vec<Taken> = Vec::new();
        let count = self.count.min(jobs.room(&ctx.store)?);
        while (taken.len() as u64) < count
            && let Some(job) = jobs.take(&mut ctx.store, lease)?
        {
            taken.push(job);
        }
        assert!(taken.len() as u64 <= count, "no more jobs are taken than the limit leaves room for");
        if taken.is_empty() {
            return Ok(false);
        }
        ctx.reply.array(taken.len());
        for Taken { id, attempt, payload } in &taken {
            ctx.reply.array(4);
            ctx.reply.bulk(queue);
            ctx.reply.bulk(id);
            ctx.reply.int(attempt.cast_signed());
            ctx.reply.bulk(payload);
        }
        if owes {
            restore(ctx, queue, &taken);
        }
        Ok(true)
    }
}

fn take(ctx: &mut Ctx) -> CommandResult {
    let request = Request::parse(ctx.args)?;
    let indexes = match request.order {
        Order::Strict => None,
        // The random numbers are those of the first queue's shard, which has been entered.
        Order::Fair | Order::Weights(_) => {
            Some(request.order.indexes(request.queues.len(), ctx.store.random(request.queues[0])))
        }
    };
    let ask = TakeOrWait {
        keys: request.queues,
        order: indexes.as_deref(),
        when: When::Finds(has_some),
        also: None,
        timeout_ms: request.wait_ms,
        owes: true,
        serve: |ctx, queue| Request::parse(ctx.args)?.try_queue(ctx, queue, true),
    };
    match ctx.take_or_wait(&ask, |ctx, queue, owes| request.try_queue(ctx, queue, owes))? {
        Took::Some => return Ok(()),
        Took::Nothing => {
            ctx.reply.null_array();
            return Ok(());
        }
        Took::Waits => {}
    }
    for queue in request.queues {
        // The take reached its limit of jobs to pass over before the end of the queue.
        if has_some(&ctx.store, queue) {
            got_room(&mut ctx.store, queue);
        }
    }
    Ok(())
}

/// Names the command that gives jobs back if their client is gone. It releases only these attempts: by then the
/// leases may have ended, and other workers may have the jobs.
fn restore(ctx: &mut Ctx, queue: &[u8], taken: &[Taken]) {
    let attempts: Vec<String> = taken.iter().map(|job| job.attempt.to_string()).collect();
    let jobs = taken.iter().zip(&attempts).flat_map(|(job, attempt)| [&job.id[..], attempt.as_bytes()]);
    let args: Vec<&[u8]> = [&b"JOB.RELEASE"[..], queue, b"ATTEMPT"].into_iter().chain(jobs).collect();
    let mut restore = ctx.spare_args();
    restore.set(&args);
    ctx.restore_with(restore);
}
