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
