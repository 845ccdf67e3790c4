//! The surroundings of a node of a group: the store that the settings name, and the announcement of the node in it.
//!
//! ```text
//!   Settings ──▶ StoreOptions ──open──▶ dyn topology::Store
//!            ──▶ announcement, params, first_document
//!   data folder ──▶ NodeState: the node's id, its life, the terms in which it took part
//!   Watcher ──starts──▶ a process that proves this one dead when it has ended
//! ```
//!
//! Not here: the rules of a group (`group`), and the server that takes part in one.

#![forbid(unsafe_code)]

mod announcing;
mod error;
mod founding;
mod node_state;
mod store_options;
mod watcher;

pub use announcing::{ProcessFacts, announcement, own_address};
pub use error::Error;
pub use founding::{cluster_of, draw_unborn, first_document, group_of, may_create, node_id_of, params};
pub use node_state::{Adoption, NodeState, ReplicationId, TERMS_MAX, data_folder, node_in};
pub use store_options::{StoreOptions, open_store};
pub use watcher::{Watcher, watch};
