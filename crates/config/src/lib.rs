//! Settings, as `redis.conf` and `CONFIG` have them: the mechanism, without any setting.
//!
//! Not here: which settings there are, what is read from them, and what follows when one changes.

#![forbid(unsafe_code)]

mod kind;
mod replace;

pub use kind::{Kind, Read, Special, Value, memory_bytes};
pub use replace::{put_in_place, replace_file, sync_folder};
