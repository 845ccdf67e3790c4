//! The settings of a running server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keyspace::Config;
use resp::Limits;

use crate::shared::EntryMode;

/// What the server was told, and may be told anew by `CONFIG SET`.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) port: u16,
    pub(crate) bind: Vec<String>,
    pub(crate) threads: usize,
    pub(crate) io: proactor::IoChoice,
    pub(crate) home_mode: bool,
    pub(crate) shards: u16,
    pub(crate) prefix: Option<Vec<u8>>,
    pub(crate) singlehop: bool,
    bulk_bytes_max: AtomicU64,
}

impl Settings {
    pub(crate) fn new(options: &crate::start::Options) -> Self {
        Settings {
            port: options.port,
            bind: vec!["127.0.0.1".to_owned()],
            threads: options.proactor_threads,
            io: match options.io.as_str() {
                "uring" => proactor::IoChoice::Uring,
                "epoll" => proactor::IoChoice::Epoll,
                _ => proactor::IoChoice::Auto,
            },
            home_mode: options.shard_entry == "home",
            shards: options.num_shards,
            prefix: options.shard_round_robin_prefix.as_ref().map(|prefix| prefix.as_bytes().to_vec()),
            singlehop: options.singlehop_blocking,
            bulk_bytes_max: AtomicU64::new(512 * 1024 * 1024),
        }
    }

    pub(crate) fn round_robin_prefix(&self) -> Option<Vec<u8>> {
        self.prefix.clone()
    }

    /// 32 shards per thread unless told otherwise.
    pub(crate) fn shard_count(&self, threads: u16) -> u16 {
        if self.shards == 0 { threads * 32 } else { self.shards }
    }

    pub(crate) fn databases(&self) -> u32 {
        16
    }

    pub(crate) fn data_config(&self) -> Config {
        Config::default()
    }

    pub(crate) fn entry_mode(&self) -> EntryMode {
        if self.home_mode { EntryMode::Home } else { EntryMode::Roam }
    }

    pub(crate) fn singlehop_blocking(&self) -> bool {
        self.singlehop
    }

    #[inline]
    pub(crate) fn request_limits(&self, authenticated: bool) -> Limits {
        Limits {
            bulk_bytes_max: self.bulk_bytes_max.load(Ordering::Relaxed),
            authenticated,
            ..Limits::default()
        }
    }

    pub(crate) fn keepalive(&self) -> Duration {
        Duration::from_secs(300)
    }

    pub(crate) fn requires_password(&self) -> bool {
        false
    }

    /// Whether this is the password of the default user.
    pub(crate) fn password_matches(&self, _password: &[u8]) -> bool {
        !self.requires_password()
    }

    /// The limit of the output of a class of clients: 0 normal ones, 1 replicas, 2 subscribers.
    pub(crate) fn output_limit(&self, class: usize) -> OutputLimit {
        const MIB: u64 = 1024 * 1024;
        match class {
            2 => OutputLimit { hard_bytes: 32 * MIB, soft_bytes: 8 * MIB, soft_seconds: 60 },
            _ => OutputLimit::default(),
        }
    }

    /// `maxclients`
    pub(crate) fn clients_max(&self) -> u64 {
        10_000
    }

    /// `timeout`: after how many seconds an idle client is disconnected; 0: never.
    pub(crate) fn idle_seconds_max(&self) -> u64 {
        0
    }

    /// `protected-mode`
    pub(crate) fn is_protected(&self) -> bool {
        true
    }

    /// `client-query-buffer-limit`
    pub(crate) fn query_bytes_max(&self) -> usize {
        1 << 30
    }

    /// `lua-time-limit`.
    pub(crate) fn script_time_limit_ms(&self) -> u64 {
        5_000
    }
}

/// The limit of one class of clients in `client-output-buffer-limit`; 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OutputLimit {
    /// A client above it is disconnected at once.
    pub(crate) hard_bytes: u64,
    /// A client above it is disconnected if it stays there.
    pub(crate) soft_bytes: u64,
    /// How long it may stay there.
    pub(crate) soft_seconds: u64,
}
