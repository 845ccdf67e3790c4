//! The services that the commands of this crate need from the thread that runs them.

use engine::HostFn;

use crate::facts::Facts;
use crate::observed::Observed;

/// The thread that runs the commands of this crate.
pub trait Door {
    /// Statistics of all threads.
    fn observed(&self) -> &Observed;

    /// The current time, in microseconds since 1970.
    fn now_us(&mut self) -> u64;

    /// Makes the client a monitor; false if it is one already.
    fn start_monitoring(&mut self) -> bool;

    /// The server's figures.
    fn facts(&mut self) -> Box<dyn Facts + '_>;

    /// Lets every thread free what waits to be freed, and return unused memory to the system. After that the client
    /// gets the reply `OK`.
    fn purge(&mut self);
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The function of a command of this crate.
pub type Function = HostFn<dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The function that runs a command of this crate.
pub(crate) type Run = engine::Run<Function>;
