//! Unpacking into a buffer. Short pieces are copied as full chunks where there is room, which is faster.

use super::{
    COPY_LONG, COPY_MIN, Dictionary, FAR, GO_ON, HEX, HEX_DIGITS, NEAR, NUMERIC, NUMERIC_DIGITS, RAW, UUID,
    UUID_BYTES, UUID_HYPHENS, UUID_LEN,
};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 32;

/// The text of each byte that encodes two digits.
type Pairs = [[u8; 2]; 256];

static HEX_PAIRS: Pairs = pairs(HEX_DIGITS);
static NUMERIC_PAIRS: Pairs = pairs(NUMERIC_DIGITS);

const fn pairs(digits: &[u8; 16]) -> Pairs {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
}

impl Dictionary {
    /// The plain bytes of a value that was packed with this dictionary. Panics if the bytes are damaged.
    pub fn unpacked(&self, packed: &[u8]) -> Vec<u8> {
        let mut plain = vec![0; unpacked_len(packed)];
        let len = self.unpack(packed, &mut plain);
        assert_eq!(len, Some(plain.len()), "what was packed comes back");
        plain
    }

    /// Unpacks `packed` into the beginning of `out` and returns the length. Returns `None` if there is not enough room,
    /// or if `packed` does not come from [`pack`](Self::pack) with this dictionary. The contents of `out` beyond the
    /// length are undefined.
    pub fn unpack(&self, packed: &[u8], out: &mut [u8]) -> Option<usize> {
        let (mut at, mut rest) = (0, packed);
        let mut shift = 0_usize;
        while let Some((&operation, after)) = rest.split_first() {
            rest = after;
            at += match operation {
                RAW..HEX => {
                    let len = usize::from(operation - RAW) + 1;
                    copy(rest, len, out, at)?;
                    rest = &rest[len..];
                    len
                }
                HEX..NUMERIC => digits(&HEX_PAIRS, operation - HEX, &mut rest, out, at)?,
                NUMERIC..UUID => digits(&NUMERIC_PAIRS, operation - NUMERIC, &mut rest, out, at)?,
                UUID => uuid(split(&mut rest)?, out, at)?,
                GO_ON.. => {
                    let expected = at.wrapping_add(shift);
                    let from = match operation {
                        FAR.. => usize::from(u16::from_le_bytes(*split(&mut rest)?)),
                        NEAR.. => {
                            let [distance] = *split(&mut rest)?;
                            expected.wrapping_add_signed(isize::from(distance.cast_signed()))
                        }
                        _ => expected,
                    };
                    let mut len = usize::from(operation & 31) + COPY_MIN;
                    if len == COPY_LONG {
                        let [more] = *split(&mut rest)?;
                        len += usize::from(more);
                    }
                    copy(self.text.get(from..)?, len, out, at)?;
                    shift = from.wrapping_sub(at);
                    len
                }
                _ => return None,
            };
        }
        Some(at)
    }
}

/// Length of the text that was packed.
pub fn unpacked_len(packed: &[u8]) -> usize {
    let (mut len, mut at) = (0, 0);
    while let Some(&operation) = packed.get(at) {
        let given = usize::from(operation) + 1;
        let (gives, takes) = match operation {
            RAW..HEX => (given, given),
            HEX..NUMERIC => (given - usize::from(HEX), (given - usize::from(HEX)).div_ceil(2)),
            NUMERIC..UUID => (given - usize::from(NUMERIC), (given - usize::from(NUMERIC)).div_ceil(2)),
            UUID => (UUID_LEN, UUID_BYTES),
            _ => {
                let address = match operation {
                    FAR.. => 2,
                    NEAR.. => 1,
                    _ => 0,
                };
                match usize::from(operation & 31) + COPY_MIN {
                    COPY_LONG => {
                        let more = packed.get(at + 1 + address).copied().unwrap_or_default();
                        (COPY_LONG + usize::from(more), address + 1)
                    }
                    short => (short, address),
                }
            }
        };
        len += gives;
        at += 1 + takes;
    }
    len
}

/// Splits off the next `LEN` bytes.
#[inline]
fn split<'a, const LEN: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; LEN]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(bytes)
}

/// Copies the first `len` bytes of `from` to offset `at` of `out`; may overwrite bytes after them.
#[inline]
fn copy(from: &[u8], len: usize, out: &mut [u8], at: usize) -> Option<()> {
    let to = out.get_mut(at..)?;
    if len <= CHUNK_BYTES
        && let (Some(to), Some(from)) = (to.first_chunk_mut::<CHUNK_BYTES>(), from.first_chunk())
    {
        *to = *from;
    } else {
        to.get_mut(..len)?.copy_from_slice(from.get(..len)?);
    }
    Some(())
}

#[inline]
fn digits(pairs: &Pairs, less_one: u8, rest: &mut &[u8], out: &mut [u8], at: usize) -> Option<usize> {
    let len = usize::from(less_one) + 1;
    let (bytes, after) = rest.split_at_checked(len.div_ceil(2))?;
    *rest = after;
    let (whole, odd) = out.get_mut(at..)?.get_mut(..len)?.as_chunks_mut();
    for (pair, byte) in whole.iter_mut().zip(bytes) {
        *pair = pairs[usize::from(*byte)];
    }
    if let ([digit], [.., byte]) = (odd, bytes) {
        *digit = pairs[usize::from(*byte)][0];
    }
    Some(len)
}

fn uuid(bytes: &[u8; UUID_BYTES], out: &mut [u8], at: usize) -> Option<usize> {
    let out: &mut [u8; UUID_LEN] = out.get_mut(at..)?.first_chunk_mut()?;
    let mut place = 0;
    for byte in bytes {
        if UUID_HYPHENS.contains(&place) {
            out[place] = b'-';
            place += 1;
        }
        out[place..place + 2].copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
        place += 2;
    }
    Some(UUID_LEN)
}
