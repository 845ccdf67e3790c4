//! Records which append-only file of Redis the snapshots supersede. Its state is in each snapshot
//! ([`STATE_AUX`]), and in a file beside the snapshot, which remains when Redis overwrites the snapshot.

use std::path::PathBuf;

use crate::names::Names;

/// The field of a snapshot with the state of the append-only file that it supersedes.
pub const STATE_AUX: &str = "darter-superseded-aof";

/// The field of a snapshot with the version of Darter that wrote it.
pub const VERSION_AUX: &str = "darter-ver";

fn state_path(names: &Names) -> PathBuf {
    names.path(&format!("{}.aof-state", names.pattern()))
}

/// The state that a snapshot of these names was last recorded to supersede.
pub fn superseded_before(names: &Names) -> Option<String> {
    let text = String::from_utf8(names.disk().read(&state_path(names)).ok()?).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Records beside the snapshot, which was just saved, that it supersedes an append-only file in this state.
pub(crate) fn note(names: &Names, state: &str) {
    let path = state_path(names);
    let text = format!(
        "{state}\nDarter wrote this: the append-only file of Redis that was in this state is part of its snapshots since then.\n"
    );
    let is_noted = names.disk().read(&path).is_ok_and(|old| old == text.as_bytes());
    if !is_noted && let Err(error) = names.disk().replace(&path, text.as_bytes()) {
        tracing::warn!("cannot write {}: {error}", path.display());
    }
}
