//! Makes this server a replica or a primary. All shards are held, so the role changes between transactions.

use config::REPLICAOF;
use config::SettingValue;

use crate::address::Address;
use crate::following::Resume;
use crate::history::{History, ReplicationId};
use crate::parts::{Parts, RoleChange};

/// Makes this server follow `primary`. It keeps its data until it has the primary's.
pub(crate) fn follow(parts: &Parts, primary: Address, now_ms: u64) {
    let is_new_replica = !parts.following.is_replica();
    parts.settings.force(REPLICAOF, &SettingValue::text(format!("{} {}", primary.host, primary.port)));
    tracing::info!("REPLICAOF {}:{} enabled", primary.host, primary.port);
    // From now on the log is a copy of another stream.
    parts.shards.set_hides_due(true);
    let end = parts.log.set_copying(true);
    parts.following.follow(primary, end.filter(|_| is_new_replica), now_ms);
    parts.change_role(if is_new_replica { RoleChange::Demoted } else { RoleChange::Moved });
}

/// Makes this server follow no other. Its stream continues where the primary's ended here, under another id.
pub(crate) fn lead(parts: &Parts, draw_id: impl FnOnce() -> ReplicationId) {
    parts.settings.force(REPLICAOF, &SettingValue::text(String::new()));
    if !parts.following.is_replica() {
        return;
    }
    let (id, former) = (draw_id(), parts.primary.history().id);
    let previous = match parts.following.resume() {
        Resume::At(offset) => Some((former, offset)),
        Resume::Later | Resume::Nowhere => None,
    };
    parts.rename_stream(History { id, previous });
    parts.following.lead();
    // The log records what threads do.
    parts.shards.set_hides_due(false);
    parts.log.set_copying(false);
    tracing::info!("MASTER MODE enabled");
    parts.change_role(RoleChange::Promoted);
}
