//! Properties of the decoding libraries that hold for any input. The test here and the fuzz targets use them:
//! nothing panics or crashes, and a decoded value, encoded, decoded and encoded again, has the same length.

#![allow(dead_code, reason = "a fuzz target uses one of the checks")]

pub(crate) mod patterns;

use std::cell::RefCell;
use std::sync::Arc;

use lua::{Engine, Script};
use resp::{Output, Proto, Reply};

/// A script's memory limit, which decoded values must not exceed.
const MEMORY_BYTES: usize = 64 << 20;

/// Tables may be in another order, so only the lengths are compared.
const CJSON: &[u8] = b"
local ok, value = pcall(cjson.decode, ARGV[1])
if not ok then return 1 end
local ok, text = pcall(cjson.encode, value)
if not ok then return 1 end
return #cjson.encode(cjson.decode(text)) == #text and 1 or text";

/// Values with a nil are skipped, because tables cannot hold nil. Values nested too deep are packed as nil.
const CMSGPACK: &[u8] = b"
local ok, value = pcall(cmsgpack.unpack, ARGV[1])
pcall(cmsgpack.unpack_one, ARGV[1])
pcall(cmsgpack.unpack_limit, ARGV[1], 2, 1)
if not ok then return 1 end
local packed = cmsgpack.pack(value)
if string.find(packed, '\\192', 1, true) then return 1 end
return #cmsgpack.pack((cmsgpack.unpack(packed))) == #packed and 1 or packed";

/// The first argument is a format.
const STRUCT: &[u8] = b"
local found = {pcall(struct.unpack, ARGV[1], ARGV[2])}
pcall(struct.unpack, ARGV[1], ARGV[2], 2)
pcall(struct.size, ARGV[1])
pcall(struct.pack, ARGV[1], 1, ARGV[2], 3, ARGV[2])
if found[1] then pcall(struct.pack, ARGV[1], unpack(found, 2)) end
return 1";

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::new(Engine::new(MEMORY_BYTES, 0x0007_0205));
}

/// Runs `source`, which must return 1.
fn check(source: &[u8], args: &[&[u8]]) {
    ENGINE.with_borrow_mut(|engine| {
        let script = Arc::new(Script::new(source).expect("the script has no flags"));
        engine.compile(&script).expect("the script can be compiled");
        let mut output = Output::new();
        engine.eval(script.sha(), &[], args, &mut (), &mut Reply::new(&mut output, Proto::Resp2));
        let reply = output.to_vec();
        // A decoded value may need more memory than a script may use.
        let has_no_room =
            reply.starts_with(b"-") && reply.windows(17).any(|part| part == b"not enough memory");
        assert!(reply == b":1\r\n" || has_no_room, "{}", reply.escape_ascii());
    });
}

pub(crate) fn check_cjson(input: &[u8]) {
    check(CJSON, &[input]);
}

pub(crate) fn check_cmsgpack(input: &[u8]) {
    check(CMSGPACK, &[input]);
}

/// Splits a format off the front of `input`: the first byte is its length, at most 15.
pub(crate) fn check_struct(input: &[u8]) {
    let Some((length, rest)) = input.split_first() else { return };
    let (format, value) = rest.split_at(rest.len().min(usize::from(length % 16)));
    check(STRUCT, &[format, value]);
}
