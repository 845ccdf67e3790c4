//! A thread's Lua state for scripts, and the scripts compiled in it.

use std::sync::Arc;

use hashbrown::HashMap;
use resp::Reply;

use crate::answer::Errors;
use crate::flags::Flags;
use crate::host::Host;
use crate::raw::{Ending, Failure, Function, LuaKind, LuaState, Stack};
use crate::script::{Script, ScriptError, Sha1Hex};
use crate::{answer, api, bit, cjson, cmsgpack, error, structure};

/// Default memory limit of one Lua state.
pub const MEMORY_BYTES_DEFAULT: usize = 256 * 1024 * 1024;
/// Largest memory limit that makes sense: the sizes of Lua's tables end there.
pub const MEMORY_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;
/// Compiled scripts that a state keeps. The sources are in the cache, so a script that was dropped only has
/// to be compiled again.
const COMPILED_COUNT_MAX: usize = 2000;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The script returned, and the reply is its value. That may be an error, or contain errors.
    Returned(Errors),
    /// The reply is an error that the script raised.
    Raised(Errors),
    /// The host wants the script to run again. There is no reply.
    Retry,
    /// The script is not compiled in this engine. There is no reply.
    Missing,
}

#[derive(Clone)]
struct Compiled {
    script: Arc<Script>,
    function: Function,
}

/// A Lua state and the scripts compiled in it. Belongs to one thread.
pub struct Engine {
    state: LuaState,
    compiled: HashMap<Sha1Hex, Compiled, foldhash::fast::FixedState>,
    /// The entry of `compiled` that ran last.
    recent: Option<Compiled>,
}

impl Engine {
    /// An engine whose scripts may use `memory_bytes_max`, at most [`MEMORY_BYTES_MAX`], and see this version of Redis,
    /// which has a byte for each part.
    #[must_use]
    pub fn new(memory_bytes_max: usize, version: u32) -> Engine {
        let install = |stack: &mut Stack<'_>| {
            install_libraries(stack, version);
            api::install_for_scripts(stack).expect("the libraries fit into an empty state");
        };
        let state = LuaState::new(memory_bytes_max.min(MEMORY_BYTES_MAX), install);
        Engine { state, compiled: HashMap::default(), recent: None }
    }

    /// Seeds `math.random`. Without a seed, every engine draws the same numbers as a fresh redis-server.
    pub fn seed_random(&mut self, seed: i32) {
        self.state.seed_random(seed);
    }

    /// Compiles a script, unless one with the same source is compiled already.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn compile(&mut self, script: &Arc<Script>) -> Result<(), ScriptError> {
        if let Some(compiled) = self.compiled.get_mut(script.sha()) {
            compiled.script = Arc::clone(script);
            self.recent = None;
            return Ok(());
        }
        if self.compiled.len() >= COMPILED_COUNT_MAX {
            self.forget(|script| script.is_gone());
            if self.compiled.len() >= COMPILED_COUNT_MAX {
                self.flush();
            }
        }
        let function = self.state.compile(script.body()).map_err(|text| ScriptError::compiling(&text))?;
        self.compiled.insert(*script.sha(), Compiled { script: Arc::clone(script), function });
        Ok(())
    }

    /// The flags of a script. `None` if it is not compiled here or has left the cache.
    #[must_use]
    pub fn flags(&mut self, sha: &Sha1Hex) -> Option<Flags> {
        let compiled = self.compiled.get(sha)?;
        if !compiled.script.is_gone() {
            return Some(compiled.script.flags());
        }
        self.recent = None;
        if let Some(compiled) = self.compiled.remove(sha) {
            self.state.forget(compiled.function);
        }
        None
    }

    /// A script. `None` if it is not compiled here or has left the cache.
    #[must_use]
    pub fn script(&self, sha: &Sha1Hex) -> Option<&Arc<Script>> {
        self.compiled.get(sha).map(|compiled| &compiled.script).filter(|script| !script.is_gone())
    }

    /// Runs a compiled script and writes its reply, even if the script has left the cache since the caller
    /// checked.
    pub fn eval(
        &mut self,
        sha: &Sha1Hex,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Outcome {
        if self.recent.as_ref().is_none_or(|recent| recent.script.sha() != sha) {
            self.recent = self.compiled.get(sha).cloned();
        }
        let Some(Compiled { script, function }) = &self.recent else { return Outcome::Missing };
        script.set_used();
        let finish = |stack: &mut Stack<'_>, ending| match ending {
            Ending::Returned => Outcome::Returned(answer::write(stack, reply)),
            Ending::Raised => write_error(stack, sha.as_str().as_bytes(), reply),
        };
        self.state.run(function, keys, args, host, finish).unwrap_or(Outcome::Retry)
    }

    fn forget(&mut self, is_unwanted: impl Fn(&Script) -> bool) {
        self.recent = None;
        for (_, compiled) in self.compiled.extract_if(|_, compiled| is_unwanted(&compiled.script)) {
            self.state.forget(compiled.function);
        }
    }

    /// Removes all compiled scripts and collects the garbage.
    pub fn flush(&mut self) {
        self.forget(|_| true);
        self.state.collect_garbage();
    }

    /// Memory held by the Lua state.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.state.memory_bytes()
    }

    /// Number of scripts compiled here.
    #[must_use]
    pub fn compiled_count(&self) -> usize {
        self.compiled.len()
    }
}

/// Adds the libraries that scripts and functions have in common to the table on top.
pub(crate) fn install_libraries(stack: &mut Stack<'_>, version: u32) {
    api::install(stack, version).expect("the libraries fit into an empty state");
    for install in [bit::install, cjson::install, cmsgpack::install, structure::install] {
        install(stack).expect("the libraries fit into an empty state");
    }
}

/// Writes the error on top of the stack, with the name of the script or function, and the line if it is
/// known.
pub(crate) fn write_error(stack: &mut Stack<'_>, name: &[u8], reply: &mut Reply<'_>) -> Outcome {
    // If the error is not a table, the error handler did not run: memory or stack was exhausted.
    let (text, is_counted) = if stack.kind(-1) == LuaKind::Table {
        describe(stack, name).unwrap_or_else(|_| (b"ERR unknown error".to_vec(), false))
    } else {
        let message = stack.bytes(-1).unwrap_or(b"execution failure");
        let message = &message[..message.len().min(100)];
        ([b"ERR Error running script ", name, b", ", message].concat(), false)
    };
    answer::write_line(reply, b'-', &text);
    let mut errors = Errors::default();
    errors.note(&text, is_counted);
    Outcome::Raised(errors)
}

/// The text of the error table on top, and whether the statistics have counted it.
fn describe(stack: &mut Stack<'_>, script: &[u8]) -> Result<(Vec<u8>, bool), Failure> {
    let table = stack.top();
    let mut text_of = |name| {
        stack.get_field(table, name)?;
        let text = match stack.kind(-1) {
            LuaKind::String => stack.bytes(-1).map(|text| error::until_zero(text).to_vec()),
            LuaKind::Number => {
                let mut text = Vec::new();
                cjson::write_number(&mut text, stack.number(-1));
                Some(text)
            }
            _ => None,
        };
        stack.pop(1);
        Ok(text)
    };
    let mut text = text_of("err")?.unwrap_or_else(|| b"ERR unknown error".to_vec());
    if let (Some(source), Some(line)) = (text_of("source")?, text_of("line")?) {
        for part in [b" script: ", script, b", on ", &source, b":", &line, b"."] {
            text.extend_from_slice(part);
        }
    }
    stack.get_field(table, answer::COUNTED)?;
    let is_counted = stack.kind(-1) == LuaKind::Boolean && stack.boolean(-1);
    stack.pop(1);
    Ok((text, is_counted))
}
