//! Where a server is.

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Its name or address, as it was given.
    pub host: String,
    /// Its port.
    pub port: u16,
}
