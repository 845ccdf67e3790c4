//! The commands of this crate, run in process.

mod server;
mod slices;
mod transfer;
