//! Settings about the process, and the files that it reads and writes.

use crate::{Changeable, Id, SettingKind};

use super::{INT, SERVING, Setting, group};
use crate::consequence::Consequence;
use crate::settings::{redis_version, special};

settings! {
    PROCESS from SERVING.len();

    DAEMONIZE = Setting {
        name: "daemonize",
        kind: SettingKind::Bool,
        default: "no",
        change: Changeable::AtStart,
        doc: "Run in the background: the command returns when the server listens",
        details: "Under systemd (see `supervised`) it stays in the foreground.",
        ..Setting::of(group::PROCESS)
    };
    SUPERVISED = Setting {
        name: "supervised",
        kind: SettingKind::Choice(&[("no", 0), ("upstart", 1), ("systemd", 2), ("auto", 3)]),
        default: "no",
        change: Changeable::AtStart,
        doc: "Service manager to notify when the server is ready, loads, saves and stops",
        details: "auto: the one whose variables are set.",
        ..Setting::of(group::PROCESS)
    };
    SHUTDOWN_TIMEOUT = Setting {
        name: "shutdown-timeout",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "seconds",
        default: "10",
        doc: "How long a shutdown waits for scripts that run",
        details: "It then ends those that have written nothing, and gives up on those that do not return. The least is 1.",
        ..Setting::of(group::PROCESS)
    };
    SHUTDOWN_ON_SIGINT = Setting {
        name: "shutdown-on-sigint",
        kind: special::SHUTDOWN_FLAGS,
        default: "default",
        doc: "What SIGINT does: default, or some of SHUTDOWN's save, nosave, now, force, safe and failover",
        ..Setting::of(group::PROCESS)
    };
    SHUTDOWN_ON_SIGTERM = Setting {
        name: "shutdown-on-sigterm",
        kind: special::SHUTDOWN_FLAGS,
        default: "default",
        doc: "What SIGTERM does: likewise",
        ..Setting::of(group::PROCESS)
    };
    PIDFILE = Setting {
        name: "pidfile",
        change: Changeable::AtStart,
        doc: "File that holds the process number while the server runs; empty: none, in the background /var/run/redis.pid",
        ..Setting::of(group::PROCESS)
    };
    DIR = Setting {
        name: "dir",
        change: Changeable::Protected,
        effect: Some(Consequence::Directory),
        doc: "Working directory; empty: where it was started",
        ..Setting::of(group::PROCESS)
    };
    DBFILENAME = Setting {
        name: "dbfilename",
        kind: special::FILE_NAME,
        default: "dump.rdb",
        change: Changeable::Protected,
        doc: "File name of the snapshot in the working directory, which is loaded at the start",
        details: "{timestamp} in it becomes the time of the save, and the newest is loaded.",
        ..Setting::of(group::PROCESS)
    };
    RDBCHECKSUM = Setting {
        name: "rdbchecksum",
        kind: SettingKind::Bool,
        default: "yes",
        change: Changeable::AtStart,
        doc: "Write a checksum at the end of snapshots, and verify it on loading",
        ..Setting::of(group::PROCESS)
    };
    RDBCOMPRESSION = Setting {
        name: "rdbcompression",
        kind: SettingKind::Bool,
        default: "yes",
        effect: Some(Consequence::Data),
        doc: "Compress strings in snapshots and in the replies of DUMP",
        ..Setting::of(group::PROCESS)
    };
    SNAPSHOT_FORMAT = Setting {
        name: "snapshot-format",
        kind: SettingKind::Choice(&[("rdb", 0), ("darter", 1)]),
        default: "rdb",
        doc: "Format of snapshots; rdb: one file that Redis loads; darter: one file for each thread",
        details: "Files of threads are loaded in parallel, and `dbfilename` lists them.",
        ..Setting::of(group::PROCESS)
    };
    RDB_VERSION = Setting {
        name: "rdb-version",
        kind: SettingKind::Integer { min: rdb::VERSION as i64, max: rdb::VERSION_WRITTEN_MAX as i64 },
        default: "10",
        doc: "RDB version of snapshots: 10 for Redis 7.0 and later, 11 for 7.2, 12 for 7.4",
        ..Setting::of(group::PROCESS)
    };
    RDB_SAVE_INCREMENTAL_FSYNC = Setting {
        name: "rdb-save-incremental-fsync",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Start flushing a snapshot to the disk while it is written",
        ..Setting::of(group::PROCESS)
    };
    STOP_WRITES_ON_BGSAVE_ERROR = Setting {
        name: "stop-writes-on-bgsave-error",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Refuse write commands after a failed save, if there are save points",
        ..Setting::of(group::PROCESS)
    };
    REDIS_VERSION = Setting {
        name: "redis-version",
        kind: redis_version::KIND,
        default: "8.6",
        change: Changeable::AtStart,
        doc: "Version of Redis that clients are told in INFO and HELLO, and scripts in `redis.REDIS_VERSION`",
        details: "Clients decide by it what they may use. It changes nothing else; see [differences.md](differences.md#what-it-calls-itself).",
        ..Setting::of(group::NETWORK)
    };
    SAVE = Setting {
        name: "save",
        kind: special::SAVE_POINTS,
        default: "3600 1 300 100 60 10000",
        unit: "seconds, changes",
        doc: "Save a snapshot after this many seconds with this many changes, and on shutdown; empty: neither",
        ..Setting::of(group::PROCESS)
    };
    SNAPSHOT_CRON = Setting {
        name: "snapshot-cron",
        kind: special::SCHEDULE,
        doc: "Schedule for additional snapshots, as in cron: minute, hour, day, month, day of the week, in UTC",
        ..Setting::of(group::PROCESS)
    };
    IMPORT_AOF = Setting {
        name: "import-aof",
        kind: SettingKind::Choice(&[("ask", IMPORT_ASK), ("yes", IMPORT_YES), ("no", IMPORT_NO)]),
        default: "ask",
        change: Changeable::AtStart,
        doc: "Whether to import Redis' append-only file once; ask: refuse to start if there is one",
        details: "It is looked for in the working directory, and read instead of the snapshot (yes) or ignored (no).",
        ..Setting::of(group::PROCESS)
    };
    APPENDDIRNAME = Setting {
        name: "appenddirname",
        kind: special::FILE_NAME,
        default: "appendonlydir",
        change: Changeable::AtStart,
        doc: "Folder of the journal in the working directory; Redis 7 and later keep the append-only file there",
        ..Setting::of(group::PROCESS)
    };
    APPENDFILENAME = Setting {
        name: "appendfilename",
        kind: special::FILE_NAME,
        default: "appendonly.aof",
        change: Changeable::AtStart,
        doc: "Name of Redis' append-only file, and prefix of the names of its parts",
        ..Setting::of(group::PROCESS)
    };
    AOF_LOAD_TRUNCATED = Setting {
        name: "aof-load-truncated",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Load an append-only file that ends in the middle of a command up to that point",
        ..Setting::of(group::PROCESS)
    };
    APPENDONLY = Setting {
        name: "appendonly",
        kind: SettingKind::Bool,
        default: "no",
        effect: Some(Consequence::Journal),
        doc: "Write every change to a journal, so that data survives a failure of the process or the machine; see appendfsync",
        ..Setting::of(group::PROCESS)
    };
    APPENDFSYNC = Setting {
        name: "appendfsync",
        kind: SettingKind::Choice(&[("no", SYNC_NEVER), ("everysec", SYNC_EACH_SECOND), ("always", SYNC_ALWAYS)]),
        default: "everysec",
        effect: Some(Consequence::Journal),
        doc: "When the journal is synced: before replies (always), within two seconds (everysec), or some time (no)",
        details: "With no, the system decides.",
        ..Setting::of(group::PROCESS)
    };
    AUTO_AOF_REWRITE_PERCENTAGE = Setting {
        name: "auto-aof-rewrite-percentage",
        kind: SettingKind::Integer { min: 0, max: i32::MAX as i64 },
        default: "100",
        unit: "percent",
        doc: "Growth of the journal over its base at which it gets a new base; 0: never",
        ..Setting::of(group::PROCESS)
    };
    AUTO_AOF_REWRITE_MIN_SIZE = Setting {
        name: "auto-aof-rewrite-min-size",
        kind: SettingKind::Memory { min: 0, max: i64::MAX },
        default: "64mb",
        unit: "bytes",
        doc: "Size below which a journal gets no new base automatically",
        ..Setting::of(group::PROCESS)
    };
    JOURNAL_PENDING_MAX = Setting {
        name: "journal-pending-max",
        kind: SettingKind::Memory { min: 1 << 20, max: i64::MAX },
        default: "64mb",
        unit: "bytes",
        effect: Some(Consequence::Journal),
        doc: "Write commands wait while more than this waits to be written",
        ..Setting::of(group::PROCESS)
    };
    JOURNAL_PENDING_MS = Setting {
        name: "journal-pending-ms",
        kind: SettingKind::Integer { min: 0, max: i64::MAX },
        default: "100",
        unit: "milliseconds",
        effect: Some(Consequence::Journal),
        doc: "How long a change may wait to be written before write commands wait; 0: without limit",
        details: "A change that waits would be lost if the process died. The limit holds for `appendfsync` everysec and no; with always, replies wait.",
        ..Setting::of(group::PROCESS)
    };
    JOURNAL_STALL_MS = Setting {
        name: "journal-stall-ms",
        kind: SettingKind::Integer { min: 0, max: i64::MAX },
        default: "0",
        unit: "milliseconds",
        doc: "Time without an answer from the disk after which PING returns MISCONF; 0: never",
        details: "Health checks then consider the server down.",
        ..Setting::of(group::PROCESS)
    };
}

/// `appendfsync`: never waits for the disk.
pub const SYNC_NEVER: i64 = 0;
/// `appendfsync`: waits for the disk once a second.
pub const SYNC_EACH_SECOND: i64 = 1;
/// `appendfsync`: waits for the disk before each reply.
pub const SYNC_ALWAYS: i64 = 2;
/// `import-aof`: refuse to start if there is an append-only file.
pub const IMPORT_ASK: i64 = 0;
/// `import-aof`: load the append-only file.
pub const IMPORT_YES: i64 = 1;
/// `import-aof`: ignore the append-only file.
pub const IMPORT_NO: i64 = 2;
