//! Defines every state of a session's command, and every transition between them.
//!
//! ```text
//!                         ┌────────────────────── the reply, or the next try ───────────────────────┐
//!                         ▼                                                                         │
//!   bytes ─▶ ready ─▶ runs here ─▶ reply          put off │ away │ queued │ held back │ blocked │ syncing │ postponed │ gathering
//!               │                                                                                   ▲
//!               └──────────────────────── cannot run now, or has no reply yet ──────────────────────┘
//! ```
//!
//! | from | to | what happens | who causes it |
//! |---|---|---|---|
//! | – | ready | a client connects | `connections/lifecycle.rs` |
//! | ready | put off | its shard is taken: the command stays in the input, and other clients come first | `dispatch.rs` |
//! | put off | ready | its turn has come again | `pipeline.rs` |
//! | ready | away | the command went to the holder, or to the home thread, of its shard | `dispatch.rs` |
//! | ready | away | `MIGRATE` sends keys to its target | `commands/migrate.rs` |
//! | ready | queued | one of its shards stayed taken, and a note was left there | `dispatch.rs` |
//! | ready | queued | it has worked for a slice of time, and others come first | `commands/queues.rs` |
//! | ready | held back | it would change too many records that a snapshot has yet to see | `snapshot/background.rs` |
//! | ready | blocked | a blocking command found nothing | `wait.rs` |
//! | ready | syncing | `WAIT` or `WAITAOF` waits until replicas, or the disk, have the client's writes | `syncing.rs` |
//! | ready | postponed | `CLIENT PAUSE` is on | `pause.rs` |
//! | ready | gathering | the answers of other threads make its reply, or that of a command of its EXEC | `gather.rs` |
//! | away | ready | the command came home, with its reply, to run again, or to wait | `homecoming.rs` |
//! | queued | ready | the note came back: next try | `homecoming.rs` |
//! | held back | ready | the snapshot has come further: next try | `homecoming.rs` |
//! | blocked | ready | served, timed out, or ended by `CLIENT UNBLOCK` or a change of users | `wait.rs` |
//! | syncing | ready | they have them, or the wait ended as that of a blocking command does | `syncing.rs` |
//! | postponed | ready | the pause is over: it runs | `homecoming.rs` |
//! | gathering | ready | all answers are there: it replies, or its EXEC goes on | `homecoming.rs`, `executing.rs` |
//! | gathering | ready | its client is gone: its EXEC goes on unheard | `executing.rs` |
//! | ready | closing | its input cannot be read, it speaks HTTP, or it said `quit` to memcached's protocol | `pipeline.rs`, `memcached.rs`, `connections/lifecycle.rs` |
//! | any | – | the client is gone | `homecoming.rs` |
//!
//! Only a ready session's input is read. In every other state except *put off* the command is no longer in the input,
//! and the state keeps the data to continue it.
//!
//! The files are those of `server`, in `life/` where no folder is named.
//!
//! A reply that waits for the journal is not a state: its command has run. The connection's output has a mark instead,
//! and is sent up to that mark.

use engine::{Blocked, CommandId, Needs, OwnedArgs};
use proactor::CloseMode;
use replication::Awaited;
use resp::Reply;

use crate::session::question::Answer;
use crate::session::transaction::Executing;

/// How often a command whose shard is taken is put off before it is delegated (`docs/decisions/putting-off.md`).
const PUT_OFF_MAX: u8 = 8;

/// The state of a session's command, and how often its client has been put off.
#[derive(Debug, Default)]
pub struct CommandState {
    stage: Stage,
    /// The number of times that commands were put off since one was last delegated.
    put_off_count: u8,
}

#[derive(Debug, Default)]
enum Stage {
    /// The next command may run.
    #[default]
    Ready,
    /// The next command stays in the input until other clients have been served.
    PutOff,
    /// The command runs elsewhere.
    Away,
    /// The command waits for a shard that was taken, to try again with all of its shards.
    Queued(Retry),
    /// The command waits until a snapshot has seen the records that it would change.
    HeldBack(Retry),
    /// A blocking command waits.
    Blocked(Wait),
    /// The command waits until something is durable, or has reached replicas.
    Syncing(SyncWait),
    /// The command waits for the end of `CLIENT PAUSE`.
    Postponed(Postponed),
    /// The command waits for answers of other threads.
    Gathering(Gathering),
    /// The connection must be closed in this way.
    Closing(CloseMode),
}

/// A command that must be tried again.
#[derive(Debug)]
pub struct Retry {
    /// The command.
    pub command: CommandId,
    /// Its arguments.
    pub args: OwnedArgs,
    /// Shards that it needs in addition to those of its keys.
    pub needs: Needs,
    /// The number of failed attempts to get its shards.
    pub tries: u32,
}

/// A blocking command that waits.
#[derive(Debug)]
pub struct Wait {
    /// Its records in the shards.
    pub blocked: Box<Blocked>,
    /// The time at which it times out, on the monotonic clock. `None`: never.
    pub deadline_ms: Option<u64>,
}

/// A command that waits for the journal or for replicas.
#[derive(Clone, Copy, Debug)]
pub struct SyncWait {
    /// The condition for which it waits.
    pub awaited: Awaited,
    /// As in [`Wait`].
    pub deadline_ms: Option<u64>,
}

/// A command that waits for the end of a pause.
#[derive(Debug)]
pub struct Postponed {
    /// The command.
    pub command: CommandId,
    /// Its arguments.
    pub args: OwnedArgs,
    /// Its number on its thread: postponed commands run in the order in which they came.
    pub number: u64,
}

/// One thread's answer to a question.
#[derive(Debug)]
pub enum Part {
    /// Lines of text, each with the number to sort by.
    Lines(Vec<(u64, Vec<u8>)>),
    /// A count.
    Count(u64),
}

/// Builds the reply from the answers.
pub type Finish = Box<dyn FnOnce(Vec<Part>, &mut Reply<'_>) + Send>;

/// A command whose reply is built from the answers of threads.
pub struct Gathering {
    /// The answers so far.
    pub parts: Vec<Part>,
    /// The number of threads that have yet to answer.
    pub expected: usize,
    /// Builds the reply.
    pub finish: Finish,
    /// The EXEC that continues then.
    pub then: Option<Box<Executing>>,
}

impl CommandState {
    /// Changes to `next`; returns the previous state. The only place where the state of a session changes.
    fn change_to(&mut self, next: Stage) -> Stage {
        assert!(
            self.stage.may_become(&next),
            "a command that is {} cannot become {}",
            self.stage.name(),
            next.name()
        );
        std::mem::replace(&mut self.stage, next)
    }

    /// Puts the command off because its shard is taken: it stays in the input until other clients have been served.
    /// Returns false if it was put off often enough or may not be (`may`). Then it must be delegated.
    pub fn put_off(&mut self, may: bool) -> bool {
        if !may || self.put_off_count >= PUT_OFF_MAX {
            self.put_off_count = 0;
            return false;
        }
        self.put_off_count += 1;
        self.change_to(Stage::PutOff);
        true
    }

    /// Forbids putting the next command off, because it is not read from the input and could not be read again.
    pub fn forbid_putting_off(&mut self) {
        self.put_off_count = PUT_OFF_MAX;
    }

    /// Marks the command that was put off as ready to be read again.
    pub fn read_again(&mut self) {
        let was = self.change_to(Stage::Ready);
        assert!(matches!(was, Stage::PutOff), "a command that is {} is read again", was.name());
    }

    /// Marks the command as running elsewhere.
    pub fn go_away(&mut self) {
        self.change_to(Stage::Away);
    }

    /// Marks the command, which ran elsewhere, as back.
    pub fn come_home(&mut self) {
        let was = self.change_to(Stage::Ready);
        assert!(matches!(was, Stage::Away), "a command that is {} comes home", was.name());
    }

    /// Makes the command wait for a taken shard, to try again with all of its shards.
    pub fn queue(&mut self, retry: Retry) {
        self.change_to(Stage::Queued(retry));
    }

    /// Makes the command wait until a snapshot has come further.
    pub fn hold_back(&mut self, retry: Retry) {
        self.change_to(Stage::HeldBack(retry));
    }

    /// Takes the command to be tried again, if the session is in such a state.
    pub fn take_retry(&mut self) -> Option<Retry> {
        if !matches!(self.stage, Stage::Queued(_) | Stage::HeldBack(_)) {
            return None;
        }
        let (Stage::Queued(retry) | Stage::HeldBack(retry)) = self.change_to(Stage::Ready) else {
            unreachable!("looked at above")
        };
        Some(retry)
    }

    /// Makes the blocking command wait.
    pub fn block(&mut self, wait: Wait) {
        self.change_to(Stage::Blocked(wait));
    }

    /// The wait of the blocking command.
    pub fn wait(&self) -> Option<&Wait> {
        if let Stage::Blocked(wait) = &self.stage { Some(wait) } else { None }
    }

    /// Takes the wait of the blocking command, which is over.
    pub fn take_wait(&mut self) -> Option<Wait> {
        self.wait()?;
        let Stage::Blocked(wait) = self.change_to(Stage::Ready) else { unreachable!("looked at above") };
        Some(wait)
    }

    /// Makes the command wait for the journal or for replicas.
    pub fn sync(&mut self, wait: SyncWait) {
        self.change_to(Stage::Syncing(wait));
    }

    /// The command's wait for the journal or for replicas.
    pub fn sync_wait(&self) -> Option<SyncWait> {
        if let Stage::Syncing(wait) = &self.stage { Some(*wait) } else { None }
    }

    /// Takes that wait, which is over.
    pub fn take_sync_wait(&mut self) -> Option<SyncWait> {
        let wait = self.sync_wait()?;
        self.change_to(Stage::Ready);
        Some(wait)
    }

    /// The time at which the waiting command times out, whether it waits for keys, the journal or replicas.
    pub fn deadline_ms(&self) -> Option<u64> {
        match &self.stage {
            Stage::Blocked(wait) => wait.deadline_ms,
            Stage::Syncing(wait) => wait.deadline_ms,
            _ => None,
        }
    }

    /// Makes the command wait for the end of a pause.
    pub fn postpone(&mut self, postponed: Postponed) {
        self.change_to(Stage::Postponed(postponed));
    }

    /// The command that waits for the end of a pause.
    pub fn postponed(&self) -> Option<&Postponed> {
        if let Stage::Postponed(postponed) = &self.stage { Some(postponed) } else { None }
    }

    /// Takes the postponed command, which runs now.
    pub fn take_postponed(&mut self) -> Option<Postponed> {
        self.postponed()?;
        let Stage::Postponed(postponed) = self.change_to(Stage::Ready) else {
            unreachable!("looked at above")
        };
        Some(postponed)
    }

    /// Makes the command wait for the answers of `expected` threads.
    pub fn gather(&mut self, expected: usize, finish: Finish) {
        self.change_to(Stage::Gathering(Gathering { parts: Vec::new(), expected, finish, then: None }));
    }

    /// Keeps this EXEC, which ran a command that waits for answers, to continue it when they have arrived. Returns the
    /// EXEC if its command does not wait.
    pub fn gather_for(&mut self, executing: Box<Executing>) -> Option<Box<Executing>> {
        let Stage::Gathering(gathering) = &mut self.stage else { return Some(executing) };
        gathering.then = Some(executing);
        None
    }

    /// The EXEC that continues when the answers have arrived.
    pub fn executing(&self) -> Option<&Executing> {
        if let Stage::Gathering(gathering) = &self.stage { gathering.then.as_deref() } else { None }
    }

    /// The EXEC that continues when the answers have arrived, mutable.
    pub fn executing_mut(&mut self) -> Option<&mut Executing> {
        if let Stage::Gathering(gathering) = &mut self.stage { gathering.then.as_deref_mut() } else { None }
    }

    /// Takes the EXEC that waits for answers, to continue it without them.
    pub fn take_executing(&mut self) -> Option<Box<Executing>> {
        self.executing()?;
        let Stage::Gathering(gathering) = self.change_to(Stage::Ready) else {
            unreachable!("looked at above")
        };
        gathering.then
    }

    /// Adds an answer. After the last one, returns all of them with the function that builds the reply.
    pub fn take_answer(&mut self, answer: Answer) -> Option<Gathering> {
        let Stage::Gathering(gathering) = &mut self.stage else { return None };
        gathering.parts.push(answer.part);
        gathering.expected -= 1;
        if gathering.expected > 0 {
            return None;
        }
        let Stage::Gathering(gathering) = self.change_to(Stage::Ready) else {
            unreachable!("looked at above")
        };
        Some(gathering)
    }

    /// Stops reading from the connection, which must be closed in this way.
    pub fn close(&mut self, mode: CloseMode) {
        self.change_to(Stage::Closing(mode));
    }

    /// How the connection must be closed, if it must.
    #[inline]
    pub fn close_mode(&self) -> Option<CloseMode> {
        if let Stage::Closing(mode) = self.stage { Some(mode) } else { None }
    }

    /// Whether the next command may run.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Whether the next command stays in the input until other clients have been served.
    #[inline]
    pub fn is_put_off(&self) -> bool {
        matches!(self.stage, Stage::PutOff)
    }

    /// Whether the next command is still in the input.
    #[inline]
    pub fn is_between_commands(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::PutOff)
    }

    /// Whether the command runs elsewhere.
    pub fn is_away(&self) -> bool {
        matches!(self.stage, Stage::Away)
    }

    /// Whether the command waits for something that may never come. Such a wait ends when its client hangs up.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Blocked(_) | Stage::Syncing(_) | Stage::Postponed(_))
    }

    /// Bytes of arguments that are kept for a waiting command.
    pub fn argument_bytes(&self) -> usize {
        match &self.stage {
            Stage::Queued(retry) | Stage::HeldBack(retry) => retry.args.memory_bytes(),
            Stage::Blocked(wait) => wait.blocked.waiter.wait.args.memory_bytes(),
            Stage::Postponed(postponed) => postponed.args.memory_bytes(),
            Stage::Ready
            | Stage::PutOff
            | Stage::Away
            | Stage::Syncing(_)
            | Stage::Gathering(_)
            | Stage::Closing(_) => 0,
        }
    }
}

impl Stage {
    fn name(&self) -> &'static str {
        match self {
            Stage::Ready => "ready",
            Stage::PutOff => "put off",
            Stage::Away => "away",
            Stage::Queued(_) => "queued",
            Stage::HeldBack(_) => "held back",
            Stage::Blocked(_) => "blocked",
            Stage::Syncing(_) => "syncing",
            Stage::Postponed(_) => "postponed",
            Stage::Gathering(_) => "gathering",
            Stage::Closing(_) => "closing",
        }
    }

    /// Whether `next` may follow, by the table in the head of this file.
    fn may_become(&self, next: &Stage) -> bool {
        match self {
            Stage::Ready => !matches!(next, Stage::Ready),
            Stage::PutOff
            | Stage::Away
            | Stage::Queued(_)
            | Stage::HeldBack(_)
            | Stage::Blocked(_)
            | Stage::Syncing(_)
            | Stage::Postponed(_)
            | Stage::Gathering(_) => matches!(next, Stage::Ready),
            Stage::Closing(_) => false,
        }
    }
}

impl Part {
    /// The lines of all answers, sorted by their numbers.
    pub fn sorted_lines(parts: Vec<Part>) -> Vec<(u64, Vec<u8>)> {
        let mut lines: Vec<(u64, Vec<u8>)> = parts
            .into_iter()
            .flat_map(|part| match part {
                Part::Lines(lines) => lines,
                Part::Count(_) => Vec::new(),
            })
            .collect();
        lines.sort_by_key(|(number, _)| *number);
        lines
    }

    /// The sum of all counts.
    pub fn total(parts: &[Part]) -> u64 {
        parts.iter().map(|part| if let Part::Count(count) = part { *count } else { 0 }).sum()
    }
}

impl std::fmt::Debug for Gathering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gathering({}, {} to come)", self.parts.len(), self.expected)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Client, When};
    use resp::Proto;
    use shard::{Claim, Waiter};

    use super::*;

    fn stages() -> Vec<Stage> {
        let (command, args) = (CommandId(0), OwnedArgs::default);
        let retry = || Retry { command, args: args(), needs: Needs::Nothing, tries: 0 };
        let client = Client::internal(0, Proto::Resp2);
        let wait = engine::Wait {
            client,
            args: args(),
            when: When::Is(|_, _, _| true),
            also: None,
            serve: |_, _| Ok(true),
        };
        let waiter = Arc::new(Waiter { claim: Claim::default(), wait, heeds_loss: false, awaits_due: false });
        let blocked = Blocked {
            waiter,
            tickets: Default::default(),
            timeout_ms: 0,
            null_array: false,
            said: None,
            ran_ns: 0,
        };
        vec![
            Stage::Ready,
            Stage::PutOff,
            Stage::Away,
            Stage::Queued(retry()),
            Stage::HeldBack(retry()),
            Stage::Blocked(Wait { blocked: Box::new(blocked), deadline_ms: None }),
            Stage::Syncing(SyncWait { awaited: Awaited::default(), deadline_ms: None }),
            Stage::Postponed(Postponed { command, args: args(), number: 0 }),
            Stage::Gathering(Gathering {
                parts: Vec::new(),
                expected: 1,
                finish: Box::new(|_, _| {}),
                then: None,
            }),
            Stage::Closing(CloseMode::Now),
        ]
    }

    #[test]
    fn what_is_asserted_is_the_table_in_the_head() {
        let rows: Vec<(&str, &str)> = include_str!("state.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | "))
            .filter_map(|(from, rest)| Some((from, rest.split_once(" | ")?.0)))
            .collect();
        for (from, to) in stages().iter().flat_map(|from| stages().into_iter().map(move |to| (from, to))) {
            let is_in_table = rows.contains(&(from.name(), to.name()));
            assert_eq!(from.may_become(&to), is_in_table, "from {} to {}", from.name(), to.name());
        }
    }

    #[test]
    #[should_panic(expected = "a command that is away cannot become blocked")]
    fn a_command_that_is_away_does_not_wait_here() {
        let mut state = CommandState::default();
        state.go_away();
        let wait = stages().into_iter().find(|stage| stage.name() == "blocked").expect("it is one of them");
        state.change_to(wait);
    }

    #[test]
    fn a_command_is_put_off_so_often_and_then_delegated() {
        let mut state = CommandState::default();
        for _ in 0..PUT_OFF_MAX {
            assert!(state.put_off(true) && state.is_put_off());
            state.read_again();
        }
        assert!(!state.put_off(true) && state.is_ready());
        assert!(!state.put_off(false) && state.put_off(true), "the next one is put off again");
    }
}
