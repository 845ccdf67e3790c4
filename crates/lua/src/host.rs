//! The interface through which a running script uses the server.

/// Why a script has to end early. A script cannot catch any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A client killed it. The caller of the script gets an error.
    Killed,
    /// It exceeded its time limit.
    TimeOver,
    /// The host wants to run the script again, with more shards entered. No reply is written.
    Retry,
}

/// The server as a script sees it.
pub trait Host {
    /// Runs the command `args` (the first argument is its name) and appends its reply to `out`, in RESP3 if
    /// `is_resp3`, else in RESP2. A command that fails or is refused (unknown command, arity, a write that is
    /// not allowed) replies with an error.
    ///
    /// # Errors If the script must end.
    /// When the script must end.
    fn call(&mut self, args: &[&[u8]], is_resp3: bool, out: &mut resp::Output) -> Result<(), Interrupt>;

    /// Called regularly while a script computes, every [`crate::TICK_INSTRUCTION_COUNT`] instructions, and
    /// never inside `call`.
    ///
    /// # Errors If the script must end.
    fn tick(&mut self) -> Result<(), Interrupt>;

    /// Logs a line for the script. Levels are Redis': 0 debug, 1 verbose, 2 notice, 3 warning.
    fn log(&mut self, level: i64, text: &[u8]);

    /// Sets whether changes of the following calls are stated to journal and replicas. Initially they are.
    fn set_stated(&mut self, is_stated: bool);

    /// Whether the script's user may run this command; `None` if the command does not exist.
    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool>;
}

/// No server, for scripts that only compute. Commands do nothing and have no reply.
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
