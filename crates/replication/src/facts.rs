//! The figures of replication that INFO shows.

use std::sync::atomic::{AtomicU64, Ordering};

use config::{REPL_BACKLOG_SIZE, REPLICA_ANNOUNCED, REPLICA_PRIORITY, REPLICA_READ_ONLY, Settings};
use effectlog::StreamPosition;
use observe::{Followed, Replication};

use crate::address::Address;
use crate::following::{Following, Resume};
use crate::link::LinkState;
use crate::primary::Primary;
use crate::quorum::Quorum;
use crate::synced::Synced;

/// The figures at `now_ms` on the monotonic clock. `first` is the beginning of the backlog, if there is one. `position`
/// is the end of the stream, read after `first`.
pub fn facts(
    primary: &Primary,
    following: &Following,
    synced: &Synced,
    (first, position): (Option<StreamPosition>, StreamPosition),
    settings: &Settings,
    now_ms: u64,
) -> Replication {
    let text = |id: &[u8]| String::from_utf8_lossy(id).into_owned();
    let history = primary.history();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let followed = followed(following, settings, now_ms);
    // On a replica, the applied offset is the end of its stream, so both numbers must be from the same moment.
    let applied = followed.as_ref().filter(|_| following.is_synced()).map(|followed| followed.offset);
    let offset = applied.unwrap_or(position.get());
    Replication {
        group: synced.group.facts(),
        followed,
        id: text(&history.id),
        former: history.previous.map(|(id, end)| (text(&id), end.get())),
        offset,
        first: first.map(StreamPosition::get).filter(|first| *first <= offset),
        backlog_bytes: settings.number(REPL_BACKLOG_SIZE) as u64,
        close_count: Quorum::count(settings, primary, now_ms),
        synced_count: Quorum::synced_count(settings, primary, now_ms),
        is_in_doubt: synced.is_in_doubt(),
        replicas: primary.replicas(now_ms).iter().map(ToString::to_string).collect(),
        syncs: [&primary.full_count, &primary.partial_count, &primary.refused_count].map(count),
        failover: following.failover.name(),
        error_count: count(&following.error_count),
        unsupported_count: count(&primary.unsupported_count),
    }
}

fn followed(following: &Following, settings: &Settings, now_ms: u64) -> Option<Followed> {
    let Address { host, port } = following.primary()?;
    let seconds_since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
    Some(Followed {
        host,
        port,
        is_up: following.is_link_up(),
        silent_seconds: seconds_since(following.heard_ms()),
        snapshot: (following.state() == LinkState::Sync).then(|| following.snapshot_progress()),
        down_seconds: seconds_since(following.down_since_ms()),
        divergence: following.divergence.load(Ordering::Relaxed),
        offset: match following.resume() {
            Resume::At(offset) => offset.get(),
            Resume::Later | Resume::Nowhere => 1,
        },
        // Its data may lack writes that its primary has acknowledged, so it must not be promoted.
        priority: if following.is_synced() && following.is_proven() {
            settings.number(REPLICA_PRIORITY) as u64
        } else {
            0
        },
        is_read_only: settings.is_on(REPLICA_READ_ONLY),
        is_announced: settings.is_on(REPLICA_ANNOUNCED),
    })
}
