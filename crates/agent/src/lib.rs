//! A node of a group: what surrounds it (the store that the settings name, its state file, the process that proves its
//! death), and the threads that drive the rules beside the server's own.
//!
//! ```text
//!   Settings ──▶ StoreOptions ──open──▶ dyn topology::Store
//!            ──▶ announcement, params, first_document
//!   data folder ──▶ NodeState: the node's id, its life, the terms in which it took part
//!   Watcher ──starts──▶ a process that proves this one dead when it has ended
//! ```
//!
//! Not here: the rules of a group (`group`), and what the server's threads do with them (`replication`).

#![forbid(unsafe_code)]

mod announcing;
mod error;
mod founding;
mod node;
mod node_state;
mod store_options;
mod watcher;

pub use announcing::{ProcessFacts, announcement, own_address};
pub use error::Error;
pub use founding::{cluster_of, draw_unborn, first_document, group_of, may_create, node_id_of, params};
pub use node::{Agent, DialTls, Joining};
pub use node_state::{Adoption, NodeState, ReplicationId, TERMS_MAX, data_folder, node_in};
pub use store_options::{StoreOptions, open_store};
pub use watcher::{Watcher, watch};
