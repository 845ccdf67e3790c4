//! A tape: the records of all threads in memory, put in order. Tests read it.
//!
//! Each thread writes to a track of its own. The order comes from a stamp that a record gets while its shards
//! are held: if two records met in a shard, the later one takes its stamp after the earlier one. The stamps
//! come from one counter, a cache line to which all threads write: good enough for a test. A log that is
//! always on needs stamps that threads create by themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::places::{Lsn, Stamp};
use crate::record::Record;
use crate::recorder::{RecordPlace, Sink};

/// A record and its stamp.
type Stamped = (Stamp, Record);

/// The records of all threads. Clones share the same tape.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many records have a stamp.
    stamped: AtomicU64,
    tracks: Mutex<Vec<Arc<Mutex<Vec<Stamped>>>>>,
}

/// The sink of one thread.
#[derive(Debug)]
struct Track {
    tape: Tape,
    records: Arc<Mutex<Vec<Stamped>>>,
}

impl Tape {
    /// A sink for another thread.
    pub fn track(&self) -> Box<dyn Sink> {
        let records = Arc::default();
        locked(&self.0.tracks).push(Arc::clone(&records));
        Box::new(Track { tape: self.clone(), records })
    }

    /// Removes and returns the records since the last call, in order. No thread may be recording.
    pub fn take(&self) -> Vec<Record> {
        let tracks = locked(&self.0.tracks);
        let mut records: Vec<Stamped> =
            tracks.iter().flat_map(|track| std::mem::take(&mut *locked(track))).collect();
        records.sort_unstable_by_key(|(stamp, _)| *stamp);
        records.into_iter().map(|(_, record)| record).collect()
    }
}

impl Sink for Track {
    fn publish(&mut self, record: &mut Record, _after: Stamp) -> RecordPlace {
        // Relaxed: the batons already order those that met.
        let number = self.tape.0.stamped.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp::new(number);
        locked(&self.records).push((stamp, std::mem::take(record)));
        // Each record is a slice of its own; the first one is 1, as 0 is before all.
        RecordPlace { slice: Lsn::new(number + 1), stamp }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;

    #[test]
    fn records_of_several_threads_come_in_the_order_of_their_commits() {
        let tape = Tape::default();
        let mut threads = [Recorder::new(tape.track()), Recorder::new(tape.track())];
        for (number, thread) in [0, 1, 1, 0].into_iter().enumerate() {
            threads[thread].push(number as u32, &[b"A"]);
            threads[thread].commit(Stamp::NONE);
            threads[thread].commit(Stamp::NONE);
        }
        let dbs: Vec<u32> = tape
            .take()
            .iter()
            .flat_map(|record| {
                record.units().flat_map(|unit| unit.effects().map(|e| e.db)).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(dbs, [0, 1, 2, 3]);
        assert!(tape.take().is_empty());
    }
}
