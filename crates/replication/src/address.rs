//! The address of a server.

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Its name or address, as it was given.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Address {
    /// Whether it is this server, comparing names.
    pub(crate) fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host.eq_ignore_ascii_case(host)
    }
}
