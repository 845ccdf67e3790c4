//! `ds::table` against a map of the standard library, its cursors under change, its growth and its fairness.

use std::collections::{BTreeMap, BTreeSet};

use ds::random::{Random, mix};
use ds::table::Table;
use proptest::prelude::*;

/// How keys become hashes: well spread, equal in some bits, or hostile.
#[derive(Clone, Copy, Debug)]
enum Hashing {
    Spread,
    LowBitsEqual,
    TopBitsEqual,
    Few,
    Constant,
}

const HASHINGS: [Hashing; 5] =
    [Hashing::Spread, Hashing::LowBitsEqual, Hashing::TopBitsEqual, Hashing::Few, Hashing::Constant];

impl Hashing {
    fn of(self, key: u32) -> u64 {
        let hash = mix(u64::from(key));
        match self {
            Hashing::Spread => hash,
            Hashing::LowBitsEqual => hash | 0xffff,
            Hashing::TopBitsEqual => hash >> 30,
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
        1 => Just(Step::Drain),
    ];
    proptest::collection::vec(step, 0..24)
}

type Pair = (u32, u32);

fn insert(table: &mut Table<Pair>, model: &mut BTreeMap<u32, u32>, hashing: Hashing, key: u32) {
    let hash = hashing.of(key);
    let value = model.len() as u32;
    if key.is_multiple_of(2) && !model.contains_key(&key) {
        table.insert(hash, (key, value));
        model.insert(key, value);
        return;
    }
    let (found, is_new) = table.find_or_insert_with(hash, |pair| pair.0 == key, || (key, value));
    assert_eq!(is_new, !model.contains_key(&key));
    assert_eq!(*found, (key, *model.entry(key).or_insert(value)));
}

fn apply(table: &mut Table<Pair>, model: &mut BTreeMap<u32, u32>, hashing: Hashing, step: &Step) {
    let remove = |table: &mut Table<Pair>, model: &mut BTreeMap<u32, u32>, key: u32| {
        let removed = table.remove(hashing.of(key), |pair| pair.0 == key);
        assert_eq!(removed, model.remove(&key).map(|value| (key, value)));
    };
    match *step {
        Step::Insert(key) => insert(table, model, hashing, key),
        Step::Remove(key) => remove(table, model, key),
        Step::Find(key) => {
            let found = table.find(hashing.of(key), |pair| pair.0 == key);
            assert_eq!(found.map(|pair| pair.1), model.get(&key).copied());
            if let Some(pair) = table.find_mut(hashing.of(key), |pair| pair.0 == key) {
                pair.1 += 1;
                model.entry(key).and_modify(|value| *value += 1);
            }
        }
        Step::InsertRange(from, n) => {
            (from..from + u32::from(n)).for_each(|key| insert(table, model, hashing, key));
        }
        Step::RemoveRange(from, n) => {
            (from..from + u32::from(n)).for_each(|key| remove(table, model, key));
        }
        Step::RetainEven(cursor, segments_max) => {
            let mut dropped = BTreeSet::new();
            let next = table.scan_retain(cursor, segments_max, &mut |pair| {
                let keep = pair.0 % 2 == 0;
                if !keep {
                    dropped.insert(pair.0);
                }
                keep
            });
            assert!(next == 0 || (cursor < next && next < 1 << 48));
            dropped.iter().for_each(|key| assert!(model.remove(key).is_some()));
        }
        Step::Drain => {
            for (key, value) in table.drain_segment().unwrap_or_default() {
                assert_eq!(model.remove(&key), Some(value));
            }
        }
    }
}

fn check_all(table: &Table<Pair>, model: &BTreeMap<u32, u32>, hashing: Hashing) {
    table.debug_validate();
    assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(&table.iter().copied().collect::<BTreeMap<_, _>>(), model);
    assert!(table.iter_with_hash().all(|(hash, pair)| hash == hashing.of(pair.0)));
    let picked = table.random(model.len() as u64, 77);
    assert_eq!(picked.is_some(), !model.is_empty());
    assert!(picked.is_none_or(|pair| model.get(&pair.0) == Some(&pair.1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn behaves_like_a_map(steps in steps(), which in 0..HASHINGS.len()) {
        let (mut table, mut model) = (Table::new(), BTreeMap::new());
        for step in &steps {
            apply(&mut table, &mut model, HASHINGS[which], step);
            check_all(&table, &model, HASHINGS[which]);
        }
        while let Some(piece) = table.drain_segment() {
            prop_assert!(!piece.is_empty());
            table.debug_validate();
        }
        prop_assert!(table.is_empty());
    }

    #[test]
    fn scan_returns_what_stays_present(
        start in 0..6000_u32,
        changes in proptest::collection::vec(steps(), 1..40),
        count in 0..700_usize,
        which in 0..HASHINGS.len(),
    ) {
        let hashing = HASHINGS[which];
        let (mut table, mut model) = (Table::new(), BTreeMap::new());
        (0..start).for_each(|key| insert(&mut table, &mut model, hashing, key));
        let mut stayed: BTreeSet<u32> = model.keys().copied().collect();
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        for call in 0.. {
            let mut visited = 0;
            let next = table.scan(cursor, count, &mut |pair| {
                visited += 1;
                seen.insert(pair.0);
            });
            if next == 0 {
                break;
            }
            prop_assert!(cursor < next && next < 1 << 48 && visited >= count.max(1));
            cursor = next;
            for step in changes.get(call).map_or(&[][..], Vec::as_slice) {
                apply(&mut table, &mut model, hashing, step);
            }
            stayed.retain(|key| model.contains_key(key));
        }
        prop_assert!(stayed.is_subset(&seen), "missed {:?}", stayed.difference(&seen).next());
    }
}

#[test]
fn grows_and_shrinks_with_its_contents() {
    const COUNT: u32 = 200_000;
    let hash = |key: u32| mix(u64::from(key)) | 0x3f;
    let mut table = Table::new();
    assert_eq!(table.memory_bytes(), 0);
    assert!(size_of::<Table<u64>>() <= 48);
    for key in 0..COUNT {
        table.insert(hash(key), key);
    }
    table.debug_validate();
    assert_eq!(table.len(), COUNT as usize);
    assert!(table.memory_bytes() < COUNT as usize * 40, "{}", table.memory_bytes());
    assert!((0..COUNT).all(|key| table.find(hash(key), |&found| found == key).is_some()));
    assert!((COUNT..COUNT * 2).all(|key| table.find(hash(key), |&found| found == key).is_none()));
    for key in 10..COUNT {
        assert!(table.remove(hash(key), |&found| found == key).is_some());
        if key.is_multiple_of(20_000) {
            table.debug_validate();
        }
    }
    table.debug_validate();
    assert!(table.memory_bytes() < 4096, "{}", table.memory_bytes());
    table.clear();
    assert_eq!((table.memory_bytes(), table.len()), (0, 0));
}

#[test]
fn scan_is_in_order_of_positions_and_each_entry_comes_once() {
    let mut table = Table::new();
    for key in 0..20_000_u32 {
        let hash = mix(u64::from(key));
        table.insert(hash, hash);
    }
    for count in [1, 10, 500, 100_000] {
        let mut seen = Vec::new();
        let mut cursor = 0;
        loop {
            let len_before = seen.len();
            cursor = table.scan(cursor, count, &mut |&hash| seen.push(hash));
            assert!(seen.len() - len_before <= count * 8 + 50);
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), 20_000);
        assert!(seen.is_sorted_by_key(|hash| (hash >> 16).reverse_bits()));
    }
    assert_eq!(table.scan(u64::MAX, 10, &mut |_| panic!("nothing lies behind the end")), 0);
    let equal = {
        let mut table = Table::new();
        (0..1000_u32).for_each(|key| *table.insert(u64::MAX, key) = key);
        table
    };
    let mut visited = 0;
    assert_eq!(equal.scan(0, 1, &mut |_| visited += 1), 0);
    assert_eq!(visited, 1000);
}

#[test]
fn churn_at_constant_size_keeps_memory_constant() {
    let mut table = Table::new();
    for key in 0..50_000_u32 {
        table.insert(mix(u64::from(key)), key);
    }
    let mut most = 0;
    for key in 50_000..400_000_u32 {
        let old = key - 50_000;
        assert!(table.remove(mix(u64::from(old)), |&found| found == old).is_some());
        table.insert(mix(u64::from(key)), key);
        if key.is_multiple_of(10_000) {
            most = most.max(table.memory_bytes());
        }
    }
    table.debug_validate();
    assert!(most < 50_000 * 60, "{most}");
}

#[test]
fn random_is_fair() {
    for (len, picks) in [(1_u32, 10_u32), (3, 3000), (100, 100_000), (5000, 1_000_000)] {
        let mut table = Table::new();
        // Three quarters of what was inserted goes away again, unevenly over the segments.
        for key in 0..len * 4 {
            table.insert(mix(u64::from(key)), key);
        }
        let mut doomed: Vec<u32> = (0..len * 4).collect();
        doomed.sort_by_key(|&key| (mix(u64::from(key)) >> 18).reverse_bits());
        for key in doomed.iter().skip(len as usize / 2).take(len as usize * 3) {
            table.remove(mix(u64::from(*key)), |found| found == key);
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
    assert!(Table::<u8>::new().random(1, 2).is_none());
}

#[test]
fn filling_in_order_of_positions_stays_bounded() {
    let mut hashes: Vec<u64> = (0..150_000).map(mix).collect();
    hashes.sort_unstable_by_key(|hash| (hash >> 16).reverse_bits());
    let mut table = Table::new();
    for (count, &hash) in hashes.iter().enumerate() {
        table.insert(hash, hash);
        if count == 5000 {
            table.debug_validate();
            assert!(table.memory_bytes() < 5000 * 200, "{}", table.memory_bytes());
        }
    }
    table.debug_validate();
    assert!(table.memory_bytes() < 150_000 * 48, "{}", table.memory_bytes());
    assert!(hashes.iter().all(|&hash| table.find(hash, |_| true) == Some(&hash)));
}
