//! Delivers entries to a consumer of a group: new ones, again those that are pending for it, and those that have been
//! pending for others for too long.

use ds::stream::{ConsumerId, Group, Log, Pending, StreamId};
use resp::Reply;

use super::budget::Budget;
use super::{reply_entry, reply_entry_with, reply_id};

/// The consumer that gets entries, and how it gets them.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    pub(super) consumer: ConsumerId,
    /// The most entries; 0: all.
    pub(super) count: usize,
    /// Whether entries do not become pending.
    pub(super) no_ack: bool,
    pub(super) now_ms: i64,
    /// Entries that have been idle for this long are claimed first, and all entries are returned with how long they have
    /// been idle, and how often they were delivered before.
    pub(super) claim_ms: Option<i64>,
}

impl Delivery {
    fn count_max(self) -> usize {
        if self.count == 0 { usize::MAX } else { self.count }
    }

    /// Whether there is an entry to be claimed, or one that the group has not delivered yet.
    pub(super) fn finds(self, log: &Log, group: &mut Group) -> bool {
        log.last_entry_id() > Some(group.last_id) || !self.claims(log, group, 1).is_empty()
    }

    fn claims(self, log: &Log, group: &mut Group, count_max: usize) -> Vec<(StreamId, Pending)> {
        match self.claim_ms {
            Some(min_idle_ms) => group.claims(log, min_idle_ms, self.now_ms, count_max),
            None => Vec::new(),
        }
    }

    /// Replies with entries that are claimed, and those that the group has not delivered yet; returns those that became
    /// pending for the consumer, with their numbers of deliveries.
    pub(super) fn new_entries(
        self,
        log: &Log,
        group: &mut Group,
        budget: &mut Budget,
        reply: &mut Reply,
    ) -> Vec<(StreamId, i64)> {
        let mark = reply.deferred();
        let mut given = match self.claim_ms {
            Some(_) => self.claim_entries(log, group, budget, reply),
            None => Vec::new(),
        };
        let mut written = given.len();
        let Some(start) = group.last_id.next() else {
            reply.finish_array(mark, written);
            return given;
        };
        let count_left = self.count_max() - written;
        for (id, fields) in log.range(start, StreamId::MAX).take(count_left) {
            if !budget.take(id, Some(fields)) {
                break;
            }
            let can_count = group.last_id >= log.first_id() && !log.has_tombstones_from(group.last_id);
            let entries_read = match group.entries_read() {
                Some(read) if can_count => Some(read.saturating_add(1)),
                _ => log.entries_until(id),
            };
            group.set_entries_read(entries_read);
            group.last_id = id;
            match self.claim_ms {
                Some(_) => reply_entry_with(reply, id, fields, [0, 0]),
                None => reply_entry(reply, id, fields),
            }
            written += 1;
            if !self.no_ack {
                let (consumer, delivered_ms) = (Some(self.consumer), self.now_ms);
                group.assign(id, Pending { consumer, delivered_ms, delivery_count: 1 });
                group.consumer_mut(self.consumer).active_ms = Some(self.now_ms);
                given.push((id, 1));
            }
        }
        reply.finish_array(mark, written);
        given
    }

    /// Replies with the entries that are claimed, and returns them with their numbers of deliveries. `NOACK` makes no
    /// difference to them: they stay pending.
    fn claim_entries(
        self,
        log: &Log,
        group: &mut Group,
        budget: &mut Budget,
        reply: &mut Reply,
    ) -> Vec<(StreamId, i64)> {
        let mut given = Vec::new();
        for (id, Pending { delivered_ms, delivery_count, .. }) in self.claims(log, group, self.count_max()) {
            let fields = log.get(id).expect("only entries of the log are claimed");
            if !budget.take(id, Some(fields)) {
                break;
            }
            reply_entry_with(reply, id, fields, [(self.now_ms - delivered_ms).max(0), delivery_count]);
            let (consumer, delivered_ms) = (Some(self.consumer), self.now_ms);
            let delivery_count = delivery_count.saturating_add(1);
            group.assign(id, Pending { consumer, delivered_ms, delivery_count });
            group.consumer_mut(self.consumer).active_ms = Some(self.now_ms);
            given.push((id, delivery_count));
        }
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

    /// Whether the first entry after `after`, or the first one that is claimed or new, fits into the budget; true if
    /// there is none.
    pub(super) fn fits(self, log: &Log, group: &mut Group, after: Option<StreamId>, budget: &Budget) -> bool {
        if budget.takes_any() {
            return true;
        }
        if after.is_none()
            && let Some((id, _)) = self.claims(log, group, 1).first()
        {
            return budget.fits(*id, log.get(*id));
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
