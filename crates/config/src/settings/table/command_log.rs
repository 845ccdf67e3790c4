//! Settings about the logs of commands: slow ones, and those with large requests and replies.

use crate::{Id, SettingKind};

use super::{CLUSTER, HTTP, LONG, PROCESS, QUEUES, REPLICATION, SECURITY, SERVING, Setting, TLS, group};
use crate::consequence::Consequence;

settings! {
    COMMAND_LOG from SERVING.len() + PROCESS.len() + REPLICATION.len() + HTTP.len() + QUEUES.len() + TLS.len() + SECURITY.len() + CLUSTER.len();

    SLOWLOG_LOG_SLOWER_THAN = Setting {
        name: "slowlog-log-slower-than",
        alias: Some("commandlog-execution-slower-than"),
        kind: SettingKind::Integer { min: -1, max: LONG },
        unit: "microseconds",
        default: "10000",
        effect: Some(Consequence::Observed),
        doc: "Duration above which a command is recorded in the slow log; 0: all, -1: none",
        ..Setting::of(group::WATCHING)
    };
    SLOWLOG_MAX_LEN = Setting {
        name: "slowlog-max-len",
        alias: Some("commandlog-slow-execution-max-len"),
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "commands",
        default: "128",
        effect: Some(Consequence::Observed),
        doc: "Maximum number of entries in the slow log",
        ..Setting::of(group::WATCHING)
    };
    COMMANDLOG_REQUEST_LARGER_THAN = Setting {
        name: "commandlog-request-larger-than",
        kind: SettingKind::Integer { min: -1, max: LONG },
        unit: "bytes",
        default: "1048576",
        effect: Some(Consequence::Observed),
        doc: "Size from which a request is recorded in the log of large requests; 0: all, -1: none",
        details: "COMMANDLOG shows it.",
        ..Setting::of(group::WATCHING)
    };
    COMMANDLOG_LARGE_REQUEST_MAX_LEN = Setting {
        name: "commandlog-large-request-max-len",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "commands",
        default: "128",
        effect: Some(Consequence::Observed),
        doc: "Maximum number of entries in the log of large requests",
        ..Setting::of(group::WATCHING)
    };
    COMMANDLOG_REPLY_LARGER_THAN = Setting {
        name: "commandlog-reply-larger-than",
        kind: SettingKind::Integer { min: -1, max: LONG },
        unit: "bytes",
        default: "1048576",
        effect: Some(Consequence::Observed),
        doc: "Size from which a reply is recorded in the log of large replies; 0: all, -1: none",
        details: "COMMANDLOG shows it.",
        ..Setting::of(group::WATCHING)
    };
    COMMANDLOG_LARGE_REPLY_MAX_LEN = Setting {
        name: "commandlog-large-reply-max-len",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "commands",
        default: "128",
        effect: Some(Consequence::Observed),
        doc: "Maximum number of entries in the log of large replies",
        ..Setting::of(group::WATCHING)
    };
}
