//! Makes this server a replica or a primary. All shards are held, so the role changes between transactions.

use config::REPLICAOF;
use config::Value;

use crate::address::Address;
use crate::following::Resume;
use crate::history::History;
use crate::{Door, RoleChange};

/// Makes this server follow `primary`. It keeps its data until it has the primary's.
pub(crate) fn follow(host: &mut dyn Door, primary: Address) {
    let (following, now_ms) = (host.following(), host.now_ms());
    let is_new_replica = !following.is_replica();
    host.settings().force(REPLICAOF, &Value::text(format!("{} {}", primary.host, primary.port)));
    tracing::info!("REPLICAOF {}:{} enabled", primary.host, primary.port);
    let end = host.set_copying(true);
    following.follow(primary, end.filter(|_| is_new_replica), now_ms);
    host.tell_role(if is_new_replica { RoleChange::Demoted } else { RoleChange::Moved });
}

/// Makes this server follow no other. Its stream continues where the primary's ended here, under another id.
pub(crate) fn lead(host: &mut dyn Door) {
    let (following, primary) = (host.following(), host.primary());
    host.settings().force(REPLICAOF, &Value::text(String::new()));
    if !following.is_replica() {
        return;
    }
    let (id, former) = (host.mark(), primary.history().id);
    let previous = match following.resume() {
        Resume::At(offset) => Some((former, offset)),
        Resume::Later | Resume::Nowhere => None,
    };
    host.rename_stream(History { id, previous });
    following.lead();
    host.set_copying(false);
    tracing::info!("MASTER MODE enabled");
    host.tell_role(RoleChange::Promoted);
}
