//! Held output: what is taken is always exactly the bytes that no hold precedes, in order and complete.

use std::sync::Arc;

use proptest::prelude::*;
use resp::{Chunk, Output};

fn taken(out: &mut Output) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(chunk) = out.take_chunk() {
        bytes.extend_from_slice(chunk.as_slice());
    }
    bytes
}

fn reply(out: &mut Output, bytes: &[u8], slice: u64) {
    let mark = out.mark();
    out.extend_from_slice(bytes);
    out.hold_from(mark, slice);
}

#[test]
fn what_is_held_and_all_behind_it_stays_until_its_slice_is_released() {
    let mut out = Output::new();
    out.extend_from_slice(b"free ");
    reply(&mut out, b"five ", 5);
    out.extend_from_slice(b"behind ");
    reply(&mut out, b"seven", 7);
    assert_eq!(taken(&mut out), b"free ");
    assert_eq!((out.len(), out.release(4), out.take_chunk().is_none()), (17, Some(5), true));
    assert_eq!(out.release(6), None);
    assert_eq!(taken(&mut out), b"five behind ");
    assert_eq!((out.release(6), out.release(7)), (Some(7), None));
    assert_eq!(taken(&mut out), b"seven");
}

#[test]
fn an_earlier_slice_behind_a_later_one_waits_for_both() {
    let mut out = Output::new();
    reply(&mut out, b"seven ", 7);
    reply(&mut out, b"five", 5);
    assert_eq!((out.release(6), taken(&mut out)), (Some(7), Vec::new()));
    assert_eq!((out.release(7), taken(&mut out)), (None, b"seven five".to_vec()));
}

#[test]
fn a_hold_travels_with_its_bytes() {
    let mut from_elsewhere = Output::new();
    reply(&mut from_elsewhere, b"+OK\r\n", 3);
    let mut out = Output::new();
    out.extend_from_slice(b":1\r\n");
    out.append(&mut from_elsewhere);
    assert_eq!(taken(&mut out), b":1\r\n");
    assert_eq!(out.release(3), None);
    assert_eq!(taken(&mut out), b"+OK\r\n");
}

#[test]
fn all_of_an_output_is_held_that_was_used_before() {
    let (mut used, mut target) = (Output::new(), Output::new());
    for slice in 1..4 {
        used.extend_from_slice(b"+OK\r\n");
        used.hold_all(slice);
        target.append(&mut used);
        assert!(used.is_empty() && target.take_chunk().is_none(), "it waits for slice {slice}");
        assert_eq!(target.release(slice), None);
        assert!(target.take_chunk().is_some());
    }
}

#[test]
fn brackets_work_behind_holds_and_round_them() {
    let mut out = Output::new();
    reply(&mut out, b"one ", 1);
    let inner = out.mark();
    reply(&mut out, b"two ", 2);
    out.insert_at(inner, b"[in] ");
    out.release(1);
    assert_eq!(out.take_chunk().as_ref().map(Chunk::as_slice), Some(&b"one "[..]));
    assert!(out.take_chunk().is_none(), "what was inserted in front of a held reply is held with it");
    out.truncate(inner);
    assert_eq!((out.release(2), taken(&mut out)), (None, Vec::new()));
    let mut out = Output::new();
    reply(&mut out, b"kept", 1);
    let mark = out.mark();
    reply(&mut out, b"dropped", 9);
    out.truncate(mark);
    assert_eq!((out.release(1), taken(&mut out)), (None, b"kept".to_vec()));
}

#[test]
fn a_large_reply_is_held_from_its_first_byte() {
    let mut out = Output::new();
    out.extend_from_slice(b"+before\r\n");
    let mark = out.mark();
    out.extend_from_slice(b"$100000\r\n");
    out.extend_from_slice(&[b'x'; 100_000]);
    out.push_shared(Arc::new(vec![b's'; 5_000]));
    out.hold_from(mark, 1);
    assert_eq!(taken(&mut out), b"+before\r\n");
    assert_eq!(out.len(), 9 + 105_000);
    out.release(1);
    assert_eq!(taken(&mut out).len(), 9 + 105_000);
}

#[test]
fn a_front_can_be_consumed_in_parts() {
    let mut out = Output::new();
    assert!(out.front().is_none());
    out.extend_from_slice(b"abcdef");
    let shared = Arc::new(vec![b's'; 5_000]);
    out.push_shared(Arc::clone(&shared));
    assert_eq!(out.front(), Some(&b"abcdef"[..]));
    assert!(out.consume_front(2).is_none());
    assert_eq!(out.front(), Some(&b"cdef"[..]));
    assert_eq!(out.len(), 5_004);
    assert!(out.consume_front(1).is_none());
    assert!(out.consume_front(3).is_some(), "the memory comes back");
    assert_eq!(out.front().map(<[u8]>::as_ptr), Some(shared.as_ptr()), "shared bytes stay where they are");
    assert!(out.consume_front(4_990).is_none());
    assert_eq!(taken(&mut out), [b's'; 10], "the rest can be taken as well");
}

#[derive(Clone, Debug)]
enum Step {
    /// A reply of this many bytes, held or not.
    Reply(usize, Option<u64>),
    /// The same, through an output of its own.
    Append(usize, Option<u64>),
    Share(usize),
    Release,
    Take,
    Consume(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![8 => 1usize..300, 2 => 1usize..20_000, 1 => 1usize..70_000];
    let slice = prop_oneof![2 => Just(None), 3 => (1u64..12).prop_map(Some)];
    let step = prop_oneof![
        6 => (length.clone(), slice.clone()).prop_map(|(length, slice)| Step::Reply(length, slice)),
        3 => (length.clone(), slice).prop_map(|(length, slice)| Step::Append(length, slice)),
        1 => length.prop_map(Step::Share),
        2 => Just(Step::Release),
        2 => Just(Step::Take),
        2 => (0usize..3_000).prop_map(Step::Consume),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn nothing_passes_a_hold(steps in steps()) {
        let mut out = Output::new();
        // Every byte with the slice that it waits for.
        let mut model: Vec<(u8, u64)> = Vec::new();
        let mut released = 0;
        for (seed, step) in steps.into_iter().enumerate() {
            let fresh = |length: usize| (0..length).map(|index| (index * 31 + seed * 7) as u8).collect::<Vec<_>>();
            match step {
                Step::Reply(length, slice) | Step::Append(length, slice) => {
                    let bytes = fresh(length);
                    model.extend(bytes.iter().map(|&byte| (byte, slice.unwrap_or(0))));
                    let mut other = Output::new();
                    let is_apart = matches!(step, Step::Append(..));
                    let target = if is_apart { &mut other } else { &mut out };
                    let mark = target.mark();
                    target.extend_from_slice(&bytes);
                    if let Some(slice) = slice {
                        target.hold_from(mark, slice);
                    }
                    if is_apart {
                        out.append(&mut other);
                    }
                }
                Step::Share(length) => {
                    let bytes = fresh(length);
                    model.extend(bytes.iter().map(|&byte| (byte, 0)));
                    out.push_shared(Arc::new(bytes));
                }
                Step::Release => {
                    released += 1;
                    out.release(released);
                }
                Step::Take | Step::Consume(_) => {
                    let free: Vec<u8> =
                        model.iter().take_while(|(_, slice)| *slice <= released).map(|(byte, _)| *byte).collect();
                    out.release(released);
                    let got = match step {
                        Step::Consume(most) => {
                            let got = out.front().map_or(Vec::new(), |front| front[..front.len().min(most)].to_vec());
                            if !got.is_empty() {
                                out.consume_front(got.len());
                            }
                            got
                        }
                        _ => out.take_chunk().map_or(Vec::new(), |chunk| chunk.as_slice().to_vec()),
                    };
                    prop_assert!(free.starts_with(&got));
                    prop_assert!(!got.is_empty() || free.is_empty() || matches!(step, Step::Consume(0)));
                    model.drain(..got.len());
                }
            }
            prop_assert_eq!(out.len(), model.len());
            prop_assert!(out.capacity_bytes() >= out.len());
        }
        prop_assert_eq!(out.to_vec(), model.iter().map(|(byte, _)| *byte).collect::<Vec<_>>());
        prop_assert_eq!(out.release(u64::MAX), None);
        prop_assert_eq!(taken(&mut out), model.into_iter().map(|(byte, _)| byte).collect::<Vec<_>>());
    }
}
