//! A script's source: its SHA-1, which is its name, and the flags of its first line.
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

    /// A name as a client sent it, in either case; `None` when no script can have it.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Sha1Hex> {
        let mut digits: [u8; 40] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        // Without an early end the processor looks at many digits at once.
        let are_digits = digits.iter().fold(true, |are_digits, digit| are_digits & digit.is_ascii_hexdigit());
        are_digits.then_some(Sha1Hex(digits))
    }

    /// The digits.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digits as text.
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

/// Why a source is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.text))]
pub struct ScriptError {
    text: Vec<u8>,
}

impl ScriptError {
    pub(crate) fn new(parts: &[&[u8]]) -> ScriptError {
        ScriptError { text: parts.concat() }
    }

    /// An error of the compiler.
    pub(crate) fn compiling(message: &[u8]) -> ScriptError {
        ScriptError::new(&[b"ERR Error compiling script (new function): ", error::until_zero(message)])
    }

    /// The error's code and text, as Redis replies it.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Writes the error.
    pub fn write(&self, reply: &mut Reply<'_>) {
        answer::write_line(reply, b'-', &self.text);
    }
}

/// A script was run since the cache last looked.
const USED: u8 = 1;
/// A script is no longer in the cache.
const GONE: u8 = 2;

/// A script's source. Shared by all threads; each compiles it for itself.
#[derive(Debug)]
pub struct Script {
    sha: Sha1Hex,
    source: Box<[u8]>,
    /// Where Lua begins.
    body_start: usize,
    flags: Flags,
    state: AtomicU8,
    reach: ReachSeen,
}

/// Which keys a run of a script or function touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Only keys that must lie where its declared keys lie.
    Declared,
    /// Others too.
    Roaming,
}

/// It was seen to roam.
const ROAMS: u32 = u32::MAX;

/// What was seen of a script or function over all its runs on all threads: how many kept to the declared keys, or that one
/// did not.
#[derive(Debug, Default)]
pub struct ReachSeen(AtomicU32);

impl ReachSeen {
    /// Whether it may touch keys that it does not declare: it did, or was not seen to keep to them `trusted_after` times.
    #[must_use]
    pub fn may_roam(&self, trusted_after: u32) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        seen == ROAMS || seen < trusted_after
    }

    /// Notes what keys a run touched; true if it is the first that roams. What roamed once is never trusted again; what is
    /// trusted is not counted any more.
    pub fn note(&self, reach: Reach, trusted_after: u32) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        match reach {
            Reach::Roaming if seen != ROAMS => {
                self.0.store(ROAMS, Ordering::Relaxed);
                return true;
            }
            Reach::Declared if seen < trusted_after => {
                // If another thread notes something at this moment, a run more or less makes no difference.
                let _ = self.0.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed);
            }
            Reach::Roaming | Reach::Declared => {}
        }
        false
    }
}

impl Script {
    /// Reads the first line of `source`. Whether the rest is Lua is for the engine to say.
    ///
    /// # Errors
    /// When the first line is a `#!` line with unknown contents.
    pub fn new(source: &[u8]) -> Result<Script, ScriptError> {
        Script::of_name(Sha1Hex::of(source), source)
    }

    /// The same where the name of the script with this source is known.
    ///
    /// # Errors
    /// As above.
    pub fn of_name(sha: Sha1Hex, source: &[u8]) -> Result<Script, ScriptError> {
        let (flags, body_start) = parse_shebang(source)?;
        let source = source.into();
        Ok(Script { sha, source, body_start, flags, state: AtomicU8::new(0), reach: ReachSeen::default() })
    }

    /// The same script, as if it had just come.
    pub(crate) fn anew(&self) -> Script {
        let (source, reach) =
            (self.source.clone(), ReachSeen(AtomicU32::new(self.reach.0.load(Ordering::Relaxed))));
        Script { source, reach, state: AtomicU8::new(0), ..*self }
    }

    /// What keys it was seen to touch.
    #[must_use]
    pub fn reach(&self) -> &ReachSeen {
        &self.reach
    }

    /// Its name.
    #[must_use]
    pub fn sha(&self) -> &Sha1Hex {
        &self.sha
    }

    /// All of it.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The part that is Lua. It begins with the first line's newline, so that lines keep their numbers.
    pub(crate) fn body(&self) -> &[u8] {
        &self.source[self.body_start..]
    }

    /// What its first line says.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether the cache has let go of it. Then no engine runs it any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.state.load(Ordering::Relaxed) & GONE != 0
    }

    pub(crate) fn set_gone(&self) {
        self.state.fetch_or(GONE, Ordering::Relaxed);
    }

    /// Notes a run. Reads first: the line is shared by all threads, and written once per round of the cache.
    pub(crate) fn set_used(&self) {
        if self.state.load(Ordering::Relaxed) & USED == 0 {
            self.state.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Whether it was run since the last time that this was asked.
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

/// The flags of the first line and its length.
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
        // Nothing at all is a list of no flags, while a comma always stands between two.
        for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
            let flag = flags.named(name);
            *flag.ok_or_else(|| ScriptError::new(&[b"ERR Unexpected flag in script shebang: ", name]))? =
                true;
        }
    }
    Ok((flags, end))
}
