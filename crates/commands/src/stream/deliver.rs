//! Delivers entries to a consumer of a group: new ones, and again those that are pending for it.

use ds::stream::{ConsumerId, Group, Log, Pending, StreamId};
use resp::Reply;

use super::budget::Budget;
use super::{reply_entry, reply_id};

/// The consumer that gets entries, and how it gets them.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    pub(super) consumer: ConsumerId,
    /// The most entries; 0: all.
    pub(super) count: usize,
    /// Whether entries do not become pending.
    pub(super) no_ack: bool,
    pub(super) now_ms: i64,
}

impl Delivery {
    fn count_max(self) -> usize {
        if self.count == 0 { usize::MAX } else { self.count }
    }

    /// Replies with entries that the group has not delivered yet; returns those that became pending.
    pub(super) fn new_entries(
        self,
        log: &Log,
        group: &mut Group,
        budget: &mut Budget,
        reply: &mut Reply,
    ) -> Vec<(StreamId, i64)> {
        let mark = reply.deferred();
        let (mut written, mut given) = (0, Vec::new());
        let Some(start) = group.last_id.next() else {
            reply.finish_array(mark, 0);
            return given;
        };
        for (id, fields) in log.range(start, StreamId::MAX).take(self.count_max()) {
            if !budget.take(id, Some(fields)) {
                break;
            }
            let can_count = group.last_id >= log.first_id() && !log.has_tombstones_from(group.last_id);
            group.entries_read = match group.entries_read {
                Some(read) if can_count => Some(read.saturating_add(1)),
                _ => log.entries_until(id),
            };
            group.last_id = id;
            reply_entry(reply, id, fields);
            written += 1;
            if !self.no_ack {
                let (consumer, delivered_ms) = (self.consumer, self.now_ms);
                group.assign(id, Pending { consumer, delivered_ms, delivery_count: 1 });
                group.consumer_mut(consumer).active_ms = Some(self.now_ms);
                given.push((id, 1));
            }
        }
        reply.finish_array(mark, written);
        given
    }

    /// Replies with the entries after `after` that are pending for the consumer; returns those that were delivered
    /// again, with their numbers of deliveries.
    pub(super) fn pending_entries(
        self,
        log: &Log,
        group: &mut Group,
        after: StreamId,
        budget: &mut Budget,
        reply: &mut Reply,
    ) -> Vec<(StreamId, i64)> {
        let start = after.next().unwrap_or(StreamId::MAX);
        let own = group.pending_range_of(self.consumer, start..=StreamId::MAX);
        let own: Vec<(StreamId, Pending)> =
            own.take(self.count_max()).map(|(id, pending)| (id, *pending)).collect();
        let mark = reply.deferred();
        let (mut written, mut given) = (0, Vec::new());
        for (id, pending) in own {
            let fields = log.get(id);
            if !budget.take(id, fields) {
                break;
            }
            written += 1;
            let Some(fields) = fields else {
                reply.array(2);
                reply_id(reply, id);
                reply.null_array();
                continue;
            };
            reply_entry(reply, id, fields);
            let delivery_count = pending.delivery_count.saturating_add(1);
            group.assign(id, Pending { delivered_ms: self.now_ms, delivery_count, ..pending });
            given.push((id, delivery_count));
        }
        reply.finish_array(mark, written);
        given
    }

    /// Whether the first entry after `after`, or the first new one, fits into the budget; true if there is none.
    pub(super) fn fits(self, log: &Log, group: &Group, after: Option<StreamId>, budget: &Budget) -> bool {
        if budget.takes_any() {
            return true;
        }
        let start = after.unwrap_or(group.last_id).next().unwrap_or(StreamId::MAX);
        let first = match after {
            None => log.range(start, StreamId::MAX).next().map(|(id, fields)| (id, Some(fields))),
            Some(_) => {
                let mut own = group.pending_range_of(self.consumer, start..=StreamId::MAX);
                own.next().map(|(id, _)| (id, log.get(id)))
            }
        };
        first.is_none_or(|(id, fields)| budget.fits(id, fields))
    }
}
