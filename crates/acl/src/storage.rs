//! Where users are stored: in an ACL file (`aclfile`), or as lines `user <name> <rules>` in the configuration file.
//!
//! The file is read and replaced as a whole, on the disk that is passed in. `file.rs` parses such a file, `declare.rs`
//! the lines.

use std::path::Path;

use engine::CommandError;
use proactor::Disk;

use crate::user::Grammar;
use crate::users::Users;

/// The ACL file and its disk.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'a> {
    /// The disk.
    pub disk: &'a Disk,
    /// The path of the file, from `aclfile`; empty if it is not set.
    pub path: &'a str,
}

impl Storage<'_> {
    /// Replaces all users by those of the file. On an error nothing changes; the error is one line about everything
    /// that is wrong.
    pub fn load(self, users: &Users, grammar: Grammar) -> Result<(), Vec<u8>> {
        users.load(grammar, self.path, &self.read()?)
    }

    /// Writes all users to the file. It is replaced as a whole.
    pub fn save(self, users: &Users) -> Result<(), CommandError> {
        self.disk.replace(Path::new(self.path), &users.file_text()).map_err(|error| {
            tracing::warn!("ACL SAVE failed: {error}");
            CommandError::fixed(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
            )
        })
    }

    /// The text of the file.
    fn read(self) -> Result<Vec<u8>, Vec<u8>> {
        self.disk.read(Path::new(self.path)).map_err(|error| {
            let text = error.to_string();
            let why = text.split(" (os error").next().unwrap_or(&text);
            format!("Error loading ACLs, opening file '{}': {why}", self.path).into_bytes()
        })
    }
}
