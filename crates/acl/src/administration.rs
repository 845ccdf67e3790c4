//! What `ACL` works with, and what it leaves to its thread.

use std::io;

use engine::CommandError;

use crate::storage::Storage;
use crate::user::{Grammar, User};
use crate::users::Users;

/// What `ACL` works with.
pub struct UserAdministration<'h> {
    /// All users.
    pub users: &'h Users,
    /// The user that the client acts as.
    pub user: &'h User,
    /// The grammar of rules.
    pub grammar: Grammar<'h>,
    /// The ACL file (`aclfile`), if it is set.
    pub storage: Option<Storage<'h>>,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// Fills a slice with random bytes for a secret.
    pub draw_secret: &'h mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    /// Set by the command after users have changed: idle clients have to learn of that before the reply is sent.
    pub has_changed: bool,
}

impl<'h> UserAdministration<'h> {
    /// The ACL file, or an error if there is none.
    pub(crate) fn storage(&self) -> Result<Storage<'h>, CommandError> {
        self.storage.ok_or(CommandError::fixed(
            "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
             SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
             order to store users in the Redis configuration.",
        ))
    }
}
