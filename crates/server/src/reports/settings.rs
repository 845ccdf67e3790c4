//! The settings that say what is logged and counted.

use ::config::{LATENCY_MONITOR_THRESHOLD, LATENCY_TRACKING, SLOWLOG_LOG_SLOWER_THAN, SLOWLOG_MAX_LEN};
use observe::Settings;

/// The settings that say what is logged and counted.
pub(crate) fn observe_settings(settings: &::config::Settings) -> Settings {
    Settings {
        slow_us: u64::try_from(settings.number(SLOWLOG_LOG_SLOWER_THAN)).ok(),
        slow_log_len_max: settings.number(SLOWLOG_MAX_LEN) as usize,
        latency_threshold_ms: Some(settings.number(LATENCY_MONITOR_THRESHOLD) as u64).filter(|ms| *ms > 0),
        tracks_durations: settings.is_on(LATENCY_TRACKING),
    }
}
