//! Redis' append-only files: running their commands (`replay.rs`). Which of them there are, and whether they or the snapshot count,
//! `persistence` says.

mod replay;
