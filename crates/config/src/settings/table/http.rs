//! Settings about the console, metrics and health over HTTP.

use crate::{Change, Id, SettingKind};

use super::{PROCESS, REPLICATION, SERVING, Setting, group};

settings! {
    HTTP from SERVING.len() + PROCESS.len() + REPLICATION.len();

    HTTP_PORT = Setting {
        name: "http-port",
        kind: SettingKind::Integer { min: 0, max: 65535 },
        default: "0",
        change: Change::AtStart,
        doc: "TCP port for the console, metrics and health over HTTP, on the addresses of http-bind; 0: none",
        ..Setting::of(group::WATCHING)
    };
    HTTP_BIND = Setting {
        name: "http-bind",
        kind: SettingKind::Words,
        default: "127.0.0.1 -::1",
        change: Change::AtStart,
        doc: "Addresses for HTTP; * is all of IPv4, ::* all of IPv6; an address with a - in front may be missing",
        ..Setting::of(group::WATCHING)
    };
    HTTP_HOSTS = Setting {
        name: "http-hosts",
        kind: SettingKind::Words,
        doc: "Host names accepted over HTTP besides localhost and addresses; * is any name, which allows DNS rebinding by other web sites",
        ..Setting::of(group::WATCHING)
    };
    HTTP_CONNECTIONS_MAX = Setting {
        name: "http-connections-max",
        kind: SettingKind::Integer { min: 1, max: 10_000 },
        unit: "connections",
        default: "64",
        doc: "Maximum number of HTTP connections; a further one closes the connection that has been without a request for longest, or gets 503",
        ..Setting::of(group::WATCHING)
    };
    METRICS_QUEUES_MAX = Setting {
        name: "metrics-queues-max",
        kind: SettingKind::Integer { min: 0, max: 100_000 },
        unit: "queues",
        default: "200",
        doc: "Number of queues with labels of their own in /metrics; the rest are summed up as `other`",
        ..Setting::of(group::WATCHING)
    };
}
