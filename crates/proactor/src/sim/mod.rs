//! A simulated machine: virtual time, a seeded network, and threads that one real thread steps.
//!
//! [`SimNet`] is the world. It makes [`Driver`](crate::Driver)s that behave like the real ones, and clients
//! to talk to them. Bytes travel in pieces of random size and with random delays, though in order; writes are
//! short, windows small, and links can be cut at any moment. Everything follows from one seed: the same calls
//! give the same run, to the event.
//!
//! No call waits. A turn of a simulated driver returns at once; if it found nothing, its thread is *parked*
//! until something reaches it or its timeout is over. The test moves time:
//!
//! ```text
//!   loop {
//!       match net.step() {                      // moves the clock to the next thing that happens
//!           Thread(index) → servers[index].turn(),  // its driver's turn and the handling of its events
//!           Client        → {}                  // something has reached a client
//!           Never         → break               // nothing will happen unless a client acts
//!       }
//!       clients.each(|client| …);               // scripts send and receive whenever the test lets them
//!   }
//! ```
//!
//! Not here: files (`disk/sim.rs`); threads that run at the same time (the inbox has its own model, in
//! `tests/loom_inbox.rs`).

mod client;
mod driver;
mod net;

pub use client::{SimClient, SimReceived};
pub use driver::SimDriver;
pub(crate) use net::{Endpoint, SimListener};
pub use net::{SimConfig, SimNet, SimStep, SimTap};
