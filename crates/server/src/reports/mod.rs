//! Reports the server's events to `observe`, and delivers messages for it.
//!
//! `counting.rs` reports commands and their clients. `monitors.rs` sends the lines of MONITOR. `facts.rs` collects the
//! figures that INFO shows. `door.rs` is the door of the commands of `observe`, and `http.rs` that of HTTP.

mod counting;
mod door;
mod facts;
mod http;
pub(crate) mod monitors;
mod settings;

pub(crate) use http::Served;
pub(crate) use settings::observe_settings;
