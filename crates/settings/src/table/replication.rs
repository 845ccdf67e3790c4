//! Settings about replication.

use config::{Id, SettingKind};

use super::{Consequence, INT, PROCESS, SERVING, Setting, group};

settings! {
    REPLICATION from SERVING.len() + PROCESS.len();

    REPL_BACKLOG_SIZE = Setting {
        name: "repl-backlog-size",
        kind: SettingKind::Memory { min: 1, max: i64::MAX },
        default: "1mb",
        unit: "bytes",
        doc: "So much of the stream is kept in memory for replicas that were away for a moment",
        ..Setting::of(group::REPLICATION)
    };
    REPL_BACKLOG_TTL = Setting {
        name: "repl-backlog-ttl",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "3600",
        unit: "seconds",
        doc: "The stream is kept for so long after the last replica has gone; 0: for ever",
        ..Setting::of(group::REPLICATION)
    };
    REPL_TIMEOUT = Setting {
        name: "repl-timeout",
        kind: SettingKind::Integer { min: 1, max: INT },
        default: "60",
        unit: "seconds",
        doc: "A replica that has said nothing, or taken nothing of its snapshot, for so long is disconnected",
        ..Setting::of(group::REPLICATION)
    };
    REPL_PING_REPLICA_PERIOD = Setting {
        name: "repl-ping-replica-period",
        alias: Some("repl-ping-slave-period"),
        kind: SettingKind::Integer { min: 1, max: INT },
        default: "10",
        unit: "seconds",
        doc: "How often replicas are told that this server is alive",
        ..Setting::of(group::REPLICATION)
    };
    REPL_DISKLESS_SYNC = Setting {
        name: "repl-diskless-sync",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "A replica is sent its snapshot while that is written (yes), or when it is complete (no)",
        ..Setting::of(group::REPLICATION)
    };
    REPL_DISKLESS_SYNC_DELAY = Setting {
        name: "repl-diskless-sync-delay",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "5",
        unit: "seconds",
        doc: "How long a snapshot for replicas waits for more of them, if repl-diskless-sync is on",
        ..Setting::of(group::REPLICATION)
    };
    REPL_DISKLESS_SYNC_MAX_REPLICAS = Setting {
        name: "repl-diskless-sync-max-replicas",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "0",
        doc: "The snapshot waits no longer when so many replicas want it; 0: it does",
        ..Setting::of(group::REPLICATION)
    };
    MIN_REPLICAS_TO_WRITE = Setting {
        name: "min-replicas-to-write",
        alias: Some("min-slaves-to-write"),
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "0",
        doc: "Commands that write are refused while fewer replicas than this follow closely; 0: never",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    REPL_SYNC_REPLICAS = Setting {
        name: "repl_sync_replicas",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "0",
        doc: "Replies wait until so many replicas have what they tell of, and commands that write are refused while there are fewer; 0: they do not",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    MIN_REPLICAS_MAX_LAG = Setting {
        name: "min-replicas-max-lag",
        alias: Some("min-slaves-max-lag"),
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "10",
        unit: "seconds",
        doc: "A replica follows closely if it has acknowledged something in the last so many seconds; 0: min-replicas-to-write has no effect",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
}
