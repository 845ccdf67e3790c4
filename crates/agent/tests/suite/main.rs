//! Tests of the data folder of a node.

#![allow(clippy::unwrap_used, reason = "tests")]

mod node_state;
