//! The services that the commands of this crate need from the thread that runs them.

use std::io;
use std::sync::Arc;

use proactor::Disk;

use crate::user::User;
use crate::users::Users;

/// The settings about users.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// New users may use all channels (`acl-pubsub-default`).
    pub all_channels: bool,
    /// The path of the ACL file (`aclfile`); empty if it is not set.
    pub file: Arc<str>,
}

/// The thread that runs `ACL` for a client.
pub trait Door {
    /// All users.
    fn users(&self) -> &Users;

    /// The user that the client acts as.
    fn user(&mut self) -> &User;

    /// The current settings.
    fn settings(&self) -> UserSettings;

    /// The disk with the ACL file.
    fn disk(&self) -> &Disk;

    /// Milliseconds since 1970.
    fn now_ms(&mut self) -> u64;

    /// Fills `into` with random bytes for a secret.
    fn draw_secret(&mut self, into: &mut [u8]) -> io::Result<()>;

    /// Call this after users have changed: idle clients learn of the change before the reply is sent.
    fn users_changed(&mut self);
}
