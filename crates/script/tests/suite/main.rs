//! The engine from outside, with a host of a few commands.

mod engine;
mod golden;
mod memory_host;
