//! The settings that say what is logged and counted.

use ::config::{
    COMMANDLOG_LARGE_REPLY_MAX_LEN, COMMANDLOG_LARGE_REQUEST_MAX_LEN, COMMANDLOG_REPLY_LARGER_THAN,
    COMMANDLOG_REQUEST_LARGER_THAN, Id, LATENCY_MONITOR_THRESHOLD, LATENCY_TRACKING, SLOWLOG_LOG_SLOWER_THAN,
    SLOWLOG_MAX_LEN, Settings,
};
use observe::{LogSettings, ObserveSettings};

/// The settings that say what is logged and counted.
pub(crate) fn observe_settings(settings: &Settings) -> ObserveSettings {
    let log = |figure_min: Id, len_max: Id| LogSettings {
        figure_min: u64::try_from(settings.number(figure_min)).ok(),
        len_max: settings.number(len_max) as usize,
    };
    ObserveSettings {
        // In the order of `observe::LogKind`.
        logs: [
            log(SLOWLOG_LOG_SLOWER_THAN, SLOWLOG_MAX_LEN),
            log(COMMANDLOG_REQUEST_LARGER_THAN, COMMANDLOG_LARGE_REQUEST_MAX_LEN),
            log(COMMANDLOG_REPLY_LARGER_THAN, COMMANDLOG_LARGE_REPLY_MAX_LEN),
        ],
        latency_threshold_ms: Some(settings.number(LATENCY_MONITOR_THRESHOLD) as u64).filter(|ms| *ms > 0),
        tracks_durations: settings.is_on(LATENCY_TRACKING),
    }
}
