//! Tests the engine from outside, with a host of a few commands.

mod engine;
mod functions;
mod golden;
mod memory_host;
