//! What the instructions of a compiled script say of it, read from Lua 5.1's dump (`ldump.c`).
//!
//! ```text
//! header (12) | function
//! function:  source | two line numbers (4, 4) | upvalues, parameters, is vararg, stack (1 each)
//!            instructions: count (4), 4 each | constants: count (4), each a kind (1) and a value
//!            functions within: count (4), each a function | line numbers, names of locals, names of upvalues
//! string:    length with its final zero (8), or 0 | bytes
//! ```

const HEADER_BYTES: usize = 12;
/// Two line numbers, and four bytes of numbers.
const FUNCTION_HEAD_BYTES: usize = 12;
const OPCODE_MASK: u8 = 0x3F;
const OP_SETGLOBAL: u8 = 7;
/// Functions within functions, more deeply than Lua's parser nests them.
const DEPTH_MAX: usize = 250;

/// Whether a dumped function, or one within it, may assign a global; also true of what is not understood.
pub(super) fn may_set_globals(dump: &[u8]) -> bool {
    let mut reader = Reader { rest: dump };
    reader.take(HEADER_BYTES).and_then(|_| reader.function(0)).unwrap_or(true)
}

/// What is left of a dump. A method answers `None` where it ends too early.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.first_chunk()?;
        usize::try_from(i32::from_le_bytes(*bytes)).ok()
    }

    fn skip_string(&mut self) -> Option<()> {
        let length = u64::from_le_bytes(*self.take(8)?.first_chunk()?);
        self.take(usize::try_from(length).ok()?).map(drop)
    }

    /// Skips a function; whether it may assign a global.
    fn function(&mut self, depth: usize) -> Option<bool> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_string()?;
        self.take(FUNCTION_HEAD_BYTES)?;
        let count = self.count()?;
        let mut instructions = self.take(count.checked_mul(4)?)?.chunks_exact(4);
        let mut found = instructions.any(|instruction| instruction[0] & OPCODE_MASK == OP_SETGLOBAL);
        for _ in 0..self.count()? {
            match self.take(1)?[0] {
                // nil, a truth value, a number, a string
                0 => {}
                1 => drop(self.take(1)?),
                3 => drop(self.take(8)?),
                4 => self.skip_string()?,
                _ => return None,
            }
        }
        for _ in 0..self.count()? {
            found |= self.function(depth + 1)?;
        }
        let lines = self.count()?;
        self.take(lines.checked_mul(4)?)?;
        for _ in 0..self.count()? {
            self.skip_string()?;
            self.take(8)?;
        }
        for _ in 0..self.count()? {
            self.skip_string()?;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::context::Context;
    use crate::raw::lua::Lua;

    fn dump(source: &str) -> Vec<u8> {
        let context = Context::new(usize::MAX / 2);
        let lua = Lua::open(&context.heap).expect("there is memory");
        assert_eq!(lua.load(source.as_bytes(), c"@test"), 0, "{source}");
        let dump = lua.dump();
        lua.close();
        dump
    }

    #[test]
    fn assignments_are_found_at_any_depth() {
        for source in [
            "x = 1",
            "local f = function() x = 1 end",
            "return function() return function(...) local a = 1.5 return function() KEYS = nil end end end",
            "function f() end",
            "for i = 1, 2 do local s = 'a\\0b' if s then y = nil end end",
        ] {
            assert!(may_set_globals(&dump(source)), "{source}");
        }
    }

    #[test]
    fn what_only_reads_is_told_from_it() {
        for source in [
            "",
            "return redis.call('get', KEYS[1])",
            "local x = 1 x = 2 return function() x = y return {x, nil, true, 1.5, 'text'} end",
            "local t = {} t.x = 1 _G.x = 2",
        ] {
            assert!(!may_set_globals(&dump(source)), "{source}");
        }
    }

    #[test]
    fn what_is_cut_short_may_do_anything() {
        let whole = dump("local x = 'text' return function() return x, 1.5, y end");
        for length in 0..whole.len() {
            assert!(may_set_globals(&whole[..length]), "{length}");
        }
        assert!(may_set_globals(&[0xFF; 200]));
    }
}
