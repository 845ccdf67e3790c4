//! Runs QUEUE (`jobs/queues`): in slices, between which the thread serves other clients.

use acl::Access;
use clients::session::Retry;
use engine::{CommandId, CommandResult, Needs, OwnCall, OwnedArgs, Task, Work};
use jobs::queues::{Function, QueueWork};
use shard::{Delegated, ShardId};

use crate::message::Message;
use crate::thread::ThreadHost;

pub(super) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let (command, args) = (call.command.id, call.args);
    let (shared, clock) = (host.shared, host.net.driver.clock());
    let session = host.current.as_deref_mut();
    let caller_db = session.as_deref().map(|session| session.caller_db(shared.settings.databases()));
    let (progress, access) = session.map(|session| (&mut session.progress, &session.access)).unzip();
    let mut work = QueueWork {
        progress,
        goes_on_with: None,
        label: &|client| shared.registry.label(client),
        may_change: &|command, args, keys| {
            let access: &Access = access.expect("commands that find out keys stay on their client's thread");
            let caller_db = caller_db.expect("so it has a database");
            access.may_change(caller_db, command, args, keys)
        },
        now_ns: &mut || clock.monotonic_ns(),
    };
    let result = function(&mut call.on(&mut work));
    if let Some(shards) = work.goes_on_with {
        go_on_later(host, command, args, &shards);
    }
    result
}

/// Runs the current client's command again after other clients were served, and enters these shards in addition to those
/// of its keys.
fn go_on_later(host: &mut ThreadHost, command: CommandId, args: &[&[u8]], shards: &[ShardId]) {
    let (args, needs) = (OwnedArgs::new(args), Needs::several(shards.into()));
    host.session().state.queue(Retry { command, args, needs, tries: 0 });
    let note = Task::new(Work::Notify, ShardId::default(), host.session().client, OwnedArgs::default());
    host.net.messages.put_off(Message::Done(Delegated::new(note), Vec::new()));
}
