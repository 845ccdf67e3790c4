//! Recognizes queues and their job systems by the names and types of keys that the systems use.

use std::collections::BTreeSet;

use ds::Kind;
use ds::list::End;

/// The job system of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum System {
    /// Unknown: one of the operator's patterns matched.
    Custom,
    /// Sidekiq.
    Sidekiq,
    /// Resque, with resque-scheduler.
    Resque,
    /// BullMQ and Bull.
    BullMq,
    /// Celery (kombu).
    Celery,
    /// RQ.
    Rq,
    /// asynq.
    Asynq,
    /// huey.
    Huey,
    /// dramatiq.
    Dramatiq,
    /// arq.
    Arq,
    /// Darter's own commands on jobs.
    Jobs,
}

impl System {
    const ALL: [System; 11] = [
        System::Custom,
        System::Sidekiq,
        System::Resque,
        System::BullMq,
        System::Celery,
        System::Rq,
        System::Asynq,
        System::Huey,
        System::Dramatiq,
        System::Arq,
        System::Jobs,
    ];

    /// The name that users see.
    pub fn name(self) -> &'static str {
        match self {
            System::Custom => "custom",
            System::Sidekiq => "sidekiq",
            System::Resque => "resque",
            System::BullMq => "bullmq",
            System::Celery => "celery",
            System::Rq => "rq",
            System::Asynq => "asynq",
            System::Huey => "huey",
            System::Dramatiq => "dramatiq",
            System::Arq => "arq",
            System::Jobs => "jobs",
        }
    }
}

impl System {
    /// The end of its lists from which workers take jobs; `None` if the system prescribes none.
    pub fn popping_end(self) -> Option<End> {
        match self {
            System::Resque | System::Rq | System::Dramatiq => Some(End::Head),
            System::Sidekiq | System::BullMq | System::Celery => Some(End::Tail),
            System::Asynq | System::Huey | System::Arq => Some(End::Tail),
            System::Custom | System::Jobs => None,
        }
    }
}

/// The meaning of a queue's elements to its job system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Jobs that wait for a worker.
    Waiting,
    /// Jobs that a worker is working on.
    Active,
    /// Jobs that are due at a time.
    Scheduled,
    /// Failed jobs that will be retried at a time.
    Retry,
    /// Jobs that failed for good.
    Dead,
    /// Jobs that are done.
    Completed,
    /// Jobs of a queue that the job system has paused.
    Paused,
}

impl State {
    const ALL: [State; 7] = [
        State::Waiting,
        State::Active,
        State::Scheduled,
        State::Retry,
        State::Dead,
        State::Completed,
        State::Paused,
    ];

    /// The name that users see.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Active => "active",
            State::Scheduled => "scheduled",
            State::Retry => "retry",
            State::Dead => "dead",
            State::Completed => "completed",
            State::Paused => "paused",
        }
    }

    /// Its rank in lists of queues; see [`Row::order`](super::Row::order).
    pub(super) fn rank(self) -> u8 {
        match self {
            State::Waiting => 0,
            State::Active | State::Paused => 1,
            State::Scheduled | State::Retry => 2,
            State::Dead | State::Completed => 3,
        }
    }
}

/// The meaning of a sorted set's scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Scores {
    /// They are not times.
    Other,
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Ms,
    /// Milliseconds since 1970 times 4096, as in BullMQ.
    Ms4096,
}

const SCORES: [Scores; 4] = [Scores::Other, Scores::Seconds, Scores::Ms, Scores::Ms4096];

/// Numbers of at least this are times in milliseconds rather than in seconds.
pub const MS_MIN: f64 = 1e11;

/// The system and the state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Its job system.
    pub system: System,
    /// The meaning of its elements.
    pub state: State,
    scores: Scores,
}

impl Class {
    /// A queue whose name no pattern matches.
    pub const CUSTOM: Class =
        Class { system: System::Custom, state: State::Waiting, scores: Scores::Seconds };
    /// A queue whose name no pattern matches, and whose jobs are leased.
    pub(super) const JOBS: Class = Class { system: System::Jobs, state: State::Waiting, scores: Scores::Ms };

    /// Encodes the class as the number stored in [`Figures`](super::Figures).
    pub fn number(self) -> u16 {
        (self.system as u16) << 8 | (self.state as u16) << 4 | self.scores as u16
    }

    /// The class with this number.
    ///
    /// # Panics
    /// If no class has it.
    pub fn of_number(number: u16) -> Class {
        Class {
            system: System::ALL[usize::from(number >> 8)],
            state: State::ALL[usize::from(number >> 4 & 15)],
            scores: SCORES[usize::from(number & 15)],
        }
    }

    /// Whether this server acts at the times in such a sorted set.
    pub(super) fn is_timed(self) -> bool {
        match self.system {
            System::Jobs => matches!(self.state, State::Active | State::Scheduled | State::Dead),
            _ => self.is_promoted(),
        }
    }

    /// Whether these are Sidekiq jobs that join their queues at a time.
    pub fn is_promoted(self) -> bool {
        self.system == System::Sidekiq && matches!(self.state, State::Scheduled | State::Retry)
    }

    /// The unit of the scores in milliseconds; `None` if they are not times. Large numbers are always
    /// milliseconds.
    pub(super) fn score_ms(self) -> Option<f64> {
        match self.scores {
            Scores::Other => None,
            Scores::Seconds => Some(1000.0),
            Scores::Ms => Some(1.0),
            Scores::Ms4096 => Some(1.0 / 4096.0),
        }
    }

    /// The time that a score expresses, in milliseconds since 1970; 0 if it does not express one.
    pub fn time_ms(self, score: f64) -> u64 {
        let ms = match self.scores {
            Scores::Other => 0.0,
            Scores::Seconds if score < MS_MIN => score * 1000.0,
            Scores::Seconds | Scores::Ms => score,
            Scores::Ms4096 => score / 4096.0,
        };
        ms as u64
    }
}

fn class(system: System, state: State) -> Option<Class> {
    Some(Class { system, state, scores: Scores::Seconds })
}

fn scored(system: System, state: State, scores: Scores) -> Option<Class> {
    Some(Class { system, state, scores })
}

/// Names of queues in addition to those that the systems always use.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// The operator's patterns, for any type.
    globs: Vec<Box<[u8]>>,
    /// Names learnt from other keys.
    learnt: BTreeSet<Learnt>,
    /// The first bytes that a queue's name can have.
    first: FirstBytes,
}

/// A set of first bytes of names: a fast check that most other names fail.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstBytes([u64; 4]);

impl FirstBytes {
    const ANY: FirstBytes = FirstBytes([u64::MAX; 4]);

    pub(super) fn note(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// The first bytes in either of the two.
    pub(super) fn or(self, other: FirstBytes) -> FirstBytes {
        FirstBytes(std::array::from_fn(|index| self.0[index] | other.0[index]))
    }

    /// Whether `name` begins with one of them.
    #[inline]
    pub(super) fn begin(&self, name: &[u8]) -> bool {
        name.first().is_some_and(|byte| self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0)
    }
}

/// A name learnt from another key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Learnt {
    /// A Celery queue, named in `_kombu.binding.*`.
    CeleryQueue(Box<[u8]>),
    /// A queue that was paused and whose name is not recognized otherwise.
    Custom(Box<[u8]>),
    /// A namespace of Sidekiq or Resque, whose `<namespace>:queues` exists.
    Namespace(Box<[u8]>),
}

/// The first bytes of names that the systems always use.
const FIRST: &[u8] = b"qsrdbcuha_{";
/// The separator that kombu puts between a queue's name and its priority.
pub const CELERY_PRIORITY: &[u8] = b"\x06\x16";

impl Default for Patterns {
    fn default() -> Self {
        Patterns::new(Vec::new())
    }
}

impl Patterns {
    /// The patterns with the operator's `globs`.
    pub fn new(globs: Vec<Box<[u8]>>) -> Patterns {
        let mut first = FirstBytes::default();
        FIRST.iter().for_each(|byte| first.note(*byte));
        for glob in &globs {
            match glob.first() {
                None => {}
                Some(b'*' | b'?' | b'[' | b'\\') => first = FirstBytes::ANY,
                Some(byte) => first.note(*byte),
            }
        }
        Patterns { globs, learnt: BTreeSet::new(), first }
    }

    /// The operator's patterns.
    pub fn globs(&self) -> &[Box<[u8]>] {
        &self.globs
    }

    /// The patterns with other globs and the same learnt names.
    pub(super) fn with_globs(&self, globs: Vec<Box<[u8]>>) -> Patterns {
        let mut patterns = Patterns::new(globs);
        self.learnt.iter().cloned().for_each(|learnt| _ = patterns.learn(learnt));
        patterns
    }

    /// Learns a name. Returns false if it was known before.
    pub(super) fn learn(&mut self, learnt: Learnt) -> bool {
        let (Learnt::CeleryQueue(name) | Learnt::Custom(name) | Learnt::Namespace(name)) = &learnt;
        if let Some(byte) = name.first() {
            self.first.note(*byte);
        }
        self.learnt.insert(learnt)
    }

    pub(super) fn learnt_count(&self) -> usize {
        self.learnt.len()
    }

    /// The first bytes of keys that may be queues.
    pub(super) fn first(&self) -> FirstBytes {
        self.first
    }

    /// The class of a key of this type; `None` if it is not a queue.
    pub fn class_of(&self, key: &[u8], kind: Kind) -> Option<Class> {
        if !matches!(kind, Kind::List | Kind::ZSet | Kind::Stream) {
            return None;
        }
        builtin(key, kind).or_else(|| self.of_learnt(key, kind)).or_else(|| {
            let is_named = self.globs.iter().any(|glob| ds::glob::matches(glob, key, false));
            if is_named { class(System::Custom, State::Waiting) } else { None }
        })
    }

    fn of_learnt(&self, key: &[u8], kind: Kind) -> Option<Class> {
        if self.learnt.is_empty() {
            return None;
        }
        if self.learnt.contains(&Learnt::Custom(key.into())) {
            return Some(Class::CUSTOM);
        }
        if kind == Kind::List {
            let name = memchr::memmem::find(key, CELERY_PRIORITY).map_or(key, |at| &key[..at]);
            if self.learnt.contains(&Learnt::CeleryQueue(name.into())) {
                return class(System::Celery, State::Waiting);
            }
        }
        // A namespace may contain colons itself.
        memchr::memchr_iter(b':', key).find_map(|at| {
            let class = builtin_sidekiq(&key[at + 1..], kind)?;
            self.learnt.contains(&Learnt::Namespace(key[..at].into())).then_some(class)
        })
    }
}

/// The hint that a set gives about the names of queues.
pub(super) enum Tells {
    /// Its members are bindings of Celery's queues.
    Bindings,
    /// Its name contains a namespace of Sidekiq or Resque.
    Namespace(Box<[u8]>),
}

/// The hint that a new set's name gives.
pub(super) fn tells(key: &[u8]) -> Option<Tells> {
    if key.starts_with(b"_kombu.binding.") {
        return Some(Tells::Bindings);
    }
    key.strip_suffix(b":queues")
        .filter(|name| *name != b"rq" && *name != b"resque")
        .map(|name| Tells::Namespace(name.into()))
}

/// The queue that a member of `_kombu.binding.*` names: routing key, pattern and queue.
pub(super) fn bound_queue(member: &[u8]) -> Option<Learnt> {
    let at = memchr::memmem::rfind(member, CELERY_PRIORITY)?;
    let name = &member[at + CELERY_PRIORITY.len()..];
    // Workers and their monitors answer each other through such queues.
    let is_mailbox = name.ends_with(b".pidbox") || name.starts_with(b"celeryev");
    (!name.is_empty() && !is_mailbox).then(|| Learnt::CeleryQueue(name.into()))
}

fn builtin(key: &[u8], kind: Kind) -> Option<Class> {
    match key.first()? {
        b'q' | b's' => builtin_sidekiq(key, kind),
        b'r' if key.starts_with(b"rq:") => rq(&key[3..], kind),
        b'r' if key.starts_with(b"resque:") => resque(&key[7..], kind),
        b'r' => builtin_sidekiq(key, kind),
        b'd' if key.starts_with(b"dramatiq:") => dramatiq(&key[9..], kind),
        b'd' => builtin_sidekiq(key, kind),
        b'b' => bullmq(key.strip_prefix(b"bull:")?, kind),
        b'c' | b'u' => celery(key, kind),
        b'h' => huey(key.strip_prefix(b"huey.")?, kind),
        b'a' if key.starts_with(b"asynq:{") => asynq(&key[7..], kind),
        b'a' => arq(key, kind),
        b'{' => jobs(key, kind),
        _ => None,
    }
}

fn builtin_sidekiq(key: &[u8], kind: Kind) -> Option<Class> {
    match (kind, key) {
        (Kind::List, key) if key.starts_with(b"queue:") => class(System::Sidekiq, State::Waiting),
        (Kind::ZSet, b"schedule") => class(System::Sidekiq, State::Scheduled),
        (Kind::ZSet, b"retry") => class(System::Sidekiq, State::Retry),
        (Kind::ZSet, b"dead") => class(System::Sidekiq, State::Dead),
        _ => None,
    }
}

fn resque(rest: &[u8], kind: Kind) -> Option<Class> {
    match (kind, rest) {
        (Kind::List, rest) if rest.starts_with(b"queue:") => class(System::Resque, State::Waiting),
        (Kind::List, b"failed") => class(System::Resque, State::Dead),
        (Kind::ZSet, b"delayed_queue_schedule") => class(System::Resque, State::Scheduled),
        _ => None,
    }
}

fn bullmq(rest: &[u8], kind: Kind) -> Option<Class> {
    let at = memchr::memrchr(b':', rest)?;
    let of = |state| class(System::BullMq, state);
    match (kind, &rest[at + 1..]) {
        (Kind::List, b"wait") => of(State::Waiting),
        (Kind::List, b"active") => of(State::Active),
        (Kind::List, b"paused") => of(State::Paused),
        (Kind::ZSet, b"prioritized") => scored(System::BullMq, State::Waiting, Scores::Other),
        (Kind::ZSet, b"delayed") => scored(System::BullMq, State::Scheduled, Scores::Ms4096),
        (Kind::ZSet, b"completed") => scored(System::BullMq, State::Completed, Scores::Ms),
        (Kind::ZSet, b"failed") => scored(System::BullMq, State::Dead, Scores::Ms),
        _ => None,
    }
}

fn celery(key: &[u8], kind: Kind) -> Option<Class> {
    match kind {
        Kind::List => {
            let rest = key.strip_prefix(b"celery")?;
            if rest.is_empty() || rest.starts_with(CELERY_PRIORITY) {
                return class(System::Celery, State::Waiting);
            }
            None
        }
        Kind::ZSet if key == b"unacked_index" => class(System::Celery, State::Active),
        _ => None,
    }
}

fn rq(rest: &[u8], kind: Kind) -> Option<Class> {
    let at = memchr::memchr(b':', rest)?;
    let of = |state| class(System::Rq, state);
    let untimed = |state| scored(System::Rq, state, Scores::Other);
    match (kind, &rest[..at]) {
        (Kind::List, b"queue") if rest.ends_with(b":intermediate") => of(State::Active),
        (Kind::List, b"queue") => of(State::Waiting),
        (Kind::ZSet, b"scheduled") => of(State::Scheduled),
        // The scores are the times at which the records of jobs expire or, for deferred ones, at which they
        // arrived.
        (Kind::ZSet, b"wip") => untimed(State::Active),
        (Kind::ZSet, b"deferred") => untimed(State::Scheduled),
        (Kind::ZSet, b"failed") => untimed(State::Dead),
        (Kind::ZSet, b"finished") => untimed(State::Completed),
        _ => None,
    }
}

fn asynq(rest: &[u8], kind: Kind) -> Option<Class> {
    let at = memchr::memmem::rfind(rest, b"}:")?;
    let of = |state| class(System::Asynq, state);
    match (kind, &rest[at + 2..]) {
        (Kind::List, b"pending") => of(State::Waiting),
        (Kind::List, b"active") => of(State::Active),
        (Kind::ZSet, b"scheduled") => of(State::Scheduled),
        (Kind::ZSet, b"retry") => of(State::Retry),
        (Kind::ZSet, b"archived") => of(State::Dead),
        // The scores are the times at which the records of tasks expire.
        (Kind::ZSet, b"completed") => scored(System::Asynq, State::Completed, Scores::Other),
        _ => None,
    }
}

fn huey(rest: &[u8], kind: Kind) -> Option<Class> {
    match kind {
        Kind::List if rest.starts_with(b"redis.") => class(System::Huey, State::Waiting),
        // The queue with priorities.
        Kind::ZSet if rest.starts_with(b"redis.") => scored(System::Huey, State::Waiting, Scores::Other),
        Kind::ZSet if rest.starts_with(b"schedule.") => class(System::Huey, State::Scheduled),
        _ => None,
    }
}

fn dramatiq(rest: &[u8], kind: Kind) -> Option<Class> {
    let of = |state| class(System::Dramatiq, state);
    match kind {
        Kind::List if rest.starts_with(b"__") => None,
        Kind::List if rest.ends_with(b".DQ") => of(State::Scheduled),
        Kind::List => of(State::Waiting),
        Kind::ZSet if rest.ends_with(b".XQ") => scored(System::Dramatiq, State::Dead, Scores::Ms),
        _ => None,
    }
}

fn arq(key: &[u8], kind: Kind) -> Option<Class> {
    let is_queue = kind == Kind::ZSet && (key == b"arq:queue" || key.starts_with(b"arq:queue:"));
    if is_queue { scored(System::Arq, State::Waiting, Scores::Ms) } else { None }
}

/// The sorted sets beside a queue whose jobs are leased.
fn jobs(key: &[u8], kind: Kind) -> Option<Class> {
    if kind != Kind::ZSet {
        return None;
    }
    let of = |state| scored(System::Jobs, state, Scores::Ms);
    match &key[memchr::memmem::rfind(key, JOBS)?..] {
        ACTIVE => of(State::Active),
        DELAYED | CRON => of(State::Scheduled),
        DEAD => of(State::Dead),
        _ => None,
    }
}

/// Suffixes after the queue's name in the keys beside it. The hash of the records of jobs, by id.
pub const JOBS: &[u8] = b":jobs";
/// The sorted set of active jobs; the scores are the ends of their leases in ms.
pub const ACTIVE: &[u8] = b":jobs:active";
/// The sorted set of delayed jobs; the scores are the times in ms.
pub const DELAYED: &[u8] = b":jobs:delayed";
/// The sorted set of jobs without attempts left; the scores are the times in ms at which the last attempt ended.
pub const DEAD: &[u8] = b":jobs:dead";
/// The sorted set of schedules; the scores are the next times in ms.
pub const CRON: &[u8] = b":jobs:cron";
/// The sorted set of jobs that wait in the list as they were pushed, by a hash of their elements.
pub const PLAIN: &[u8] = b":jobs:plain";
/// The sorted set of groups that have waiting jobs and are below their limit.
pub const GROUPS: &[u8] = b":jobs:groups";
/// The sorted set of groups that are at their limit.
pub const GROUPS_FULL: &[u8] = b":jobs:groups:full";
/// The hash of turns, which exists while jobs of groups wait.
pub const TURN: &[u8] = b":jobs:turn";
/// The hash that limits a queue.
pub const LIMIT: &[u8] = b":jobs:limit";
/// The sorted set of recently taken jobs; the scores are the times until which they count against the limit.
pub const RATE: &[u8] = b":jobs:rate";

/// The queue whose jobs a key of this type is about, if the key exists only while jobs are active, delayed,
/// dead, scheduled or in groups.
pub(super) fn queue_with_jobs(key: &[u8], kind: Kind) -> Option<&[u8]> {
    let ends: &[&[u8]] = match kind {
        Kind::ZSet => &[ACTIVE, DELAYED, DEAD, CRON],
        Kind::Hash => &[JOBS, TURN],
        Kind::Str | Kind::List | Kind::Set | Kind::Stream => return None,
        Kind::Bloom | Kind::Cuckoo | Kind::CountMin | Kind::TopK | Kind::TDigest => return None,
    };
    ends.iter().find_map(|end| queue_beside(key, end)).filter(|queue| !queue.is_empty())
}

/// The queue that `key` belongs to, if `end` is the part of the key after the queue's name:
/// `{mail}:jobs:active` belongs to `mail`, `{eu}:{eu}mail:jobs:active` to `{eu}mail`.
pub fn queue_beside<'k>(key: &'k [u8], end: &[u8]) -> Option<&'k [u8]> {
    let inner = key.strip_suffix(end)?.strip_prefix(b"{")?;
    let at = inner.iter().position(|byte| *byte == b'}')?;
    match &inner[at + 1..] {
        [] => Some(&inner[..at]),
        rest => rest.strip_prefix(b":"),
    }
}

/// Keys beside a queue that affect, while they exist, how elements are taken from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// Its limit.
    Limit,
    /// The turns of its groups.
    Turn,
    /// The known jobs among its elements that have no ids of their own.
    Plain,
}

impl Rule {
    /// The rule of a key, and its queue.
    pub(super) fn of(key: &[u8]) -> Option<(Rule, &[u8])> {
        [(Rule::Limit, LIMIT), (Rule::Turn, TURN), (Rule::Plain, PLAIN)]
            .into_iter()
            .find_map(|(rule, end)| Some((rule, queue_beside(key, end)?)))
    }
}

/// Whether this is the key of the recently taken jobs of a limited queue.
pub fn is_rate(key: &[u8]) -> bool {
    key.ends_with(RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_told_by_the_names_of_their_keys() {
        let mut patterns = Patterns::new(vec![b"jobs:*"[..].into()]);
        patterns.learn(bound_queue(b"mail\x06\x16\x06\x16mail").expect("it names a queue"));
        assert_eq!(bound_queue(b"u\x06\x16\x06\x16u.reply.celery.pidbox"), None);
        for set in [&b"app:queues"[..], b"a:b:queues"] {
            let Some(Tells::Namespace(name)) = tells(set) else { panic!("it has a namespace") };
            patterns.learn(Learnt::Namespace(name));
        }
        use Kind::{List, ZSet};
        for (kind, key, wanted) in [
            (List, "queue:default", "sidekiq waiting"),
            (List, "app:queue:default", "sidekiq waiting"),
            (List, "a:b:queue:default", "sidekiq waiting"),
            (List, "b:queue:default", ""),
            (ZSet, "queue:default", ""),
            (ZSet, "schedule", "sidekiq scheduled"),
            (ZSet, "app:retry", "sidekiq retry"),
            (ZSet, "dead", "sidekiq dead"),
            (List, "schedule", ""),
            (List, "resque:queue:mail", "resque waiting"),
            (List, "resque:failed", "resque dead"),
            (ZSet, "resque:delayed_queue_schedule", "resque scheduled"),
            (List, "bull:a:b:wait", "bullmq waiting"),
            (List, "bull:a:active", "bullmq active"),
            (List, "bull:a:paused", "bullmq paused"),
            (ZSet, "bull:a:prioritized", "bullmq waiting"),
            (ZSet, "bull:a:delayed", "bullmq scheduled"),
            (ZSet, "bull:a:failed", "bullmq dead"),
            (List, "bull:a:waiter", ""),
            (List, "celery", "celery waiting"),
            (List, "celery\x06\x163", "celery waiting"),
            (List, "celeryev", ""),
            (List, "mail", "celery waiting"),
            (List, "mail\x06\x169", "celery waiting"),
            (List, "mails", ""),
            (ZSet, "unacked_index", "celery active"),
            (List, "rq:queue:high", "rq waiting"),
            (List, "rq:queue:high:intermediate", "rq active"),
            (ZSet, "rq:wip:high", "rq active"),
            (ZSet, "rq:failed:high", "rq dead"),
            (List, "asynq:{low}:pending", "asynq waiting"),
            (ZSet, "asynq:{low}:archived", "asynq dead"),
            (ZSet, "asynq:{low}:lease", ""),
            (List, "huey.redis.app", "huey waiting"),
            (ZSet, "huey.schedule.app", "huey scheduled"),
            (List, "dramatiq:default", "dramatiq waiting"),
            (List, "dramatiq:default.DQ", "dramatiq scheduled"),
            (ZSet, "arq:queue", "arq waiting"),
            (ZSet, "{mail}:jobs:active", "jobs active"),
            (ZSet, "{a}:{a}b:jobs:delayed", "jobs scheduled"),
            (ZSet, "{mail}:jobs:cron", "jobs scheduled"),
            (ZSet, "{mail}:jobs:dead", "jobs dead"),
            (ZSet, "{mail}:active", ""),
            (Kind::Hash, "{mail}:jobs", ""),
            (List, "jobs:1", "custom waiting"),
            (Kind::Stream, "jobs:1", "custom waiting"),
            (Kind::Hash, "jobs:1", ""),
            (List, "", ""),
            (List, "anything", ""),
        ] {
            let found = patterns.class_of(key.as_bytes(), kind);
            let shown = found.map(|class| format!("{} {}", class.system.name(), class.state.name()));
            assert_eq!(shown.unwrap_or_default(), wanted, "{key}");
            assert!(found.is_none() || patterns.first().begin(key.as_bytes()), "{key} is not passed over");
            assert!(found.is_none_or(|class| Class::of_number(class.number()) == class));
        }
    }

    #[test]
    fn scores_are_times_as_the_systems_mean_them() {
        let time = |key: &str, score: f64| {
            Patterns::default().class_of(key.as_bytes(), Kind::ZSet).expect("it is known").time_ms(score)
        };
        assert_eq!(time("schedule", 1_700_000_000.25), 1_700_000_000_250);
        assert_eq!(time("bull:a:delayed", 1_700_000_000_250.0 * 4096.0 + 7.0), 1_700_000_000_250);
        assert_eq!(time("arq:queue", 1_700_000_000_250.0), 1_700_000_000_250);
        assert_eq!(time("bull:a:prioritized", 5.0), 0);
        assert_eq!(time("rq:scheduled:a", 1_700_000_000.0), 1_700_000_000_000);
        for until in ["rq:failed:a", "rq:finished:a", "rq:wip:a", "rq:deferred:a", "asynq:{a}:completed"] {
            assert_eq!(time(until, 1_800_000_000.0), 0, "{until}");
        }
        assert_eq!(time("schedule", f64::NEG_INFINITY), 0);
    }
}
