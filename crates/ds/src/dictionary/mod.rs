//! What the members of a collection have in common, so that each needs to hold no more than what is its own.
//!
//! A [`Dictionary`] is some of the members themselves, put one behind the other. A member is *packed* as a row of operations that
//! copy from there and give what is not there. Jobs of a queue follow templates: a packed job is a walk along an older one of the same
//! class that departs from it wherever an id, a time or an argument stands.
//!
//! ```text
//! operation               bytes that follow        gives
//! 0x00..=0x3f  raw        as many as it gives      1 to 64 bytes
//! 0x40..=0x6f  hex        half as many             1 to 48 of 0-9 a-f
//! 0x70..=0x8f  numeric    half as many             1 to 32 of 0-9 . - : , T Z
//! 0x90         uuid       16                       36 of 0-9 a-f, with hyphens
//! 0xa0..=0xbf  go on      –, or 1                  what lies where the last copy would be by now, had it gone on
//! 0xc0..=0xdf  near       1 and –, or 1            what lies up to 128 bytes from there
//! 0xe0..=0xff  far        2 and –, or 1            what lies anywhere
//! ```
//!
//! The lowest five bits of a copy are its length, less [`COPY_MIN`]; if all are set, another byte is added to them. An odd number of digits leaves
//! the last half of a byte zero. What is packed is packed always alike, and comes back as it was.
//!
//! A dictionary only grows: what was packed with less of it is read with more. It has a limit, [`TEXT_BYTES_MAX`], and so has the work of
//! learning, [`SAMPLES`] times [`SAMPLE_BYTES_MAX`].
//!
//! Not here: which collections have one, and when it learns (`zset/`).

mod learn;
mod pack;
mod unpack;

pub use learn::{Learner, SAMPLE_BYTES_MAX, SAMPLES};
pub use unpack::unpacked_len;

use crate::mover::{Mover, move_slice, move_vec};

/// Bytes of a dictionary at most.
pub const TEXT_BYTES_MAX: usize = 8192;

/// The shortest copy.
const COPY_MIN: usize = 3;
/// The length of a copy with another byte of it, when that byte is zero.
const COPY_LONG: usize = COPY_MIN + 31;
/// The longest copy.
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
/// Where the hyphens of a UUID stand.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];
const GO_ON: u8 = 0xa0;
const NEAR: u8 = 0xc0;
const FAR: u8 = 0xe0;

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const NUMERIC_DIGITS: &[u8; 16] = b"0123456789.-:,TZ";

/// Places of the index, each of a run of four bytes in the text.
const PLACES: usize = 4096;

/// See the head of this file.
#[derive(Clone)]
pub struct Dictionary {
    text: Vec<u8>,
    /// Where a run of four bytes began last, plus one, by its hash.
    places: Box<[u16]>,
}

// A place in the text, plus one, is a number of 16 bits.
const _: () = assert!(TEXT_BYTES_MAX < u16::MAX as usize);

impl Default for Dictionary {
    fn default() -> Self {
        Self::new()
    }
}

impl Dictionary {
    /// One that knows nothing.
    pub fn new() -> Self {
        Self { text: Vec::new(), places: vec![0; PLACES].into_boxed_slice() }
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes it has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + size_of_val(&*self.places)
    }

    /// Whether there is room for another sample.
    pub fn has_room(&self) -> bool {
        self.text.len() + SAMPLE_BYTES_MAX <= TEXT_BYTES_MAX
    }

    /// Moves its memory.
    pub fn relocate(&mut self, mover: &mut dyn Mover) {
        move_vec(&mut self.text, mover);
        move_slice(&mut self.places, mover);
    }

    /// Adds a text, as far as there is room for it.
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

/// The first four bytes.
#[inline]
fn first_run(text: &[u8]) -> Option<u32> {
    text.first_chunk().copied().map(u32::from_le_bytes)
}

/// The place of a run in the index.
#[inline]
fn place_of(run: u32) -> usize {
    (run.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PLACES.ilog2())) as usize
}
