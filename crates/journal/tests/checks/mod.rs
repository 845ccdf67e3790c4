//! What holds for any bytes given to the readers; shared with the fuzz targets.

use std::collections::BTreeMap;
use std::path::Path;

use effectlog::{Lsn, StreamPosition};
use journal::{
    BLOCK_BYTES, Base, Folder, Frame, FramePlace, Manifest, Scan, SegmentStart, Verdict, padded_bytes,
};
use proactor::{Open, SimDisk};

const SEGMENT_BYTES: usize = 8 * BLOCK_BYTES;

fn manifest() -> Manifest {
    Manifest {
        id: 7,
        incarnation: 2,
        stream: None,
        databases: 16,
        former: vec![],
        base: Base { slice: Lsn::new(4), position: StreamPosition::new(100), file: None },
        segments: vec![SegmentStart {
            number: 1,
            incarnation: 2,
            place: FramePlace {
                slice: Lsn::new(5),
                position: StreamPosition::new(100),
                checksum: 0,
                is_within_slice: false,
            },
        }],
        spares: vec![2, 3],
        lengths: BTreeMap::new(),
    }
}

/// Takes bytes off the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

/// Three segments of frames that the input describes, most of them good ones, and bytes that it lays over them.
fn segments(mut input: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 3 * SEGMENT_BYTES];
    let (mut at, mut frame) = (
        0,
        Frame {
            journal_id: 7,
            incarnation: 2,
            is_first: true,
            is_last: true,
            db: Some(0),
            slice: Lsn::new(5),
            position: StreamPosition::new(100),
            durable_slice: Lsn::new(4),
            unix_ms: 1,
            stream_tag: 0,
            before: 0,
        },
    );
    while let Some([what, value, length, spare]) = take(&mut input) {
        let near = |number: u64| number.wrapping_add(u64::from(value)).wrapping_sub(1);
        match what % 16 {
            // A raw piece of input over what is there.
            0 => {
                let piece = input.split_off(..input.len().min(usize::from(length))).unwrap_or_default();
                let to = (usize::from(value) * 97 + usize::from(spare) * 512) % (bytes.len() - 256);
                bytes[to..][..piece.len()].copy_from_slice(piece);
            }
            1 => frame.journal_id ^= u64::from(value & 1),
            2 => frame.incarnation = frame.incarnation.wrapping_add(u32::from(value)).wrapping_sub(1),
            3 => frame.slice = Lsn::new(near(frame.slice.get()) % (1 << 62)),
            4 => frame.position = StreamPosition::new(near(frame.position.get()) % (1 << 62)),
            5 => frame.before ^= u64::from(value),
            6 => frame.durable_slice = Lsn::new(near(frame.slice.get()).wrapping_sub(4)),
            7 => at = (at + usize::from(value) * BLOCK_BYTES) % bytes.len(),
            _ => {
                frame.is_last = value & 3 != 0;
                let payload = vec![value; usize::from(length) * usize::from(spare) % 10_000];
                if at % SEGMENT_BYTES + padded_bytes(payload.len()) > SEGMENT_BYTES {
                    at = at.next_multiple_of(SEGMENT_BYTES) % bytes.len();
                }
                let encoded = frame.to_bytes(&payload);
                bytes[at..][..encoded.len()].copy_from_slice(&encoded);
                frame.before = u64::from_le_bytes(encoded[80..88].try_into().expect("eight bytes"));
                frame.position = frame.position.plus(payload.len());
                frame.slice = if frame.is_last { frame.slice.next() } else { frame.slice };
                frame.is_first = frame.is_last;
                at = (at + encoded.len()) % bytes.len();
            }
        }
    }
    bytes
}

/// Whatever the segments hold: a scan tells slices without a gap, and its end is where they end.
pub(crate) fn check_frames(input: &[u8]) {
    let described = segments(input);
    let mut plain = input.to_vec();
    plain.truncate(3 * SEGMENT_BYTES);
    for bytes in [described, plain] {
        let disk = SimDisk::new(1).disk();
        let folder = Folder::new(disk.clone(), Path::new("journal"));
        for (number, segment) in (1..=3).zip(bytes.chunks(SEGMENT_BYTES).chain([&[][..]; 3])) {
            let file = disk.open(&folder.segment(7, number), Open::Empty).expect("nothing fails");
            file.write_all_at(0, segment).expect("nothing fails");
        }
        let manifest = manifest();
        let (mut number, mut position, mut payload_bytes) = (Lsn::new(5), StreamPosition::new(100), 0);
        let mut scan = Scan::behind_base(&folder, &manifest).expect("nothing fails");
        while let Some(scanned) = scan.next_slice().expect("nothing fails") {
            assert_eq!((scanned.slice.number, scanned.slice.position), (number, position));
            (number, position) = (number.next(), scanned.slice.end());
            payload_bytes += scanned.slice.payload.len();
        }
        assert!(payload_bytes <= bytes.len());
        let end = scan.end().expect("nothing fails");
        assert_eq!(
            (end.place.slice, end.place.position, end.place.is_within_slice),
            (number, position, false)
        );
        assert_eq!(end.damage().is_some(), matches!(end.verdict, Verdict::Damaged { .. }));
        assert!(!end.to_string().contains('\n'));
        assert!(end.segments.first() == manifest.segments.first() && end.segments.len() <= 3);
    }
}

/// A text is a manifest if it is as one is written, and a manifest makes sense.
pub(crate) fn check_manifest(input: &[u8]) {
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, input);
    let completed = [input, format!("crc64 {checksum:016x}\n").as_bytes()].concat();
    for text in [input, &completed] {
        let manifest = match Manifest::decode(text) {
            Ok(manifest) => manifest,
            Err((offset, why)) => {
                assert!(offset <= text.len() && !why.what().contains('\n'));
                continue;
            }
        };
        assert_eq!(manifest.encode().as_bytes(), text);
        let first = &manifest.segments[manifest.segment_behind_base()];
        assert!(first.place.is_before_slice(manifest.base.slice.next()));
        // None of its segments is there.
        let folder = Folder::new(SimDisk::new(1).disk(), Path::new("journal"));
        for scan in [Scan::behind_base(&folder, &manifest), Scan::everything(&folder, &manifest)] {
            let mut scan = scan.expect("nothing fails");
            assert!(scan.next_slice().expect("nothing fails").is_none());
            assert!(scan.end().expect("nothing fails").damage().is_some());
        }
    }
}

/// A manifest's text, for whoever changes it.
pub(crate) fn sample_manifest() -> String {
    manifest().encode()
}
