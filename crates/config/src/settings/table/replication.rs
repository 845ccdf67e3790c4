//! Settings about replication.

use crate::{Changeable, Id, SettingKind};

use crate::settings::special::PRIMARY;

use super::{Consequence, INT, PROCESS, SERVING, Setting, group};

settings! {
    REPLICATION from SERVING.len() + PROCESS.len();

    REPLICAOF = Setting {
        name: "replicaof",
        alias: Some("slaveof"),
        kind: PRIMARY,
        change: Changeable::AtStart,
        doc: "Host and port of the primary to follow; the command REPLICAOF changes it; empty: this server is a primary",
        ..Setting::of(group::REPLICATION)
    };
    MASTERAUTH = Setting {
        name: "masterauth",
        alias: Some("primaryauth"),
        doc: "Password for authentication at the primary; empty: none",
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
        doc: "Address that the primary shows for this replica; empty: that of the connection",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_ANNOUNCE_PORT = Setting {
        name: "replica-announce-port",
        alias: Some("slave-announce-port"),
        kind: SettingKind::Integer { min: 0, max: 65_535 },
        default: "0",
        doc: "Port that the primary shows for this replica; 0: the one on which it listens",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_PRIORITY = Setting {
        name: "replica-priority",
        alias: Some("slave-priority"),
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "100",
        doc: "Sentinel prefers the replica with the lowest number as a new primary; 0: never this one",
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
    MAINT_ENDPOINT = Setting {
        name: "maint-notifications-endpoint",
        doc: "Where clients are told to go at a handover, as `host:port`; empty: to the server that takes over",
        details: "`none`: nowhere, because a name or an address moves to that server.",
        ..Setting::of(group::REPLICATION)
    };
    MAINT_SECONDS = Setting {
        name: "maint-notifications-seconds",
        kind: SettingKind::Integer { min: 1, max: 3600 },
        default: "10",
        unit: "seconds",
        doc: "For how long clients are told to use the other server, until what they know leads there",
        ..Setting::of(group::REPLICATION)
    };
    REPL_BACKLOG_SIZE = Setting {
        name: "repl-backlog-size",
        kind: SettingKind::Memory { min: 1, max: i64::MAX },
        default: "1mb",
        unit: "bytes",
        doc: "Size of the stream kept in memory for replicas that reconnect",
        ..Setting::of(group::REPLICATION)
    };
    REPL_BACKLOG_TTL = Setting {
        name: "repl-backlog-ttl",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "3600",
        unit: "seconds",
        doc: "How long the stream is kept after the last replica has disconnected; 0: forever",
        ..Setting::of(group::REPLICATION)
    };
    REPL_TIMEOUT = Setting {
        name: "repl-timeout",
        kind: SettingKind::Integer { min: 1, max: INT },
        default: "60",
        unit: "seconds",
        doc: "Time after which a silent replica or primary is disconnected, or a replica that reads nothing of its snapshot",
        ..Setting::of(group::REPLICATION)
    };
    REPL_PING_REPLICA_PERIOD = Setting {
        name: "repl-ping-replica-period",
        alias: Some("repl-ping-slave-period"),
        kind: SettingKind::Integer { min: 1, max: INT },
        default: "10",
        unit: "seconds",
        doc: "How often replicas are pinged",
        ..Setting::of(group::REPLICATION)
    };
    REPL_DISKLESS_SYNC = Setting {
        name: "repl-diskless-sync",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Send a snapshot to replicas while it is written (yes), or when it is complete (no)",
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
        doc: "Refuse write commands while fewer replicas than this follow closely; 0: never",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    REPL_SYNC_REPLICAS = Setting {
        name: "repl-sync-replicas",
        kind: SettingKind::Integer { min: 0, max: INT },
        default: "0",
        doc: "Delay replies until this many replicas have the data they reveal; 0: asynchronous replication",
        details: "Writes are refused while fewer follow.",
        effect: Some(Consequence::Replicas),
        ..Setting::of(group::REPLICATION)
    };
    REPL_SYNC_ACK = Setting {
        name: "repl-sync-ack",
        kind: SettingKind::Choice(&[("applied", 0), ("durable", SYNC_ACK_DURABLE)]),
        default: "applied",
        doc: "When a replica has the data for repl-sync-replicas: when it has applied it, or when it is durable there",
        details: "With durable, replicas without a journal do not count.",
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
        doc: "Whether clients of a replica may only read; with no, what they write exists only there, until the next full copy",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_SERVE_STALE_DATA = Setting {
        name: "replica-serve-stale-data",
        alias: Some("slave-serve-stale-data"),
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Whether a replica without a link to its primary serves the data that it has",
        ..Setting::of(group::REPLICATION)
    };
    REPLICA_IGNORE_MAXMEMORY = Setting {
        name: "replica-ignore-maxmemory",
        alias: Some("slave-ignore-maxmemory"),
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Whether a replica leaves evictions to its primary; if not, it evicts by itself when it exceeds its own `maxmemory`",
        ..Setting::of(group::REPLICATION)
    };
}

/// `repl-sync-ack`: a replica counts when the write is on its disk.
pub const SYNC_ACK_DURABLE: i64 = 1;
