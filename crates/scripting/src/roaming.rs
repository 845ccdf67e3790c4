//! How a script that has written waits for an undeclared shard that is taken.
//!
//! The script cannot run again, so it waits as long as it must, and keeps its shards (`shard/hold.rs`
//! explains why there is no circular wait). If it holds the roaming shard, it just asks for the shard it
//! wants. If not, because it was trusted to keep to its declared keys, it asks for the roaming shard first.
//! Meanwhile it lends its shards to the script that holds the roaming shard, and gets them back after it: the
//! task that asks for a shard's return is first in its backlog.
//!
//! Invariant: a script that lends is between two commands, so its shards are consistent. Ready keys are
//! announced only when the script is complete, so it keeps them meanwhile.

use std::time::Duration;

use engine::{Client, OwnedArgs, Task, Wait as Waiter, Work};
use resp::Proto;
use shard::{Answer, Asked, Delegated, Hold, Ready, ShardId};

type Held<'t> = Hold<'t, Task, Waiter>;

/// Checks before the thread sleeps between them: about 10 µs, in which most commands end.
const LOOKS_AWAKE: u32 = 200;
/// Sleep between two checks: other threads may need the core to leave the shard.
const SLEEP: Duration = Duration::from_micros(50);

/// A shard that this script has lent.
struct Lent {
    id: ShardId,
    asked: Asked,
    /// Whether the script had entered it.
    was_entered: bool,
    /// Whether the thread keeps it beside the script.
    was_kept: bool,
    /// Keys that became ready and have not been announced.
    ready: Vec<Ready>,
}

/// A script's wait for a shard.
pub(crate) struct Waiting {
    id: ShardId,
    asked: Asked,
    /// Whether it holds the shard.
    has_come: bool,
    /// Whether it lends its shards meanwhile: it waits for the roaming shard.
    lends: bool,
    lent: Vec<Lent>,
    looks: u32,
}

impl Waiting {
    /// Asks for `id`. `None` if the shard was free and is now entered.
    pub(crate) fn begin(hold: &mut Held<'_>, id: ShardId) -> Option<Waiting> {
        let asked = ask(hold, id)?;
        let lends = id == hold.shards().roaming();
        Some(Waiting { id, asked, has_come: false, lends, lent: Vec::new(), looks: 0 })
    }

    /// Checks for the shard, and for the return of shards lent meanwhile. True if the shard and all lent ones
    /// have come.
    pub(crate) fn look(&mut self, hold: &mut Held<'_>) -> bool {
        if !self.has_come {
            match self.asked.answer() {
                Answer::Waiting => {}
                Answer::Given(given) => {
                    hold.accept(given);
                    self.has_come = true;
                }
                Answer::Dropped => match ask(hold, self.id) {
                    Some(asked) => self.asked = asked,
                    None => self.has_come = true,
                },
            }
        }
        self.lent.retain_mut(|lent| !lent.has_returned(hold));
        if self.lends && !self.has_come {
            self.lend(hold);
        }
        self.has_come && self.lent.is_empty()
    }

    /// Number of shards that are lent now.
    pub(crate) fn lent_count(&self) -> usize {
        self.lent.len()
    }

    /// Lends each shard that another script asks for.
    fn lend(&mut self, hold: &mut Held<'_>) {
        for id in [hold.entered(), hold.kept()].concat() {
            if !hold.has(id) && !hold.kept().contains(&id) {
                // The shard was in both lists, and is lent already.
                continue;
            }
            let is_asked_for = |task: &Task| matches!(task.work, Work::HandOver(_));
            let Some(node) = hold.take_first(id, is_asked_for) else { continue };
            let Work::HandOver(to) = node.task.work else { unreachable!("it was looked for") };
            let (was_entered, was_kept) = (hold.has(id), hold.kept().contains(&id));
            let ready = if was_entered { std::mem::take(&mut hold.shard_mut(id).ready) } else { Vec::new() };
            let (asked, node) = request(id);
            hold.put_first(id, node);
            hold.hand_over(id, to);
            self.lent.push(Lent { id, asked, was_entered, was_kept, ready });
        }
    }

    /// Lets other threads run before the next check.
    pub(crate) fn pause(&mut self) {
        shard::pause();
        self.looks += 1;
        if self.looks < LOOKS_AWAKE {
            std::hint::spin_loop();
        } else {
            std::thread::park_timeout(SLEEP);
        }
    }
}

impl Lent {
    /// Whether the shard is back. If so, this thread holds it as before.
    fn has_returned(&mut self, hold: &mut Held<'_>) -> bool {
        match self.asked.answer() {
            Answer::Waiting => return false,
            Answer::Given(given) => hold.accept(given),
            Answer::Dropped => {
                if let Some(asked) = ask(hold, self.id) {
                    self.asked = asked;
                    return false;
                }
            }
        }
        if self.was_kept {
            hold.keep(self.id);
        }
        if self.was_entered {
            assert!(hold.try_enter(self.id), "it is held");
            hold.shard_mut(self.id).ready.append(&mut self.ready);
        }
        true
    }
}

/// A task that asks for `id`.
fn request(id: ShardId) -> (Asked, Box<Delegated<Task>>) {
    let (asked, hand_over) = Asked::new();
    let client = Client::internal(0, Proto::Resp2);
    (asked, Delegated::new(Task::new(Work::HandOver(hand_over), id, client, OwnedArgs::default())))
}

/// Asks for `id`. `None` if the shard was free and is now entered.
fn ask(hold: &mut Held<'_>, id: ShardId) -> Option<Asked> {
    let (asked, node) = request(id);
    match hold.enter_or_delegate(id, node) {
        None => Some(asked),
        Some(_) => None,
    }
}
