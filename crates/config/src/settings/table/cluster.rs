//! Settings about groups: servers that fail over by themselves, with a document in etcd.

use crate::settings::special;
use crate::{Changeable, Id, SettingKind};

use super::{HTTP, PROCESS, QUEUES, REPLICATION, SECURITY, SERVING, Setting, TLS, group};

settings! {
    CLUSTER from SERVING.len() + PROCESS.len() + REPLICATION.len() + HTTP.len() + QUEUES.len() + TLS.len() + SECURITY.len();

    CLUSTER_ETCD = Setting {
        name: "cluster-etcd",
        kind: special::TOPOLOGY_STORE,
        change: Changeable::AtStart,
        doc: "URLs of etcd's members, separated by commas: take part in a group that fails over by itself; empty: do not",
        details: "`folder:/path` is a store in a folder of this machine, for tests and demonstrations.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_NAME = Setting {
        name: "cluster-name",
        kind: special::TOPOLOGY_NAME,
        default: "darter",
        change: Changeable::AtStart,
        doc: "Name of the cluster: its keys in etcd begin with `/darter/` and this name",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_GROUP = Setting {
        name: "cluster-group",
        kind: special::TOPOLOGY_NAME,
        default: "g1",
        change: Changeable::AtStart,
        doc: "Name of the group that this server joins: a primary and its replicas",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_NODE_ID = Setting {
        name: "cluster-node-id",
        kind: special::TOPOLOGY_NODE,
        change: Changeable::AtStart,
        doc: "Name of this node, different on each; empty: one is drawn and kept in the data folder",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ZONE = Setting {
        name: "cluster-zone",
        kind: SettingKind::Text,
        change: Changeable::AtStart,
        doc: "Part of the data center that fails as a whole, in which this node is; empty: not known",
        details: "A replica in the old primary's zone hesitates longer before it takes over.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_CREATE = Setting {
        name: "cluster-create",
        kind: SettingKind::Switch,
        default: "no",
        change: Changeable::AtStart,
        doc: "Whether this node creates the cluster, with itself as the primary, if the store has none of this name",
        details: "Set it on one node only, so that the others never take an empty store for a new cluster.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_GRANT_MS = Setting {
        name: "cluster-grant-ms",
        kind: SettingKind::Integer { min: 1_000, max: 60_000 },
        unit: "milliseconds",
        default: "3000",
        change: Changeable::AtStart,
        doc: "For how long replicas promise not to take over, which is how long the loss of a primary's machine stops writes",
        details: "This setting, `cluster-ack`, `cluster-alone` and `cluster-min-in-sync` are those of a cluster that is created; an existing one keeps its own.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ACK = Setting {
        name: "cluster-ack",
        kind: SettingKind::Choice(&[("applied", 0), ("durable", CLUSTER_DURABLE)]),
        default: "applied",
        change: Changeable::AtStart,
        doc: "When a replica acknowledges a write: when it is applied there, or when it is durable there",
        details: "With durable the primary's own disk counts, too, and all need a journal.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ALONE = Setting {
        name: "cluster-alone",
        kind: SettingKind::Choice(&[("durable", CLUSTER_DURABLE), ("applied", 0)]),
        default: "durable",
        change: Changeable::AtStart,
        doc: "When a primary without a replica in sync acknowledges a write: when it is durable, or at once",
        details: "With applied, writes are lost if the last server that is left loses its power.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_MIN_IN_SYNC = Setting {
        name: "cluster-min-in-sync",
        kind: SettingKind::Integer { min: 0, max: 16 },
        unit: "nodes",
        default: "0",
        change: Changeable::AtStart,
        doc: "Refuse writes while fewer nodes are in sync, the primary included; 0: 1 with two members, else 2",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ANNOUNCE_IP = Setting {
        name: "cluster-announce-ip",
        doc: "Address or name under which the other nodes and clients reach this one; empty: the one towards the store",
        details: "Set it if etcd runs on the same machine, or if addresses are translated. A server that listens on certain addresses only announces one of them.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ANNOUNCE_PORT = Setting {
        name: "cluster-announce-port",
        kind: SettingKind::Integer { min: 0, max: 65_535 },
        default: "0",
        doc: "Port under which they reach it; 0: the one on which it listens",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ANNOUNCE_TLS_PORT = Setting {
        name: "cluster-announce-tls-port",
        kind: SettingKind::Integer { min: 0, max: 65_535 },
        default: "0",
        doc: "Port under which they reach it with TLS; 0: the one on which it listens",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ETCD_USER = Setting {
        name: "cluster-etcd-user",
        change: Changeable::AtStart,
        doc: "User for authentication at etcd; empty: none",
        details: "It needs READWRITE on all keys that begin with `/darter/` and the name of the cluster.",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ETCD_PASSWORD_FILE = Setting {
        name: "cluster-etcd-password-file",
        change: Changeable::AtStart,
        doc: "File with the password of cluster-etcd-user, in its first line",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ETCD_CA_FILE = Setting {
        name: "cluster-etcd-ca-file",
        change: Changeable::AtStart,
        doc: "File with certificates of authorities (PEM) that vouch for etcd; URLs with https need it",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ETCD_CERT_FILE = Setting {
        name: "cluster-etcd-cert-file",
        change: Changeable::AtStart,
        doc: "File with the certificate (PEM) that this node shows etcd; empty: none",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ETCD_KEY_FILE = Setting {
        name: "cluster-etcd-key-file",
        change: Changeable::AtStart,
        doc: "File with the key of cluster-etcd-cert-file (PEM); empty: the same file",
        ..Setting::of(group::CLUSTER)
    };
    CLUSTER_ETCD_REVISIONS = Setting {
        name: "cluster-etcd-revisions",
        kind: SettingKind::Integer { min: 0, max: i64::MAX },
        unit: "revisions",
        default: "10000",
        change: Changeable::AtStart,
        doc: "How much of etcd's history is kept, that of its other users included; 0: all of it",
        details: "Set it to 0 if etcd compacts by itself or other users read its history. Otherwise etcd fills its space in weeks.",
        ..Setting::of(group::CLUSTER)
    };
}

/// `cluster-ack` and `cluster-alone`: a write counts when it is on the disk.
pub const CLUSTER_DURABLE: i64 = 1;
