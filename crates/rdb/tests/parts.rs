//! Darter's own format: every part that is written can be read, and every change is noticed, with its place.

#[expect(dead_code, reason = "some are for another test")]
mod checks;

use std::io::Read;

use checks::{Dribble, check_manifest, check_part, part};
use proptest::prelude::*;
use rdb::{Error, FRAME_BYTES_MAX, FileReader, FrameReader, Item, Manifest, part_head, write_frames};

const ID: u64 = 0x1234_5678_9abc_def0;

/// The content of a part of `length` bytes, or the error with its place.
fn content(bytes: &[u8], length: usize) -> Result<Vec<u8>, Error> {
    let mut frames = FrameReader::new(Dribble(bytes), ID, 7, length as u64);
    let mut content = Vec::new();
    match frames.read_to_end(&mut content) {
        Ok(_) => Ok(content),
        Err(cause) => Err(frames.located(Error { offset: 0, why: cause.into() })),
    }
}

proptest! {
    #[test]
    fn frames_come_back(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 0..8)) {
        let part = part(ID, 7, &contents);
        prop_assert_eq!(content(&part, part.len()).expect("it is whole"), contents.concat());
        check_part(&part);
    }

    #[test]
    fn any_bytes_are_taken_as_a_part(mut bytes in prop::collection::vec(any::<u8>(), 0..300), has_head: bool) {
        if has_head {
            bytes = [&part_head(0, 0)[..], &bytes].concat();
        }
        check_part(&bytes);
    }

    #[test]
    fn manifests_come_back(id: u64, numbers in prop::collection::btree_map(any::<u32>(), any::<u64>(), 0..9)) {
        let manifest = Manifest { id, parts: numbers.into_iter().collect() };
        prop_assert_eq!(Manifest::decode(manifest.encode().as_bytes()).expect("it is whole"), manifest);
    }

    #[test]
    fn any_text_is_taken_as_a_manifest(text in "(id [0-9a-f]{0,17}\n|part [0-9+]{0,3} [0-9]{0,21}\n|[a-z ]{0,9}\n?){0,5}") {
        check_manifest(text.as_bytes());
    }
}

/// Each byte cut off or changed, at every place.
#[test]
fn damaged_frames_are_refused_with_their_place() {
    let contents = [b"first".to_vec(), b"x".to_vec(), vec![b'y'; 60]];
    let whole = part(ID, 7, &contents);
    let starts = [20, 37, 50];
    for at in 0..whole.len() {
        let error = content(&whole[..at], whole.len()).expect_err("something is missing");
        assert_eq!(error.to_string(), format!("unexpected end at offset {at}"));
        for change in 1..=u8::MAX {
            let mut changed = whole.clone();
            changed[at] ^= change;
            let error = content(&changed, whole.len()).expect_err("something is different").to_string();
            let start = starts.iter().rev().find(|start| **start <= at).unwrap_or(&0);
            let is_length = starts.iter().any(|start| (*start..start + 4).contains(&at));
            // A frame that says that it is longer goes beyond the end.
            let is_long = is_length && error == format!("unexpected end at offset {}", whole.len());
            assert!(error.ends_with(&format!(" at offset {start}")) || is_long, "{at} {change}: {error}");
        }
    }
    let error = content(&[&whole[..], b"z"].concat(), whole.len()).expect_err("a byte more");
    assert_eq!(error.to_string(), format!("more than the manifest says at offset {}", whole.len()));
    let error = content(&whole, 30).expect_err("two frames more");
    assert_eq!(error.to_string(), "more than the manifest says at offset 30");
    let error = content(&part(ID, 8, &contents), whole.len()).expect_err("another part");
    assert_eq!(error.to_string(), "not this part of this snapshot at offset 0");
}

#[test]
fn long_contents_get_several_frames() {
    let long: Vec<u8> = (0..FRAME_BYTES_MAX + 10).map(|number| number as u8).collect();
    let mut bytes = part_head(ID, 7).to_vec();
    let written = write_frames(&long, &mut bytes).expect("memory takes it");
    assert_eq!((written as usize, bytes.len()), (long.len() + 24, long.len() + 44));
    let mut frames = FrameReader::new(&bytes[..], ID, 7, bytes.len() as u64);
    let mut found = Vec::new();
    frames.read_to_end(&mut found).expect("it is whole");
    assert!(found == long);
}

/// Items that contradict themselves inside frames that do not.
#[test]
fn errors_of_items_have_their_place_in_the_part() {
    let contents = [b"\0\x01a\x01b".to_vec(), b"\0\x01c".to_vec(), b"\xc5".to_vec()];
    let bytes = part(ID, 7, &contents);
    let mut items = FileReader::of_part(FrameReader::new(&bytes[..], ID, 7, bytes.len() as u64), 0, false);
    let error = loop {
        let read = items.next_item().and_then(|item| match item {
            Item::Key(key) => items.skip_value(key.value_type),
            other => panic!("{other:?}"),
        });
        if let Err(error) = read {
            break error;
        }
    };
    let error = items.source_mut().located(error).to_string();
    assert_eq!(error, format!("unknown form of a string at offset {}", bytes.len() - 1));
}

#[test]
fn damaged_manifests_are_refused() {
    let whole = Manifest { id: ID, parts: vec![(0, 20), (2, 1 << 40)] }.encode();
    assert!(
        whole.starts_with("DARTER-SNAPSHOT 1\nid 123456789abcdef0\npart 0 20\npart 2 1099511627776\ncrc64 ")
    );
    for at in 0..whole.len() {
        let error = Manifest::decode(&whole.as_bytes()[..at]).expect_err("something is missing");
        assert_eq!(error.to_string(), format!("unexpected end at offset {at}"));
        for change in 1..=u8::MAX {
            let mut changed = whole.clone().into_bytes();
            changed[at] ^= change;
            Manifest::decode(&changed).expect_err("something is different");
        }
    }
    for lines in [
        "id 1\npart 0 1\n",
        "id 0000000000000001\npart 1 1\npart 1 1\n",
        "id 0000000000000001\npart 0 +1\n",
        "id 0000000000000001\nid 0000000000000001\n",
        "part 0 1\n",
        "id 0000000000000001\npart 4294967296 1\n",
        "id 0000000000000001\n\n",
    ] {
        check_manifest(lines.as_bytes());
        assert!(checks::decode_lines(lines.as_bytes()).is_err(), "{lines}");
    }
    assert!(checks::decode_lines(b"id 0000000000000001\n").is_ok());
}
