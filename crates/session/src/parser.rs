//! The parser of a connection's input, by protocol.

use resp::RequestParser;
use resp::memcached::MemcachedParser;

/// The protocol of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Redis' protocol.
    #[default]
    Redis,
    /// Memcached's, with text and meta commands.
    Memcached,
}

/// The parser of one connection.
#[derive(Debug)]
pub enum Parser {
    /// Of Redis' protocol.
    Redis(RequestParser),
    /// Of memcached's.
    Memcached(MemcachedParser),
    /// None: the link to the primary parses this connection's input itself.
    Primary,
}

impl Parser {
    /// For a new connection.
    pub fn new(protocol: Protocol) -> Parser {
        match protocol {
            Protocol::Redis => Parser::Redis(RequestParser::default()),
            Protocol::Memcached => Parser::Memcached(MemcachedParser::default()),
        }
    }

    /// The length of the request at the front of the input, as far as it is known, in bytes.
    pub fn bytes_wanted(&self) -> usize {
        match self {
            Parser::Redis(parser) => parser.bytes_wanted(),
            Parser::Memcached(parser) => parser.bytes_wanted(),
            Parser::Primary => 0,
        }
    }
}
