//! Connects the snapshot of a server to `persistence`: the file `dbfilename` in `dir`, in Redis' dump format, or in
//! Darter's own, with the parts that it names.
//!
//! `persistence` saves and loads it. `save.rs` saves while all shards are held. `background.rs` saves while clients are
//! served, when `persistence`'s `points.rs` or a client asks for it. `spool.rs` does that for replicas, and `load.rs`
//! loads the snapshot before commands that need data are served.

mod background;
mod load;
mod loaded;
mod save;
mod spool;

pub(crate) use load::{Loader, loading_progress};
pub(crate) use loaded::Loaded;
