//! Which keys belong to one queue: its waiting, active, delayed and failed jobs.

use keyspace::queue::{Row, System};

/// Whether `other` has jobs of the same queue as `row`, in another state.
pub(crate) fn is_beside(row: &Row, other: &Row) -> bool {
    let is_other = row.state != other.state && (row.db, row.system) == (other.db, other.system);
    is_other && stem(row).is_some_and(|stem_of_row| stem(other) == Some(stem_of_row))
}

/// The part of the name that all keys of a queue have in common.
fn stem(row: &Row) -> Option<&[u8]> {
    let name = &*row.name;
    match row.system {
        // The sets are those of all queues of a namespace.
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
        System::Jobs => memchr::memmem::rfind(name, b":jobs:").map(|at| &name[..at]),
        System::Custom => None,
    }
}

#[cfg(test)]
mod tests {
    use ds::Kind;
    use ds::queue::Figures;
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
        ] {
            assert!(!is_beside(&row(one), &row(other)), "{one:?} {other:?}");
        }
    }
}
