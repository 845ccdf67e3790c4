//! Settings about replication.

use config::{Change, Id, SettingKind};

use crate::special::PRIMARY;

use super::{Consequence, INT, PROCESS, SERVING, Setting, group};

settings! {
    REPLICATION from SERVING.len() + PROCESS.len();

    REPLICAOF = Setting {
        name: "replicaof",
        alias: Some("slaveof"),
        kind: PRIMARY,
        change: Change::AtStart,
        doc: "Host and port of the primary that this server follows from the start; the command REPLICAOF changes it; empty: it is a primary itself",
        ..Setting::of(group::REPLICATION)
    };
    MASTERAUTH = Setting {
        name: "masterauth",
        alias: Some("primaryauth"),
        doc: "The password with which this server logs in to its primary; empty: it does not",
        is_secret: true,
        ..Setting::of(group::REPLICATION)
    };
    MASTERUSER = Setting {
        name: "masteruser",
        alias: Some("primaryuser"),
        doc: "User for authentication at the primary; empty: `default`",
        is_secret: true,
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_ANNOUNCE_IP = Setting {
        name: "replica-announce-ip",
        alias: Some("slave-announce-ip"),
        doc: "The address by which the primary is to show this replica; empty: that of the connection",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_ANNOUNCE_PORT = Setting {
        name: "replica-announce-port",
        alias: Some("slave-announce-port"),
        kind: SettingKind::Integer { min: 0, max: 65_535 },
        default: "0",
        doc: "The port that the primary is to show for this replica; 0: that on which it listens",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_PRIORITY = Setting {
        name: "replica-priority",
        alias: Some("slave-priority"),
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "100",
        doc: "Sentinel prefers the replica with the least priority as a new primary; 0: never this one",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_ANNOUNCED = Setting {
        name: "replica-announced",
        alias: Some("slave-announced"),
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Whether Sentinel tells clients of this replica",
        ..Setting::of(group::REPLICATION)
    };
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
        doc: "A replica that has said nothing, or taken nothing of its snapshot, for so long is disconnected, and so is a primary that is silent",
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
        doc: "Start the snapshot early once this many replicas wait for it; 0: always wait",
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
        name: "repl-sync-replicas",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "0",
        doc: "Delay replies until this many replicas have the data they reveal, and refuse writes while fewer follow; 0: asynchronous replication",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    REPL_SYNC_ACK = Setting {
        name: "repl-sync-ack",
        kind: SettingKind::Choice(&[("applied", 0), ("durable", SYNC_ACK_DURABLE)]),
        default: "applied",
        doc: "Those replicas have it when they have applied it, or when it is on their disks: then replicas without a journal do not count",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    MIN_REPLICAS_MAX_LAG = Setting {
        name: "min-replicas-max-lag",
        alias: Some("min-slaves-max-lag"),
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "10",
        unit: "seconds",
        doc: "A replica counts if it has acknowledged something within this many seconds; 0: min-replicas-to-write has no effect",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_READ_ONLY = Setting {
        name: "replica-read-only",
        alias: Some("slave-read-only"),
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Whether clients of a replica may only read; what they write otherwise is there only, and until the next copy of the primary",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_SERVE_STALE_DATA = Setting {
        name: "replica-serve-stale-data",
        alias: Some("slave-serve-stale-data"),
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Whether a replica without a link to its primary answers from what it has",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_IGNORE_MAXMEMORY = Setting {
        name: "replica-ignore-maxmemory",
        alias: Some("slave-ignore-maxmemory"),
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Whether a replica leaves it to its primary to make room",
        ..Setting::of(group::REPLICATION)
    };
}

/// `repl-sync-ack`: what counts is what is on the disks of replicas.
pub const SYNC_ACK_DURABLE: i64 = 1;
