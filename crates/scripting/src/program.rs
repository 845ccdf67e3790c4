//! The programs that a client can run, and why one cannot be run.

use std::sync::Arc;

use engine::CommandError;
use lua::{Flags, Library, ReachSeen, Script, ScriptError};

use crate::slow::{SlowCall, SlowKind};

/// Something that can be run.
pub enum Program {
    /// A script, compiled on this thread.
    Script(Arc<Script>),
    /// A function of a library, by its index there.
    Function(Arc<Library>, usize),
}

impl Program {
    /// The flags that it declares.
    pub fn flags(&self) -> Flags {
        match self {
            Program::Script(script) => script.flags(),
            Program::Function(library, index) => library.functions()[*index].flags,
        }
    }

    /// Its name: the SHA-1 of a script, or the name of a function.
    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Program::Script(script) => script.sha().as_str().as_bytes(),
            Program::Function(library, index) => &library.functions()[*index].name,
        }
    }

    pub(crate) fn reach(&self) -> &ReachSeen {
        match self {
            Program::Script(script) => script.reach(),
            Program::Function(library, index) => &library.functions()[*index].reach,
        }
    }

    /// Describes a slow call of it for other threads.
    pub(crate) fn slow_call(&self, request: &[&[u8]], started_ms: u64) -> SlowCall {
        let (kind, name) = match self {
            Program::Script(_) => (SlowKind::Script, Vec::new()),
            Program::Function(library, index) => {
                (SlowKind::Function, library.functions()[*index].name.clone())
            }
        };
        let request = request.iter().map(|&arg| arg.into()).collect();
        SlowCall { kind, name, request, started_ms }
    }
}

/// The script that a client wants to run.
pub(crate) enum Wanted<'a> {
    /// The script with this source.
    Source(&'a [u8]),
    /// The script with this name.
    Named(&'a [u8]),
}

impl Wanted<'_> {
    /// Whether it is this script, and the script is still in the cache. Also false if the name is in upper
    /// case.
    #[inline]
    pub(crate) fn is(&self, script: &Script) -> bool {
        let is_it = match self {
            Wanted::Source(source) => *source == script.source(),
            Wanted::Named(name) => *name == script.sha().as_bytes(),
        };
        is_it && !script.is_gone()
    }
}

/// Why a script cannot be run.
pub enum Failure {
    /// The source is not a valid script.
    Source(ScriptError),
    /// Anything else.
    Command(CommandError),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Source(error) => error.fmt(out),
            Failure::Command(error) => error.fmt(out),
        }
    }
}

impl From<ScriptError> for Failure {
    fn from(error: ScriptError) -> Self {
        Failure::Source(error)
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        Failure::Command(error)
    }
}
