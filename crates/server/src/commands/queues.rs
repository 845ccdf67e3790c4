//! What QUEUE needs from the thread that runs it (`queues`).

use command::{CommandId, Needs, OwnedArgs, Task, Work};
use queues::{Door, Label, Progress};
use session::Retry;
use shard::{Delegated, ShardId};

use crate::message::Message;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn label(&self, client: u64) -> Label {
        self.shared.registry.label(client)
    }

    fn take_progress(&mut self) -> Option<Box<Progress>> {
        self.session().progress.take()
    }

    fn go_on_later(&mut self, command: CommandId, args: &[&[u8]], progress: Box<Progress>) {
        let session = self.session();
        session.progress = Some(progress);
        session.state.queue(Retry { command, args: OwnedArgs::new(args), needs: Needs::Nothing, tries: 0 });
        let note = Task::new(Work::Notify, ShardId::default(), session.client, OwnedArgs::default());
        self.mailroom.put_off(Message::Done(Delegated::new(note), Vec::new()));
    }

    fn now_ns(&mut self) -> u64 {
        self.driver.clock().monotonic_ns()
    }
}
