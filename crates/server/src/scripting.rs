//! Scripts on one thread.

use crate::shared::Shared;

/// The script engine of a thread.
#[derive(Debug)]
pub(crate) struct Scripting {}

impl Scripting {
    pub(crate) fn new(_shared: &'static Shared) -> Self {
        Scripting {}
    }
}
