//! From which end of a queue workers take.

use ds::list::End;

/// The end of the list at `key` from which workers take: the tail, as with Sidekiq, BullMQ and Celery, which push with `LPUSH`.
pub(crate) fn popping_end(_key: &[u8]) -> End {
    End::Tail
}

/// The other end.
pub(crate) fn opposite(end: End) -> End {
    match end {
        End::Head => End::Tail,
        End::Tail => End::Head,
    }
}
