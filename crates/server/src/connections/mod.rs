//! The connections of one thread: their bounds, the beginning and the end of sessions, and the commands about clients.
//!
//! Not here: all clients of the server, and the session of each (crate `clients`), users (`users/`), and the
//! commands that clients send (`life/`).

pub(crate) mod balancing;
pub(crate) mod bounds;
pub(crate) mod caller;
pub(crate) mod delivery;
pub(crate) mod lifecycle;
pub(crate) mod load;
pub(crate) mod moving;
pub(crate) mod network;
pub(crate) mod outputs;
