//! Settings about permissions, and about limits for single users and addresses.

use crate::{Change, Id, SettingKind};

use super::{HTTP, INT, LONG, PROCESS, QUEUES, REPLICATION, SERVING, Setting, TLS, group};
use crate::consequence::Consequence;

settings! {
    SECURITY from SERVING.len() + PROCESS.len() + REPLICATION.len() + HTTP.len() + QUEUES.len() + TLS.len();

    REQUIREPASS = Setting {
        name: "requirepass",
        effect: Some(Consequence::Password),
        doc: "Password of the user `default`, which clients use unless they authenticate as another; empty: none",
        is_secret: true,
        ..Setting::of(group::SECURITY)
    };
    ACLFILE = Setting {
        name: "aclfile",
        change: Change::AtStart,
        doc: "File with the users, one on each line, for ACL LOAD and ACL SAVE; empty: `user` lines in the configuration declare them",
        ..Setting::of(group::SECURITY)
    };
    ACL_PUBSUB_DEFAULT = Setting {
        name: "acl-pubsub-default",
        kind: SettingKind::Choice(&[("allchannels", 1), ("resetchannels", 0)]),
        default: "resetchannels",
        doc: "Whether new users may use all channels or none",
        ..Setting::of(group::SECURITY)
    };
    ACLLOG_MAX_LEN = Setting {
        name: "acllog-max-len",
        kind: SettingKind::Integer { min: 0, max: LONG },
        unit: "entries",
        default: "128",
        doc: "Entries that ACL LOG keeps",
        ..Setting::of(group::SECURITY)
    };
    AUTH_FAILURES_MAX = Setting {
        name: "auth-failures-max",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "passwords",
        default: "0",
        doc: "Wrong passwords from one address in ten seconds after which further logins from there are refused for the rest of the ten seconds, even with the right password, and the connection is closed; 0: no limit",
        ..Setting::of(group::SECURITY)
    };
    MAXCLIENTS_PER_USER = Setting {
        name: "maxclients-per-user",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "clients",
        default: "0",
        doc: "Connections per user, except the default user; further logins are refused; 0: no limit",
        ..Setting::of(group::SECURITY)
    };
    PROTECTED_MODE = Setting {
        name: "protected-mode",
        kind: SettingKind::Bool,
        default: "yes",
        doc: "Serve only clients on this machine while there is no password",
        ..Setting::of(group::SECURITY)
    };
    ENABLE_DEBUG_COMMAND = Setting {
        name: "enable-debug-command",
        kind: SettingKind::Choice(&[("no", 0), ("yes", 1), ("local", 2)]),
        default: "no",
        change: Change::AtStart,
        doc: "Whether DEBUG may be called: no, yes, or by clients on this machine",
        ..Setting::of(group::SECURITY)
    };
    ENABLE_PROTECTED_CONFIGS = Setting {
        name: "enable-protected-configs",
        kind: SettingKind::Choice(&[("no", 0), ("yes", 1), ("local", 2)]),
        default: "no",
        change: Change::AtStart,
        doc: "Whether CONFIG SET may change where files are written: no, yes, or by clients on this machine",
        ..Setting::of(group::SECURITY)
    };
    ENABLE_MODULE_COMMAND = Setting {
        name: "enable-module-command",
        kind: SettingKind::Choice(&[("no", 0), ("yes", 1), ("local", 2)]),
        default: "no",
        change: Change::AtStart,
        doc: "Whether MODULE LOAD may be called (it then answers that there are no modules): no, yes, or by clients on this machine",
        ..Setting::of(group::SECURITY)
    };
    CLUSTER_ENABLED = Setting {
        name: "cluster-enabled",
        kind: SettingKind::Bool,
        default: "no",
        change: Change::AtStart,
        doc: "Refused: there is no cluster mode",
        refused: "there are no clusters; `cluster-mode emulated` answers as a cluster of one node does",
        ..Setting::of(group::SECURITY)
    };
}
