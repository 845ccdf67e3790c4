//! The server to load: its URL, and the handshake of a connection to it.
//!
//! ```text
//!   redis://[[user]:password@]host[:port][/db]      unix://[[user]:password@]/path/of/socket[?db=n]
//!   rediss://…, the same over TLS
//! ```
//!
//! Connections are opened and greeted in blocking mode, before the clock starts. Then the load takes them over.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::time::Duration;

use proactor::{Codec, Socket};
use rustls::StreamOwned;

use crate::line::{Line, Stream};
use crate::tls::{Tls, Trust};

/// Timeout for connecting, and for the reply to a greeting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PORT: u16 = 6379;

/// A server, and the user to log in as.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    is_secure: bool,
    /// The configuration for TLS, once it is loaded.
    tls: Option<Tls>,
    user: Option<String>,
    password: Option<String>,
    db: u32,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(String),
}

/// The protocol of a connection, and how the client introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// No greeting: RESP2.
    Plain,
    /// `HELLO 3`, and a library's name as redis-client 0.30 sends it. Errors for the name are ignored.
    Named(&'static str, &'static str),
    /// Another protocol: nothing is sent.
    Silent,
}

impl Target {
    /// The server at `host` and `port`, without a password.
    pub(crate) fn tcp(host: &str, port: u16) -> Target {
        let address = Address::Tcp(host.to_owned(), port);
        Target { address, is_secure: false, tls: None, user: None, password: None, db: 0 }
    }

    /// Adds the TLS configuration, if the URL asks for TLS.
    ///
    /// # Errors If a file for TLS cannot be used.
    pub(crate) fn trusting(mut self, trust: &Trust) -> io::Result<Target> {
        if self.is_secure {
            self.tls = Some(trust.tls()?);
        }
        Ok(self)
    }

    /// Connects and greets.
    ///
    /// # Errors If the server cannot be reached or refuses the greeting. The text names the server.
    pub(crate) fn line(&self, greeting: Greeting) -> io::Result<Line> {
        let context = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.address));
        let mut line = Line::over(self.connect().map_err(context)?).map_err(context)?;
        self.greet(&mut line, greeting).map_err(context)?;
        Ok(line)
    }

    /// Connects and greets, for the load to take over.
    pub(crate) fn socket(&self, greeting: Greeting) -> io::Result<(Socket, Option<Box<dyn Codec>>)> {
        Ok(match self.line(greeting)?.into_stream()? {
            Stream::Tcp(stream) => (Socket::from_tcp(stream)?, None),
            Stream::Unix(stream) => {
                let Address::Unix(path) = &self.address else { unreachable!("a Unix stream has a path") };
                (Socket::from_unix(stream, path)?, None)
            }
            Stream::Tls(stream) => {
                let StreamOwned { conn, sock } = *stream;
                (Socket::from_tcp(sock)?, Some(Box::new(::tls::Secured::established(conn))))
            }
        })
    }

    fn connect(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Address::Tcp(host, port) => {
                let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return self.secured(stream, host);
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// The connection with TLS established, if the URL asks for it.
    fn secured(&self, stream: TcpStream, host: &str) -> io::Result<Stream> {
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp(stream)) };
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        let mut stream = StreamOwned::new(tls.session(host)?, stream);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    fn greet(&self, line: &mut Line, greeting: Greeting) -> io::Result<()> {
        let user = self.user.as_deref();
        match (greeting, self.password.as_deref()) {
            (Greeting::Silent, _) => return Ok(()),
            (Greeting::Plain, None) => {}
            (Greeting::Plain, Some(password)) => match user {
                Some(user) => line.demand(&["AUTH", user, password])?,
                None => line.demand(&["AUTH", password])?,
            },
            (Greeting::Named(..), None) => line.demand(&["HELLO", "3"])?,
            (Greeting::Named(..), Some(password)) => {
                line.demand(&["HELLO", "3", "AUTH", user.unwrap_or("default"), password])?;
            }
        }
        if self.db != 0 {
            line.demand(&["SELECT", &self.db.to_string()])?;
        }
        if let Greeting::Named(name, version) = greeting {
            line.call(&["CLIENT", "SETINFO", "LIB-NAME", name])?;
            line.call(&["CLIENT", "SETINFO", "LIB-VER", version])?;
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => f.write_str(path),
        }
    }
}

/// Without the password, because reports show it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(..) if self.is_secure => write!(f, "rediss://{}/{}", self.address, self.db),
            Address::Tcp(..) => write!(f, "redis://{}/{}", self.address, self.db),
            Address::Unix(path) => write!(f, "unix://{path}?db={}", self.db),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(url: &str) -> Result<Target, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("a URL begins with redis://, rediss:// or unix://".to_owned());
        };
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, rest),
        };
        let (user, password) = match credentials {
            None => (None, None),
            Some(text) => match text.split_once(':') {
                Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
                None => return Err("credentials are user:password or :password".to_owned()),
            },
        };
        let user = user.filter(|user| !user.is_empty());
        let (address, db) = match scheme {
            "redis" | "valkey" | "rediss" | "valkeys" => tcp_place(place)?,
            "unix" => unix_place(place)?,
            other => return Err(format!("unknown scheme {other}://: use redis://, rediss:// or unix://")),
        };
        let is_secure = matches!(scheme, "rediss" | "valkeys");
        Ok(Target { address, is_secure, tls: None, user, password, db })
    }
}

/// Parses `host[:port][/db]`. IPv6 addresses are in brackets.
fn tcp_place(place: &str) -> Result<(Address, u32), String> {
    let (host_port, db) = place.split_once('/').unwrap_or((place, ""));
    let (host, port) = match host_port.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, port.parse().map_err(|_| format!("{port} is no port"))?)
        }
        _ => (host_port, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("the URL names no host".to_owned());
    }
    Ok((Address::Tcp(host.to_owned(), port), db_number(db)?))
}

fn unix_place(place: &str) -> Result<(Address, u32), String> {
    let (path, query) = place.split_once('?').unwrap_or((place, ""));
    if path.is_empty() {
        return Err("the URL names no path".to_owned());
    }
    Ok((Address::Unix(path.to_owned()), db_number(query.strip_prefix("db=").unwrap_or(query))?))
}

fn db_number(text: &str) -> Result<u32, String> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| format!("{text} is no database")) }
}

/// Decodes the percent-encoding of URLs, such as `%3A`.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escape = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, escape.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| "credentials are not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Result<(&str, Option<&str>, Option<&str>), &str>) {
        let found: Result<Target, String> = url.parse();
        let shown = found
            .as_ref()
            .map(|target| (target.to_string(), target.user.as_deref(), target.password.as_deref()));
        match (shown, expected) {
            (Ok((shown, user, password)), Ok(expected)) => {
                assert_eq!((shown.as_str(), user, password), expected, "{url}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{url}: {error}"),
            (found, expected) => panic!("{url}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn urls() {
        check("redis://localhost", Ok(("redis://localhost:6379/0", None, None)));
        check("redis://10.0.0.1:7000/3", Ok(("redis://10.0.0.1:7000/3", None, None)));
        check("redis://[::1]:7000", Ok(("redis://::1:7000/0", None, None)));
        check("redis://[::1]", Ok(("redis://::1:6379/0", None, None)));
        check("redis://:p%40s:s@host/1", Ok(("redis://host:6379/1", None, Some("p@s:s"))));
        check("redis://me:secret@host", Ok(("redis://host:6379/0", Some("me"), Some("secret"))));
        check("unix:///run/d.sock", Ok(("unix:///run/d.sock?db=0", None, None)));
        check("unix://:pw@/run/d.sock?db=2", Ok(("unix:///run/d.sock?db=2", None, Some("pw"))));
        check("localhost:6379", Err("begins with redis://,"));
        check("rediss://:pw@host:7000/1", Ok(("rediss://host:7000/1", None, Some("pw"))));
        check("http://host", Err("unknown scheme http://"));
        check("redis://host:seven", Err("seven is no port"));
        check("redis://host/x", Err("x is no database"));
        check("redis://", Err("no host"));
        check("redis://pw@host", Err(":password"));
    }
}
