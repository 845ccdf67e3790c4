//! A log of byte strings: entries are appended at its end and dropped from its beginning, and all but the newest are compressed.
//!
//! ```text
//! oldest ──────────────────────────────────▶ newest
//! [ zstd ] [ zstd ] … [ zstd ] [ zstd ]   e e e e e
//!  blocks: up to BLOCK_BYTES of entries    open: as they are
//! ```
//!
//! An entry is its length (LEB128) and its bytes. Its *number* counts all entries that were ever appended, so a reader can
//! read a part, let others append and drop entries, and continue. Entries have ascending times, and are dropped a block at a time.
//!
//! [`BlockLog::seal`] compresses the open entries early. If the last block is short and not much older, both
//! become one block, so a log of a dozen entries that are alike is small as well.

use std::collections::VecDeque;

use crate::list::compression;

/// Entries of one block, before they are compressed. More bytes compress better, and cost a reader more at once.
const BLOCK_BYTES: usize = 8192;
/// A block covers no longer time than this, or it would keep its oldest entry for long after the others.
const BLOCK_MS: u64 = 5000;

/// The log.
#[derive(Default)]
pub struct BlockLog {
    blocks: VecDeque<Block>,
    block_bytes: usize,
    open: Vec<u8>,
    open_from: Start,
    until_ms: u64,
    end: u64,
}

/// Where a run of entries begins.
#[derive(Clone, Copy, Default)]
struct Start {
    number: u64,
    at_ms: u64,
}

struct Block {
    from: Start,
    until_ms: u64,
    /// Compressed, if that is shorter than `len`.
    bytes: Box<[u8]>,
    len: u32,
}

impl Block {
    fn entries(&self) -> Vec<u8> {
        let len = self.len as usize;
        if self.bytes.len() < len { compression::expanded(&self.bytes, len) } else { self.bytes.to_vec() }
    }
}

impl BlockLog {
    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.blocks.is_empty()
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.end - self.start()
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.block_bytes + self.blocks.capacity() * size_of::<Block>() + self.open.capacity()
    }

    /// The number of the first entry, or of the one that comes next if there are none.
    fn start(&self) -> u64 {
        let open = if self.open.is_empty() { self.end } else { self.open_from.number };
        self.blocks.front().map_or(open, |block| block.from.number)
    }

    /// Appends an entry, whose bytes are all `parts`. Times ascend.
    pub fn append(&mut self, at_ms: u64, parts: &[&[u8]]) {
        if self.open.is_empty() {
            self.open_from = Start { number: self.end, at_ms };
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        write_len(len, &mut self.open);
        parts.iter().for_each(|part| self.open.extend_from_slice(part));
        self.until_ms = self.until_ms.max(at_ms);
        self.end += 1;
        if self.open.len() >= BLOCK_BYTES {
            self.close();
            self.open.clear();
            // One large entry must not stay as a large buffer.
            self.open.shrink_to(2 * BLOCK_BYTES);
        }
    }

    /// Compresses the open entries.
    pub fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let fits = |last: &mut Block| {
            last.len as usize + self.open.len() <= BLOCK_BYTES && self.until_ms - last.from.at_ms <= BLOCK_MS
        };
        if let Some(last) = self.blocks.pop_back_if(fits) {
            self.block_bytes -= last.bytes.len();
            self.open.splice(0..0, last.entries());
            self.open_from = last.from;
        }
        self.close();
        self.open = Vec::new();
    }

    fn close(&mut self) {
        let bytes = compression::compress(&self.open, 0).unwrap_or_else(|| self.open.as_slice().into());
        self.block_bytes += bytes.len();
        let len =
            u32::try_from(self.open.len()).expect("an entry is the argument of a command, which is shorter");
        self.blocks.push_back(Block { from: self.open_from, until_ms: self.until_ms, bytes, len });
    }

    /// Drops entries before `time_ms`, in whole blocks.
    pub fn drop_before(&mut self, time_ms: u64) {
        while self.blocks.front().is_some_and(|block| block.until_ms < time_ms) {
            self.drop_oldest();
        }
        if self.blocks.is_empty() {
            // An idle log takes no memory.
            self.blocks = VecDeque::new();
            if self.until_ms < time_ms {
                self.open = Vec::new();
            }
        }
    }

    /// Drops the oldest block, and returns how many entries it had; 0 if nothing is compressed.
    pub fn drop_oldest(&mut self) -> u64 {
        let start = self.start();
        let Some(block) = self.blocks.pop_front() else { return 0 };
        self.block_bytes -= block.bytes.len();
        self.start() - start
    }

    /// Shows entries with their numbers, from entry `from` or the first that is left, in up to `blocks_max` blocks. Blocks that end
    /// before `since_ms` are passed over. Returns the number of the entry to continue with; `None` at the end.
    pub fn read(
        &self,
        from: u64,
        since_ms: u64,
        blocks_max: usize,
        mut visit: impl FnMut(u64, &[u8]),
    ) -> Option<u64> {
        let first = self.blocks.partition_point(|block| block.from.number <= from).saturating_sub(1);
        let wanted = (first..self.blocks.len()).filter(|at| self.blocks[*at].until_ms >= since_ms);
        let mut visit_all = |mut number, entries: &[u8]| {
            each(entries, |entry| {
                if number >= from {
                    visit(number, entry);
                }
                number += 1;
            });
        };
        for (count, at) in wanted.enumerate() {
            let block = &self.blocks[at];
            if count == blocks_max {
                return Some(block.from.number.max(from));
            }
            visit_all(block.from.number, &block.entries());
        }
        visit_all(self.open_from.number, &self.open);
        None
    }
}

fn write_len(mut len: usize, to: &mut Vec<u8>) {
    while len >= 0x80 {
        to.push(len as u8 | 0x80);
        len >>= 7;
    }
    to.push(len as u8);
}

fn each(mut entries: &[u8], mut visit: impl FnMut(&[u8])) {
    while !entries.is_empty() {
        let mut len = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = entries.split_first().expect("a length ends");
            entries = rest;
            len |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (entry, rest) = entries.split_at(len);
        visit(entry);
        entries = rest;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::random::Random;

    fn all(log: &BlockLog, since_ms: u64) -> Vec<(u64, Vec<u8>)> {
        let (mut from, mut all) = (Some(0), Vec::new());
        while let Some(next) = from {
            from = log.read(next, since_ms, 2, |number, entry| all.push((number, entry.to_vec())));
        }
        all
    }

    #[test]
    fn does_as_a_plain_queue_does() {
        for seed in 1..40 {
            let mut random = Random::new(seed);
            let (mut log, mut model) = (BlockLog::default(), VecDeque::new());
            let (mut number, mut now_ms) = (0, 0);
            for _ in 0..400 {
                now_ms += random.below(400);
                match random.below(20) {
                    0 => log.seal(),
                    1 => {
                        let before_ms = now_ms.saturating_sub(random.below(20_000));
                        log.drop_before(before_ms);
                        let left = log.len() as usize;
                        while model.len() > left {
                            let (_, at_ms, _): (u64, u64, Vec<u8>) =
                                model.pop_front().expect("it is not empty");
                            assert!(at_ms < before_ms, "seed {seed}");
                        }
                    }
                    2 if random.below(10) == 0 => {
                        model.drain(..log.drop_oldest() as usize);
                    }
                    _ => {
                        let len = if random.below(50) == 0 { 20_000 } else { random.below(300) };
                        let entry = vec![number as u8; len as usize];
                        let (head, tail) = entry.split_at(entry.len() / 2);
                        log.append(now_ms, &[head, tail]);
                        model.push_back((number, now_ms, entry));
                        number += 1;
                    }
                }
                assert_eq!(log.len() as usize, model.len(), "seed {seed}");
                assert_eq!(log.is_empty(), model.is_empty(), "seed {seed}");
            }
            let expected: Vec<_> = model.iter().map(|(number, _, entry)| (*number, entry.clone())).collect();
            assert_eq!(all(&log, 0), expected, "seed {seed}");
            let since_ms = now_ms / 2;
            let late = |entries: &[(u64, Vec<u8>)]| {
                let first = model
                    .iter()
                    .find(|(_, at_ms, _)| *at_ms >= since_ms)
                    .map_or(number, |(number, ..)| *number);
                entries.iter().filter(|(number, _)| *number >= first).cloned().collect::<Vec<_>>()
            };
            assert_eq!(late(&all(&log, since_ms)), late(&expected), "seed {seed}");
            log.drop_before(u64::MAX);
            assert_eq!((log.len(), log.memory_bytes()), (0, 0), "seed {seed}");
        }
    }

    #[test]
    fn a_reader_continues_where_it_was_while_others_append_seal_and_drop() {
        let mut log = BlockLog::default();
        let mut seen = Vec::new();
        let mut from = Some(0);
        for round in 0..200_u64 {
            for index in 0..7 {
                log.append(round * 100, &[format!("entry {round} {index}").repeat(9).as_bytes()]);
            }
            log.seal();
            if round % 3 == 0 {
                from = log.read(from.unwrap_or(seen.last().map_or(0, |last| last + 1)), 0, 1, |number, _| {
                    seen.push(number)
                });
            }
            if round == 100 {
                log.drop_oldest();
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seen:?}");
    }
}
