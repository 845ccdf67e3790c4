//! The source of a script: its name, which is the SHA-1, and the flags in its first line.
//!
//! ```text
//! #!lua flags=no-writes,allow-stale
//! return redis.call('GET', KEYS[1])
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use resp::Reply;
use sha1::{Digest, Sha1};

use crate::flags::Flags;
use crate::{answer, error};

/// The name of a script: the SHA-1 of its source in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha1Hex([u8; 40]);

impl Sha1Hex {
    /// The name of the script with this source.
    #[must_use]
    pub fn of(source: &[u8]) -> Sha1Hex {
        Sha1Hex(sha1_hex(source))
    }

    /// Parses a name that a client sent, in either case; `None` if it cannot be a script's name.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Sha1Hex> {
        let mut digits: [u8; 40] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        // Without an early exit, the loop is vectorized.
        let are_digits = digits.iter().fold(true, |are_digits, digit| are_digits & digit.is_ascii_hexdigit());
        are_digits.then_some(Sha1Hex(digits))
    }

    /// The digits.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digits as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Debug for Sha1Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Sha1Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a source cannot be a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.text))]
pub struct ScriptError {
    text: Vec<u8>,
}

impl ScriptError {
    pub(crate) fn new(parts: &[&[u8]]) -> ScriptError {
        ScriptError { text: parts.concat() }
    }

    /// An error of Lua's compiler.
    pub(crate) fn compiling(message: &[u8]) -> ScriptError {
        ScriptError::new(&[b"ERR Error compiling script (new function): ", error::until_zero(message)])
    }

    /// The error's code and text, as in Redis' reply.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Writes the error as a reply.
    pub fn write(&self, reply: &mut Reply<'_>) {
        answer::write_line(reply, b'-', &self.text);
    }
}

/// The script has run since the cache last checked.
const USED: u8 = 1;
/// The script has left the cache.
const GONE: u8 = 2;

/// The source of a script. All threads share it, and each compiles it separately.
#[derive(Debug)]
pub struct Script {
    sha: Sha1Hex,
    source: Box<[u8]>,
    /// Where the Lua part starts.
    body_start: usize,
    flags: Flags,
    state: AtomicU8,
    reach: ReachSeen,
}

/// Which keys a run of a script or function touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Only keys that must be in the shards of its declared keys.
    Declared,
    /// Also other keys.
    Roaming,
}

/// A run has roamed.
const ROAMS: u32 = u32::MAX;

/// The record of all runs of a script or function on all threads: how many kept to the declared keys, or that
/// one did not.
#[derive(Debug, Default)]
pub struct ReachSeen(AtomicU32);

impl ReachSeen {
    /// Whether it may touch undeclared keys: a run did, or fewer than `trusted_after` runs kept to the
    /// declared ones.
    #[must_use]
    pub fn may_roam(&self, trusted_after: u32) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        seen == ROAMS || seen < trusted_after
    }

    /// Records which keys a run touched. True if it is the first run that roams. A script that has roamed is
    /// never trusted again; runs of a trusted one are no longer counted.
    pub fn note(&self, reach: Reach, trusted_after: u32) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        match reach {
            Reach::Roaming if seen != ROAMS => {
                self.0.store(ROAMS, Ordering::Relaxed);
                return true;
            }
            Reach::Declared if seen < trusted_after => {
                // If another thread records a run at the same time, one run more or less makes no difference.
                let _ = self.0.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed);
            }
            Reach::Roaming | Reach::Declared => {}
        }
        false
    }
}

impl Script {
    /// Parses the first line of `source`. Whether the rest is valid Lua is checked by the engine.
    ///
    /// # Errors If the first line is a `#!` line with unknown contents.
    pub fn new(source: &[u8]) -> Result<Script, ScriptError> {
        Script::of_name(Sha1Hex::of(source), source)
    }

    /// Does the same if the name for this source is known already.
    ///
    /// # Errors As for [`Script::new`].
    pub fn of_name(sha: Sha1Hex, source: &[u8]) -> Result<Script, ScriptError> {
        let (flags, body_start) = parse_shebang(source)?;
        let source = source.into();
        Ok(Script { sha, source, body_start, flags, state: AtomicU8::new(0), reach: ReachSeen::default() })
    }

    /// A copy of the script, as if it were new to the cache.
    pub(crate) fn anew(&self) -> Script {
        let (source, reach) =
            (self.source.clone(), ReachSeen(AtomicU32::new(self.reach.0.load(Ordering::Relaxed))));
        Script { source, reach, state: AtomicU8::new(0), ..*self }
    }

    /// Which keys it has been seen to touch.
    #[must_use]
    pub fn reach(&self) -> &ReachSeen {
        &self.reach
    }

    /// Its name.
    #[must_use]
    pub fn sha(&self) -> &Sha1Hex {
        &self.sha
    }

    /// The whole source.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The Lua part. It starts with the newline that ends the first line, so line numbers stay right.
    pub(crate) fn body(&self) -> &[u8] {
        &self.source[self.body_start..]
    }

    /// The flags in its first line.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether it has left the cache. Engines no longer find it then.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.state.load(Ordering::Relaxed) & GONE != 0
    }

    pub(crate) fn set_gone(&self) {
        self.state.fetch_or(GONE, Ordering::Relaxed);
    }

    /// Records a run. Reads first, because all threads share the cache line; it is written once per round of
    /// the cache.
    pub(crate) fn set_used(&self) {
        if self.state.load(Ordering::Relaxed) & USED == 0 {
            self.state.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Whether it has run since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.state.fetch_and(!USED, Ordering::Relaxed) & USED != 0
    }
}

/// The SHA-1 of `bytes` in lower-case hexadecimal digits.
pub(crate) fn sha1_hex(bytes: &[u8]) -> [u8; 40] {
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(bytes)) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    hex
}

/// The flags in the first line, and the length of that line.
fn parse_shebang(source: &[u8]) -> Result<(Flags, usize), ScriptError> {
    let mut flags = Flags::default();
    if !source.starts_with(b"#!") {
        return Ok((flags, 0));
    }
    let end = source.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| ScriptError::new(&[b"ERR Invalid script shebang"]))?;
    let parts = resp::split_args(&source[..end]).unwrap_or_default();
    let (engine, options) =
        parts.split_first().ok_or_else(|| ScriptError::new(&[b"ERR Invalid engine in script shebang"]))?;
    if engine.as_slice() != b"#!lua" {
        return Err(ScriptError::new(&[b"ERR Unexpected engine in script shebang: ", engine]));
    }
    flags.is_declared = true;
    for option in options {
        let Some(list) = option.strip_prefix(b"flags=") else {
            return Err(ScriptError::new(&[b"ERR Unknown lua shebang option: ", option]));
        };
        // `flags=` with nothing behind it means no flags. Otherwise the names are separated by commas.
        for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
            let flag = flags.named(name);
            *flag.ok_or_else(|| ScriptError::new(&[b"ERR Unexpected flag in script shebang: ", name]))? =
                true;
        }
    }
    Ok((flags, end))
}
