//! The keys that a job system has beside the elements of its queues, and how QUEUE MOVE and QUEUE REMOVE
//! change them.
//!
//! | system | the element is | beside it | when it moves to a list of waiting jobs |
//! |---|---|---|---|
//! | Sidekiq | the payload | its queue in the set `queues` | `queue`, `enqueued_at` and `retry_count` are rewritten |
//! | Resque | the payload; a failed one wrapped | its queue in `resque:queues` | it is unwrapped |
//! | Celery | the message | | its routing key, by which it is returned when its worker dies, is rewritten |
//! | BullMQ | an id | a hash, under the name of the queue | only within its queue; the fields about its end are removed |
//! | RQ | an id | a hash, under no queue's name | `origin` and `status` in the hash are rewritten |
//! | asynq | an id | a hash, under the name of the queue | only within its queue; `state` in the hash is rewritten |
//! | dramatiq | an id | a field of a hash | not at all |
//! | arq, huey | an id, the message | keys without a queue's name | unchanged |
//!
//! The name of a key determines its system, its type if it does not exist, and the end at which jobs join it.
//! A move that is not known to be safe is refused, as jobs would run twice, or never. A job that cannot be
//! moved stays in place, and the others move.
//!
//! The keys beside a job are on other shards, unless `colocate` or a hash tag keeps them together. Their
//! shards are entered as the jobs are examined ([`Custody::keys`]). Commands of Redis change them, and are
//! the effects, too ([`run`]).

mod asynq;
mod bullmq;
mod others;
mod rq;
mod sidekiq;

use ds::Kind;
use ds::hash::Hash;
use engine::{CommandError, Ctx, Run, Store, peek_into};
use keyspace::ValueRef;
use keyspace::queue::{Class, JOBS, State, System};
use resp::{Output, Reply};

/// A command of Redis.
pub(crate) type Words = Vec<Vec<u8>>;

const WITH_WORKERS: CommandError =
    CommandError::fixed("ERR workers have these jobs: only they can say what becomes of them");
const KEPT: CommandError = CommandError::fixed(
    "ERR this key is kept by the commands on jobs: JOB.RETRY and JOB.DROP change what is in it",
);
const NEEDS_TIME: CommandError =
    CommandError::fixed("ERR jobs join this key with a time, which QUEUE MOVE does not know");
const NOT_MOVED: CommandError =
    CommandError::fixed("ERR only the job system itself can move jobs between these two keys");
const NO_JOB: CommandError =
    CommandError::fixed("ERR nothing is kept of a job with this id, so that it cannot run");
pub(crate) const ALREADY_THERE: CommandError = CommandError::fixed("ERR the other key has this job already");

/// An error about the jobs of a system.
fn of_system(system: System, text: &str) -> CommandError {
    CommandError::new(format!("ERR jobs of {} {text}", system.name()))
}

/// A key, and what its name says about it.
#[derive(Clone, Copy)]
struct Place<'a> {
    key: &'a [u8],
    /// `None`: it is not the name of any system's queue.
    class: Option<Class>,
    /// The type that the name implies, if there is only one.
    kind: Option<Kind>,
}

impl<'a> Place<'a> {
    fn of(store: &Store, key: &'a [u8]) -> Place<'a> {
        let (patterns, _) = store.tx.hold.shards().queues().patterns();
        let class = |kind| patterns.class_of(key, kind).filter(|class| class.system != System::Custom);
        let (class, kind) = match [Kind::List, Kind::ZSet].map(class) {
            [None, None] => (None, None),
            [Some(class), None] => (Some(class), Some(Kind::List)),
            [None, Some(class)] => (Some(class), Some(Kind::ZSet)),
            [Some(class), Some(_)] => (Some(class), None),
        };
        Place { key, class, kind }
    }

    fn system(&self) -> Option<System> {
        self.class.map(|class| class.system)
    }

    fn state(&self) -> Option<State> {
        self.class.map(|class| class.state)
    }

    /// The name up to its last colon, with the colon.
    fn stem(&self) -> &'a [u8] {
        &self.key[..memchr::memrchr(b':', self.key).map_or(0, |at| at + 1)]
    }

    /// Whether this key belongs to the JOB commands, and is not their queue's list.
    fn is_kept(&self) -> bool {
        self.system() == Some(System::Jobs)
            || self.key.starts_with(b"{") && memchr::memmem::find(self.key, &[JOBS, b":"].concat()).is_some()
    }
}

/// A job that is to leave its queue.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    /// Its element.
    pub(crate) element: &'a [u8],
    /// Its score, if it comes from a sorted set.
    pub(crate) score: Option<f64>,
}

/// A job that leaves its queue.
#[derive(Default)]
pub(crate) struct Going {
    /// Its element in the other queue.
    pub(crate) element: Vec<u8>,
    /// Its score there, if that is a sorted set.
    pub(crate) score: f64,
    /// The commands that change the keys beside it.
    pub(crate) commands: Vec<Words>,
    /// Whether it is a job of this system: if so, its queue is announced ([`Custody::announce`]).
    pub(crate) is_known: bool,
}

impl Going {
    /// A job that moves unchanged.
    fn unchanged(job: Job<'_>) -> Going {
        let score = job.score.unwrap_or(0.0);
        Going { element: job.element.to_vec(), score, commands: Vec::new(), is_known: false }
    }
}

/// How a system's keys change when one of its jobs leaves.
trait Custody {
    /// The keys beside a job that are read or changed. Keys that are named in others are included once the
    /// shards of those are entered.
    fn keys(&self, store: &Store, element: &[u8]) -> Vec<Vec<u8>>;

    /// Decides whether and how a job leaves; the error says why it stays.
    fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError>;

    /// The type of the target, if its name does not imply it.
    fn kind(&self) -> Option<Kind> {
        None
    }

    /// The commands that run once jobs of this system have joined their queue.
    fn announce(&self) -> Vec<Words> {
        Vec::new()
    }
}

/// The source and the target of jobs.
pub(crate) struct Transfer<'a> {
    from: Place<'a>,
    to: Option<Place<'a>>,
    /// `None`: there are no keys beside the jobs, and they move unchanged.
    custody: Option<Box<dyn Custody + 'a>>,
}

impl<'a> Transfer<'a> {
    /// A move to another key.
    pub(crate) fn to(store: &Store, from: &'a [u8], to: &'a [u8]) -> Result<Self, CommandError> {
        let (from, to) = (Place::of(store, from), Place::of(store, to));
        let custody = custody_of_move(store, &from, &to)?;
        Ok(Transfer { from, to: Some(to), custody })
    }

    /// A removal.
    pub(crate) fn nowhere(store: &Store, from: &'a [u8]) -> Result<Self, CommandError> {
        let from = Place::of(store, from);
        let custody = custody_of_removal(&from)?;
        Ok(Transfer { from, to: None, custody })
    }

    /// Whether jobs move unchanged, without keys beside them.
    pub(crate) fn is_plain(&self) -> bool {
        self.custody.is_none()
    }

    /// The type of the target, when jobs come from a key of type `from`.
    pub(crate) fn kind_of_target(&self, store: &Store, from: Kind) -> Result<Kind, CommandError> {
        let Some(to) = &self.to else { return Ok(from) };
        let there = store.peek(to.key).map(|record| record.value().kind());
        let by_name = match (to.kind, to.system()) {
            // Its queue is a sorted set if tasks have priorities.
            (None, Some(System::Huey)) if self.from.state() != Some(State::Waiting) => Some(Kind::List),
            (kind, _) => kind.or_else(|| self.custody.as_ref().and_then(|custody| custody.kind())),
        };
        if there.is_some_and(|there| by_name.is_some_and(|by_name| by_name != there)) {
            return Err(CommandError::WRONG_TYPE);
        }
        let kind = there.or(by_name).unwrap_or(from);
        let may_turn = match (from, kind) {
            (Kind::List, Kind::ZSet) if self.custody.is_none() && to.class.is_some() => {
                return Err(NEEDS_TIME);
            }
            (Kind::List, Kind::ZSet) => self.custody.is_some(),
            (Kind::ZSet, Kind::List) => to.class.is_some() || self.custody.is_some(),
            _ => from == kind,
        };
        if may_turn { Ok(kind) } else { Err(CommandError::WRONG_TYPE) }
    }

    /// The keys beside a job; see [`Custody::keys`].
    pub(crate) fn keys(&self, store: &Store, element: &[u8]) -> Vec<Vec<u8>> {
        self.custody.as_ref().map_or_else(Vec::new, |custody| custody.keys(store, element))
    }

    /// Decides whether and how a job leaves; the error says why it stays. The shards of its keys are entered.
    pub(crate) fn take(&self, store: &Store, job: Job<'_>) -> Result<Going, CommandError> {
        match &self.custody {
            Some(custody) => custody.take(store, job),
            None => Ok(Going::unchanged(job)),
        }
    }

    /// Changes the keys beside jobs that have left.
    pub(crate) fn follow(&self, store: &mut Store, gone: &[Going]) {
        for words in gone.iter().flat_map(|job| &job.commands) {
            run(store, words);
        }
        if let Some(custody) = self.custody.as_ref().filter(|_| gone.iter().any(|job| job.is_known)) {
            custody.announce().iter().for_each(|words| run(store, words));
        }
    }
}

/// Runs a command of Redis that cannot fail, regardless of its name for clients.
fn run(store: &mut Store, words: &Words) {
    let args: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    let table = store.tx.table;
    let named =
        table.by_name(args[0]).filter(|command| command.top_name().as_bytes().eq_ignore_ascii_case(args[0]));
    let command = named.or_else(|| table.declared(args[0])).expect("a command of Redis");
    let Run::Function(function) = command.entry.run else { unreachable!("a command with a function") };
    let (client, mut out) = (store.client, Output::new());
    let reply = Reply::new(&mut out, client.proto);
    let store = Store::new(&mut *store.tx, client);
    let outcome = function(&mut Ctx { command, args: &args, reply, store, host: &mut () });
    assert!(outcome.is_ok(), "{}: {outcome:?}", command.full_name);
}

fn custody_of_move<'a>(
    store: &Store,
    from: &Place<'a>,
    to: &Place<'a>,
) -> Result<Option<Box<dyn Custody + 'a>>, CommandError> {
    if from.is_kept() || to.is_kept() {
        return Err(KEPT);
    }
    if from.state() == Some(State::Active) {
        return Err(WITH_WORKERS);
    }
    if matches!(to.state(), Some(State::Active | State::Completed)) {
        return Err(NOT_MOVED);
    }
    let system = match (from.system(), to.system()) {
        (None, None) => return Ok(bullmq::by_shape(store, from, to)),
        (Some(system), None) if has_ids_only(system) => {
            return Err(of_system(system, "can only be moved to keys of the same system"));
        }
        (Some(_), None) => return Ok(None),
        (Some(one), Some(other)) if one != other => {
            return Err(of_system(one, &format!("mean nothing to workers of {}", other.name())));
        }
        (_, Some(system)) => system,
    };
    match system {
        System::Sidekiq => sidekiq::moved(from, to).map(Some),
        System::Resque => sidekiq::moved_in_resque(from, to).map(Some),
        System::BullMq => bullmq::moved(from, to).map(Some),
        System::Celery => others::moved_in_celery(to).map(Some),
        System::Rq => rq::moved(from, to).map(Some),
        System::Asynq => asynq::moved(from, to).map(Some),
        System::Dramatiq => Err(NOT_MOVED),
        System::Huey if to.state() == Some(State::Scheduled) && from.state() == Some(State::Waiting) => {
            Err(NEEDS_TIME)
        }
        System::Huey | System::Arq => Ok(None),
        System::Jobs | System::Custom => Ok(None),
    }
}

fn custody_of_removal<'a>(from: &Place<'a>) -> Result<Option<Box<dyn Custody + 'a>>, CommandError> {
    if from.is_kept() {
        return Err(KEPT);
    }
    if from.state() == Some(State::Active) {
        return Err(WITH_WORKERS);
    }
    Ok(match from.system() {
        Some(System::BullMq) => Some(bullmq::removed(from)),
        Some(System::Rq) => Some(rq::removed()),
        Some(System::Asynq) => Some(asynq::removed(from)),
        Some(System::Dramatiq) => Some(others::removed_in_dramatiq(from)),
        Some(System::Arq) => Some(others::removed_in_arq()),
        // Its members are times, each of which has a list of jobs.
        Some(System::Resque) if from.state() == Some(State::Scheduled) => return Err(NOT_MOVED),
        _ => None,
    })
}

/// Whether the elements are ids, with the jobs under names that say where they are.
fn has_ids_only(system: System) -> bool {
    matches!(system, System::BullMq | System::Rq | System::Asynq | System::Dramatiq)
}

/// A field of a hash, if the key is a hash that has it.
fn field(store: &Store, key: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    let hash = peek_into::<Hash>(store, key, &mut buffer).ok()??;
    Some(hash.get(name)?.bytes().to_vec())
}

/// Whether a key holds this text.
fn has_text(store: &Store, key: &[u8], text: &[u8]) -> bool {
    store.peek(key).is_some_and(|record| match record.value() {
        ValueRef::Str(there) => *there.bytes() == *text,
        _ => false,
    })
}

/// Words as a command.
fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}
