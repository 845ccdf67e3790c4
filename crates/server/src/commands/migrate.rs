//! Runs MIGRATE (`ops/migrate`): gives it what its client's earlier rounds have sent, and sends the next round.

use config::TLS_CLUSTER;
use engine::{CommandResult, OwnCall};
use ops::migrate::{Function, NextRound, Returned, Rounds};

use crate::message::Message;
use crate::thread::ThreadHost;

pub(super) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let mut rounds = Rounds { earlier: host.session().migration.take(), next: None };
    let result = function(&mut call.on(&mut rounds));
    if let Some(next) = rounds.next {
        send(host, next)?;
    }
    result
}

/// Sends a round. The client waits until it is over.
fn send(host: &mut ThreadHost, NextRound { mut target, returned }: NextRound) -> CommandResult {
    let shared = host.shared;
    if shared.settings.is_on(TLS_CLUSTER) {
        // TLS is never left out, even while it is being set up.
        target.tls = Some(shared.tls.dialing().ok_or(ops::migrate::CONNECTING)?);
    }
    let tell = |returned: Box<Returned>| {
        let thread = usize::from(returned.client.thread);
        shared.threads[thread].send(Message::Migrated(returned));
    };
    shared.migrations.send(target, returned, tell)?;
    host.session().state.go_away();
    Ok(())
}
