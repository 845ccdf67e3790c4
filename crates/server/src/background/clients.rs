//! `maxmemory-clients`: disconnects the clients that take most memory when all of them together take too much.
//!
//! Every thread adds up what its own clients take, and the one whose largest client is the largest of all disconnects
//! it; so they need not wait for each other.

use proactor::{CloseMode, ConnId};
use settings::MAXMEMORY_CLIENTS;
use upkeep::eviction::client_bytes_max;

use crate::thread::Thread;

impl Thread {
    /// Adds up what the clients take, every second, or ten times a second where there is a limit; sees to that.
    pub(crate) fn look_at_client_memory(&mut self, is_second: bool) {
        let bytes_max = {
            let settings = &self.host.shared.settings;
            client_bytes_max(settings.number(MAXMEMORY_CLIENTS), settings.memory_bytes_max())
        };
        if bytes_max.is_none() && !is_second {
            return;
        }
        let host = &mut self.host;
        let mut sizes: Vec<(u64, Option<ConnId>)> = Vec::new();
        let (mut input_bytes, mut output_bytes) = (0, 0);
        for (conn, session) in host.connections.iter_mut() {
            let usage = host.driver.usage(conn);
            input_bytes = input_bytes.max(usage.input_capacity_bytes);
            output_bytes = output_bytes.max(usage.output_capacity_bytes);
            let bytes = session.memory_bytes(usage) as u64;
            sizes.push((bytes, (!session.no_evict && !session.monitor).then_some(conn)));
        }
        let peaks = host.cron.recent_peaks.note(host.now_ms / 1000, [input_bytes, output_bytes]);
        host.accounting.stats().recent_input_bytes_max.set(peaks[0] as u64);
        host.accounting.stats().recent_output_bytes_max.set(peaks[1] as u64);
        let mut sum: u64 = sizes.iter().map(|(bytes, _)| bytes).sum();
        sizes.retain(|(_, conn)| conn.is_some());
        sizes.sort_unstable_by_key(|(bytes, _)| *bytes);
        loop {
            let (stats, shared) = (self.host.accounting.stats(), self.host.shared);
            let largest = sizes.last().copied();
            stats.client_bytes.set(sum);
            stats.largest_client_bytes.set(largest.map_or(0, |(bytes, _)| bytes));
            let others = shared.observed.threads().iter().map(|stats| stats.largest_client_bytes.get());
            let largest_of_all = others.max().unwrap_or(0);
            let (Some(bytes_max), Some((bytes, Some(conn)))) = (bytes_max, largest) else { return };
            if shared.observed.client_bytes() <= bytes_max || bytes < largest_of_all {
                return;
            }
            tracing::info!(bytes, "a client is disconnected: the clients are beyond maxmemory-clients");
            stats.evicted_clients.add(1);
            self.close(conn, CloseMode::Now);
            sizes.pop();
            sum -= bytes;
        }
    }
}
