//! Every setting of the server, declared once (`table.rs`), and the values that the server was started with.
//!
//! Reading a number costs one load of an atomic. Values that parts of the server read often, or in a form of their own,
//! have typed methods of [`Settings`].

mod found;
mod help;
mod ignored;
mod redis_version;
mod special;
mod table;
mod values;

pub use found::{Rename, StartConfig};
pub use help::help;
pub use special::{
    OutputLimit, SHUTDOWN_FAILOVER, SHUTDOWN_FORCE, SHUTDOWN_NOSAVE, SHUTDOWN_NOW, SHUTDOWN_SAFE,
    SHUTDOWN_SAVE,
};
pub use table::*;
pub use values::{EntryMode, Settings};
