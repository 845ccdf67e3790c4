//! Records of strings and of other values: creating, changing and measuring them.

use std::sync::Arc;

use ds::hashing::Seed;
use ds::list::End;

use super::*;
use crate::List;
use crate::db::Db;
use crate::string::Str;

const KEYS: [&[u8]; 4] = [b"", b"k", &[7; 90], &[7; 1000]];

fn db(key: &[u8], text: &[u8]) -> Db {
    let mut db = Db::new(Arc::new(Seed::new(1)));
    db.insert(7, key, Value::Str(Str::new(text))).set_access(u32::MAX);
    db
}

/// The string at the key, and the bytes that it takes.
#[track_caller]
fn read(db: &Db, key: &[u8]) -> (Vec<u8>, usize) {
    let record = db.find(7, key).expect("it is there");
    assert_eq!((record.key(), record.access()), (key, ACCESS_MASK));
    let ValueRef::Str(string) = record.value() else { panic!("it was a string") };
    (string.bytes().into_owned(), record.memory_bytes())
}

#[test]
fn a_record_gives_back_what_it_was_given() {
    let texts =
        [0, 1, 16, 22, 23, 100, 255, 256, 300, 1783, 1784, 2038, 2048, 20_000].map(|len| vec![b'x'; len]);
    let texts = texts.iter().map(|text| &text[..]).chain([&b"12"[..], b"-9223372036854775808", b"012"]);
    for (key, text) in texts.flat_map(|text| KEYS.map(|key| (key, text))) {
        let mut db = db(key, text);
        assert_eq!(read(&db, key).0, text);
        let record = db.remove(7, key).expect("it is there");
        let Value::Str(string) = record.into_value() else { panic!("it was a string") };
        assert_eq!(&*string.bytes(), text);
    }
}

#[test]
fn short_strings_lie_inside() {
    for (text, bytes) in [
        (&b"sixteen letters!"[..], 32),
        (b"1234567890123456789", 24),
        (b"seventeen letters", 40),
        (&[b'x'; 550], 568),
    ] {
        assert_eq!(read(&db(b"key:123456", text), b"key:123456").1, SLOT_BYTES + bytes);
    }
}

#[test]
fn a_string_is_written_over_whatever_was_there() {
    let texts =
        [&b"5"[..], b"text", b"another text of some length", &[b'y'; 500], &[b'z'; 502], &[b'z'; 5000]];
    for (old, new, key) in texts
        .iter()
        .flat_map(|old| texts.map(|new| (old, new)))
        .flat_map(|(o, n)| KEYS.map(|key| (o, n, key)))
    {
        for (expiry, is_wide) in [(None, false), (Some(5), false), (Some(-5), true)] {
            let mut db = db(key, old);
            db.set_expiry(7, key, expiry);
            let mut record = db.find_mut(7, key).expect("it is there");
            if is_wide {
                record = RecordMut({
                    record.into_value();
                    db.find_mut(7, key).expect("it is there").0
                });
            }
            assert!(record.set_string(new).is_none());
            assert_eq!(record.lend().expiry(), expiry);
            assert_eq!(read(&db, key).0, new);
        }
    }
}

#[test]
fn other_values_come_and_go() {
    let mut db = db(b"key", b"text");
    let list = || Value::List(Box::new(List::new()));
    let mut record = db.find_mut(7, b"key").expect("it is there");
    assert!(matches!(record.replace_value(list()), Value::Str(_)));
    assert!(matches!(record.set_string(b"5"), Some(Value::List(_))));
    assert!(matches!(record.replace_value(list()), Value::Str(Str::Int(5))));
    assert_eq!(record.lend().value().kind(), ds::Kind::List);
    *record.into_value() = Value::Str(Str::Int(9));
    assert_eq!(read(&db, b"key").0, b"9");
}

#[test]
fn an_expiry_takes_room_once_there_is_one() {
    for (text, rooms) in [(&[b'x'; 3000][..], [0, 6, 8]), (&[b'x'; 300], [0, 8, 8]), (b"short", [0, 8, 8])] {
        let mut db = db(b"key", text);
        let without = read(&db, b"key").1;
        for (expiry, read_back, form) in [
            (None, None, 0),
            (Some(0), Some(0), 1),
            (Some(1_800_000_000_000), Some(1_800_000_000_000), 1),
            (None, None, 1),
            (Some((1 << 48) - 2), Some((1 << 48) - 2), 1),
            (Some((1 << 48) - 1), Some((1 << 48) - 1), 2),
            (Some(-1), Some(-1), 2),
            (Some(5), Some(5), 2),
            (None, None, 2),
            (Some(UnixMs::MAX), Some(UnixMs::MAX - 1), 2),
        ] {
            assert!(db.set_expiry(7, b"key", expiry));
            assert_eq!(read(&db, b"key"), (text.to_vec(), without + rooms[form]), "{expiry:?}");
            let record = db.find(7, b"key").expect("it is there");
            assert_eq!(record.expiry(), read_back);
            assert_eq!(record.expired(6), read_back.is_some_and(|read| read < 6));
            assert_eq!(db.volatile_len(), usize::from(expiry.is_some()));
        }
    }
}

#[test]
fn marks_take_room_once_there_are_some_and_end_with_the_value() {
    let all = Marks { flags: 7, cas: u64::MAX, is_stale: true, was_token_sent: true, is_blessed: true };
    let blessed = Marks { is_blessed: true, ..Marks::default() };
    for (text, room) in [(&b"short"[..], 24), (&[b'x'; 3000], 8 + MARKS_BYTES)] {
        let mut db = db(b"key", text);
        let without = read(&db, b"key").1;
        let mark = |db: &mut Db| db.find_mut(7, b"key").expect("it is there").set_marks(all);
        let marks = |db: &Db| db.find(7, b"key").expect("it is there").marks();
        assert_eq!(marks(&db), Marks::default());
        db.find_mut(7, b"key").expect("it is there").set_marks(Marks::default());
        assert_eq!(read(&db, b"key").1, without);
        db.set_expiry(7, b"key", Some(5));
        db.find_mut(7, b"key").expect("it is there").set_read(u32::MAX);
        mark(&mut db);
        assert_eq!(read(&db, b"key"), (text.to_vec(), without + room));
        assert!(db.find(7, b"key").expect("it is there").was_read());
        for expiry in [Some(-1), None, Some(9)] {
            db.set_expiry(7, b"key", expiry);
            assert_eq!((db.find(7, b"key").and_then(|record| record.expiry()), marks(&db)), (expiry, all));
        }
        // A changed value keeps the flags; a replaced value loses all marks but that of the key.
        db.find_mut(7, b"key").expect("it is there").into_value();
        assert_eq!(marks(&db), Marks { flags: 7, ..blessed });
        mark(&mut db);
        assert!(db.find_mut(7, b"key").expect("it is there").set_string(text).is_none());
        assert_eq!(marks(&db), blessed);
        mark(&mut db);
        db.find_mut(7, b"key").expect("it is there").replace_value(Value::Str(Str::Int(1)));
        assert_eq!(marks(&db), blessed);
        db.find_mut(7, b"key").expect("it is there").set_access(1);
        assert!(!db.find(7, b"key").expect("it is there").was_read());
    }
}

#[test]
fn idle_seconds_are_counted_round_the_clock() {
    let mut db = db(b"key", b"text");
    for (noted, now, idle) in
        [(5, 9, 4), (ACCESS_MASK, ACCESS_MASK + 3, 3), (1_800_000_000, 1_800_000_060, 60), (10, 9, 0)]
    {
        db.find_mut(7, b"key").expect("it is there").set_access(noted);
        assert_eq!(db.find(7, b"key").expect("it is there").idle_seconds(now), idle);
    }
}

/// Size of jemalloc's block for this many bytes: four sizes per doubling, and multiples of 16 below that.
fn jemalloc_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(16))
}

/// The bytes that redis-server 7.0.15 takes for a list in addition to its listpack, including its key of 10
/// bytes and their table entry: measured as the growth of `used_memory` by 10,000 lists.
const REDIS_LIST_BYTES: usize = 171;

#[test]
fn short_lists_take_less_than_in_redis() {
    for value_bytes in [1, 4, 8, 12, 20, 24, 32, 36] {
        for end in [End::Tail, End::Head] {
            let (mut list, value) = (List::new(), vec![b'x'; value_bytes]);
            for len in 1..=300 {
                list.push(end, &value);
                list.debug_validate();
                let listpack_bytes = 7 + len * (value_bytes + 2);
                if len < 5 || listpack_bytes > 8192 {
                    continue;
                }
                let record = Record::new(b"key:000001", Value::List(Box::new(list.clone())));
                let (bytes, in_redis) =
                    (record.lend().memory_bytes(), REDIS_LIST_BYTES + jemalloc_bytes(listpack_bytes));
                assert!(bytes < in_redis, "{len} of {value_bytes}: {bytes} bytes, {in_redis} in Redis");
                // These are sizes of the allocator's blocks, so the counted bytes are the bytes taken.
                assert_eq!(list.memory_bytes() % 8, 0);
            }
        }
    }
}
