//! The effects of reading in groups and of deletions: the entries that each consumer got, the progress of the group, and
//! the entries that are gone.
//!
//! All but [`created`] are for `Store::changed_with`. A claim in an effect gives entries to a consumer
//! regardless of who has them, with their current time and number of deliveries.

use ds::stream::{Group, StreamId};
use engine::{Change, Class, Store};

/// Entries in one claim: bounds the size of an effect in a journal.
pub(super) const CLAIMED_AT_ONCE_MAX: usize = 512;

/// The consumer that has entries.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) key: &'a [u8],
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
}

/// Announces that the consumer was created.
pub(super) fn created(store: &mut Store, owner: Owner) {
    let Owner { key, group, consumer } = owner;
    let change = Change::new(Class::Stream, "xgroup-createconsumer").untold();
    store.changed(key, change, &[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
}

/// Records that `entries` are pending for the consumer, with these numbers of deliveries, and last delivered at
/// `delivered_ms`.
pub(super) fn claimed(store: &mut Store, owner: Owner, entries: &[(StreamId, i64)], delivered_ms: i64) {
    let Owner { key, group, consumer } = owner;
    let time = delivered_ms.to_string();
    for same_count in entries.chunk_by(|one, other| one.1 == other.1) {
        let count = same_count[0].1.to_string();
        for chunk in same_count.chunks(CLAIMED_AT_ONCE_MAX) {
            let ids: Vec<String> = chunk.iter().map(|(id, _)| id.to_string()).collect();
            let mut effect: Vec<&[u8]> = vec![b"XCLAIM", key, group, consumer, b"0"];
            effect.extend(ids.iter().map(String::as_bytes));
            effect.extend([&b"TIME"[..], time.as_bytes(), b"RETRYCOUNT", count.as_bytes()]);
            effect.extend([&b"FORCE"[..], b"JUSTID"]);
            store.effect(&effect);
        }
    }
}

/// Records that entries are no longer pending.
pub(super) fn acknowledged(store: &mut Store, key: &[u8], group: &[u8], ids: &[StreamId]) {
    of_ids(store, &[b"XACK", key, group], ids);
}

/// Records that entries are deleted.
pub(super) fn deleted(store: &mut Store, key: &[u8], ids: &[StreamId]) {
    of_ids(store, &[b"XDEL", key], ids);
}

/// Records a command that ends with ids, if there are any.
fn of_ids(store: &mut Store, words: &[&[u8]], ids: &[StreamId]) {
    if ids.is_empty() {
        return;
    }
    let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
    let mut effect = words.to_vec();
    effect.extend(ids.iter().map(String::as_bytes));
    store.effect(&effect);
}

/// The progress of a group.
#[derive(Clone, Copy)]
pub(super) struct GroupProgress {
    last_id: StreamId,
    entries_read: Option<i64>,
}

impl GroupProgress {
    pub(super) fn of(group: &Group) -> GroupProgress {
        GroupProgress { last_id: group.last_id, entries_read: group.entries_read() }
    }

    /// Records the progress of the group.
    pub(super) fn state(self, store: &mut Store, key: &[u8], group: &[u8]) {
        let (last_id, read) = (self.last_id.to_string(), entries_read_text(self.entries_read));
        let words: [&[u8]; 4] = [b"XGROUP", b"SETID", key, group];
        let rest: [&[u8]; 3] = [last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
        store.effect(&[&words[..], &rest].concat());
    }
}

/// `ENTRIESREAD` as XGROUP takes it.
pub(super) fn entries_read_text(entries_read: Option<i64>) -> String {
    entries_read.unwrap_or(super::group::ENTRIES_READ_UNKNOWN).to_string()
}
