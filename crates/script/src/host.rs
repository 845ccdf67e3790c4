//! What a running script asks of the server.

/// Why a script must end before its time. A script can catch none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A client asked for its end; the caller of the script gets an error.
    Killed,
    /// Its time is over.
    TimeOver,
    /// The host wants to run the script again, with more shards entered. No reply is written.
    Retry,
}

/// The server as a script sees it. Implemented by whoever runs scripts.
pub trait Host {
    /// Runs the command `args` (its name first) and appends its reply to `out`: in RESP3 when `is_resp3`, in
    /// RESP2 otherwise. A command that fails replies with an error; refusals (unknown command, arity, writes
    /// where none are allowed) are error replies as well.
    ///
    /// # Errors
    /// When the script must end.
    fn call(&mut self, args: &[&[u8]], is_resp3: bool, out: &mut resp::Output) -> Result<(), Interrupt>;

    /// Called again and again while a script computes, every [`crate::TICK_INSTRUCTION_COUNT`] instructions,
    /// and never inside `call`.
    ///
    /// # Errors
    /// When the script must end.
    fn tick(&mut self) -> Result<(), Interrupt>;

    /// Writes a line that the script logs. Levels are Redis': 0 debug, 1 verbose, 2 notice, 3 warning.
    fn log(&mut self, level: i64, text: &[u8]);

    /// Says whether what the following calls change is to be stated to a journal and replicas; it is at first.
    fn set_stated(&mut self, is_stated: bool);

    /// Whether the script's user may run this command, or `None` for a command that does not exist.
    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool>;
}

/// No server: for scripts that only compute. A command does nothing and has no reply.
impl Host for () {
    fn call(&mut self, _: &[&[u8]], _: bool, _: &mut resp::Output) -> Result<(), Interrupt> {
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        Ok(())
    }

    fn log(&mut self, _: i64, _: &[u8]) {}

    fn set_stated(&mut self, _: bool) {}

    fn is_allowed(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }
}
