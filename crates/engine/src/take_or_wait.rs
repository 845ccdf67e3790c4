//! Commands that take from the first of several keys that has something, and wait if none has.
//!
//! ```text
//! arguments ─→ try the keys in order ─→ found: reply, done
//!                     │ nothing
//!                     ├─→ may not wait (MULTI, script, no timeout): the command says so
//!                     └─→ a waiter at every key … a key gets something ─→ serve
//! ```
//!
//! A waiter is served on the thread whose command gave the key something, after that command, MULTI or script is
//! complete, with the arguments, database and protocol of the waiting client. Its [`Serve`] function does what the
//! command would do there now.
//!
//! A client that waited may be gone when its reply arrives, and so may one whose command was delegated. Elements that
//! such a client would miss are put back: a take that *owes* names the command for that ([`Ctx::restore_with`]).

use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::task::{BlockOn, Serve, When};

/// A take from the first of several keys, or the wait for it.
#[derive(Debug)]
pub struct TakeOrWait<'k> {
    /// The keys.
    pub keys: &'k [&'k [u8]],
    /// The order in which they are tried, by their indexes; `None`: as given.
    pub order: Option<&'k [usize]>,
    /// The condition under which a waiter is served.
    pub when: When,
    /// Another key that a take needs (`BLMOVE`'s destination).
    pub also: Option<&'k [u8]>,
    /// How long it waits, in milliseconds; 0 waits for ever. `None`: it does not wait.
    pub timeout_ms: Option<u64>,
    /// Whether elements are put back if the client is gone.
    pub owes: bool,
    /// Serves the waiter.
    pub serve: Serve,
}

/// How a [`TakeOrWait`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// It has taken something, and replied.
    Some,
    /// The client waits.
    Waits,
    /// There was nothing, and the client may not wait. No reply was written.
    Nothing,
}

impl Ctx<'_, '_> {
    /// Takes from the first key that has something, or waits. `take` takes from one key, and says whether it owes the
    /// elements to a client that may be gone; false, without a reply, if there are none.
    ///
    /// # Errors
    /// Those of `take`, or that a key's shard is taken.
    #[inline(always)]
    pub fn take_or_wait(
        &mut self,
        ask: &TakeOrWait<'_>,
        take: impl Fn(&mut Ctx, &[u8], bool) -> Result<bool, CommandError>,
    ) -> Result<Took, CommandError> {
        let owes = ask.owes && self.store.client.may_be_gone;
        for place in 0..ask.keys.len() {
            let index = ask.order.map_or(place, |order| order[place]);
            let key = ask.keys[index];
            if index > 0 {
                self.enter_next(key)?;
            }
            if take(self, key, owes)? {
                return Ok(Took::Some);
            }
        }
        Ok(self.wait_for(ask))
    }

    #[inline(never)]
    fn wait_for(&mut self, ask: &TakeOrWait<'_>) -> Took {
        let Some(timeout_ms) = ask.timeout_ms.filter(|_| self.may_block()) else { return Took::Nothing };
        let TakeOrWait { keys, when, also, serve, .. } = *ask;
        // At the timeout, Redis replies with a null array even if an element would have been a bulk string.
        let args = self.args;
        self.block(&BlockOn {
            args,
            keys,
            when,
            also,
            timeout_ms,
            heeds_loss: false,
            serve,
            null_array: true,
        });
        Took::Waits
    }
}
