//! The snapshot of a server: the file `dbfilename` in `dir`, in Redis' dump format, or in Darter's own, with the parts
//! that it names.
//!
//! `persistence` saves and loads it; this folder connects it to the server. `save.rs` saves while all shards are held,
//! `background.rs` while clients are served, when `persistence`'s `points.rs` or a client asks for it. `spool.rs` does
//! the same for replicas, and `load.rs` loads it before commands that need data are served.

mod background;
mod load;
mod loaded;
mod save;
mod spool;

pub(crate) use background::Share;
pub(crate) use load::{Loader, loading_progress};
pub(crate) use loaded::Loaded;
