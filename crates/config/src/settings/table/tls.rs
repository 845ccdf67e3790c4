//! Settings about TLS.

use crate::{Change, Id, SettingKind};

use super::{Consequence, HTTP, INT, PROCESS, QUEUES, REPLICATION, SERVING, Setting, group};

settings! {
    TLS from SERVING.len() + PROCESS.len() + REPLICATION.len() + HTTP.len() + QUEUES.len();

    TLS_PORT = Setting {
        name: "tls-port",
        kind: SettingKind::Integer { min: 0, max: 65535 },
        default: "0",
        effect: Some(Consequence::Listen),
        doc: "TCP port to listen on for TLS, in addition to port or, with port 0, instead of it; 0: none",
        ..Setting::of(group::TLS)
    };
    TLS_CERT_FILE = Setting {
        name: "tls-cert-file",
        effect: Some(Consequence::Tls),
        doc: "File with the server's certificate (PEM), followed by intermediate certificates",
        ..Setting::of(group::TLS)
    };
    TLS_KEY_FILE = Setting {
        name: "tls-key-file",
        effect: Some(Consequence::Tls),
        doc: "File with the key of tls-cert-file (PEM); empty: the same file",
        ..Setting::of(group::TLS)
    };
    TLS_KEY_FILE_PASS = Setting {
        name: "tls-key-file-pass",
        effect: Some(Consequence::Tls),
        doc: "Password of an encrypted tls-key-file (PKCS #8); empty: not encrypted",
        is_secret: true,
        ..Setting::of(group::TLS)
    };
    TLS_CLIENT_CERT_FILE = Setting {
        name: "tls-client-cert-file",
        effect: Some(Consequence::Tls),
        doc: "File with the certificate that a replica shows its primary; empty: tls-cert-file",
        ..Setting::of(group::TLS)
    };
    TLS_CLIENT_KEY_FILE = Setting {
        name: "tls-client-key-file",
        effect: Some(Consequence::Tls),
        doc: "File with the key of tls-client-cert-file",
        ..Setting::of(group::TLS)
    };
    TLS_CLIENT_KEY_FILE_PASS = Setting {
        name: "tls-client-key-file-pass",
        effect: Some(Consequence::Tls),
        doc: "Password of an encrypted tls-client-key-file; empty: not encrypted",
        is_secret: true,
        ..Setting::of(group::TLS)
    };
    TLS_CA_CERT_FILE = Setting {
        name: "tls-ca-cert-file",
        effect: Some(Consequence::Tls),
        doc: "File with certificates of authorities (PEM) that vouch for clients, replicas and primaries",
        ..Setting::of(group::TLS)
    };
    TLS_CA_CERT_DIR = Setting {
        name: "tls-ca-cert-dir",
        effect: Some(Consequence::Tls),
        doc: "Folder with files of such certificates; any file names",
        ..Setting::of(group::TLS)
    };
    TLS_AUTH_CLIENTS = Setting {
        name: "tls-auth-clients",
        kind: SettingKind::Choice(&[("no", 0), ("yes", 1), ("optional", 2)]),
        default: "yes",
        effect: Some(Consequence::Tls),
        doc: "yes: a client must show a certificate that an authority vouches for; optional: it may; no: it is not asked for one",
        ..Setting::of(group::TLS)
    };
    TLS_AUTH_CLIENTS_USER = Setting {
        name: "tls-auth-clients-user",
        kind: SettingKind::Choice(&[("off", 0), ("CN", 1)]),
        default: "off",
        doc: "CN: the common name of a client's certificate names its user, without AUTH; if there is no such user, the client starts as `default`",
        ..Setting::of(group::TLS)
    };
    TLS_PROTOCOLS = Setting {
        name: "tls-protocols",
        effect: Some(Consequence::Tls),
        doc: "Enabled versions, of TLSv1.2 and TLSv1.3; empty: both",
        ..Setting::of(group::TLS)
    };
    TLS_CIPHERS = Setting {
        name: "tls-ciphers",
        effect: Some(Consequence::Tls),
        doc: "Suites of TLS 1.2 by OpenSSL's names, separated by colons; empty or DEFAULT: all supported ones",
        ..Setting::of(group::TLS)
    };
    TLS_CIPHERSUITES = Setting {
        name: "tls-ciphersuites",
        effect: Some(Consequence::Tls),
        doc: "Suites of TLS 1.3, separated by colons; empty: all supported ones",
        ..Setting::of(group::TLS)
    };
    TLS_PREFER_SERVER_CIPHERS = Setting {
        name: "tls-prefer-server-ciphers",
        kind: SettingKind::Bool,
        default: "no",
        effect: Some(Consequence::Tls),
        doc: "Prefer the order of the server's list of suites to the client's",
        ..Setting::of(group::TLS)
    };
    TLS_SESSION_CACHING = Setting {
        name: "tls-session-caching",
        kind: SettingKind::Bool,
        default: "yes",
        effect: Some(Consequence::Tls),
        doc: "Let clients resume sessions, which makes further handshakes cheaper",
        ..Setting::of(group::TLS)
    };
    TLS_SESSION_CACHE_SIZE = Setting {
        name: "tls-session-cache-size",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "sessions",
        default: "20480",
        effect: Some(Consequence::Tls),
        doc: "Maximum number of cached sessions; 0: 20480",
        ..Setting::of(group::TLS)
    };
    TLS_SESSION_CACHE_TIMEOUT = Setting {
        name: "tls-session-cache-timeout",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "seconds",
        default: "300",
        effect: Some(Consequence::Tls),
        doc: "How long a session can be resumed",
        ..Setting::of(group::TLS)
    };
    TLS_REPLICATION = Setting {
        name: "tls-replication",
        kind: SettingKind::Bool,
        default: "no",
        effect: Some(Consequence::Tls),
        doc: "Use TLS with the primary, and announce tls-port as the own port",
        ..Setting::of(group::TLS)
    };
    TLS_CLUSTER = Setting {
        name: "tls-cluster",
        kind: SettingKind::Bool,
        default: "no",
        effect: Some(Consequence::Tls),
        doc: "Use TLS for MIGRATE",
        ..Setting::of(group::TLS)
    };
    TLS_AUTO_RELOAD_INTERVAL = Setting {
        name: "tls-auto-reload-interval",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "seconds",
        default: "0",
        effect: Some(Consequence::Tls),
        doc: "How often the server checks whether the files have changed and reloads them; 0: only on SIGHUP and CONFIG SET",
        ..Setting::of(group::TLS)
    };
    TLS_HANDSHAKE_TIMEOUT = Setting {
        name: "tls-handshake-timeout",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "seconds",
        default: "10",
        doc: "Time after which a connection with an unfinished handshake is closed; 0: never",
        ..Setting::of(group::TLS)
    };
    TLS_HANDSHAKES_MAX = Setting {
        name: "tls-handshakes-max",
        kind: SettingKind::Integer { min: 0, max: INT },
        unit: "connections",
        default: "5000",
        doc: "Maximum number of connections in their handshake; further ones are closed; 0: no limit",
        ..Setting::of(group::TLS)
    };
    MEMCACHED_TLS = Setting {
        name: "memcached-tls",
        kind: SettingKind::Bool,
        default: "no",
        change: Change::AtStart,
        doc: "Use TLS on memcached-port",
        ..Setting::of(group::TLS)
    };
    HTTP_TLS = Setting {
        name: "http-tls",
        kind: SettingKind::Bool,
        default: "no",
        change: Change::AtStart,
        doc: "Serve HTTPS on http-port",
        ..Setting::of(group::TLS)
    };
}
