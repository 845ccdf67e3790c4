//! What QUEUE needs from the thread that runs it (`queues`).

use command::{Command, CommandId, Needs, OwnedArgs, Task, Work};
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

    fn go_on_later(
        &mut self,
        command: CommandId,
        args: &[&[u8]],
        shards: &[ShardId],
        progress: Box<Progress>,
    ) {
        let session = self.session();
        session.progress = Some(progress);
        let needs = Needs::several(shards.into());
        session.state.queue(Retry { command, args: OwnedArgs::new(args), needs, tries: 0 });
        let note = Task::new(Work::Notify, ShardId::default(), session.client, OwnedArgs::default());
        self.mailroom.put_off(Message::Done(Delegated::new(note), Vec::new()));
    }

    fn may_change(&mut self, command: &Command, args: &[&[u8]], key: &[u8]) -> bool {
        self.permit_beside(command, args, key)
    }

    fn may_change_all(&mut self, command: &Command, args: &[&[u8]], begin: &[u8]) -> bool {
        self.session().access.may_change_all(command, args, begin)
    }

    fn now_ns(&mut self) -> u64 {
        self.driver.clock().monotonic_ns()
    }
}
