//! Compares lists with `VecDeque`, validating after every operation.

use std::collections::VecDeque;

use super::*;
use crate::random::{Random, mix};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Push(bool, Vec<u8>),
    Pop(bool),
    Set(i64, Vec<u8>),
    Insert(usize, Vec<u8>),
    InsertRelative(Vec<u8>, bool, Vec<u8>),
    Remove(i64, Vec<u8>),
    Trim(usize, usize),
    Drop(bool, usize),
    Move(u64),
}

/// A few short values, so that they repeat; integers; and some that fill or exceed a node.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(vec!["", "a", "b", "12", "-70000"]).prop_map(|text| text.as_bytes().to_vec()),
        4 => (100_usize..400).prop_map(|length| vec![b'j'; length]),
        2 => (1500_usize..5000).prop_map(|length| vec![b'k'; length]),
        1 => any::<u64>().prop_map(noise),
        1 => prop::sample::select(vec![8170, 8177, 8178, 8192, 20_000]).prop_map(|length| vec![b'l'; length]),
    ]
}

/// Bytes that cannot be compressed.
fn noise(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..375).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (any::<bool>(), value()).prop_map(|(head, value)| Op::Push(head, value)),
        3 => any::<bool>().prop_map(Op::Pop),
        2 => (-40_i64..40, value()).prop_map(|(index, value)| Op::Set(index, value)),
        3 => (any::<usize>(), value()).prop_map(|(index, value)| Op::Insert(index, value)),
        2 => (value(), any::<bool>(), value()).prop_map(|(pivot, before, value)| Op::InsertRelative(pivot, before, value)),
        2 => (-3_i64..4, value()).prop_map(|(count, value)| Op::Remove(count, value)),
        1 => (0_usize..8, 0_usize..60).prop_map(|(start, keep)| Op::Trim(start, keep)),
        1 => (any::<bool>(), 0_usize..10).prop_map(|(head, count)| Op::Drop(head, count)),
        1 => any::<u64>().prop_map(Op::Move),
    ]
}

fn end(head: bool) -> End {
    if head { End::Head } else { End::Tail }
}

fn absolute(model: &VecDeque<Vec<u8>>, index: i64) -> Option<usize> {
    let index = if index < 0 { index + model.len() as i64 } else { index };
    usize::try_from(index).ok().filter(|&index| index < model.len())
}

fn model_remove(model: &mut VecDeque<Vec<u8>>, count: i64, value: &[u8]) -> usize {
    let limit = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let mut matching: Vec<usize> = (0..model.len()).filter(|&index| model[index] == value).collect();
    if count < 0 {
        matching.reverse();
    }
    matching.truncate(limit);
    matching.sort_unstable_by(|left, right| right.cmp(left));
    for &index in &matching {
        model.remove(index);
    }
    matching.len()
}

fn apply(list: &mut List, model: &mut VecDeque<Vec<u8>>, op: Op) {
    match op {
        Op::Push(head, value) => {
            list.push(end(head), &value);
            if head { model.push_front(value) } else { model.push_back(value) }
        }
        Op::Pop(head) => {
            let expected = if head { model.pop_front() } else { model.pop_back() };
            assert_eq!(list.peek(end(head)).map(<[u8]>::to_vec), expected);
            assert_eq!(list.pop(end(head)), expected);
        }
        Op::Set(index, value) => {
            let expected = absolute(model, index);
            assert_eq!(list.set(index, &value), expected.is_some());
            if let Some(index) = expected {
                model[index] = value;
            }
        }
        Op::Insert(index, value) => {
            let index = index % (model.len() + 1);
            list.insert(index, &value);
            model.insert(index, value);
        }
        Op::InsertRelative(pivot, before, value) => {
            let at = model.iter().position(|element| *element == pivot);
            let index = list.insert_relative(&pivot, before, &value, |_| {});
            assert_eq!(index, at.map(|at| at + usize::from(!before)));
            if let Some(at) = at {
                model.insert(at + usize::from(!before), value);
            }
        }
        Op::Remove(count, value) => {
            let is_wanted = |(_, element): &(usize, &Vec<u8>)| **element == value;
            let len_max = model.len() - model.len() / 4;
            let places = model.iter().enumerate().take(len_max).filter(is_wanted).map(|(place, _)| place);
            assert!(list.positions(&value, false, len_max, |_| {}).eq(places));
            let places =
                model.iter().rev().enumerate().take(len_max).filter(is_wanted).map(|(place, _)| place);
            assert!(list.positions(&value, true, len_max, |_| {}).eq(places));
            assert_eq!(list.remove_matching(count, &value, |_| {}), model_remove(model, count, &value));
        }
        Op::Trim(start, keep) => {
            list.trim(start, keep);
            model.drain(..start.min(model.len()));
            model.truncate(keep);
        }
        Op::Drop(head, count) => {
            let count = count.min(model.len());
            if head {
                list.drop_front(count);
                model.drain(..count);
            } else {
                list.drop_back(count);
                model.truncate(model.len() - count);
            }
        }
        Op::Move(seed) => {
            let (mut mover, mut place) = (Random::new(seed), WalkPosition::default());
            while !list.defragment(&mut place, &mut mover) {}
        }
    }
}

fn check_reads(list: &List, model: &VecDeque<Vec<u8>>) {
    let len = model.len() as i64;
    let read = |from, reverse| list.iter(from, reverse).map(|element| element.to_vec());
    assert_eq!(list.len(), model.len());
    assert!(read(0, false).eq(model.iter().cloned()));
    assert!(read(-1, true).eq(model.iter().rev().cloned()));
    for index in [-len - 1, -len, -len / 2, -1, 0, len / 3, len - 1, len] {
        let expected = absolute(model, index);
        assert_eq!(
            list.get(index).map(|element| element.to_vec()),
            expected.map(|index| model[index].clone())
        );
        assert_eq!(list.iter(index, false).len(), expected.map_or(0, |index| model.len() - index));
        assert!(read(index, false).eq(model.iter().skip(expected.unwrap_or(model.len())).cloned()));
        assert_eq!(list.iter(index, true).len(), expected.map_or(0, |index| index + 1));
        let backward = model.iter().take(expected.map_or(0, |index| index + 1)).rev();
        assert!(read(index, true).eq(backward.cloned()));
    }
    for range in [0..0, 0..model.len(), model.len() / 3..model.len() / 2, model.len() / 2..model.len()] {
        let mut visited = Vec::new();
        visit_ahead(list, range.clone(), |bytes, len| visited.push(bytes[..len].to_vec()));
        assert!(visited.iter().eq(model.range(range)));
    }
    // Elements outlive the walk over their node.
    let all: Vec<Element<'_>> = list.iter(0, false).collect();
    assert!(all.iter().zip(model).all(|(element, expected)| *element == **expected));
}

proptest! {
    #[test]
    fn behaves_like_a_deque(plain_nodes in 0_u32..4, ops in proptest::collection::vec(op(), 1..200)) {
        let (mut list, mut model) = (List::new(), VecDeque::new());
        let limits = ListLimits { nodes_min: plain_nodes, plain_nodes, plain_part: 1 };
        for op in ops {
            apply(&mut list, &mut model, op);
            list.compress_inner(&limits);
            list.debug_validate();
            check_reads(&list, &model);
        }
    }
}

fn jobs(count: usize) -> List {
    let mut list = List::new();
    for index in 0..count {
        list.push(End::Head, format!("{index:0230}").as_bytes());
    }
    list
}

#[test]
fn a_deep_queue_gives_its_memory_back() {
    let mut list = jobs(100_000);
    list.debug_validate();
    let full = list.memory_bytes();
    assert!((23_400_000..25_000_000).contains(&full), "{full}");
    assert_eq!(list.get(50_000).as_deref(), Some(format!("{:0230}", 49_999).as_bytes()));
    for index in 0..99_000 {
        let popped = list.pop_with(End::Tail, |job| job == format!("{index:0230}").as_bytes());
        assert_eq!(popped, Some(true));
    }
    assert!(list.memory_bytes() < full / 50, "{}", list.memory_bytes());
    list.drop_front(999);
    list.debug_validate();
    assert_eq!((list.len(), list.encoding()), (1, "listpack"));
    assert!(list.memory_bytes() < 512, "{}", list.memory_bytes());
}

/// A backlog of different jobs, compressed except for two nodes at either end.
fn compressed_jobs(count: usize) -> List {
    let mut list = List::new();
    for index in 0..count {
        list.push(End::Head, &job(index));
        list.compress_inner(&ListLimits { nodes_min: 8, plain_nodes: 2, plain_part: 1 });
    }
    list
}

fn job(index: usize) -> Vec<u8> {
    let id = mix(index as u64);
    format!(
        r#"{{"class":"Worker","args":[{index}],"jid":"{id:024x}","queue":"default","enqueued_at":{index}.5}}"#
    )
    .into_bytes()
}

#[test]
fn a_compressed_backlog_is_small_and_drains_from_both_ends() {
    let count = 20_000;
    let mut list = compressed_jobs(count);
    list.debug_validate();
    let plain_bytes = count * (job(count).len() + 3);
    let full = list.memory_bytes();
    assert!(full < plain_bytes / 2, "{full} of {plain_bytes}");
    for index in 0..count / 2 {
        assert_eq!(list.pop(End::Tail), Some(job(index)));
        assert_eq!(list.pop(End::Head), Some(job(count - 1 - index)));
        if index % 1000 == 0 {
            list.debug_validate();
            assert!(
                list.memory_bytes() <= full + 2 * (1 + GROUP_NODES) * NODE_BYTES_MAX,
                "{}",
                list.memory_bytes()
            );
        }
    }
    assert!(list.is_empty());
}

#[test]
fn few_compressed_nodes_are_expanded_to_look_for_an_element() {
    let count = 20_000;
    let list = compressed_jobs(count);
    let compressed: Vec<&ListNode> = list.nodes.iter().filter(|node| node.is_compressed()).collect();
    let may_have =
        |element: &[u8]| compressed.iter().filter(|node| node.may_have(imprint::hash(element))).count();
    for index in (0..count).step_by(97) {
        let place = count - 1 - index;
        assert!(list.positions(&job(index), false, usize::MAX, |_| {}).eq([place]));
        assert!(list.positions(&job(index), true, usize::MAX, |_| {}).eq([index]));
    }
    let absent: usize = (count..count + 1000).map(|index| may_have(&job(index))).sum();
    assert!(absent < 1000 * compressed.len() / 12, "{absent} in a thousand of {} nodes", compressed.len());
}

#[test]
fn changes_in_a_compressed_backlog_leave_it_compressed() {
    let count = 5000;
    let mut list = compressed_jobs(count);
    let mut model: Vec<Vec<u8>> = (0..count).rev().map(job).collect();
    let full = list.memory_bytes();
    for step in 0..300 {
        let at = (step * 16) % model.len();
        match step % 3 {
            0 => {
                assert!(list.set(at as i64, &job(count + step)));
                model[at] = job(count + step);
            }
            1 => {
                assert_eq!(list.remove_matching(0, &model[at], |_| {}), 1);
                model.remove(at);
            }
            _ => {
                list.insert(at, &job(count + step));
                model.insert(at, job(count + step));
            }
        }
    }
    list.debug_validate();
    assert!(list.iter(0, false).zip(&model).all(|(element, expected)| element == **expected));
    assert_eq!(list.len(), model.len());
    assert!(list.memory_bytes() < full * 5 / 4, "{} of {full}", list.memory_bytes());
}

#[test]
fn what_cannot_be_compressed_is_left_alone() {
    let (mut list, limits) = (List::new(), ListLimits { nodes_min: 1, plain_nodes: 1, plain_part: 1 });
    let push = |list: &mut List, value: &[u8]| {
        list.push(End::Tail, value);
        list.compress_inner(&limits);
    };
    (0..1000).for_each(|seed| push(&mut list, &noise(seed)));
    list.debug_validate();
    assert!(list.nodes.iter().all(|node| !node.is_compressed()));
    assert!(list.nodes.tried().is_some_and(|tried| tried.skipped > 1), "most are not even tried");
    (0..40_000).for_each(|index| push(&mut list, &job(index)));
    let compressed = list.nodes.iter().filter(|node| node.is_compressed()).count();
    assert!(compressed * GROUP_NODES > list.nodes.len() / 10, "{compressed} of {}", list.nodes.len());
}

/// The server's defaults.
const DEFAULTS: ListLimits = ListLimits { nodes_min: 16, plain_nodes: 64, plain_part: 64 };

#[test]
fn a_backlog_in_several_queues_is_small_too() {
    // 400,000 jobs of 230 bytes in one, 20 and 300 queues.
    for count in [400_000, 20_000, 1333] {
        let mut list = List::new();
        for index in 0..count {
            let mut job = job(index);
            job.resize(230, b' ');
            list.push(End::Head, &job);
            list.compress_inner(&DEFAULTS);
        }
        list.debug_validate();
        let bytes = list.memory_bytes() / count;
        assert!(bytes <= 55, "{bytes} bytes a job in a queue of {count}");
    }
}

#[test]
fn short_queues_are_not_compressed() {
    let mut list = List::new();
    for index in 0..500 {
        let mut job = job(index);
        job.resize(230, b' ');
        list.push(End::Head, &job);
        list.compress_inner(&DEFAULTS);
    }
    assert!(list.nodes.iter().all(|node| !node.is_compressed()));
}

#[test]
fn many_values_at_once_are_compressed_little_by_little() {
    let mut list = List::new();
    let limits = ListLimits { nodes_min: 100, plain_nodes: 4, plain_part: 1 };
    (0..20_000).for_each(|index| list.push(End::Head, &job(index)));
    let compressed = |list: &List| list.nodes.iter().filter(|node| node.is_compressed()).count();
    list.compress_inner(&limits);
    assert!((1..100).contains(&compressed(&list)), "{}", compressed(&list));
    for _ in 0..100 {
        list.compress_inner(&limits);
    }
    list.debug_validate();
    let plain = list.nodes.len() - compressed(&list);
    assert!((2 * 4..2 * (4 + GROUP_NODES)).contains(&plain), "{plain}");
    let nodes: Vec<bool> = list.nodes.iter().map(ListNode::is_compressed).collect();
    let ends = 4 + GROUP_NODES - 1;
    assert!(!nodes[3] && nodes[ends] && nodes[nodes.len() - 1 - ends] && !nodes[nodes.len() - 4]);
}

#[test]
fn a_backlog_pushed_by_thousands_is_compressed_as_it_grows() {
    let (mut list, limits) = (List::new(), ListLimits { nodes_min: 100, plain_nodes: 4, plain_part: 1 });
    let mut plain_max = 0;
    for batch in 0..50 {
        for index in 0..1000 {
            let mut job = job(batch * 1000 + index);
            job.resize(250, b' ');
            list.push(End::Head, &job);
        }
        list.compress_inner(&limits);
        plain_max = plain_max.max(list.nodes.iter().filter(|node| !node.is_compressed()).count());
    }
    list.debug_validate();
    assert!(plain_max < 150, "{plain_max} nodes were not compressed at some moment");
}

#[test]
fn a_list_is_freed_in_slices() {
    let mut list = jobs(10_000);
    let mut slices = 1;
    while list.free_slice() {
        list.debug_validate();
        slices += 1;
    }
    assert!((3..10).contains(&slices), "{slices}");
    assert!(list.is_empty() && list.memory_bytes() < 100);
}

#[test]
fn short_lists_are_small() {
    let mut list = List::new();
    assert_eq!(list.memory_bytes(), 0);
    list.push(End::Tail, b"short");
    assert!(list.memory_bytes() <= 40, "{}", list.memory_bytes());
}

#[test]
fn a_queue_going_round_stays_in_its_buffer() {
    let mut list = jobs(3);
    for _ in 0..10_000 {
        list.push(End::Head, &[b'j'; 230]);
        list.pop(End::Tail);
    }
    list.debug_validate();
    assert!(list.memory_bytes() < 2500, "{}", list.memory_bytes());
}

#[test]
fn a_queue_of_few_nodes_has_little_free_room() {
    for (len, percent_max) in [(20, 150), (40, 135)] {
        let mut list = List::new();
        (0..len).for_each(|_| list.push(End::Head, &[b'j'; 550]));
        let (mut sum, rounds) = (0, 1000);
        for _ in 0..rounds {
            list.push(End::Head, &[b'j'; 550]);
            list.pop(End::Tail);
            sum += list.memory_bytes();
        }
        list.debug_validate();
        let percent = 100 * sum / rounds / (550 * len);
        assert!(percent <= percent_max, "{len} elements take {percent} % of their size");
    }
}

#[test]
fn sparse_nodes_are_merged() {
    let mut list = List::new();
    for index in 0..10_000 {
        list.push(End::Tail, if index % 50 == 0 { &[b'k'; 100] } else { &[b'j'; 100] });
    }
    assert_eq!(list.remove_matching(0, &[b'j'; 100], |_| {}), 9800);
    list.debug_validate();
    assert_eq!(list.len(), 200);
    assert!(list.memory_bytes() < 60_000, "{}", list.memory_bytes());
}

/// What redis-server 7.2 reports, by the rules of its list type.
#[test]
fn encodings() {
    let mut list = List::new();
    list.push(End::Tail, &[b'x'; 8185]);
    assert_eq!(list.encoding(), "listpack", "7 + 8185 bytes are just the limit");
    list.push(End::Tail, b"");
    assert_eq!(list.encoding(), "quicklist");
    list.pop(End::Head);
    assert_eq!(list.encoding(), "listpack");

    let mut list = List::new();
    list.push(End::Tail, &[b'x'; 8186]);
    assert_eq!(list.encoding(), "quicklist");

    let mut list = List::new();
    list.expect_growth(8186);
    list.push(End::Tail, b"1");
    assert_eq!(list.encoding(), "quicklist", "the sum of one command's values decides");

    // 32 entries of 128 bytes, 4103 bytes with the frame, are more than half of the limit; 31 are not.
    let mut list = List::new();
    for _ in 0..64 {
        list.push(End::Tail, &[b'x'; 125]);
    }
    assert_eq!(list.encoding(), "quicklist");
    list.drop_back(list.len() - 32);
    assert_eq!(list.encoding(), "quicklist");
    list.pop(End::Tail);
    assert_eq!(list.encoding(), "listpack");

    // Integers count as Redis packs them: 1000 of 6 bytes each.
    let mut list = List::new();
    for index in 0..1000 {
        list.push(End::Tail, (1_000_000_000 + index).to_string().as_bytes());
    }
    assert_eq!(list.encoding(), "listpack");
    list.debug_validate();
}

/// Short enough for Miri, which checks it for undefined behaviour.
#[test]
fn each_change_once() {
    let (mut list, mut model) = (List::new(), VecDeque::new());
    let text = |length: usize| vec![b'x'; length];
    let ops = [
        Op::Push(true, text(3)),
        Op::Push(false, text(300)),
        Op::Push(true, text(8170)),
        Op::Push(false, text(20_000)),
        Op::Insert(2, text(5000)),
        Op::Move(1),
        Op::InsertRelative(text(3), true, text(5000)),
        Op::Set(1, text(7)),
        Op::Pop(true),
        Op::Push(true, text(2)),
        Op::Remove(0, text(5000)),
        Op::Move(2),
        Op::Drop(false, 1),
        Op::Trim(0, 2),
        Op::Pop(false),
    ];
    for op in ops {
        apply(&mut list, &mut model, op);
        list.debug_validate();
        assert!(list.iter(0, false).map(|element| element.to_vec()).eq(model.iter().cloned()));
    }
}
