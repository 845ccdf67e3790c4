//! What the server tells `observe`, and what it delivers for it.
//!
//! `counting.rs` tells whose commands ran; `monitors.rs` carries the lines of MONITOR; `facts.rs` takes the figures that
//! INFO shows; `door.rs` is what the commands of
//! `observe` get of their thread, `http.rs` what HTTP gets of the server.

mod counting;
mod door;
mod facts;
mod http;
pub(crate) mod monitors;
mod settings;

pub(crate) use http::Served;
pub(crate) use settings::observe_settings;
