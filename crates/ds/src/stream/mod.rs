//! Streams: logs of entries with ascending ids, and groups of consumers that share them.
//!
//! | file | what |
//! |---|---|
//! | `id` | the ids |
//! | `node` | a run of entries in one allocation |
//! | `log` | the entries: adding, deleting, trimming, ranges, counting |
//! | `group` | the groups: consumers and pending entries |
//! | `order` | the order in which pending entries are claimed |
//! | `producers` | the last messages of producers |
//!
//! Log and groups are separate fields, because a read changes one while it walks over the other.

mod group;
mod id;
mod log;
mod node;
mod order;
pub mod producers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::mover::{Mover, WalkPosition};

pub use group::{Consumer, ConsumerId, Group, Pending};
pub use id::StreamId;
pub use log::{AppendError, Entries, Keep, Log, Trim};
pub use node::Fields;
pub use producers::{ProducerLimits, Producers};

/// Pending entries, and nodes, that one slice of freeing a stream drops.
const PENDING_FREED_AT_ONCE: usize = 1024;
const NODES_FREED_AT_ONCE: usize = 128;

/// When a node is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamLimits {
    /// Maximum bytes of a node; 0: as many as possible.
    pub node_bytes_max: usize,
    /// Maximum number of entries of a node; 0: no limit.
    pub node_entries_max: usize,
}

/// A stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Its entries.
    pub log: Log,
    /// Its groups by name.
    pub groups: BTreeMap<Box<[u8]>, Group>,
    /// Its producers' last messages, once one has added such a message, or its limits were set.
    pub producers: Option<Box<Producers>>,
}

impl Stream {
    /// A stream without entries or groups.
    pub fn new() -> Stream {
        Stream::default()
    }

    /// Number of elements to be freed: entries, pending entries of groups, and records of producers.
    pub fn element_count(&self) -> usize {
        let records = self.producers.as_ref().map_or(0, |producers| producers.record_count());
        self.log.len() + self.groups.values().map(Group::pending_len).sum::<usize>() + records
    }

    /// Moves the memory of its entries from `place` on as long as the mover has time. Returns true at the end, with
    /// `place` reset to the beginning.
    pub fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        self.log.defragment(place, mover)
    }

    /// Drops a bounded part of the stream. Returns false when nothing is left.
    pub fn free_slice(&mut self) -> bool {
        if let Some(mut group) = self.groups.first_entry() {
            if !group.get_mut().drop_pending(PENDING_FREED_AT_ONCE) {
                group.remove();
            }
            return true;
        }
        if let Some(producers) = &mut self.producers {
            if !producers.free_slice() {
                self.producers = None;
            }
            return true;
        }
        self.log.drop_nodes(NODES_FREED_AT_ONCE)
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        let of_groups: usize =
            self.groups.iter().map(|(name, group)| name.len() + group.memory_bytes()).sum();
        let of_producers = self.producers.as_ref().map_or(0, |producers| producers.memory_bytes());
        self.log.memory_bytes()
            + of_producers
            + of_groups
            + self.groups.len() * size_of::<(Box<[u8]>, Group)>()
    }
}
