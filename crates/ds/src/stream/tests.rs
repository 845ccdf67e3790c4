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
    fn a_group_is_a_list_of_who_has_what(ops in prop::collection::vec((0_u8..4, 0_u64..20, 0_u8..4), 1..100)) {
        let mut group = Group::new(StreamId::MIN, None);
        let mut model: Vec<(u64, u8)> = Vec::new();
        for (kind, entry, name) in ops {
            let id = StreamId { ms: entry, seq: 0 };
            let place = model.iter().position(|(other, _)| *other == entry);
            match kind {
                0 | 1 => {
                    let (consumer, _) = group.find_or_create(&[name], 7);
                    group.assign(id, Pending { consumer, delivered_ms: 5, delivery_count: 1 });
                    place.map(|place| model.remove(place));
                    model.push((entry, name));
                    model.sort_unstable();
                }
                2 => {
                    assert_eq!(group.acknowledge(id), place.map(|place| model.remove(place)).is_some());
                }
                _ => {
                    let before = model.len();
                    let is_known = group.find(&[name]).is_some();
                    model.retain(|(_, owner)| *owner != name);
                    assert_eq!(group.delete(&[name]), is_known.then_some(before - model.len()));
                }
            }
            group.debug_validate();
            let all = StreamId::MIN..=StreamId::MAX;
            let pending: Vec<(u64, u8)> = group
                .pending_range(all.clone())
                .map(|(id, pending)| (id.ms, group.consumer(pending.consumer).name()[0]))
                .collect();
            assert_eq!(pending, model);
            if let Some(consumer) = group.find(&[name]) {
                let own = model.iter().filter(|(_, owner)| *owner == name).map(|(entry, _)| *entry);
                let found = group.pending_range_of(consumer, all).map(|(id, _)| id.ms);
                assert!(own.eq(found));
            }
        }
        while group.drop_pending(3) {}
        assert_eq!(group.pending_len(), 0);
    }
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
