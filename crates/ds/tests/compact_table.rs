//! Compares `ds::compact_table` with a map of the standard library; tests cursors under change, growth and fairness.

use std::collections::{BTreeMap, BTreeSet};

use ds::compact_table::{CompactTable, Sampling};
use ds::mover::WalkPosition;
use ds::random::{Random, mix};
use proptest::prelude::*;

/// How keys become hashes: well distributed, equal in some bits, or hostile.
#[derive(Clone, Copy, Debug)]
enum Hashing {
    Spread,
    LowBitsEqual,
    TopBitsEqual,
    /// The first tags are equal; only later splits separate the blocks.
    TagsEqual,
    Few,
    Constant,
}

const HASHINGS: [Hashing; 6] = [
    Hashing::Spread,
    Hashing::LowBitsEqual,
    Hashing::TopBitsEqual,
    Hashing::TagsEqual,
    Hashing::Few,
    Hashing::Constant,
];

impl Hashing {
    fn of(self, key: u32) -> u64 {
        let hash = mix(u64::from(key));
        match self {
            Hashing::Spread => hash,
            Hashing::LowBitsEqual => hash | 0xffff,
            Hashing::TopBitsEqual => hash >> 30,
            Hashing::TagsEqual => hash | 0x7fff << 18,
            Hashing::Few => mix(u64::from(key % 7)),
            Hashing::Constant => u64::MAX,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Remove(u32),
    Find(u32),
    InsertRange(u32, u16),
    RemoveRange(u32, u16),
    RetainEven(u64, usize),
    Move(u64),
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..3000_u32;
    let step = prop_oneof![
        4 => key().prop_map(Step::Insert),
        4 => key().prop_map(Step::Remove),
        4 => key().prop_map(Step::Find),
        3 => (key(), 0..1500_u16).prop_map(|(from, n)| Step::InsertRange(from, n)),
        3 => (key(), 0..1500_u16).prop_map(|(from, n)| Step::RemoveRange(from, n)),
        1 => (0..1_u64 << 49, 0..4_usize).prop_map(|(cursor, n)| Step::RetainEven(cursor, n)),
        2 => any::<u64>().prop_map(Step::Move),
        1 => Just(Step::Drain),
    ];
    proptest::collection::vec(step, 0..24)
}

type Pair = (u32, u32);

/// A table and its expected contents.
struct Checked {
    table: CompactTable<Box<Pair>>,
    model: BTreeMap<u32, u32>,
    /// The keys of the blocks that are old.
    old: BTreeSet<u32>,
    hashing: Hashing,
}

impl Checked {
    fn new(hashing: Hashing) -> Self {
        Self { table: CompactTable::new(), model: BTreeMap::new(), old: BTreeSet::new(), hashing }
    }

    fn insert(&mut self, key: u32) {
        let hashing = self.hashing;
        let (hash, value) = (hashing.of(key), self.model.len() as u32);
        let hash_of = |pair: &Pair| hashing.of(pair.0);
        if key.is_multiple_of(2) && !self.model.contains_key(&key) {
            assert_eq!(*self.table.insert(hash, Box::new((key, value)), hash_of).get(), (key, value));
            self.model.insert(key, value);
            return;
        }
        let make = || Box::new((key, value));
        let (found, is_new) = self.table.find_or_insert_with(hash, |pair| pair.0 == key, make, hash_of);
        assert_eq!(is_new, !self.model.contains_key(&key));
        assert_eq!(*found.into_ref(), (key, *self.model.entry(key).or_insert(value)));
    }

    fn remove(&mut self, key: u32) {
        let removed = self.table.remove(self.hashing.of(key), |pair| pair.0 == key);
        assert_eq!(removed.map(|pair| *pair), self.model.remove(&key).map(|value| (key, value)));
        self.old.remove(&key);
    }

    fn find(&mut self, key: u32) {
        let hash = self.hashing.of(key);
        self.table.prefetch(hash);
        self.table.prefetch_block(hash);
        let likely = self.table.likely(hash);
        assert!(likely.is_none_or(|pair| self.model.get(&pair.0) == Some(&pair.1)));
        let found = self.table.find(hash, |pair| pair.0 == key);
        assert_eq!(found.map(|pair| pair.1), self.model.get(&key).copied());
        if let Some(mut held) = self.table.find_mut(hash, |pair| pair.0 == key) {
            held.replace(|pair| Box::new((pair.0, pair.1 + 1)));
            self.model.entry(key).and_modify(|value| *value += 1);
            assert_eq!(held.is_old(), self.old.contains(&key));
            if key.is_multiple_of(3) {
                held.renew();
                assert!(!held.is_old());
                self.old.remove(&key);
            }
        }
    }

    /// Moves blocks in slices for a whole round. Each block is visited at least once, and its age does not change.
    fn move_some(&mut self, seed: u64) {
        let (mut mover, mut place, mut seen) = (Random::new(seed), WalkPosition::default(), BTreeSet::new());
        let old = &self.old;
        while !self.table.defragment(&mut place, &mut mover, &mut |mut held, mover| {
            if mover.wants(std::ptr::null()) {
                held.replace(|pair| Box::new(*pair));
            }
            seen.insert(held.get().0);
            assert_eq!(held.is_old(), old.contains(&held.get().0));
            mover.has_time()
        }) {}
        assert!(seen.iter().eq(self.model.keys()));
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Insert(key) => self.insert(key),
            Step::Remove(key) => self.remove(key),
            Step::Find(key) => self.find(key),
            Step::InsertRange(from, n) => (from..from + u32::from(n)).for_each(|key| self.insert(key)),
            Step::RemoveRange(from, n) => (from..from + u32::from(n)).for_each(|key| self.remove(key)),
            Step::RetainEven(cursor, segments_max) => {
                let mut dropped = BTreeSet::new();
                let next = self.table.scan_retain(cursor, segments_max, &mut |pair| {
                    let keep = pair.0 % 2 == 0;
                    if !keep {
                        dropped.insert(pair.0);
                    }
                    keep
                });
                assert!(next == 0 || (cursor < next && next < 1 << 48));
                dropped.iter().for_each(|key| assert!(self.model.remove(key).is_some()));
                self.old.retain(|key| self.model.contains_key(key));
            }
            Step::Move(seed) => self.move_some(seed),
            Step::Drain => {
                for pair in self.table.drain_segment().unwrap_or_default() {
                    assert_eq!(self.model.remove(&pair.0), Some(pair.1));
                    self.old.remove(&pair.0);
                }
            }
        }
    }

    fn check(&self) {
        let cloned = self.table.cloned_by(|pair| Box::new(*pair));
        cloned.debug_validate(|pair| self.hashing.of(pair.0));
        assert!(cloned.iter().eq(self.table.iter()));
        let mut visited = Vec::new();
        self.table.for_each(|block| visited.push(block));
        assert!(visited.into_iter().eq(self.table.iter()));
        assert_eq!(cloned.len(), self.table.len());
        self.table.debug_validate(|pair| self.hashing.of(pair.0));
        assert_eq!((self.table.len(), self.table.is_empty()), (self.model.len(), self.model.is_empty()));
        assert_eq!(&self.table.iter().copied().collect::<BTreeMap<_, _>>(), &self.model);
        let picked = self.table.random(self.model.len() as u64, 77);
        assert_eq!(picked.is_some(), !self.model.is_empty());
        assert!(picked.is_none_or(|pair| self.model.get(&pair.0) == Some(&pair.1)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn behaves_like_a_map(steps in steps(), which in 0..HASHINGS.len(), expected in 0..3000_usize) {
        let mut checked = Checked::new(HASHINGS[which]);
        checked.table.reserve(expected);
        for step in &steps {
            checked.apply(step);
            checked.check();
        }
        while let Some(piece) = checked.table.drain_segment() {
            prop_assert!(!piece.is_empty());
            checked.table.debug_validate(|pair| checked.hashing.of(pair.0));
        }
        prop_assert!(checked.table.is_empty());
    }

    #[test]
    fn old_blocks_that_stay_are_visited_once(
        start in 0..3000_u32,
        changes in proptest::collection::vec(steps(), 1..40),
        budget in 2..700_usize,
        which in 0..HASHINGS.len(),
    ) {
        let mut checked = Checked::new(HASHINGS[which]);
        (0..start).for_each(|key| checked.insert(key));
        for _turn in 0..2 {
            checked.table.begin_turn();
            checked.old = checked.model.keys().copied().collect();
            let (mut cursor, mut changes) = (Some(0), changes.iter());
            while let Some(from) = cursor {
                let (mut left, old) = (budget, &mut checked.old);
                cursor = checked.table.visit_old(from, &mut |_| {}, &mut |pair| {
                    left = left.saturating_sub(1);
                    left > 0 && { assert!(old.remove(&pair.0), "{} is not old", pair.0); true }
                });
                for step in changes.next().map_or(&[][..], Vec::as_slice) {
                    checked.apply(step);
                }
            }
            prop_assert!(checked.old.is_empty(), "missed {:?}", checked.old);
        }
        checked.check();
    }

    #[test]
    fn scan_returns_what_stays_present(
        start in 0..6000_u32,
        changes in proptest::collection::vec(steps(), 1..40),
        count in 0..700_usize,
        which in 0..HASHINGS.len(),
    ) {
        let mut checked = Checked::new(HASHINGS[which]);
        (0..start).for_each(|key| checked.insert(key));
        let mut stayed: BTreeSet<u32> = checked.model.keys().copied().collect();
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        for call in 0.. {
            let mut visited = 0;
            let next = checked.table.scan(cursor, count, &mut |pair| {
                visited += 1;
                seen.insert(pair.0);
            });
            if next == 0 {
                break;
            }
            prop_assert!(cursor < next && next < 1 << 48 && visited >= count.max(1));
            cursor = next;
            for step in changes.get(call).map_or(&[][..], Vec::as_slice) {
                checked.apply(step);
            }
            stayed.retain(|key| checked.model.contains_key(key));
        }
        prop_assert!(stayed.is_subset(&seen), "missed {:?}", stayed.difference(&seen).next());
    }
}

fn hash_of(key: &u32) -> u64 {
    mix(u64::from(*key)) | 0x3f
}

fn filled(keys: impl Iterator<Item = u32>) -> CompactTable<Box<u32>> {
    let mut table = CompactTable::new();
    for key in keys {
        table.insert(hash_of(&key), Box::new(key), hash_of);
    }
    table
}

fn remove(table: &mut CompactTable<Box<u32>>, key: u32) {
    assert_eq!(table.remove(hash_of(&key), |&found| found == key), Some(Box::new(key)));
}

#[test]
fn an_entry_takes_ten_bytes_at_any_length() {
    const COUNT: u32 = 200_000;
    let mut table = filled(0..0);
    assert_eq!(table.memory_bytes(), 0);
    let (mut most, mut least) = (0.0_f64, f64::MAX);
    for key in 0..COUNT {
        table.insert(hash_of(&key), Box::new(key), hash_of);
        if key > COUNT / 4 {
            let bytes = table.memory_bytes() as f64 / f64::from(key);
            (most, least) = (most.max(bytes), least.min(bytes));
        }
    }
    table.debug_validate(hash_of);
    assert!(most < 11.0 && least > 8.0, "{least} to {most}");
    assert!((0..COUNT).all(|key| table.find(hash_of(&key), |&found| found == key).is_some()));
    let likely = (0..COUNT).filter(|key| table.likely(hash_of(key)) == Some(key)).count();
    assert!(likely > COUNT as usize / 10 * 8, "{likely} are where they are thought to be");
    let mut asked = 0;
    for key in COUNT..COUNT * 2 {
        let found = table.find(hash_of(&key), |_| {
            asked += 1;
            false
        });
        assert!(found.is_none());
    }
    assert!(asked < COUNT / 20, "{asked} blocks were looked at in vain");
    for key in 10..COUNT {
        remove(&mut table, key);
        if key.is_multiple_of(20_000) {
            table.debug_validate(hash_of);
        }
    }
    table.debug_validate(hash_of);
    assert!(table.memory_bytes() < 1024, "{}", table.memory_bytes());
    table.clear();
    assert_eq!((table.memory_bytes(), table.len()), (0, 0));
}

/// More than the buckets' counters can represent, in a segment and while one is filled.
#[test]
fn thousands_of_blocks_with_one_hash_come_and_go() {
    let hash = |_: &u32| Hashing::Constant.of(0);
    let mut table = CompactTable::new();
    for key in 0..6000 {
        table.insert(hash(&key), Box::new(key), hash);
    }
    table.debug_validate(hash);
    for key in (0..6000).step_by(500) {
        assert_eq!(table.find(hash(&key), |other| *other == key), Some(&key));
    }
    assert_eq!(table.find(hash(&0), |other| *other == 6000), None);
    for key in 0..6000 {
        assert_eq!(table.remove(hash(&key), |other| *other == key), Some(Box::new(key)));
    }
    table.debug_validate(hash);
    assert!(table.is_empty() && table.memory_bytes() < 2000, "{}", table.memory_bytes());
}

/// Short enough for Miri, which checks it for undefined behaviour.
#[test]
fn a_table_of_few_segments_grows_moves_and_shrinks() {
    let mut checked = Checked::new(Hashing::Spread);
    checked.apply(&Step::InsertRange(0, 200));
    checked.apply(&Step::Move(1));
    checked.apply(&Step::RemoveRange(3, 190));
    checked.check();
}

#[test]
fn scan_is_in_order_of_positions_and_each_entry_comes_once() {
    let table = filled(0..20_000);
    for count in [1, 10, 500, 100_000] {
        let mut seen = Vec::new();
        let mut cursor = 0;
        loop {
            let len_before = seen.len();
            cursor = table.scan(cursor, count, &mut |key| seen.push(hash_of(key)));
            // Only blocks with the same known position bits as the last one are visited beyond `count`.
            assert!(seen.len() - len_before <= count + 3);
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), 20_000);
        // 109 segments have a depth of 6 or 7: with the tag, 21 bits of the position are known.
        assert!(seen.is_sorted_by_key(|hash| (hash >> 16).reverse_bits() >> (64 - 21)));
    }
    assert_eq!(table.scan(u64::MAX, 10, &mut |_| panic!("nothing lies behind the end")), 0);
    let mut equal = CompactTable::new();
    for key in 0..1000_u32 {
        equal.insert(u64::MAX, Box::new(key), |_| u64::MAX);
    }
    let mut visited = 0;
    assert_eq!(equal.scan(0, 1, &mut |_| visited += 1), 0);
    assert_eq!(visited, 1000);
}

#[test]
fn churn_at_constant_size_keeps_memory_and_misses_as_they_are() {
    let mut table = filled(0..50_000);
    let mut most = 0;
    for key in 50_000..600_000_u32 {
        remove(&mut table, key - 50_000);
        table.insert(hash_of(&key), Box::new(key), hash_of);
        if key.is_multiple_of(10_000) {
            most = most.max(table.memory_bytes());
        }
    }
    table.debug_validate(hash_of);
    assert!(most < 50_000 * 12, "{most}");
}

#[test]
fn random_is_fair() {
    for (len, picks) in [(1_u32, 10_u32), (3, 3000), (100, 100_000), (5000, 1_000_000)] {
        // Three quarters of the inserted blocks are removed again, unevenly over the segments.
        let mut table = filled(0..len * 4);
        let mut doomed: Vec<u32> = (0..len * 4).collect();
        doomed.sort_by_key(|key| (hash_of(key) >> 18).reverse_bits());
        for &key in doomed.iter().skip(len as usize / 2).take(len as usize * 3) {
            remove(&mut table, key);
        }
        assert_eq!(table.len(), len as usize);
        let mut counts = BTreeMap::new();
        let mut random = Random::new(9);
        for _ in 0..picks {
            let picked = *table.random(random.next_u64(), random.next_u64()).unwrap();
            *counts.entry(picked).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), len as usize);
        let mean = picks / len;
        assert!(counts.values().all(|&count| count > mean / 2 && count < mean * 2), "{len}: {counts:?}");
    }
    assert!(CompactTable::<Box<u8>>::new().random(1, 2).is_none());
}

/// Even if each slice ends at an arbitrary block.
#[test]
fn sampling_shows_every_block_once_in_a_round() {
    for len in [1_u32, 7, 300, 5000] {
        let table = filled(0..len);
        let mut random = Random::new(u64::from(len));
        let mut place = Sampling::default();
        let mut counts = BTreeMap::new();
        let mut shown = 0;
        while shown < len * 3 {
            let mut wanted = 1 + random.below(9) as u32;
            let buckets_max = 1 + random.below(4) as usize;
            let before = shown;
            (place, _) = table.sample(place, buckets_max, &mut |&key| {
                *counts.entry(key).or_insert(0_u32) += 1;
                (shown, wanted) = (shown + 1, wanted - 1);
                wanted > 0 && shown < len * 3
            });
            assert!(shown - before <= buckets_max as u32 * 8);
        }
        assert_eq!(counts.len(), len as usize);
        assert!(counts.values().all(|&count| count == 3), "{len}");
    }
    let nothing = CompactTable::<Box<u8>>::new();
    nothing.sample(Sampling::default(), 5, &mut |_| panic!("there is nothing"));
}

#[test]
fn filling_in_order_of_positions_stays_bounded() {
    let mut hashes: Vec<u64> = (0..150_000).map(mix).collect();
    hashes.sort_unstable_by_key(|hash| (hash >> 16).reverse_bits());
    let mut table = CompactTable::new();
    for &hash in &hashes {
        table.insert(hash, Box::new(hash), |hash| *hash);
    }
    table.debug_validate(|hash| *hash);
    assert!(table.memory_bytes() < 150_000 * 20, "{}", table.memory_bytes());
    assert!(hashes.iter().all(|&hash| table.find(hash, |&found| found == hash).is_some()));
}
