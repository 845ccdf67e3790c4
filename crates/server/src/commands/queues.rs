//! Gives QUEUE what it needs from its thread (`queues`).

use clients::session::Retry;
use engine::{Command, CommandId, Keys, Needs, OwnedArgs, Task, Work};
use jobs::queues::{Door, Label, Progress};
use shard::{Delegated, ShardId};

use crate::message::Message;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn label(&self, client: u64) -> Label {
        self.shared.registry.label(client)
    }

    fn progress(&mut self) -> &mut Option<Box<Progress>> {
        &mut self.session().progress
    }

    fn go_on_later(&mut self, command: CommandId, args: &[&[u8]], shards: &[ShardId]) {
        let (args, needs) = (OwnedArgs::new(args), Needs::several(shards.into()));
        self.session().state.queue(Retry { command, args, needs, tries: 0 });
        let note = Task::new(Work::Notify, ShardId::default(), self.session().client, OwnedArgs::default());
        self.net.mailroom.put_off(Message::Done(Delegated::new(note), Vec::new()));
    }

    fn may_change(&mut self, command: &Command, args: &[&[u8]], keys: Keys<'_>) -> bool {
        self.session().access.may_change(command, args, keys)
    }

    fn now_ns(&mut self) -> u64 {
        self.net.driver.clock().monotonic_ns()
    }
}
