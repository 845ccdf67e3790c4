//! Scripts that all threads know.

/// Sources by digest.
#[derive(Debug, Default)]
pub(crate) struct ScriptStore {}
