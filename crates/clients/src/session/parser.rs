//! Parses a connection's input by its protocol.

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
    /// A parser of Redis' protocol.
    Redis(RequestParser),
    /// A parser of memcached's protocol.
    Memcached(MemcachedParser),
    /// No parser: the link to the primary parses this connection's input itself.
    Primary,
}

impl Parser {
    /// Creates the parser of a new connection.
    pub fn new(protocol: Protocol) -> Parser {
        match protocol {
            Protocol::Redis => Parser::Redis(RequestParser::default()),
            Protocol::Memcached => Parser::Memcached(MemcachedParser::default()),
        }
    }

    /// The length of the request at the front of the input in bytes, as far as it is known.
    pub fn bytes_wanted(&self) -> usize {
        match self {
            Parser::Redis(parser) => parser.bytes_wanted(),
            Parser::Memcached(parser) => parser.bytes_wanted(),
            Parser::Primary => 0,
        }
    }
}
