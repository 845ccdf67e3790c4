//! Runs the commands of `replication`: gives them the client as a replica, and does what they leave to the thread.

use engine::{CommandResult, OwnCall};
use proactor::ConnId;
use replication::{Function, ReplicationCaller, random_id};

use crate::life::syncing::begin_sync;
use crate::thread::ThreadHost;

pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let session = host.current.as_deref_mut().expect("a command runs for a client");
    let (conn, driver) = (ConnId::from_bits(session.client.connection), &mut host.net.driver);
    let mut caller = ReplicationCaller {
        parts: host.shared.role_parts(),
        now_ms: host.net.now_ms,
        peer: &mut session.replica,
        address: &session.peer,
        written_slice: &mut session.written_slice,
        draw_id: &mut || {
            let mut entropy = driver.entropy().expect("the system has randomness");
            random_id(|| entropy.next_u64())
        },
        is_fed: false,
        waits_for: None,
    };
    let result = function(&mut call.on(&mut caller));
    let ReplicationCaller { is_fed, waits_for, .. } = caller;
    if is_fed {
        host.roles.replicas.add(conn);
    }
    if let Some((awaited, timeout_ms)) = waits_for {
        begin_sync(host, awaited, timeout_ms);
    }
    result
}
