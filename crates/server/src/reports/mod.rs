//! What the server reports to `observe`, and what it delivers for it.
//!
//! `counting.rs` reports which client's commands ran; `monitors.rs` sends the lines of MONITOR; `facts.rs` collects the
//! figures that INFO shows; `door.rs` is what the commands of `observe` get from their thread, and `http.rs` what HTTP
//! gets from the server.

mod counting;
mod door;
mod facts;
mod http;
pub(crate) mod monitors;
mod settings;

pub(crate) use http::Served;
pub(crate) use settings::observe_settings;
