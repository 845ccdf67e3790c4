//! A dictionary of the text that the members of a collection have in common, so that each stores only its own
//! part.
//!
//! The text of a [`Dictionary`] consists of some of the members themselves, one after the other. A member is
//! *packed* as a sequence of operations that copy from the text or produce bytes that are not in it. Jobs of
//! a queue follow templates: a packed job follows an older one of the same class, and differs where there is
//! an id, a time or an argument.
//!
//! ```text
//! operation               bytes that follow        produces
//! 0x00..=0x3f  raw        as many as produced      1 to 64 bytes
//! 0x40..=0x6f  hex        half as many             1 to 48 of 0-9 a-f
//! 0x70..=0x8f  numeric    half as many             1 to 32 of 0-9 . - : , T Z
//! 0x90         uuid       16                       36 of 0-9 a-f, with hyphens
//! 0xa0..=0xbf  go on      –, or 1                  the text where the last copy would be by now, had it continued
//! 0xc0..=0xdf  near       1 and –, or 1            the text up to 128 bytes from there
//! 0xe0..=0xff  far        2 and –, or 1            the text at any offset
//! ```
//!
//! The lowest five bits of a copy are its length minus [`COPY_MIN`]; if all are set, another byte is added to them.
//! With an odd number of digits, the last half of a byte is zero. Packing is deterministic and lossless.
//!
//! A dictionary only grows: members that were packed with less text can be read with more. Its size is
//! limited by [`TEXT_BYTES_MAX`], and the work of learning by [`SAMPLES`] times [`SAMPLE_BYTES_MAX`].
//!
//! `pace.rs` decides when a collection learns, and which members it tries to pack. Not here: which
//! collections have a dictionary (`zset/`, `hash_big.rs`).

mod learn;
mod pace;
mod pack;
mod unpack;

pub(crate) use pace::{Pace, is_fit, saves_enough};

pub use learn::{Learner, SAMPLE_BYTES_MAX, SAMPLES};
pub use unpack::unpacked_len;

use crate::mover::{Mover, move_slice, move_vec};

/// Maximum size of a dictionary's text.
pub const TEXT_BYTES_MAX: usize = 8192;

/// Length of the shortest copy.
const COPY_MIN: usize = 3;
/// Length of a copy whose additional length byte is zero.
const COPY_LONG: usize = COPY_MIN + 31;
/// Length of the longest copy.
const COPY_MAX: usize = COPY_LONG + u8::MAX as usize;

const RAW: u8 = 0x00;
const RAW_MAX: usize = 64;
const HEX: u8 = 0x40;
const HEX_MAX: usize = 48;
const NUMERIC: u8 = 0x70;
const NUMERIC_MAX: usize = 32;
const UUID: u8 = 0x90;
const UUID_LEN: usize = 36;
const UUID_BYTES: usize = 16;
/// Positions of the hyphens in a UUID.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];
const GO_ON: u8 = 0xa0;
const NEAR: u8 = 0xc0;
const FAR: u8 = 0xe0;

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const NUMERIC_DIGITS: &[u8; 16] = b"0123456789.-:,TZ";

/// Entries of the index, which maps the hash of four bytes to an offset in the text.
const PLACES: usize = 4096;

/// Text that members are packed with.
#[derive(Clone)]
pub struct Dictionary {
    text: Vec<u8>,
    /// By the hash of four bytes, the last offset in the text where they occur, plus one.
    places: Box<[u16]>,
}

/// Figures of a collection whose members are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackingFigures {
    /// Number of packed members, or values of a hash.
    pub packed_count: usize,
    /// Bytes of the dictionary.
    pub dictionary_bytes: usize,
}

// An offset in the text, plus one, fits in 16 bits.
const _: () = assert!(TEXT_BYTES_MAX < u16::MAX as usize);

impl Default for Dictionary {
    fn default() -> Self {
        Self::new()
    }
}

impl Dictionary {
    /// An empty dictionary.
    pub fn new() -> Self {
        Self { text: Vec::new(), places: vec![0; PLACES].into_boxed_slice() }
    }

    /// Whether its text is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + size_of_val(&*self.places)
    }

    /// Whether there is room for another sample of maximum length.
    pub fn has_room(&self) -> bool {
        self.text.len() + SAMPLE_BYTES_MAX <= TEXT_BYTES_MAX
    }

    /// Moves its memory if the mover asks for it.
    pub fn relocate(&mut self, mover: &mut dyn Mover) {
        move_vec(&mut self.text, mover);
        move_slice(&mut self.places, mover);
    }

    /// Appends as much of `text` as there is room for.
    fn append(&mut self, text: &[u8]) {
        let start = self.text.len();
        let text = &text[..text.len().min(TEXT_BYTES_MAX - start)];
        self.text.reserve_exact(text.len());
        self.text.extend_from_slice(text);
        for at in start..(start + text.len()).saturating_sub(3) {
            if let Some(run) = first_run(&self.text[at..]) {
                self.places[place_of(run)] = at as u16 + 1;
            }
        }
    }
}

/// The first four bytes; `None` if there are fewer.
#[inline]
fn first_run(text: &[u8]) -> Option<u32> {
    text.first_chunk().copied().map(u32::from_le_bytes)
}

/// Index entry of a run of four bytes.
#[inline]
fn place_of(run: u32) -> usize {
    (run.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PLACES.ilog2())) as usize
}
