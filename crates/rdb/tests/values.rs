//! Values and files: everything that is written can be read, and any bytes are accepted as input.

#[expect(dead_code, reason = "some are for another test")]
mod checks;

use checks::{Dribble, Model, SketchModel, StreamModel, check_file, check_libraries, check_value, read};
use ds::stream::{Group, Pending, ProducerLimits, Producers, Stream, StreamId, StreamLimits};
use proptest::prelude::*;
use rdb::{
    Encoder, Error, NoLibrary, Part, Reader, SketchPart, Style, VERSION_OF_7_2, ValueType, Why, open_payload,
    read_value, seal_payload,
};

use sketches::cuckoo::Parameters;
use sketches::{Bloom, CountMin, Cuckoo, Sketch, TDigest, TopK};

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        2 => (0_u32..64, -2_i64..3).prop_map(|(bits, more)| (1_i64 << bits).wrapping_add(more).to_string().into_bytes()),
        1 => (prop::collection::vec(0_u8..3, 1..30), 1_usize..200).prop_map(|(part, times)| part.repeat(times)),
    ]
}

fn model() -> impl Strategy<Value = Model> {
    let texts = || prop::collection::vec(text(), 0..60);
    let score = prop_oneof![
        any::<f64>().prop_filter("a number", |score| !score.is_nan()),
        (-9_i32..9).prop_map(f64::from)
    ];
    prop_oneof![
        text().prop_map(Model::Str),
        texts().prop_map(Model::List),
        texts().prop_map(Model::Set),
        prop::collection::vec((text(), score), 0..60).prop_map(Model::ZSet),
        prop::collection::vec((text(), text(), prop::option::of(0..1_i64 << 48)), 0..60)
            .prop_map(Model::Hash),
        prop::collection::vec((text(), text(), Just(None)), 0..60).prop_map(Model::Hash),
        stream().prop_map(|stream| Model::Stream(StreamModel(stream))),
        sketch().prop_map(|sketch| Model::Sketch(Some(SketchModel(Box::new(sketch))))),
    ]
}

/// Sketches of each kind, with a few items.
fn sketch() -> impl Strategy<Value = Sketch> {
    let items = prop::collection::vec((text(), 1_u32..9), 0..60);
    (0..5, 1_u64..60, items).prop_map(|(kind, size, items)| match kind {
        0 => {
            let mut filter = Bloom::new(size, 0.1, 2, true).expect("these are valid");
            items.iter().for_each(|(item, _)| _ = filter.add(item));
            Sketch::Bloom(filter)
        }
        1 => {
            let mut filter = Cuckoo::new(size + 4, Parameters::default()).expect("these are valid");
            items.iter().for_each(|(item, _)| _ = filter.add(item));
            Sketch::Cuckoo(filter)
        }
        2 => {
            let mut counts = CountMin::new(size, 2).expect("these are valid");
            items.iter().for_each(|(item, times)| _ = counts.add(item, (*times).into()));
            Sketch::CountMin(counts)
        }
        3 => {
            let mut top = TopK::new(size as u32 % 8 + 1, size as u32, 2, 0.9).expect("these are valid");
            items.iter().for_each(|(item, times)| _ = top.add(item, *times));
            Sketch::TopK(top)
        }
        _ => {
            let mut digest = TDigest::new(size).expect("this is valid");
            items.iter().for_each(|(item, times)| {
                digest.add(item.len() as f64 / f64::from(*times)).expect("there is room");
            });
            Sketch::TDigest(digest)
        }
    })
}

/// Streams with several nodes, deleted entries, the largest ids, groups and pending entries.
fn stream() -> impl Strategy<Value = Stream> {
    let number = || prop_oneof![3 => 0_u64..4, 1 => any::<u64>()];
    let id = || (number(), number()).prop_map(|(ms, seq)| StreamId { ms, seq });
    let entries = prop::collection::vec((id(), 1_usize..4, text(), any::<bool>()), 0..40);
    let pending = prop::collection::vec((id(), 0_u8..3, 0..i64::MAX, 0..i64::MAX), 0..10);
    let read = prop::option::of(0..i64::MAX);
    let groups = prop::collection::vec((text(), id(), read, pending), 0..3);
    let messages = prop::collection::vec((b'a'..b'd', 1_u8..200), 0..60);
    (entries, groups, 0_u64..1000, messages).prop_map(|(mut entries, groups, more_added, messages)| {
        entries.sort();
        let mut stream = Stream::new();
        let limits = StreamLimits { node_bytes_max: 200, node_entries_max: 7 };
        for (id, field_count, text, _) in &entries {
            let pairs: Vec<&[u8]> =
                (0..field_count * 2).map(|at| if at == 1 { text } else { &b"f"[..] }).collect();
            // Two entries may have the same id.
            let _ = stream.log.append(*id, &pairs, &limits);
        }
        entries.iter().filter(|entry| entry.3).for_each(|(id, ..)| _ = stream.log.delete(*id));
        stream.log.entries_added += more_added as i64;
        for (name, last_id, entries_read, pending) in groups {
            let mut group = Group::new(last_id, entries_read);
            for (id, consumer, delivered_ms, delivery_count) in pending {
                let pending = match delivery_count % 4 {
                    0 => Pending::released(delivery_count),
                    _ => {
                        let (consumer, _) = group.find_or_create(&[b'a' + consumer], delivered_ms / 2);
                        Pending { consumer: Some(consumer), delivered_ms, delivery_count }
                    }
                };
                group.assign(id, pending);
            }
            stream.groups.insert(name.into(), group);
        }
        let last_id = stream.log.last_id;
        for (producer, message) in messages {
            let producers = stream.producers.get_or_insert_with(|| {
                Box::new(Producers::new(ProducerLimits { duration_s: 86_400, records_max: 10_000 }))
            });
            let id = StreamId { ms: last_id.ms.min(u64::from(message)), seq: last_id.seq.min(1) };
            producers.insert(&[producer], &[message], id);
            producers.added += 1;
        }
        stream
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(model in model(), compresses: bool, is_packed: bool) {
        let (value_type, encoded) = model.encode(compresses, is_packed);
        prop_assert_eq!(read(&encoded[..], value_type), Ok(model.clone()));
        prop_assert_eq!(read(Dribble(&encoded), value_type), Ok(model));
    }

    #[test]
    fn a_sketch_in_parts_is_the_same(sketch in sketch(), step in 1_u64..200) {
        let sketch = sketch.written().unwrap_or(sketch);
        let mut encoder = Encoder::new(Vec::new(), false);
        let mut part = Some(SketchPart::default());
        while let Some(now) = part {
            let until = encoder.offset() + step;
            part = encoder.sketch_part(&sketch, now, until).expect("memory takes all");
        }
        let encoded = encoder.finish().expect("memory takes all");
        let model = Model::Sketch(Some(SketchModel(Box::new(sketch))));
        prop_assert_eq!(read(&encoded[..], ValueType::Module), Ok(model));
    }

    #[test]
    fn a_value_cut_short_is_refused(model in model(), compresses: bool, is_packed: bool, cut: prop::sample::Index) {
        let (value_type, encoded) = model.encode(compresses, is_packed);
        let cut = cut.index(encoded.len());
        prop_assert!(read(&encoded[..cut], value_type).is_err());
    }

    #[test]
    fn a_changed_value_does_no_harm(
        model in model(),
        compresses: bool,
        is_packed: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (value_type, mut encoded) = model.encode(compresses, is_packed);
        encoded.insert(0, value_type as u8);
        for (place, byte) in changes {
            let place = place.index(encoded.len());
            encoded[place] = byte;
        }
        check_value(&encoded);
    }

    #[test]
    fn any_bytes_are_taken_as_a_value(code in 0_u8..28, mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bytes.insert(0, code);
        check_value(&bytes);
    }
}

fn write_small_file() -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new(), true);
    encoder.header()?;
    encoder.aux("redis-ver", b"7.2.0")?;
    encoder.database(3, 2, 1)?;
    encoder.expiry(1_700_000_000_123)?;
    encoder.value_type(ValueType::Str)?;
    encoder.string(b"key")?;
    encoder.string(b"value")?;
    encoder.value_type(ValueType::SetIntset)?;
    encoder.string(b"set")?;
    encoder.intset(&[-1, 2, 70_000])?;
    encoder.end(true)?;
    encoder.finish()
}

fn small_file() -> Vec<u8> {
    write_small_file().expect("memory takes all")
}

#[test]
fn a_file_is_read_item_by_item() {
    let items = check_file(&small_file());
    assert_eq!(items.len(), 8, "{items:#?}");
    assert!(items[3].contains("expiry_ms: Some(1700000000123)"), "{items:#?}");
    assert_eq!(
        items[6],
        format!("{:?} Ok(())", Model::Set(["-1", "2", "70000"].map(|text| text.into()).to_vec()))
    );
    assert_eq!(items[7], "Ok(End)");
}

/// Expiries in seconds, no checksum, and the fields of modules and clusters.
#[test]
fn opcodes_of_all_versions_are_read() {
    let parts: [&[u8]; 6] = [
        b"REDIS0003",
        b"\xf7\x05\x01\x2a\x02\x2b\x03abcd\x04abcdefgh\x05\x03abc\x00",
        b"\xf4\x01\x02\x03",
        b"\xfd\x01\0\0\0\xf9\x07\xf8\x08\x00\x01k\x01v",
        b"\xf5\x04code",
        b"\xff",
    ];
    let items = check_file(&parts.concat());
    assert_eq!(items.len(), 4, "{items:#?}");
    for part in ["expiry_ms: Some(1000)", "idle_seconds: Some(8)", "frequency: Some(7)"] {
        assert!(items[0].contains(part), "{items:#?}");
    }
    assert!(items[2].contains("Library") && items[3] == "Ok(End)", "{items:#?}");
}

/// Cuts a file off at each byte, and changes each byte. A cut gives an error that says where, and so does a
/// change.
#[test]
fn a_damaged_file_is_refused() {
    let file = small_file();
    for at in 0..file.len() {
        let last = check_file(&file[..at]).pop().unwrap();
        assert!(last.contains("Truncated") || last.contains("unexpected end"), "{at}: {last}");
        for change in [1, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] ^= change;
            // A changed digit of the version may give another version, and a checksum of zero is not checked.
            let last = check_file(&file).pop().unwrap();
            assert!(last != "Ok(End)", "{at}: {last}");
        }
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let check = |value: &[u8], expected: &str| {
        let file = [b"REDIS0011\xfe\0", value].concat();
        let last = check_file(&file).pop().unwrap_or_default();
        assert!(last.contains(expected), "{value:?}: {last}");
    };
    let strings = |code: u8, bytes: &[u8]| [&[code, 1, b'k'][..], bytes].concat();
    check(b"\x06\x01k", "offset: 11, why: Unsupported { code: 6, what: \"values of modules before Redis 4.0");
    check(
        b"\x07\x01k\x81\0\0\0\0\0\0\0\x05",
        "offset: 14, why: UnknownModule { name: \"AAAAAAAAA\", version: 5",
    );
    check(b"\x16\x01k", "of a release candidate of Redis 7.4");
    for code in [15, 19, 21] {
        check(&strings(code, b"\x81\x10\0\0\0\0\0\0\0"), "Truncated");
    }
    check(b"\x63\x01k", "unknown type of value");
    check(b"\xf6\x01k", "functions of a release candidate");
    check(b"\xfc\0\0\0\0\0\0\0\0\xfa\0\0", "an opcode where a key is expected");
    // 2^60 bytes, elements or nodes.
    let huge = b"\x81\x10\0\0\0\0\0\0\0";
    check(&strings(0, huge), "offset: 14, why: Corrupt(\"a string is longer than 4 GiB\")");
    for code in [1, 2, 3, 4, 5, 14, 18] {
        check(&strings(code, huge), "Truncated");
    }
    check(&strings(0, b"\x80\xf0\0\0\0abc"), "Truncated");
    check(&strings(0, b"\xc3\x01\x80\xf0\0\0\0a"), "a compressed string is damaged");
    check(&strings(0, b"\xc4"), "unknown form of a string");
    check(&strings(0, b"\x82"), "unknown form of a length");
    check(&strings(1, b"\xc0\x01"), "a string where a length is expected");
    check(&strings(3, b"\x01\x01a\xfd"), "a score is not a number");
    check(&strings(3, b"\x01\x01a\x01x"), "a score is not a number");
    check(&strings(5, b"\x01\x01a\0\0\0\0\0\0\xf8\x7f"), "a score is not a number");
    check(&strings(18, b"\x01\x03\x01a"), "unknown kind of a list's node");
    check(&strings(16, b"\x0a\x0a\0\0\0\x01\0\x81a\x02\xff"), "an element without its pair");
    check(b"\xf7\x05\x09", "unknown field of a module");
    for (head, expected) in [
        ("REDIS0015", "a dump of version 15: Darter reads up to 14 at offset 0"),
        ("VALKEY081", "a dump of version 81 of Valkey: Darter reads up to 80 at offset 0"),
        ("VALKEY0 1", "not a dump of a known version at offset 0"),
    ] {
        assert_eq!(check_file(head.as_bytes()), [expected]);
    }
    let array = [&b"REDIS0014\xfe\0"[..], b"\x1c\x03abc\x00\xff"].concat();
    let found = check_file(&array).pop().unwrap();
    assert!(
        found.contains("code: 28, what: \"arrays are not supported\", key: Some([97, 98, 99])"),
        "{found}"
    );
    let text =
        Error { offset: 11, why: Why::Unsupported { code: 28, what: "no", key: Some(b"a\n".to_vec()) } };
    assert_eq!(text.to_string(), "no (type 28 of the key 'a\\n') at offset 11");
    // Metadata of modules for a key, and slots that are being moved: both have the same number.
    let meta = b"\xf3\x01abcd\x05\x03abc\x00\x00\x01k\x01v\xff";
    let found = check_file(&[b"REDIS0013", &meta[..]].concat()).pop().unwrap();
    assert!(
        found.contains("code: 243, what: \"metadata of modules cannot be read\", key: Some([107])"),
        "{found}"
    );
    let found = check_file(&[b"VALKEY080", &meta[..]].concat()).pop().unwrap();
    assert!(found.contains("slots were being moved"), "{found}");
    assert_eq!(check_file(b"REDIS0000"), ["not a dump of a known version at offset 0"]);
    assert_eq!(check_file(b"REDIS 011"), ["not a dump of a known version at offset 0"]);
}

/// Encodings that redis-server no longer writes.
#[test]
fn old_encodings_are_read() {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let read = |bytes: &[u8], value_type: ValueType| {
        check_value(&[&[value_type as u8], bytes].concat());
        read(bytes, value_type)
    };
    assert_eq!(read(&b"\x02\x01a\xc0\xff"[..], ValueType::List), Ok(Model::List(texts(&["a", "-1"]))));
    let lengths = b"\x03\x80\0\0\0\x01a\x81\0\0\0\0\0\0\0\x02bc\xc2\xff\xff\xff\x7f";
    assert_eq!(read(&lengths[..], ValueType::Set), Ok(Model::Set(texts(&["a", "bc", "2147483647"]))));
    let ziplist = b"\x2f\x2f\0\0\0\x23\0\0\0\x08\0\0\x01a\x03\xf1\x02\xfd\x02\xfe\x80\x03\xc0\0\x01\x04\xf0\xff\xff\x7f\
        \x05\xd0\0\0\0\x80\x06\x01b\xff";
    let ziplist = [&[ziplist.len() as u8 - 1; 2][..], &ziplist[2..]].concat();
    let elements = ["a", "0", "12", "-128", "256", "8388607", "-2147483648", "b"];
    assert_eq!(read(&ziplist[..], ValueType::ListZiplist), Ok(Model::List(texts(&elements))));
    let quicklist = [&b"\x02"[..], &ziplist, &ziplist].concat();
    assert_eq!(
        read(&quicklist[..], ValueType::ListQuicklist),
        Ok(Model::List(texts(&[elements, elements].concat())))
    );
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(field, value)| (field.as_bytes().to_vec(), value.as_bytes().to_vec(), None))
            .collect()
    };
    let zipped = [("a", "0"), ("12", "-128"), ("256", "8388607"), ("-2147483648", "b")];
    assert_eq!(read(&ziplist[..], ValueType::HashZiplist), Ok(Model::Hash(pairs(&zipped))));
    let zipmap = b"\x18\x02\x03foo\x03\0bar\x05hello\x05\x02world..\xff";
    let zipmap = [&[zipmap.len() as u8 - 1][..], &zipmap[1..]].concat();
    let expected = Model::Hash(pairs(&[("foo", "bar"), ("hello", "world")]));
    assert_eq!(read(&zipmap[..], ValueType::HashZipmap), Ok(expected));
    let scores = b"\x03\x01a\x031.5\x01b\xfe\x01c\xff";
    let expected = [("a", 1.5), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)];
    let expected = expected.map(|(member, score)| (member.as_bytes().to_vec(), score)).to_vec();
    assert_eq!(read(&scores[..], ValueType::ZSetText), Ok(Model::ZSet(expected)));
    let zset = b"\x13\x13\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\x031.5\xff";
    assert_eq!(read(&zset[..], ValueType::ZSetZiplist), Ok(Model::ZSet(vec![(b"a".to_vec(), 1.5)])));
    let set = b"\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff";
    assert_eq!(read(&set[..], ValueType::SetListpack), Ok(Model::Set(texts(&["a", "5"]))));
}

/// A string longer than 253 bytes has a longer mark at its successor.
#[test]
fn long_elements_of_ziplists_are_read() {
    let text = "x".repeat(300);
    let (all, last) = ((10 + 303 + 7 + 1_u32).to_le_bytes(), (10 + 303_u32).to_le_bytes());
    let ziplist =
        [&all[..], &last, &[2, 0, 0, 0x41, 44], text.as_bytes(), b"\xfe\x2f\x01\0\0\x01b\xff"].concat();
    let string = [&[0x41, 65][..], &ziplist].concat();
    let expected = Model::List(vec![text.into_bytes(), b"b".to_vec()]);
    assert_eq!(read(&string[..], ValueType::ListZiplist), Ok(expected));
}

#[test]
fn lists_are_divided_into_nodes() {
    let node_count = |list: Vec<Vec<u8>>| {
        let (_, encoded) = Model::List(list.clone()).encode(false, false);
        assert_eq!(read(&encoded[..], ValueType::ListQuicklist2), Ok(Model::List(list)));
        Reader::new(&encoded[..]).length().unwrap()
    };
    assert_eq!(node_count(vec![b"x".to_vec(); 100]), 1);
    assert_eq!(node_count(vec![vec![b'x'; 100]; 1000]), 14);
    assert_eq!(node_count(vec![vec![b'x'], vec![b'x'; 9000], vec![b'x'], vec![b'x']]), 3);
}

#[test]
fn elements_that_are_there_twice_are_refused() {
    for (value_type, bytes) in [
        (ValueType::Set, &b"\x02\x01a\x01a"[..]),
        (ValueType::Hash, b"\x02\x01a\x01b\x01a\x01c"),
        (ValueType::ZSetText, b"\x02\x01a\x011\x01a\x012"),
        (ValueType::ZSet, b"\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0"),
        (ValueType::SetListpack, b"\x0b\x0b\0\0\0\x02\0\x01\x01\x01\x01\xff"),
        (ValueType::HashListpack, b"\x0f\x0f\0\0\0\x04\0\x01\x01\x02\x01\x01\x01\x02\x01\xff"),
        (ValueType::ZSetListpack, b"\x0f\x0f\0\0\0\x04\0\x01\x01\x02\x01\x01\x01\x02\x01\xff"),
    ] {
        let mut seen = 0;
        let once = &mut |_: Part<'_>| {
            seen += 1;
            seen == 1
        };
        let error =
            read_value(&mut Reader::new(bytes), value_type, once).expect_err("one of two is too much");
        assert!(
            error.to_string().starts_with("an element occurs twice at offset"),
            "{value_type:?}: {error}"
        );
        assert_eq!(seen, 2);
    }
}

#[test]
fn both_forms_of_hashes_with_fields_that_expire_are_read() {
    let expected = [("a", "5", Some(1000)), ("b", "x", Some(1007)), ("c", "y", None)]
        .map(|(field, value, expiry)| (field.as_bytes().to_vec(), value.as_bytes().to_vec(), expiry));
    let single = b"\xe8\x03\0\0\0\0\0\0\x03\x01\x01a\xc0\x05\x08\x01b\x01x\0\x01c\x01y";
    let model = Model::Hash(expected.to_vec());
    assert_eq!(model.encode(true, true), (ValueType::HashExpiring, single.to_vec()));
    assert_eq!(read(&single[..], ValueType::HashExpiring), Ok(model.clone()));
    let packed = b"\xe8\x03\0\0\0\0\0\0\x20\x20\0\0\0\x09\0\x81a\x02\x05\x01\xc3\xe8\x02\
        \x81b\x02\x81x\x02\xc3\xef\x02\x81c\x02\x81y\x02\x00\x01\xff";
    assert_eq!(read(&packed[..], ValueType::HashExpiringListpack), Ok(model));
    // As Valkey has them, in a file of it and in none of Redis.
    let each = b"\x03\x01a\xc0\x05\xe8\x03\0\0\0\0\0\0\x01b\x01x\xef\x03\0\0\0\0\0\0\x01c\x01y\xff\xff\xff\xff\xff\xff\xff\xff";
    assert_eq!(read(&each[..], ValueType::HashExpiringEach), Ok(Model::Hash(expected.to_vec())));
    let file = |head: &[u8; 9]| check_file(&[&head[..], b"\x16\x01k", each, b"\xff", &[0; 8]].concat());
    let found = file(b"VALKEY080");
    assert_eq!(found[1], format!("{:?} Ok(())", Model::Hash(expected.to_vec())), "{found:?}");
    assert_eq!(found[2], "Ok(End)");
    let found = file(b"REDIS0014").pop().unwrap();
    assert!(found.contains("of a release candidate of Redis 7.4"), "{found}");
    let refused = |value: &[u8], value_type, expected: &str| {
        let error = read(value, value_type).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    let never = "a field has an impossible expiry at offset ";
    let late = [&b"\xff\xff\xff\xff\xff\xff\0\0\x01\x02"[..], b"\x01a\x01b"].concat();
    refused(&late, ValueType::HashExpiring, &format!("{never}9"));
    refused(&[&[0xff; 8][..], &late[8..]].concat(), ValueType::HashExpiring, &format!("{never}9"));
    let no_number = b"\0\0\0\0\0\0\0\0\x0f\x0f\0\0\0\x03\0\x81a\x02\x05\x01\x81b\x02\xff";
    refused(no_number, ValueType::HashExpiringListpack, &format!("{never}8"));
    refused(
        b"\x01\x01a\x01b\xfe\xff\xff\xff\xff\xff\xff\xff",
        ValueType::HashExpiringEach,
        &format!("{never}1"),
    );
}

/// The node of `1-1 field value number 12`, `1-2 field other number -1000`, which is deleted, and `2-0 a b`.
const NODE: &[u8] =
    b"\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x40\x52\x52\0\0\0\x19\0\x02\x01\x01\x01\x02\x01\
    \x85field\x06\x86number\x07\0\x01\x02\x01\0\x01\0\x01\x85value\x06\x0c\x01\x05\x01\x03\x01\0\x01\x01\x01\
    \x85other\x06\xdc\x18\x02\x05\x01\0\x01\x01\x01\xdf\xff\x02\x01\x01\x81a\x02\x81b\x02\x06\x01\xff";
/// Length and last id, and first id, largest deleted id and number of entries.
const LOG_END: [&[u8]; 2] = [b"\x02\x02\0", b"\x01\x01\x01\x02\x03"];
/// Two entries are pending in `g`, which has read an unknown number of them: one for `one`, the other for
/// `two`.
const GROUP: [&[u8]; 6] = [
    b"\x01g\x02\0",
    b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01i\x84M\xff\xa1\x01\0\0\x01\
        \0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03\x02\x03onei\x84M\xff\xa1\x01\0\0",
    b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x03two\x08\0\0\0\0\0\0\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0",
];

/// How many seconds and how many messages of producers are remembered, one producer, its messages, and the
/// counters.
const PRODUCERS: &[u8] = b"\x40\x64\x0a\x01\x02me\x02\x01x\x01\x01\x01y\x02\0\x02\x01";

/// The stream of the parts above in one of its forms.
fn encoded_stream(value_type: ValueType) -> Vec<u8> {
    let mut bytes = [&[1][..], NODE, LOG_END[0]].concat();
    let [name, entries_read, pending, owned, active, last] = GROUP;
    if value_type != ValueType::Stream {
        bytes.extend_from_slice(LOG_END[1]);
    }
    bytes.extend([&[1][..], name].concat());
    if value_type != ValueType::Stream {
        bytes.extend_from_slice(entries_read);
    }
    bytes.extend_from_slice(pending);
    let has_active_times = !matches!(value_type, ValueType::Stream | ValueType::Stream2);
    if has_active_times {
        bytes.extend_from_slice(b"\x09\0\0\0\0\0\0\0");
    }
    bytes.extend_from_slice(owned);
    if has_active_times {
        bytes.extend_from_slice(active);
    }
    bytes.extend_from_slice(last);
    if value_type == ValueType::Stream5 {
        bytes.push(0);
    }
    if matches!(value_type, ValueType::Stream4 | ValueType::Stream5) {
        bytes.extend_from_slice(PRODUCERS);
    }
    bytes
}

fn encoder_type(version: u32, stream: &Stream) -> ValueType {
    Style { compresses: false, version, keeps_all: true }.stream_type_of(stream)
}

#[test]
fn all_forms_of_streams_are_read() {
    for (value_type, active, counts) in [
        (ValueType::Stream, [Some(1_795_284_632_681), Some(8)], (StreamId::MIN, 2)),
        (ValueType::Stream2, [Some(1_795_284_632_681), Some(8)], (StreamId { ms: 1, seq: 2 }, 3)),
        (ValueType::Stream3, [Some(9), None], (StreamId { ms: 1, seq: 2 }, 3)),
        (ValueType::Stream4, [Some(9), None], (StreamId { ms: 1, seq: 2 }, 3)),
        (ValueType::Stream5, [Some(9), None], (StreamId { ms: 1, seq: 2 }, 3)),
    ] {
        let encoded = encoded_stream(value_type);
        check_value(&[&[value_type as u8], &encoded[..]].concat());
        let model = read(&encoded[..], value_type);
        let Ok(Model::Stream(StreamModel(stream))) = model else { panic!("{model:?}") };
        let log = &stream.log;
        let entries: Vec<(String, Vec<&[u8]>)> = log
            .range(StreamId::MIN, StreamId::MAX)
            .map(|(id, fields)| (id.to_string(), fields.flat_map(|(field, value)| [field, value]).collect()))
            .collect();
        let first: Vec<&[u8]> = vec![b"field", b"value", b"number", b"12"];
        assert_eq!(entries, [("1-1".into(), first), ("2-0".into(), vec![b"a", b"b"])]);
        assert_eq!((log.max_deleted_id, log.entries_added), counts);
        let group = &stream.groups[&b"g"[..]];
        assert_eq!((group.last_id, group.entries_read()), (StreamId { ms: 2, seq: 0 }, None));
        let pending: Vec<String> = group
            .pending_range(StreamId::MIN..=StreamId::MAX)
            .map(|(id, pending)| {
                let consumer = group.owner_name(pending).escape_ascii();
                format!("{id} {consumer} {} {}", pending.delivered_ms, pending.delivery_count)
            })
            .collect();
        assert_eq!(pending, ["1-1 one 1795284632681 1", "2-0 two 7 3"]);
        assert!(group.consumers().map(|consumer| consumer.active_ms).eq(active), "{group:?}");
        // All of it is written for readers that know it.
        let mut encoder = Encoder::styled(
            Vec::new(),
            Style { compresses: false, version: VERSION_OF_7_2, keeps_all: true },
        );
        encoder.stream(&stream).expect("memory takes it");
        let (written, value_type) =
            (encoder.finish().expect("memory takes it"), encoder_type(VERSION_OF_7_2, &stream));
        let Ok(Model::Stream(StreamModel(again))) = read(&written[..], value_type) else {
            panic!("{written:?}")
        };
        let consumers = again.groups[&b"g"[..]].consumers();
        assert!(consumers.map(|consumer| consumer.active_ms).eq(active), "{again:?}");
        assert_eq!(StreamModel(again), StreamModel(stream));
    }
}

#[test]
fn streams_that_contradict_themselves_are_refused() {
    let whole = encoded_stream(ValueType::Stream2);
    let after_node = 1 + NODE.len();
    let place = |part: &[u8]| whole.windows(part.len()).position(|window| window == part).unwrap();
    let group = place(GROUP[0]);
    let pending = place(GROUP[2]) + 1;
    let owned = place(GROUP[3]);
    for (at, byte, expected, offset) in [
        (1, 15, "a node of a stream is damaged", 1),
        (26, 3, "a node of a stream is damaged", 18),
        (28, 2, "a node of a stream is damaged", 18),
        (47, 1, "a node of a stream is damaged", 18),
        (after_node - 1, 0, "a listpack is damaged", 18),
        (after_node - 3, 7, "a node of a stream is damaged", 18),
        (after_node - 16, 0, "the ids of a stream do not ascend", 18),
        (after_node, 3, "the number of entries of a stream is wrong", after_node),
        (after_node + 1, 1, "the counters of a stream contradict its entries", after_node),
        (group - 2, 1, "the counters of a stream contradict its entries", after_node),
        (pending + 32, 0, "the ids of pending entries do not ascend", pending + 25),
        (pending + 62, 0x80, "a time is before 1970", pending + 55),
        (owned + 16, 2, "an entry is pending for a consumer but not for its group", owned + 1),
        (owned, 0, "", 0),
    ] {
        let mut changed = whole.clone();
        changed[at] = byte;
        let error = read(&changed[..], ValueType::Stream2).expect_err(expected);
        assert!(error.contains(expected), "{at} {byte}: {error}");
        assert!(offset == 0 || error.ends_with(&format!("at offset {offset}")), "{at} {byte}: {error}");
    }
    // The last consumer has nothing, or the name of the first one.
    let without = [&whole[..whole.len() - 17], &[0]].concat();
    let error = read(&without[..], ValueType::Stream2).expect_err("pending for nobody");
    assert!(error.contains("a pending entry has no consumer"), "{error}");
    let twice = [&whole[..owned + 18], b"one", &whole[owned + 21..]].concat();
    let error = read(&twice[..], ValueType::Stream2).expect_err("one twice");
    assert!(error.contains("an element occurs twice"), "{error}");
}

/// A released entry that is not pending, or that its consumer still has; producers that contradict the stream.
#[test]
fn newer_parts_of_streams_that_contradict_the_rest_are_refused() {
    let whole = encoded_stream(ValueType::Stream5);
    let count = whole.len() - PRODUCERS.len() - 1;
    for id in [b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02", b"\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0"] {
        let mut released = whole.clone();
        released.splice(count..=count, [&[1][..], id].concat());
        let error = read(&released[..], ValueType::Stream5).expect_err("it was not released");
        assert!(error.contains("a released entry is not pending, or has a consumer"), "{error}");
    }
    let with = |producers: &[u8]| {
        let bytes = [&whole[..whole.len() - PRODUCERS.len()], producers].concat();
        check_value(&[&[ValueType::Stream5 as u8], &bytes[..]].concat());
        read(&bytes[..], ValueType::Stream5).map(|model| match model {
            Model::Stream(StreamModel(stream)) => stream,
            other => panic!("{other:?}"),
        })
    };
    let producers = with(PRODUCERS).expect("it is right").producers.expect("there is one");
    assert_eq!((producers.limits().duration_s, producers.limits().records_max), (100, 10));
    assert_eq!((producers.added, producers.duplicates, producers.record_count()), (2, 1, 2));
    assert!(producers.records(b"me").map(|(message, id)| (message, id.ms)).eq([(&b"x"[..], 1), (b"y", 2)]));
    // What Redis writes for a stream without producers.
    assert!(with(b"\x40\x64\x40\x64\0\0\0").expect("it is right").producers.is_none());
    for (producers, expected) in [
        (&b"\0\x0a\0\0\0"[..], "the limits of a stream's producers are out of range"),
        (b"\x80\0\x01\x51\x81\x0a\0\0\0", "the limits of a stream's producers are out of range"),
        (b"\x01\0\0\0\0", "the limits of a stream's producers are out of range"),
        (b"\x01\x67\x11\0\0\0", "the limits of a stream's producers are out of range"),
        (b"\x01\x01\x01\0\0\0\0", "a producer of a stream has no name, or too many messages"),
        (b"\x01\x01\x01\x01p\x67\x11", "a producer of a stream has no name, or too many messages"),
        (b"\x01\x01\x01\x01p\x01\0\x01\x01\0\0", "a producer's message contradicts the stream"),
        (b"\x01\x01\x01\x01p\x01\x01m\x03\x01\0\0", "a producer's message contradicts the stream"),
        (b"\x01\x01\x01\x01p\x02\x01m\x02\0\x01n\x01\0\0\0", "a producer's message contradicts the stream"),
        (b"\x01\x01\x01\x01p", "unexpected end"),
    ] {
        let error = with(producers).map(|_| ()).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

/// For readers that do not know them, a consumer without a name has the entries that were released.
#[test]
fn older_readers_find_released_entries() {
    for has_nameless in [false, true] {
        let mut stream = Stream::new();
        let mut group = Group::new(StreamId::MIN, None);
        let id = |ms| StreamId { ms, seq: 0 };
        if has_nameless {
            let (consumer, _) = group.find_or_create(b"", 5);
            let consumer = Some(consumer);
            group.assign(id(1), Pending { consumer, delivered_ms: 5, delivery_count: 1 });
        }
        group.assign(id(3), Pending::released(7));
        group.assign(id(2), Pending::released(8));
        stream.groups.insert(b"g"[..].into(), group);
        stream.producers = Some(Box::new(Producers::new(ProducerLimits::default())));
        for version in [VERSION_OF_7_2, VERSION_OF_7_2 - 1] {
            let style = Style { compresses: false, version, keeps_all: false };
            let mut encoder = Encoder::styled(Vec::new(), style);
            encoder.stream(&stream).expect("memory takes it");
            let written = encoder.finish().expect("memory takes it");
            let Ok(Model::Stream(StreamModel(again))) = read(&written[..], style.stream_type_of(&stream))
            else {
                panic!("{written:?}")
            };
            let group = &again.groups[&b"g"[..]];
            let pending = group.pending_range(StreamId::MIN..=StreamId::MAX);
            let pending: Vec<_> = pending
                .map(|(id, pending)| (id.ms, pending.consumer.is_some(), pending.delivered_ms))
                .collect();
            let own = [(1, true, 5)];
            let expected = own.iter().filter(|_| has_nameless).chain(&[(2, true, 0), (3, true, 0)]);
            assert!(pending.iter().eq(expected), "{pending:?}");
            assert_eq!((group.consumers().len(), again.producers.is_none()), (1, true));
        }
    }
}

/// Where many entries share long fields, they do so in memory, too.
#[test]
fn shared_fields_stay_shared() {
    let mut stream = Stream::new();
    let limits = StreamLimits { node_bytes_max: 0, node_entries_max: 0 };
    let field = vec![b'f'; 100_000];
    for seq in 1..=1000 {
        stream.log.append(StreamId { ms: 1, seq }, &[&field, b"v"], &limits).expect("it ascends");
    }
    // The first entry of the node is gone.
    stream.log.delete(StreamId { ms: 1, seq: 1 });
    let (value_type, encoded) = Model::Stream(StreamModel(stream)).encode(false, false);
    assert!(encoded.len() < 130_000, "{}", encoded.len());
    let Ok(Model::Stream(StreamModel(read_again))) = read(&encoded[..], value_type) else { panic!() };
    assert_eq!((read_again.log.len(), read_again.log.node_count()), (999, 1));
    assert!(read_again.memory_bytes() < 2 * encoded.len());
}

#[test]
fn payloads_are_sealed() {
    let mut payload = b"\0\x01a".to_vec();
    seal_payload(&mut payload);
    assert_eq!(open_payload(&payload), Some(&b"\0\x01a"[..]));
    for at in 0..payload.len() {
        let mut changed = payload.clone();
        changed[at] ^= 1;
        assert_eq!(open_payload(&changed), None);
        assert_eq!(open_payload(&payload[..at]), None);
    }
}

#[test]
fn libraries_are_read_up_to_what_is_none() {
    let whole = b"\xf5\x04code\xf5\x05other\xf5\xc3\x05\x0a\x00a\xe0\x00\x00";
    let codes = [&b"code"[..], b"other", b"aaaaaaaaaa"].map(<[u8]>::to_vec);
    assert_eq!(check_libraries(whole), (codes.to_vec(), None));
    assert_eq!(check_libraries(b""), (Vec::new(), None));
    for (input, count, why) in [
        (&b"\xf5\x04code\xf6\x04code"[..], 1, NoLibrary::PreRelease),
        (b"\xf5\x04code\x00\x04code", 1, NoLibrary::Other),
        (b"\xff", 0, NoLibrary::Other),
        (b"\xf5", 0, NoLibrary::Broken),
        (b"\xf5\x05code", 0, NoLibrary::Broken),
        (b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xffcode", 0, NoLibrary::Broken),
    ] {
        assert_eq!(check_libraries(input), (codes[..count].to_vec(), Some(why)), "{input:?}");
    }
    // Damaged libraries must not crash the reader; the result does not matter.
    for at in 0..whole.len() {
        check_libraries(&whole[..at]);
        for change in 0..=u8::MAX {
            let mut changed = whole.to_vec();
            changed[at] ^= change;
            check_libraries(&changed);
        }
    }
}
