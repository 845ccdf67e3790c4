//! Finds the keys that belong to one queue: its waiting, active, delayed and failed jobs.

use keyspace::queue::Figures;
use keyspace::queue::{ACTIVE, CRON, Class, DEAD, DELAYED, Row, System, queue_beside};

/// Whether `other` has jobs of the same queue as `row`, in another state.
pub(crate) fn is_beside(row: &Row, other: &Row) -> bool {
    if row.db != other.db || (row.state, &row.name) == (other.state, &other.name) {
        return false;
    }
    // Leased jobs belong to their queue, whichever system the queue is from.
    if [row, other].iter().any(|row| row.system == System::Jobs) {
        return leased_queue(row) == leased_queue(other);
    }
    let is_other = row.state != other.state && row.system == other.system;
    is_other && stem(row).is_some_and(|stem_of_row| stem(other) == Some(stem_of_row))
}

/// Whether [`is_beside`] may hold: a quick check without the names.
pub(crate) fn may_be_beside(row: &Row, other: &Figures) -> bool {
    let class = Class::of_number(other.class);
    let is_either = row.jobs.is_some() || row.system == System::Jobs;
    let is_one = (class.system == row.system && class.state != row.state)
        || (is_either && (class.system == System::Jobs || other.has_jobs()));
    other.db() == row.db && is_one
}

/// The queue that a row is, or whose jobs it has.
fn leased_queue(row: &Row) -> &[u8] {
    let beside = |end: &&[u8]| queue_beside(&row.name, end);
    let found = [ACTIVE, DELAYED, DEAD, CRON].iter().find_map(beside);
    found.filter(|_| row.system == System::Jobs).unwrap_or(&row.name)
}

/// The part of the name that all keys of a queue have in common.
fn stem(row: &Row) -> Option<&[u8]> {
    let name = &*row.name;
    match row.system {
        // The sets are shared by all queues of a namespace.
        System::Sidekiq => Some(match memchr::memmem::find(name, b"queue:") {
            Some(at) => &name[..at],
            None => &name[..memchr::memrchr(b':', name).map_or(0, |at| at + 1)],
        }),
        System::Resque | System::Celery | System::Arq => Some(b""),
        System::BullMq => memchr::memrchr(b':', name).map(|at| &name[..at]),
        System::Asynq => memchr::memmem::rfind(name, b"}:").map(|at| &name[..at]),
        System::Rq => {
            let at = 3 + memchr::memchr(b':', &name[3..])?;
            let queue = &name[at + 1..];
            Some(queue.strip_suffix(b":intermediate").unwrap_or(queue))
        }
        System::Huey => name.splitn(3, |byte| *byte == b'.').nth(2),
        System::Dramatiq => {
            Some(name.strip_suffix(b".DQ").or_else(|| name.strip_suffix(b".XQ")).unwrap_or(name))
        }
        System::Jobs | System::Custom => None,
    }
}

#[cfg(test)]
mod tests {
    use ds::Kind;
    use keyspace::queue::Figures;
    use keyspace::queue::Patterns;

    use super::*;

    #[test]
    fn what_belongs_together_is_told_by_the_names() {
        let row = |(name, kind): (&str, Kind)| {
            let class = Patterns::default().class_of(name.as_bytes(), kind).expect("it is a queue");
            Row::new(&Figures::new(name.as_bytes(), class.number(), 0, 0), 0)
        };
        use Kind::{List, ZSet};
        let together = [
            [("queue:a", List), ("schedule", ZSet)],
            [("bull:a:b:wait", List), ("bull:a:b:delayed", ZSet)],
            [("asynq:{a}:pending", List), ("asynq:{a}:retry", ZSet)],
            [("rq:queue:a", List), ("rq:wip:a", ZSet)],
            [("rq:queue:a", List), ("rq:queue:a:intermediate", List)],
            [("huey.redis.a", List), ("huey.schedule.a", ZSet)],
            [("dramatiq:a", List), ("dramatiq:a.DQ", List)],
            [("celery", List), ("unacked_index", ZSet)],
            [("{mail}:jobs:active", ZSet), ("{mail}:jobs:dead", ZSet)],
            [("{mail}:jobs:delayed", ZSet), ("{mail}:jobs:cron", ZSet)],
            [("queue:a", List), ("{queue:a}:jobs:dead", ZSet)],
        ];
        for [one, other] in together {
            assert!(
                is_beside(&row(one), &row(other)) && is_beside(&row(other), &row(one)),
                "{one:?} {other:?}"
            );
        }
        for [one, other] in [
            [("bull:a:wait", List), ("bull:b:delayed", ZSet)],
            [("queue:a", List), ("queue:a", List)],
            [("rq:queue:a", List), ("rq:wip:b", ZSet)],
            [("celery", List), ("schedule", ZSet)],
            [("{mail}:jobs:active", ZSet), ("{post}:jobs:dead", ZSet)],
            [("queue:a", List), ("{queue:b}:jobs:dead", ZSet)],
        ] {
            assert!(!is_beside(&row(one), &row(other)), "{one:?} {other:?}");
        }
    }
}
