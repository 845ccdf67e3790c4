//! Opens the sockets on which HTTP clients connect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use config::{HTTP_BIND, HTTP_PORT, HTTP_TLS, Settings};

use crate::error::Error;

/// The most addresses in `http-bind`.
const ADDRESS_COUNT_MAX: usize = 16;

/// The sockets on which HTTP is served.
#[derive(Debug)]
pub struct Listening {
    pub(crate) listeners: Vec<TcpListener>,
    is_secured: bool,
}

impl Listening {
    /// Opens the sockets of the settings; `None` if `http-port` is 0.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open(settings: &Settings) -> Result<Option<Listening>, Error> {
        let port = settings.number(HTTP_PORT) as u16;
        if port == 0 {
            return Ok(None);
        }
        let mut listeners = Vec::new();
        for word in settings.text(HTTP_BIND).split_whitespace().take(ADDRESS_COUNT_MAX) {
            let (address, may_be_missing) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
            match ip(address).and_then(|ip| TcpListener::bind((ip, port))) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    listeners.push(listener);
                }
                Err(_) if may_be_missing => {}
                Err(source) => return Err(Error::Listen { address: address.to_owned(), port, source }),
            }
        }
        if listeners.is_empty() {
            return Err(Error::Nowhere);
        }
        Ok(Some(Listening { listeners, is_secured: settings.is_on(HTTP_TLS) }))
    }

    /// The addresses, for the log.
    pub fn places(&self) -> Vec<String> {
        let addresses = self.listeners.iter().filter_map(|listener| listener.local_addr().ok());
        let scheme = if self.is_secured { "https" } else { "http" };
        addresses.map(|address| format!("{scheme}://{address}")).collect()
    }
}

/// Parses an address of `http-bind`.
fn ip(word: &str) -> std::io::Result<IpAddr> {
    match word {
        "*" => Ok(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        word => word.parse().map_err(|_| std::io::Error::other("it is not an address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_bind() {
        for (word, address) in [
            ("*", Some("0.0.0.0")),
            ("::*", Some("::")),
            ("localhost", Some("127.0.0.1")),
            ("::1", Some("::1")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("example.org", None),
        ] {
            let read = ip(word).ok().map(|ip| ip.to_string());
            assert_eq!(read.as_deref(), address, "{word}");
        }
    }
}
