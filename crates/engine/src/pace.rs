//! Lets the thread of a long command serve other clients now and then.
//!
//! A command counts its steps, and lets the thread breathe every few hundred of them ([`Host::breathe`]). The
//! thread looks at the clock; if the command has taken long, it gives its other connections away. Nothing is
//! entered, left or run in the meantime, so a command may do this at any point, even while it has borrowed a
//! value.
//!
//! A command whose work grows with its data or its arguments must count its steps:
//! `crates/commands/tests/breathing.rs` checks all of them.

use crate::ctx::Host;

/// Steps between two breaths. A step takes about 10 to 1000 ns, so this is far less than a millisecond.
const STEPS: u32 = 256;
/// Bytes that are copied or counted in about the time of a step.
const STEP_BYTES: usize = 1024;

/// Counts the steps of a command.
pub struct Pace<'h> {
    host: &'h mut dyn Host,
    /// Steps until the next breath.
    left: u32,
}

impl<'h> Pace<'h> {
    /// The pace of a command that `host` runs.
    #[inline]
    pub fn new(host: &'h mut dyn Host) -> Pace<'h> {
        Pace { host, left: STEPS }
    }

    /// Counts one step: an element was read, written or compared.
    #[inline]
    pub fn step(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.breathe();
        }
    }

    /// Counts several steps at once.
    #[inline]
    pub fn steps(&mut self, count: usize) {
        match u32::try_from(count) {
            Ok(count) if count < self.left => self.left -= count,
            _ => self.breathe(),
        }
    }

    /// Counts bytes that were copied, combined or counted.
    #[inline]
    pub fn bytes(&mut self, count: usize) {
        self.steps(count / STEP_BYTES);
    }

    #[cold]
    fn breathe(&mut self) {
        self.left = STEPS;
        self.host.breathe();
    }
}

impl std::fmt::Debug for Pace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctx::OwnCall;
    use crate::error::CommandResult;

    /// Counts its breaths.
    struct Breathing(u32);

    impl Host for Breathing {
        fn run_own(&mut self, _call: OwnCall<'_, '_>) -> CommandResult {
            unreachable!("no command runs")
        }

        fn breathe(&mut self) {
            self.0 += 1;
        }
    }

    #[test]
    fn it_breathes_after_so_many_steps() {
        let mut host = Breathing(0);
        let mut pace = Pace::new(&mut host);
        (0..3 * STEPS - 1).for_each(|_| pace.step());
        assert_eq!(host.0, 2);
        let mut pace = Pace::new(&mut host);
        pace.steps(STEPS as usize - 1);
        pace.step();
        pace.bytes(1 << 30);
        assert_eq!(host.0, 4);
    }
}
