//! A frame: a slice, or a part of one, as it is stored in a segment.
//!
//! ```text
//!    0  magic 8            "DARTERJ1"
//!    8  journal id 8       which journal: each has a random one
//!   16  incarnation 4             which life of it: counts the starts of the server
//!   20  flags 2            1: the first frame of its slice; 2: the last one
//!   22  db 2               the database selected before the slice; 0xffff: none
//!   24  slice 8            number of the slice
//!   32  position 8         where in the stream the payload begins
//!   40  payload length 4   at most 1 MiB
//!   44  stream tag 4       the first eight digits of the id by which replicas know the stream; 0: it has none
//!   48  durable slice 8    the last slice that was known to be durable when this frame was made
//!   56  unix ms 8          when it was made
//!   64  before 8           checksum of the head of the frame before
//!   72  CRC-64 of the payload 8
//!   80  CRC-64 of the 80 bytes above 8
//!   88  the payload, and zeros up to a multiple of 4 KiB
//! ```
//!
//! Numbers are little-endian. The head's checksum covers the checksums of the payload and of the frame before, so a
//! frame counts only after exactly the frames after which it was written. Frames begin at multiples of 4 KiB, so a
//! sector with a durable frame is never written again.
//!
//! Not here: the places of frames (`segment.rs`), and which of them count (`scan.rs`).

use effectlog::{Lsn, StreamPosition};
use proactor::DIRECT_BYTES;

use crate::buffer::Buffer;
use crate::checksum::crc64;

/// Frames begin at multiples of this, and are padded to one.
pub const BLOCK_BYTES: usize = DIRECT_BYTES;
/// The length of a frame before its payload.
pub const HEAD_BYTES: usize = 88;
/// The longest payload. A longer slice has several frames.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"DARTERJ1";
const FIRST: u16 = 1;
const LAST: u16 = 2;
const NO_DB: u16 = u16::MAX;
const CHECKED_BYTES: usize = HEAD_BYTES - 8;

/// The head of a frame, without the numbers that are computed from the payload. The head of this file shows its layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The journal that it belongs to.
    pub journal_id: u64,
    /// The incarnation of that journal.
    pub incarnation: u32,
    /// Whether its slice begins with it.
    pub is_first: bool,
    /// Whether its slice ends with it.
    pub is_last: bool,
    /// The database selected before the slice; below 65,535.
    pub db: Option<u32>,
    /// The number of its slice.
    pub slice: Lsn,
    /// The position of its payload in the stream, in bytes.
    pub position: StreamPosition,
    /// The last slice that was known to be durable when the frame was built.
    pub durable_slice: Lsn,
    /// The time at which it was built, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The tag of the stream's id, see `manifest.rs`.
    pub stream_tag: u32,
    /// The checksum of the head of the frame before.
    pub before: u64,
}

/// The head of a frame that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its fields.
    pub frame: Frame,
    /// The length of its payload.
    pub payload_bytes: usize,
    /// Checksum of its payload.
    pub payload_checksum: u64,
    /// Its own checksum, which the next frame contains as `before`.
    pub checksum: u64,
}

/// The reason why some bytes are not the head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoFrame {
    /// They do not begin with the magic number.
    Magic,
    /// Their checksum is wrong.
    Checksum,
    /// The checksum is correct, but a field has an impossible value.
    Field(&'static str),
}

/// The length of a frame in a segment.
pub fn padded_bytes(payload_bytes: usize) -> usize {
    (HEAD_BYTES + payload_bytes).next_multiple_of(BLOCK_BYTES)
}

impl Frame {
    /// Appends the frame with this payload, padded, to `buffer`. Returns the checksum of its head.
    pub(crate) fn encode(&self, payload: &[u8], buffer: &mut Buffer) -> u64 {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a longer slice has several frames");
        let mut head = [0; HEAD_BYTES];
        let checksum = self.write_head(payload, &mut head);
        buffer.extend(&head);
        buffer.extend(payload);
        buffer.pad(BLOCK_BYTES);
        checksum
    }

    /// The frame with this payload, padded, for tests that build files.
    pub fn to_bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut buffer = Buffer::default();
        self.encode(payload, &mut buffer);
        buffer.bytes().to_vec()
    }

    fn write_head(&self, payload: &[u8], head: &mut [u8; HEAD_BYTES]) -> u64 {
        let db = self.db.map_or(NO_DB, |db| u16::try_from(db).expect("fewer than 65,535 databases"));
        let flags = if self.is_first { FIRST } else { 0 } | if self.is_last { LAST } else { 0 };
        let mut rest = &mut head[..];
        let mut put = |bytes: &[u8]| {
            rest.split_off_mut(..bytes.len()).expect("the head has room").copy_from_slice(bytes);
        };
        put(MAGIC);
        put(&self.journal_id.to_le_bytes());
        put(&self.incarnation.to_le_bytes());
        put(&flags.to_le_bytes());
        put(&db.to_le_bytes());
        put(&self.slice.get().to_le_bytes());
        put(&self.position.get().to_le_bytes());
        put(&(payload.len() as u32).to_le_bytes());
        put(&self.stream_tag.to_le_bytes());
        put(&self.durable_slice.get().to_le_bytes());
        put(&self.unix_ms.to_le_bytes());
        put(&self.before.to_le_bytes());
        put(&crc64(payload).to_le_bytes());
        let checksum = crc64(&head[..CHECKED_BYTES]);
        head[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }
}

impl Head {
    /// Decodes the head at the beginning of `bytes`. Its payload is not checked.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, NoFrame> {
        let mut rest = &bytes[..];
        if take(&mut rest) != *MAGIC {
            return Err(NoFrame::Magic);
        }
        let checksum = u64::from_le_bytes(take(&mut &bytes[CHECKED_BYTES..]));
        if checksum != crc64(&bytes[..CHECKED_BYTES]) {
            return Err(NoFrame::Checksum);
        }
        let journal_id = u64::from_le_bytes(take(&mut rest));
        let incarnation = u32::from_le_bytes(take(&mut rest));
        let flags = u16::from_le_bytes(take(&mut rest));
        let db = u16::from_le_bytes(take(&mut rest));
        let slice = Lsn::new(u64::from_le_bytes(take(&mut rest)));
        let position = StreamPosition::new(u64::from_le_bytes(take(&mut rest)));
        let payload_bytes = u32::from_le_bytes(take(&mut rest)) as usize;
        let stream_tag = u32::from_le_bytes(take(&mut rest));
        if flags & !(FIRST | LAST) != 0 {
            return Err(NoFrame::Field("it has unknown flags"));
        }
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(NoFrame::Field("its payload is too long"));
        }
        if position.get().checked_add(payload_bytes as u64).is_none() || slice == Lsn::MAX {
            return Err(NoFrame::Field("its numbers are too large"));
        }
        let frame = Frame {
            journal_id,
            incarnation,
            is_first: flags & FIRST != 0,
            is_last: flags & LAST != 0,
            db: (db != NO_DB).then_some(u32::from(db)),
            slice,
            position,
            stream_tag,
            durable_slice: Lsn::new(u64::from_le_bytes(take(&mut rest))),
            unix_ms: u64::from_le_bytes(take(&mut rest)),
            before: u64::from_le_bytes(take(&mut rest)),
        };
        let payload_checksum = u64::from_le_bytes(take(&mut rest));
        Ok(Head { frame, payload_bytes, payload_checksum, checksum })
    }

    /// Whether `payload` has the frame's length and checksum.
    pub fn fits(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_bytes && crc64(payload) == self.payload_checksum
    }
}

/// Takes bytes from the front.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (bytes, after) = rest.split_first_chunk().expect("a head is complete");
    *rest = after;
    *bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            journal_id: 0x1122_3344_5566_7788,
            incarnation: 3,
            is_first: true,
            is_last: false,
            db: Some(16_383),
            slice: Lsn::new(9),
            position: StreamPosition::new(1_000),
            durable_slice: Lsn::new(7),
            unix_ms: 1_704_067_200_000,
            stream_tag: 0x7691_2acb,
            before: 0xdead_beef_0000_0001,
        }
    }

    fn head(bytes: &[u8]) -> Result<Head, NoFrame> {
        Head::decode(bytes[..HEAD_BYTES].try_into().unwrap())
    }

    #[test]
    fn a_frame_is_read_back() {
        for (payload_bytes, padded) in [(0, 1), (1, 1), (4_008, 1), (4_009, 2), (PAYLOAD_BYTES_MAX, 257)] {
            let payload: Vec<u8> = (0..payload_bytes).map(|number| number as u8).collect();
            for changed in [frame(), Frame { is_last: true, is_first: false, db: None, ..frame() }] {
                let bytes = changed.to_bytes(&payload);
                assert_eq!(bytes.len(), padded * BLOCK_BYTES);
                assert_eq!(padded_bytes(payload_bytes), bytes.len());
                let head = head(&bytes).unwrap();
                assert_eq!((head.frame, head.payload_bytes), (changed, payload_bytes));
                assert_eq!(head.checksum, crc64(&bytes[..CHECKED_BYTES]));
                assert!(head.fits(&bytes[HEAD_BYTES..][..payload_bytes]));
                assert!(bytes[HEAD_BYTES + payload_bytes..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn no_bit_of_a_head_may_change() {
        let bytes = frame().to_bytes(b"payload");
        for bit in 0..HEAD_BYTES * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { NoFrame::Magic } else { NoFrame::Checksum };
            assert_eq!(head(&changed), Err(expected), "bit {bit}");
        }
        assert_eq!(head(&[0; HEAD_BYTES]), Err(NoFrame::Magic));
        let head = head(&bytes).unwrap();
        assert!(head.fits(b"payload"));
        assert!(!head.fits(b"paxload") && !head.fits(b"payloa"));
    }

    #[test]
    fn a_head_that_nobody_writes_is_none() {
        let check = |at: usize, field: &[u8], what| {
            let mut bytes = frame().to_bytes(b"payload");
            bytes[at..][..field.len()].copy_from_slice(field);
            let checksum = crc64(&bytes[..CHECKED_BYTES]);
            bytes[CHECKED_BYTES..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(head(&bytes), Err(NoFrame::Field(what)));
        };
        check(20, &[4], "it has unknown flags");
        check(40, &(PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes(), "its payload is too long");
        check(32, &[0xff; 8], "its numbers are too large");
        check(24, &[0xff; 8], "its numbers are too large");
    }
}
