//! JOB.PUT: adds a job, with an id, a delay, a lock or a number of attempts.

use std::borrow::Cow;

use crate::queues::own_id;
use engine::Flag::*;
use engine::{
    CommandError, CommandResult, Ctx, Entry, Run, Shape, block, integer, key, keyword_is, oneof, string,
    token, unix_time,
};

use super::{CHANGING, bad_word, parse_ms, parse_positive};
use crate::job::{ID_BYTES_MAX, Jobs};
use crate::record::{Record, State};

const BAD_ID: &str = "ERR an id has 1 to 512 bytes";
const BAD_GROUP: &str = "ERR the name of a group has 1 to 512 bytes";
const BAD_LOCK: &str = "ERR the name of a lock has 1 to 512 bytes";
const TAKES: &str =
    "JOB.PUT takes ID, IN or AT, UNIQUE and then FOR, TRIES, GROUP, EXPIRE and WITHADDED, each of them once";

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
        token("withadded", "WITHADDED").optional(),
    ],
    reply: Shape::OneOf(&[Shape::Bulk, Shape::Tuple(&[Shape::Bulk, Shape::Int])]),
    run: Run::Function(put),
    ..CHANGING
};

#[derive(Default)]
struct Options<'a> {
    id: Option<&'a [u8]>,
    due_ms: Option<i64>,
    /// Whether `due_ms` is a time of day.
    is_at: bool,
    lock: Option<&'a [u8]>,
    lock_ms: Option<i64>,
    attempts_max: Option<u64>,
    group: Option<&'a [u8]>,
    begins_until_ms: Option<i64>,
    /// Whether the reply says if the job was added.
    says_added: bool,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]], now_ms: i64) -> Result<Options<'a>, CommandError> {
        let (mut options, mut args) = (Options::default(), args.iter());
        while let Some(word) = args.next() {
            if keyword_is(word, "withadded") {
                options.says_added = true;
            } else {
                let value = args.next().ok_or_else(|| bad_word(word, TAKES))?;
                options.set(word, value, now_ms)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, word: &[u8], value: &'a [u8], now_ms: i64) -> Result<(), CommandError> {
        let named = |error: &'static str| match value.len() {
            1..=ID_BYTES_MAX => Ok(value),
            _ => Err(CommandError::new(error)),
        };
        match word {
            word if keyword_is(word, "id") && self.id.is_none() => self.id = Some(named(BAD_ID)?),
            word if keyword_is(word, "in") && self.due_ms.is_none() => {
                self.due_ms = Some(now_ms + parse_ms(value)?);
            }
            word if keyword_is(word, "at") && self.due_ms.is_none() => {
                (self.due_ms, self.is_at) = (Some(parse_ms(value)?), true);
            }
            word if keyword_is(word, "unique") && self.lock.is_none() => self.lock = Some(named(BAD_LOCK)?),
            word if keyword_is(word, "for") && self.lock_ms.is_none() && self.lock.is_some() => {
                self.lock_ms = Some(parse_positive(value, "FOR")?.cast_signed());
            }
            word if keyword_is(word, "tries") && self.attempts_max.is_none() => {
                self.attempts_max = Some(parse_positive(value, "TRIES")?);
            }
            word if keyword_is(word, "group") && self.group.is_none() => self.group = Some(named(BAD_GROUP)?),
            word if keyword_is(word, "expire") && self.begins_until_ms.is_none() => {
                self.begins_until_ms = Some(now_ms + parse_ms(value)?);
            }
            word => return Err(bad_word(word, TAKES)),
        }
        Ok(())
    }
}

fn put(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, payload, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let store = &mut ctx.store;
    let options = Options::parse(options, store.now())?;
    let jobs = Jobs::to_change(store, queue, State::Delayed)?;
    let own = own_id(payload).filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
    let id = match options.id.map(Cow::Borrowed).or(own) {
        Some(id) => id,
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
        reply(ctx, &options, (&holder, false));
        return Ok(());
    }
    let mut record = Record::new(State::Waiting, Some(payload.to_vec()));
    record.attempts_max = options.attempts_max;
    record.begins_until_ms = options.begins_until_ms;
    record.is_named = options.id.is_some();
    record.is_at = options.is_at && options.due_ms.is_some_and(|due_ms| due_ms > store.now());
    record.group = options.group.map(<[u8]>::to_vec);
    record.lock = options.lock.map(<[u8]>::to_vec);
    jobs.put(store, &id, record, options.due_ms)?;
    reply(ctx, &options, (&id, true));
    Ok(())
}

fn reply(ctx: &mut Ctx, options: &Options<'_>, (id, is_added): (&[u8], bool)) {
    if options.says_added {
        ctx.reply.array(2);
    }
    ctx.reply.bulk(id);
    if options.says_added {
        ctx.reply.int(is_added.into());
    }
}
