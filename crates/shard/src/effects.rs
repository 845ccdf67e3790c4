//! Effects: what a journal or a replica would have to run to come to the same state.
//!
//! A command that changes data states its effect in the function that makes the change: not the request, but
//! what it did (`SPOP` becomes `SREM`, a relative expiry an absolute one). Nothing is recorded, or copied,
//! unless a sink asked for it.

/// One command to run against one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// The database.
    pub db: u32,
    /// The command and its arguments.
    pub args: Vec<Box<[u8]>>,
}

/// The effects of the shard since somebody last took them.
#[derive(Debug, Default)]
pub struct Effects {
    recording: bool,
    log: Vec<Effect>,
}

impl Effects {
    /// Starts or stops recording.
    pub fn record(&mut self, on: bool) {
        self.recording = on;
    }

    /// Whether effects are kept: a caller may spare itself building one.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.recording
    }

    /// Adds an effect.
    #[inline]
    pub fn push(&mut self, db: u32, args: &[&[u8]]) {
        if self.recording {
            self.keep(db, args);
        }
    }

    #[cold]
    fn keep(&mut self, db: u32, args: &[&[u8]]) {
        self.log.push(Effect { db, args: args.iter().map(|&arg| arg.into()).collect() });
    }

    /// Takes what was recorded, oldest first.
    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.log)
    }
}
