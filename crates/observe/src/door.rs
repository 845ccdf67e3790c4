//! What the commands of this crate need from the thread that runs them.

use command::HostFn;

use crate::facts::Facts;
use crate::observed::Observed;

/// A thread that runs a command of this crate.
pub trait Door {
    /// What was observed on all threads.
    fn observed(&self) -> &Observed;

    /// What time it is, in microseconds since 1970.
    fn now_us(&mut self) -> u64;

    /// From here on the client whose command runs is shown every command; false if it was before.
    fn start_monitoring(&mut self) -> bool;

    /// The server's figures.
    fn facts(&mut self) -> Box<dyn Facts + '_>;

    /// Every thread frees what it has yet to free, and gives back the memory that it keeps; when all have, the client whose
    /// command runs is answered `OK`.
    fn purge(&mut self);
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = command::Ctx<'a, 't, dyn Door>;
/// The function of a command of this crate.
pub type Function = HostFn<dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = command::Entry<Function>;
/// What runs a command of this crate.
pub(crate) type Run = command::Run<Function>;
