//! Reports the server's events to `observe`, and delivers messages for it.
//!
//! `counting.rs` reports commands and their clients. `monitors.rs` sends the lines of MONITOR. `facts.rs` collects the
//! figures that INFO shows. `running.rs` runs the commands of `observe`, and `http.rs` serves HTTP.

mod counting;
mod facts;
mod http;
pub(crate) mod monitors;
mod running;
mod settings;

pub(crate) use http::Served;
pub(crate) use running::run;
pub(crate) use settings::observe_settings;

use observe::{Accounting, Monitors, Observed};

/// What a thread reports about its commands.
pub(crate) struct Reports {
    /// The counters and logs of its commands.
    pub(crate) accounting: Accounting,
    /// Connections that get a line for every command.
    pub(crate) monitors: Monitors,
}

impl Reports {
    /// The reports of thread number `id`.
    pub(crate) fn new(id: u16, observed: &'static Observed) -> Reports {
        let stats = &observed.threads()[usize::from(id)];
        Reports { accounting: Accounting::new(stats, observed), monitors: Monitors::new(stats, observed) }
    }
}
