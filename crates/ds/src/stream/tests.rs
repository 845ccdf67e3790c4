//! Compares streams with a sorted vector, validating after every operation.

use proptest::prelude::*;

use super::*;
use crate::random::Random;

const LIMITS: [StreamLimits; 4] = [
    StreamLimits { node_bytes_max: 4096, node_entries_max: 100 },
    StreamLimits { node_bytes_max: 100, node_entries_max: 100 },
    StreamLimits { node_bytes_max: 0, node_entries_max: 3 },
    StreamLimits { node_bytes_max: 0, node_entries_max: 0 },
];

#[derive(Clone, Debug)]
enum Op {
    /// Steps of `ms` and `seq`, and which fields.
    Append(u64, u64, usize),
    /// An entry that is or was in the stream.
    Delete(usize),
    TrimTo(usize, bool, usize),
    TrimFrom(usize, bool, usize),
    Move(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (prop_oneof![Just(0_u64), 0_u64..3, Just(1 << 40)], 0_u64..3, 0_usize..5)
            .prop_map(|(ms, seq, fields)| Op::Append(ms, seq, fields)),
        4 => any::<usize>().prop_map(Op::Delete),
        1 => (0_usize..40, any::<bool>(), 0_usize..20)
            .prop_map(|(len, approximate, limit)| Op::TrimTo(len, approximate, limit)),
        1 => (any::<usize>(), any::<bool>(), 0_usize..20)
            .prop_map(|(id, approximate, limit)| Op::TrimFrom(id, approximate, limit)),
        1 => any::<u64>().prop_map(Op::Move),
    ]
}

fn pairs(which: usize) -> Vec<Vec<u8>> {
    let words: &[&str] = match which {
        0 => &["field", "1", "other", "value"],
        1 => &["field", "", "other", "-77"],
        2 => &["field", "x"],
        3 => &["", "", "a", "a", "a", "b"],
        _ => return vec![b"long".to_vec(), vec![b'v'; 300]],
    };
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[derive(Default)]
struct Model {
    entries: Vec<(StreamId, Vec<Vec<u8>>)>,
    /// The ids of all entries ever added, in order.
    added: Vec<StreamId>,
    max_deleted_id: StreamId,
}

type Shown = Vec<(StreamId, Vec<Vec<u8>>)>;

fn shown<'a>(entries: impl Iterator<Item = (StreamId, Fields<'a>)>) -> Shown {
    entries
        .map(|(id, fields)| {
            let len = fields.len();
            let texts: Vec<Vec<u8>> =
                fields.flat_map(|(field, value)| [field.to_vec(), value.to_vec()]).collect();
            assert_eq!(texts.len(), 2 * len);
            (id, texts)
        })
        .collect()
}

fn apply(log: &mut Log, model: &mut Model, limits: &StreamLimits, op: Op) {
    match op {
        Op::Append(ms, seq, which) => {
            let last = log.last_id;
            let id = match ms {
                0 => StreamId { ms: last.ms, seq: last.seq + seq },
                _ => StreamId { ms: last.ms + ms, seq },
            };
            let texts = pairs(which);
            let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            if id <= last {
                assert_eq!(log.append(id, &slices, limits), Err(AppendError::TooSmall));
                return;
            }
            assert_eq!(log.append(id, &slices, limits), Ok(()));
            model.entries.push((id, texts));
            model.added.push(id);
        }
        Op::Delete(which) if !model.added.is_empty() => {
            let id = model.added[which % model.added.len()];
            let place = model.entries.iter().position(|entry| entry.0 == id);
            assert_eq!(log.delete(id), place.is_some());
            if let Some(place) = place {
                model.entries.remove(place);
                model.max_deleted_id = model.max_deleted_id.max(id);
            }
        }
        Op::Delete(_) => assert!(!log.delete(StreamId { ms: 1, seq: 1 })),
        Op::TrimTo(len, is_approximate, limit) => {
            let wanted = model.entries.len().saturating_sub(len);
            trim(log, model, Trim { keep: Keep::Newest(len), is_approximate, limit }, wanted);
        }
        Op::TrimFrom(which, is_approximate, limit) => {
            let id = model.added.get(which % (model.added.len() + 1)).copied().unwrap_or(StreamId::MAX);
            let wanted = model.entries.iter().filter(|entry| entry.0 < id).count();
            trim(log, model, Trim { keep: Keep::From(id), is_approximate, limit }, wanted);
        }
        Op::Move(seed) => {
            let (mut mover, mut place) = (Random::new(seed), WalkPosition::default());
            while !log.defragment(&mut place, &mut mover) {}
        }
    }
}

fn trim(log: &mut Log, model: &mut Model, trim: Trim, wanted: usize) {
    let exact = Trim { limit: 0, ..trim };
    let trim = if trim.is_approximate { trim } else { exact };
    let gone = log.trim(&trim);
    assert!(gone <= wanted && (trim.is_approximate || gone == wanted));
    assert!(trim.limit == 0 || gone <= trim.limit);
    model.entries.drain(..gone);
}

fn check(log: &Log, model: &Model, probe: usize) {
    log.debug_validate();
    assert_eq!(log.len(), model.entries.len());
    assert_eq!(shown(log.range(StreamId::MIN, StreamId::MAX)), model.entries);
    assert_eq!(log.last_entry_id(), model.entries.last().map(|entry| entry.0));
    assert_eq!((log.entries_added, log.max_deleted_id), (model.added.len() as i64, model.max_deleted_id));
    let Some(&middle) = model.added.get(probe % model.added.len().max(1)) else { return };
    let until = |end: StreamId| model.entries.iter().filter(move |entry| entry.0 <= end).cloned();
    assert_eq!(
        shown(log.range(StreamId::MIN, middle).rev()),
        until(middle).collect::<Shown>().into_iter().rev().collect::<Shown>()
    );
    let after: Shown = model.entries.iter().filter(|entry| entry.0 >= middle).cloned().collect();
    assert_eq!(shown(log.range(middle, StreamId::MAX)), after);
    let behind = after.iter().filter(|entry| entry.0 > middle).count();
    assert_eq!(log.count_behind(middle, usize::MAX), behind);
    assert!((behind..=log.len()).contains(&log.count_behind(middle, 1)), "it says too little");
    assert_eq!(log.contains(middle), after.first().is_some_and(|entry| entry.0 == middle));
    let mut both = log.range(middle, StreamId::MAX);
    let (mut front, mut back) = (Shown::new(), Shown::new());
    while front.len() + back.len() < after.len() {
        let from_front = !(front.len() + probe).is_multiple_of(3);
        let entry = if from_front { both.next() } else { both.next_back() };
        let entry = shown(entry.into_iter());
        if from_front { front.extend(entry) } else { back.extend(entry) }
    }
    assert!(both.next().is_none() && both.next_back().is_none());
    front.extend(back.into_iter().rev());
    assert_eq!(front, after);
    if log.contains(middle)
        && let Some(count) = log.entries_until(middle)
    {
        assert_eq!(count, model.added.iter().filter(|id| **id <= middle).count() as i64);
    }
}

proptest! {
    #[test]
    fn a_log_is_a_sorted_list(
        ops in prop::collection::vec((op(), any::<usize>()), 1..120),
        limits in prop::sample::select(&LIMITS[..]),
    ) {
        let (mut log, mut model) = (Log::default(), Model::default());
        for (op, probe) in ops {
            apply(&mut log, &mut model, &limits, op);
            check(&log, &model, probe);
        }
        while log.drop_nodes(2) {}
        prop_assert!(log.is_empty());
    }

    #[test]
    fn a_group_is_a_list_of_who_has_what(
        ops in prop::collection::vec((0_u8..6, 1_u64..20, 0_u8..4, 0_i64..9), 1..100),
        orders_first in any::<bool>(),
    ) {
        let (log, mut group) = (log_of(20), Group::new(StreamId::MIN, None));
        // Entries with their owners and times; those that were released are at the front, in their order.
        let mut model: Vec<(u64, Option<u8>, i64)> = Vec::new();
        if orders_first {
            assert_eq!(group.claims(&log, 0, 9, 9), []);
        }
        for (kind, entry, name, time_ms) in ops {
            let id = StreamId { ms: entry, seq: 0 };
            let place = model.iter().position(|(other, ..)| *other == entry);
            match kind {
                0 | 1 => {
                    let (consumer, _) = group.find_or_create(&[name], 7);
                    let consumer = Some(consumer);
                    group.assign(id, Pending { consumer, delivered_ms: time_ms, delivery_count: 1 });
                    place.map(|place| model.remove(place));
                    model.push((entry, Some(name), time_ms));
                }
                2 => {
                    group.assign(id, Pending::released(1));
                    place.map(|place| model.remove(place));
                    let released = model.iter().take_while(|(_, owner, _)| owner.is_none()).count();
                    model.insert(released, (entry, None, 0));
                }
                3 => {
                    assert_eq!(group.acknowledge(id), place.map(|place| model.remove(place)).is_some());
                }
                4 => {
                    let released = model.iter().take_while(|(_, owner, _)| owner.is_none()).count();
                    model[released..].sort_unstable_by_key(|(entry, _, time_ms)| (*time_ms, *entry));
                    let next_ms = model.first().map(|(_, owner, time)| owner.map_or(i64::MIN, |_| time + time_ms));
                    assert_eq!(group.next_claim_ms(&log, time_ms), next_ms);
                    let due = model.iter().take_while(|(_, owner, time)| owner.is_none() || time + time_ms <= 9);
                    let due: Vec<u64> = due.take(3).map(|(entry, ..)| *entry).collect();
                    let found = group.claims(&log, time_ms, 9, 3);
                    assert!(due.into_iter().eq(found.into_iter().map(|(id, _)| id.ms)));
                    assert_eq!(group.next_claim_ms(&log, time_ms), next_ms);
                    assert_eq!(group.next_claim_ms(&Log::default(), time_ms), None);
                }
                _ => {
                    let before = model.len();
                    let is_known = group.find(&[name]).is_some();
                    model.retain(|(_, owner, _)| *owner != Some(name));
                    assert_eq!(group.delete(&[name]), is_known.then_some(before - model.len()));
                }
            }
            group.debug_validate();
            let all = StreamId::MIN..=StreamId::MAX;
            let owner = |pending: &Pending| pending.consumer.map(|consumer| group.consumer(consumer).name()[0]);
            let pending: Vec<(u64, Option<u8>)> =
                group.pending_range(all.clone()).map(|(id, pending)| (id.ms, owner(pending))).collect();
            let mut sorted: Vec<_> = model.iter().map(|(entry, owner, _)| (*entry, *owner)).collect();
            sorted.sort_unstable();
            assert_eq!(pending, sorted);
            let released = model.iter().filter(|(_, owner, _)| owner.is_none()).map(|(entry, ..)| *entry);
            assert!(group.released().map(|id| id.ms).eq(released));
            if let Some(consumer) = group.find(&[name]) {
                let own = sorted.iter().filter(|(_, owner)| *owner == Some(name)).map(|(entry, _)| *entry);
                let found = group.pending_range_of(consumer, all).map(|(id, _)| id.ms);
                assert!(own.eq(found));
            }
        }
        while group.drop_pending(3) {}
        assert_eq!(group.pending_len(), 0);
    }
}

/// A log with the entries 1-0, 2-0 … below `end`.
fn log_of(end: u64) -> Log {
    let mut log = Log::default();
    for ms in 1..end {
        log.append(StreamId { ms, seq: 0 }, &[b"f", b"v"], &LIMITS[0]).expect("ids ascend");
    }
    log
}

/// Entries that the log has no more cannot be claimed, and are not looked at again.
#[test]
fn claims_pass_what_was_deleted() {
    let (mut log, mut group) = (log_of(5), Group::new(StreamId::MIN, None));
    let (consumer, _) = group.find_or_create(b"c", 0);
    let id = |ms| StreamId { ms, seq: 0 };
    for ms in 1..=4 {
        group.assign(id(ms), Pending { consumer: Some(consumer), delivered_ms: 5, delivery_count: 1 });
    }
    group.assign(id(4), Pending::released(1));
    assert_eq!([1, 2, 4].map(|ms| log.delete(id(ms))), [true; 3]);
    assert_eq!(group.next_claim_ms(&log, 10), Some(15));
    assert_eq!(group.claims(&log, 10, 14, 9), []);
    let found = group.claims(&log, 10, 15, 9);
    assert!(found.iter().map(|(id, _)| id.ms).eq([3]));
    group.debug_validate();
    assert_eq!((group.pending_len(), group.released_len(), group.released().count()), (4, 1, 0));
}

/// Contents of Redis' macro nodes, as an approximate trim shows them.
#[test]
fn approximate_trims_take_whole_nodes() {
    let mut log = Log::default();
    for seq in 1..=250 {
        log.append(StreamId { ms: 0, seq }, &[b"f", b"v"], &LIMITS[0]).expect("ids ascend");
    }
    assert_eq!(log.node_count(), 3);
    let trim = Trim { keep: Keep::Newest(120), is_approximate: true, limit: 0 };
    assert_eq!((log.trim(&Trim { limit: 99, ..trim }), log.trim(&trim), log.len()), (0, 100, 150));
    log.delete(StreamId { ms: 0, seq: 200 });
    let trim = Trim { keep: Keep::From(StreamId { ms: 0, seq: 200 }), ..trim };
    assert_eq!((log.trim(&trim), log.len()), (0, 149));
    assert_eq!(log.trim(&Trim { is_approximate: false, ..trim }), 99);
    assert_eq!(log.first_id(), StreamId { ms: 0, seq: 201 });
}

#[test]
fn the_same_fields_are_kept_once() {
    let mut stream = Stream::new();
    let pairs: [&[u8]; 4] = [b"temperature-in-celsius", b"21", b"humidity-in-percent", b"40"];
    for ms in 1..=10_000 {
        stream.log.append(StreamId { ms, seq: 0 }, &pairs, &LIMITS[0]).expect("ids ascend");
    }
    let per_entry = stream.memory_bytes() / 10_000;
    assert!(per_entry <= 14, "{per_entry} bytes");
    let mut slices = 1;
    while stream.free_slice() {
        slices += 1;
    }
    assert_eq!((slices, stream.element_count()), (1, 0));
}

/// Producers as a list of what they sent.
#[test]
fn messages_of_producers_are_known_for_a_while() {
    let limits = ProducerLimits { duration_s: 10, records_max: 40 };
    let mut producers = Producers::new(limits);
    let mut random = Random::new(7);
    let mut model: Vec<(u64, u64, StreamId)> = Vec::new();
    for ms in 1..4000_u64 {
        let now_ms = ms * 25;
        let (name, message) = (random.below(5), random.below(100));
        let (name_text, text) = (name.to_string(), message.to_string());
        let is_known = |id: StreamId| id.ms + 10_000 > now_ms;
        let found =
            model.iter().find(|(other, sent, id)| (*other, *sent) == (name, message) && is_known(*id));
        let found = found.map(|(.., id)| *id);
        assert_eq!(producers.find(name_text.as_bytes(), text.as_bytes(), now_ms), found);
        if found.is_none() && random.below(3) > 0 {
            let id = StreamId { ms: now_ms, seq: ms };
            assert_eq!(producers.make_room(name_text.as_bytes(), text.as_bytes(), now_ms), Ok(()));
            producers.add(name_text.as_bytes(), text.as_bytes(), id, now_ms);
            model.push((name, message, id));
            model.retain(|(other, _, id)| *other != name || is_known(*id));
            while model.iter().filter(|(other, ..)| *other == name).count() > 40 {
                let first = model.iter().position(|(other, ..)| *other == name).expect("there are many");
                model.remove(first);
            }
        }
        producers.debug_validate();
        let known: Vec<u64> = model.iter().filter(|(.., id)| is_known(*id)).map(|(name, ..)| *name).collect();
        let names: std::collections::BTreeSet<&u64> = known.iter().collect();
        assert_eq!(producers.counts(now_ms), (names.len(), known.len()));
        assert!(producers.record_count() <= model.len());
    }
    // Silent producers leave nothing for long.
    for seq in 0..5 {
        producers.add(b"other", format!("{seq}").as_bytes(), StreamId { ms: 1_000_000, seq }, 1_000_000);
    }
    producers.debug_validate();
    assert_eq!((producers.len(), producers.record_count(), producers.counts(1_009_999)), (1, 5, (1, 5)));
    let other = producers.with_limits(ProducerLimits::default());
    assert_eq!((other.record_count(), other.added, other.is_empty()), (0, producers.added, true));
}

#[test]
fn records_of_producers_are_limited_and_freed_in_slices() {
    let mut stream = Stream::new();
    let producers = stream.producers.insert(Box::new(Producers::new(ProducerLimits::default())));
    // Records come in any order from a log.
    for ms in [5, 3, 9, 3] {
        producers.insert(b"p", format!("m{ms}").as_bytes(), StreamId { ms, seq: 0 });
    }
    producers.debug_validate();
    assert!(producers.records(b"p").map(|(_, id)| id.ms).eq([3, 5, 9]));
    let long = vec![b'x'; producers::ID_BYTES_MAX];
    for number in 0..producers::BYTES_MAX / long.len() - 1 {
        let name = number.to_string();
        producers.insert(name.as_bytes(), &long, StreamId { ms: 9, seq: 1 });
    }
    assert_eq!(producers.make_room(b"p", &long, 10), Err(producers::TooMany));
    // All are over, and some are forgotten.
    let count = producers.record_count();
    assert_eq!(producers.make_room(b"p", &long, 200_000), Ok(()));
    assert!(producers.record_count() < count);
    producers.debug_validate();
    stream.producers = None;
    let producers = stream.producers.insert(Box::new(Producers::new(ProducerLimits::default())));
    for number in 0..5000_u32 {
        producers.insert(&number.to_be_bytes(), b"m", StreamId { ms: 9, seq: 1 });
    }
    let mut slices = 0;
    while stream.free_slice() {
        slices += 1;
    }
    assert_eq!((slices, stream.element_count()), (10, 0));
}
