//! A table of records whose key is a part of each record: the form of large hashes and sets.
//!
//! A record is one [`Blob`]; [`Keyed`] finds the key in it. The seed for hashing keys and the bytes that the records
//! take are stored beside the table.
//!
//! Not here: the rest of a record, and the small forms (`hash.rs`, `set/`).

use std::marker::PhantomData;

use crate::blob::Blob;
use crate::compact_table::CompactTable;
use crate::hashing::ObjectSeed;
use crate::mover::{Mover, WalkPosition, move_box};

/// A kind of records.
pub(crate) trait Keyed {
    /// The key within a record.
    fn key(record: &[u8]) -> &[u8];
}

/// A table of records of one kind.
pub(crate) struct BlobTable<K> {
    table: CompactTable<Blob>,
    seed: ObjectSeed,
    record_bytes: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for BlobTable<K> {
    fn clone(&self) -> Self {
        Self { table: self.table.cloned_by(Blob::new), ..*self }
    }
}

impl<K: Keyed> BlobTable<K> {
    /// An empty table.
    pub(crate) fn new() -> Box<Self> {
        let (table, seed) = (CompactTable::new(), ObjectSeed::next());
        Box::new(Self { table, seed, record_bytes: 0, kind: PhantomData })
    }

    /// Bytes that the records take.
    #[inline]
    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The record with this key.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&[u8]> {
        self.table.find(self.seed.hash(key), |record| K::key(record) == key)
    }

    /// Puts a record of `len` bytes with this key, created by `make`. Returns true if there was none. An existing
    /// record is replaced, unless `write_over` has updated it in place and returns true.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        len: usize,
        make: impl Fn() -> Blob,
        write_over: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let seed = self.seed;
        let (mut held, is_new) = self.table.find_or_insert_with(
            seed.hash(key),
            |record| K::key(record) == key,
            &make,
            |record| seed.hash(K::key(record)),
        );
        if !is_new {
            let old = Blob::bytes_mut(&mut held);
            let old_len = old.len();
            if write_over(old) {
                return false;
            }
            self.record_bytes -= Blob::memory_bytes(old_len);
            held.replace(|_| make());
        }
        debug_assert_eq!(held.get().len(), len);
        self.record_bytes += Blob::memory_bytes(len);
        is_new
    }

    /// Removes the record with this key. Returns true if it was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let removed = self.table.remove(self.seed.hash(key), |record| K::key(record) == key);
        self.record_bytes -= removed.as_ref().map_or(0, |record| Blob::memory_bytes(record.len()));
        removed.is_some()
    }

    /// All records, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter()
    }

    /// Like [`CompactTable::for_each`].
    #[inline]
    pub(crate) fn for_each<'a>(&'a self, visit: impl FnMut(&'a [u8])) {
        self.table.for_each(visit);
    }

    /// Like [`CompactTable::scan`].
    pub(crate) fn scan<'a>(&'a self, cursor: u64, count: usize, visit: &mut dyn FnMut(&'a [u8])) -> u64 {
        self.table.scan(cursor, count, visit)
    }

    /// A random record; all are equally likely.
    pub(crate) fn random(&self, random: u64, random2: u64) -> Option<&[u8]> {
        self.table.random(random, random2)
    }

    /// Moves its memory from `place` on as long as the mover has time. Returns true at the end, with `place` reset to
    /// the beginning.
    pub(crate) fn defragment(self: &mut Box<Self>, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        move_box(self, mover);
        self.table.defragment(place, mover, &mut Blob::relocate)
    }

    /// Frees a bounded part of the table.
    pub(crate) fn free_slice(&mut self) {
        let piece = self.table.drain_segment().unwrap_or_default();
        self.record_bytes -= piece.iter().map(|record| Blob::memory_bytes(record.len())).sum::<usize>();
    }

    /// Bytes that it has allocated, including itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes() + self.record_bytes
    }

    /// Panics if it is inconsistent; for tests.
    pub(crate) fn debug_validate(&self) {
        self.table.debug_validate(|record| self.seed.hash(K::key(record)));
        let bytes = self.table.iter().map(|record| Blob::memory_bytes(record.len())).sum::<usize>();
        assert_eq!(bytes, self.record_bytes);
    }
}
