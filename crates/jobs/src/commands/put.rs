//! JOB.PUT: a job with an id, a delay, a lock or a number of attempts.

use std::borrow::Cow;

use command::Flag::*;
use command::{
    CommandError, CommandResult, Ctx, Entry, Run, Shape, block, integer, key, keyword_is, oneof, string,
    unix_time,
};
use queues::own_id;

use super::{CHANGING, parse_ms, parse_positive};
use crate::job::{ID_BYTES_MAX, Jobs};
use crate::record::{Record, State};

const BAD_ID: &str = "ERR an id has 1 to 512 bytes";
const BAD_GROUP: &str = "ERR the name of a group has 1 to 512 bytes";
const BAD_LOCK: &str = "ERR the name of a lock has 1 to 512 bytes";

pub(super) const PUT: Entry = Entry {
    name: "job.put",
    summary: "Adds a job to a queue, now or later.",
    complexity: "O(log(N)) where N is the number of delayed jobs or of groups, O(1) without a delay and a group.",
    arity: -3,
    flags: &[Write, DenyOom, Fast],
    args: &[
        key("queue", 0),
        string("payload"),
        string("id").token("ID").optional(),
        oneof("time", &[integer("ms").token("IN"), unix_time("unix-time-ms").token("AT")]).optional(),
        block("unique", &[string("lock").token("UNIQUE"), integer("ms").token("FOR").optional()]).optional(),
        integer("attempts").token("TRIES").optional(),
        string("group").token("GROUP").optional(),
        integer("expire-ms").token("EXPIRE").optional(),
    ],
    reply: Shape::Bulk,
    run: Run::Function(put),
    ..CHANGING
};

#[derive(Default)]
struct Options<'a> {
    id: Option<&'a [u8]>,
    due_ms: Option<i64>,
    lock: Option<&'a [u8]>,
    lock_ms: Option<i64>,
    attempts_max: Option<u64>,
    group: Option<&'a [u8]>,
    begins_until_ms: Option<i64>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]], now_ms: i64) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let (pairs, []) = args.as_chunks::<2>() else { return Err(CommandError::SYNTAX) };
        for [word, value] in pairs {
            match *word {
                word if keyword_is(word, "id") && options.id.is_none() => options.id = Some(value),
                word if keyword_is(word, "in") && options.due_ms.is_none() => {
                    options.due_ms = Some(now_ms + parse_ms(value)?);
                }
                word if keyword_is(word, "at") && options.due_ms.is_none() => {
                    options.due_ms = Some(parse_ms(value)?);
                }
                word if keyword_is(word, "unique") && options.lock.is_none() => {
                    if !(1..=ID_BYTES_MAX).contains(&value.len()) {
                        return Err(CommandError::new(BAD_LOCK));
                    }
                    options.lock = Some(value);
                }
                word if keyword_is(word, "for") && options.lock_ms.is_none() && options.lock.is_some() => {
                    options.lock_ms = Some(parse_positive(value, "FOR")?.cast_signed());
                }
                word if keyword_is(word, "tries") && options.attempts_max.is_none() => {
                    options.attempts_max = Some(parse_positive(value, "TRIES")?);
                }
                word if keyword_is(word, "group") && options.group.is_none() => {
                    if !(1..=ID_BYTES_MAX).contains(&value.len()) {
                        return Err(CommandError::new(BAD_GROUP));
                    }
                    options.group = Some(value);
                }
                word if keyword_is(word, "expire") && options.begins_until_ms.is_none() => {
                    options.begins_until_ms = Some(now_ms + parse_ms(value)?);
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(options)
    }
}

fn put(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, payload, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let store = &mut ctx.store;
    let options = Options::parse(options, store.now())?;
    let jobs = Jobs::to_change(store, queue, State::Delayed)?;
    let own = own_id(payload).filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
    let id = match options.id.map(Cow::Borrowed).or(own) {
        Some(id) if (1..=ID_BYTES_MAX).contains(&id.len()) => id,
        Some(_) => return Err(CommandError::new(BAD_ID)),
        None => Cow::Owned(jobs.new_id(store)?),
    };
    if let Some(record) = jobs.record(store, &id)? {
        let state = if record.is_dropped() {
            "dropped, and leaves its place when workers come to it"
        } else {
            record.state.name()
        };
        return Err(CommandError::new(format!(
            "JOBEXISTS this queue has a job of this id, which is {state}"
        )));
    }
    jobs.check_group(store, options.group)?;
    if let Some(lock) = options.lock
        && let Some(holder) = jobs.lock(store, &id, lock, options.lock_ms)?
    {
        ctx.reply.bulk(&holder);
        return Ok(());
    }
    let mut record = Record::new(State::Waiting, Some(payload.to_vec()));
    record.attempts_max = options.attempts_max;
    record.begins_until_ms = options.begins_until_ms;
    record.group = options.group.map(<[u8]>::to_vec);
    record.lock = options.lock.map(<[u8]>::to_vec);
    jobs.put(store, &id, record, options.due_ms)?;
    ctx.reply.bulk(&id);
    Ok(())
}
