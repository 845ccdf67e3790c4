//! Transactions: the commands between MULTI and EXEC, and an EXEC that waits for the answers of other threads.
//!
//! Such an EXEC replies when all of its commands have replied. Until then it keeps their replies, because other
//! messages to its client may come in between and must not interrupt the array.

use effectlog::Lsn;
use engine::{Command, CommandError, CommandId, Flag, OwnedArgs, Rule};
use resp::{Output, Reply};

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Multi {
    /// The commands, in order.
    pub queued: Vec<(CommandId, OwnedArgs)>,
    /// Whether a command was refused, so that EXEC aborts.
    pub refused: bool,
    /// Memory that they take.
    pub memory_bytes: usize,
    /// The database that the last `SELECT` among them selects.
    pub selected_db: Option<u32>,
}

/// Limit of the bytes of arguments that MULTI queues.
const MULTI_BYTES_MAX: usize = 1 << 30;

impl Multi {
    /// Adds a command.
    ///
    /// # Errors
    /// It is not allowed in a transaction, or its arguments take too much memory.
    pub fn queue(&mut self, command: &Command, args: &[&[u8]]) -> Result<(), CommandError> {
        if command.has(Flag::NoMulti) {
            return Err(CommandError::fixed("ERR Command not allowed inside a transaction"));
        }
        let args = OwnedArgs::new(args);
        self.memory_bytes += args.memory_bytes();
        if self.memory_bytes > MULTI_BYTES_MAX {
            return Err(CommandError::fixed("ERR transaction exceeds the memory limit of queued commands"));
        }
        if command.entry.is_under(Rule::SelectsDb) {
            let number = args.slices().get(1).and_then(|number| ds::num::parse_i64(number));
            self.selected_db = number.and_then(|number| u32::try_from(number).ok()).or(self.selected_db);
        }
        self.queued.push((command.id, args));
        Ok(())
    }
}

/// An EXEC that has run some of its commands.
#[derive(Debug)]
pub struct Executing {
    multi: Multi,
    /// The reply of each command that has replied.
    replies: Vec<Option<Output>>,
    /// The first command that has not replied.
    next: usize,
    /// The last slice of the journal on which the replies depend.
    pub seen: Lsn,
}

impl Executing {
    /// An EXEC that has run nothing yet.
    pub fn new(multi: Multi) -> Executing {
        let replies = multi.queued.iter().map(|_| None).collect();
        Executing { multi, replies, next: 0, seen: Lsn::NONE }
    }

    /// Its commands.
    pub fn multi(&self) -> &Multi {
        &self.multi
    }

    /// Its commands, to be executed again from the first one on.
    pub fn into_multi(self) -> Multi {
        self.multi
    }

    /// The first command that has not replied, and its index.
    pub fn next(&self) -> Option<(usize, &(CommandId, OwnedArgs))> {
        Some((self.next, self.multi.queued.get(self.next)?))
    }

    /// Sets the reply of command `index`.
    pub fn set_reply(&mut self, index: usize, reply: Output) {
        self.replies[index] = Some(reply);
        let are_there = self.replies[self.next..].iter().take_while(|reply| reply.is_some()).count();
        self.next += are_there;
    }

    /// Sets the reply of the first command without one.
    pub fn answer(&mut self, reply: Output) {
        self.set_reply(self.next, reply);
    }

    /// Writes EXEC's reply, when all commands have replied.
    pub fn reply(self, reply: &mut Reply<'_>) {
        reply.array(self.replies.len());
        for own in self.replies {
            reply.out().append(&mut own.expect("all commands have replied"));
        }
    }
}

#[cfg(test)]
mod tests {
    use resp::Proto;

    use super::*;

    #[test]
    fn replies_stand_in_the_order_of_the_commands() {
        let queued = (0..4).map(|_| (CommandId(0), OwnedArgs::default())).collect();
        let mut executing = Executing::new(Multi { queued, ..Multi::default() });
        for (index, next) in [(1, Some(0)), (0, Some(2)), (3, Some(2)), (2, None)] {
            let mut reply = Output::new();
            Reply::new(&mut reply, Proto::Resp2).int(index as i64);
            executing.set_reply(index, reply);
            assert_eq!(executing.next().map(|(index, _)| index), next);
        }
        let mut out = Output::new();
        executing.reply(&mut Reply::new(&mut out, Proto::Resp2));
        assert_eq!(out.to_vec(), b"*4\r\n:0\r\n:1\r\n:2\r\n:3\r\n");
    }
}
