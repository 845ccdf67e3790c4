//! Finds out from the instructions of a compiled script how it uses globals. Reads Lua 5.1's dump
//! (`ldump.c`):
//!
//! ```text
//! header (12) | function
//! function:  source | two line numbers (4, 4) | upvalues, parameters, is vararg, stack (1 each)
//!            instructions: count (4), 4 each | constants: count (4), each a kind (1) and a value
//!            functions within: count (4), each a function | line numbers, names of locals, names of upvalues
//! string:    length with its final zero (8), or 0 | bytes
//! ```

const HEADER_BYTES: usize = 12;
/// Two line numbers, and four one-byte numbers.
const FUNCTION_HEAD_BYTES: usize = 12;
const OPCODE_MASK: u32 = 0x3F;
const OP_GETGLOBAL: u32 = 5;
const OP_GETTABLE: u32 = 6;
const OP_SETGLOBAL: u32 = 7;
/// Deepest nesting of functions, which is more than Lua's parser allows.
const DEPTH_MAX: usize = 250;

/// How the functions of a script use globals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Uses {
    /// They only read globals, and of libraries only fields, as in `redis.call`: a library itself is never
    /// stored in a variable, passed on or written to.
    Fields,
    /// They only read globals.
    Values,
    /// They may assign globals.
    Assigned,
}

/// How a dumped function and the functions within it use globals. `libraries` are the names of globals that
/// are libraries. If the dump is not understood, [`Uses::Assigned`].
pub(super) fn uses(dump: &[u8], libraries: &[&str]) -> Uses {
    let mut reader = Reader { rest: dump, libraries };
    reader.take(HEADER_BYTES).and_then(|_| reader.function(0)).unwrap_or(Uses::Assigned)
}

/// Fields of an instruction: its first register (bits 6 to 13), its second (23 to 31), and the number of its
/// constant (14 to 31).
fn first(instruction: u32) -> u32 {
    instruction >> 6 & 0xFF
}

fn second(instruction: u32) -> u32 {
    instruction >> 23
}

fn constant(instruction: u32) -> usize {
    (instruction >> 14) as usize
}

/// Whether the next instruction replaces the value that this one loads into a register by a field of it, so
/// that no other instruction sees the value.
fn is_replaced_by_field(instruction: u32, next: Option<u32>) -> bool {
    next.is_some_and(|next| {
        let register = first(instruction);
        next & OPCODE_MASK == OP_GETTABLE && first(next) == register && second(next) == register
    })
}

/// The rest of a dump. Methods return `None` if it ends too early.
struct Reader<'a> {
    rest: &'a [u8],
    libraries: &'a [&'a str],
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

    /// A string with its final zero; empty if there is none.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = u64::from_le_bytes(*self.take(8)?.first_chunk()?);
        self.take(usize::try_from(length).ok()?)
    }

    /// Skips a function, and returns how it uses globals.
    fn function(&mut self, depth: usize) -> Option<Uses> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.string()?;
        self.take(FUNCTION_HEAD_BYTES)?;
        let count = self.count()?;
        let (code, _) = self.take(count.checked_mul(4)?)?.as_chunks::<4>();
        let mut is_library = Vec::new();
        for _ in 0..self.count()? {
            let text = match self.take(1)?[0] {
                // nil, boolean, number, string
                0 => None,
                1 => self.take(1).map(|_| None)?,
                3 => self.take(8).map(|_| None)?,
                4 => self.string()?.split_last().map(|(_, text)| text),
                _ => return None,
            };
            let is_name = |text: &[u8]| self.libraries.iter().any(|name| name.as_bytes() == text);
            is_library.push(text.is_some_and(is_name));
        }
        let mut found = Uses::Fields;
        for (index, instruction) in code.iter().enumerate() {
            let instruction = u32::from_le_bytes(*instruction);
            let next = code.get(index + 1).map(|next| u32::from_le_bytes(*next));
            let here = match instruction & OPCODE_MASK {
                OP_SETGLOBAL => Uses::Assigned,
                OP_GETGLOBAL if !*is_library.get(constant(instruction))? => Uses::Fields,
                OP_GETGLOBAL if is_replaced_by_field(instruction, next) => Uses::Fields,
                OP_GETGLOBAL => Uses::Values,
                _ => Uses::Fields,
            };
            found = found.max(here);
        }
        for _ in 0..self.count()? {
            found = found.max(self.function(depth + 1)?);
        }
        let lines = self.count()?;
        self.take(lines.checked_mul(4)?)?;
        for _ in 0..self.count()? {
            self.string()?;
            self.take(8)?;
        }
        for _ in 0..self.count()? {
            self.string()?;
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

    const LIBRARIES: &[&str] = &["redis", "cjson"];

    #[test]
    fn fields_of_libraries_are_told_from_libraries() {
        for source in [
            "return redis.call('get', KEYS[1])",
            "local call = redis.call local f = function() return cjson.decode(call('get', _G)) end return f()",
            "return redis.sha1hex(redis['sha1hex']('x')), tostring(cjson.null), other, other.x",
            "local x = redis x = x.call",
            "for i = 1, 2 do if cjson.encode then redis.log(redis.LOG_DEBUG, 'redis') end end return 'cjson'",
        ] {
            assert_eq!(uses(&dump(source), LIBRARIES), Uses::Fields, "{source}");
        }
        for source in [
            "return redis",
            "local r = redis return r.call('get', KEYS[1])",
            "redis.x = 1",
            "return redis == nil",
            "return #cjson",
            "return cjson:encode()",
            "for k in pairs(redis) do end",
            "local a a = redis.call return function() return {cjson} end",
            "return 1, cjson",
        ] {
            assert_eq!(uses(&dump(source), LIBRARIES), Uses::Values, "{source}");
        }
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
            assert_eq!(uses(&dump(source), LIBRARIES), Uses::Assigned, "{source}");
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
            assert_ne!(uses(&dump(source), LIBRARIES), Uses::Assigned, "{source}");
        }
    }

    #[test]
    fn what_is_cut_short_may_do_anything() {
        let whole = dump("local x = 'text' return function() return x, 1.5, y end");
        for length in 0..whole.len() {
            assert_eq!(uses(&whole[..length], LIBRARIES), Uses::Assigned, "{length}");
        }
        assert_eq!(uses(&[0xFF; 200], LIBRARIES), Uses::Assigned);
    }
}
