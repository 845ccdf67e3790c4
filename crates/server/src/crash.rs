//! Writes the server's part of a crash report.
//!
//! It has its own short list of figures and does not use `observe::Facts`, which `INFO` shows. Those figures are behind
//! locks: the texts of settings, the script cache, the libraries of functions, the running save, the journal's files.
//! The thread that crashed may hold any of these locks, and it stands still until the report is written, so the report
//! would never come. Each figure here is read from an atomic or asked of the system.
//!
//! Not here: detecting and reporting a crash (`process::crash`).

use std::fmt::Write;
use std::sync::atomic::Ordering;

use config::{CRASH_LOG_ENABLED, PORT};
use engine::CommandId;
use process::crash::Reported;
use process::system;

use crate::shared::Shared;
use crate::version::{ALLOCATOR, BUILD_ID, DARTER_VERSION, GIT_DIRTY, GIT_SHA};

impl Reported for Shared {
    fn is_wanted(&self) -> bool {
        self.settings.is_on(CRASH_LOG_ENABLED)
    }

    fn version(&self) -> String {
        format!(
            "Darter {DARTER_VERSION} (sha={GIT_SHA}:{GIT_DIRTY}, build={BUILD_ID}, as Redis {})",
            self.settings.redis_version()
        )
    }

    fn command_name(&self, number: u16) -> Option<String> {
        let is_known = usize::from(number) < self.table.len();
        is_known.then(|| self.table.get(CommandId(number)).full_name.clone())
    }

    fn facts(&self) -> String {
        facts(self)
    }
}

/// The part of `INFO` that can be read without entering a shard.
fn facts(shared: &Shared) -> String {
    let now_ms = proactor::Clock::real().now_ms();
    let sum = |counter: fn(&observe::ThreadStats) -> u64| -> u64 {
        shared.observed.threads().iter().map(counter).sum()
    };
    let snapshots = &shared.snapshots;
    let mut text = String::new();
    let mut field = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{name}:{value}");
    };
    field("redis_version", &shared.settings.redis_version());
    field("redis_git_sha1", &GIT_SHA);
    field("redis_git_dirty", &GIT_DIRTY);
    field("redis_build_id", &BUILD_ID);
    field("darter_version", &DARTER_VERSION);
    field("os", &system::name());
    field("multiplexing_api", &shared.driver_name);
    field("process_id", &std::process::id());
    field("run_id", &shared.run_id);
    field("tcp_port", &shared.settings.number(PORT));
    field("uptime_in_seconds", &(now_ms.saturating_sub(shared.started_ms) / 1000));
    field("threads", &shared.threads.len());
    field("shards", &shared.shards.len());
    field("connected_clients", &shared.registry.client_count());
    field("blocked_clients", &sum(|stats| stats.blocked_clients.get()));
    field("used_memory", &heap::allocated_bytes());
    field("used_memory_rss", &system::resident_bytes());
    field("total_system_memory", &system::machine_bytes());
    field("mem_allocator", &ALLOCATOR);
    field("loading", &u8::from(snapshots.progress.is_loading()));
    field("rdb_bgsave_in_progress", &u8::from(snapshots.is_cutting()));
    field("rdb_last_save_time", &snapshots.last_save_seconds());
    field("rdb_saves", &snapshots.save_count.load(Ordering::Relaxed));
    field("total_connections_received", &sum(|stats| stats.connections_received.get()));
    field("total_commands_processed", &sum(|stats| stats.commands_processed.get()));
    text
}
