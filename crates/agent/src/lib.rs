//! The surroundings of a node of a group: the store that the settings name, and the announcement of the node in it.
//!
//! ```text
//!   Settings ──▶ StoreOptions ──open──▶ dyn topology::Store
//!            ──▶ announcement, params, first_document
//! ```
//!
//! Not here: the rules of a group (`group`), and the server that takes part in one.

#![forbid(unsafe_code)]

mod announcing;
mod error;
mod founding;
mod node;
mod state;
mod store_options;

pub use announcing::{ProcessFacts, announcement, own_address};
pub use error::Error;
pub use founding::{cluster_of, first_document, group_of, may_create, node_id_of, params};
pub use node::{Agent, DialTls};
pub use state::NodeState;
pub use store_options::{StoreOptions, open_store};
