//! What finds requests in a connection's input, by what is spoken on it.

use resp::RequestParser;
use resp::memcached::MemcachedParser;

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Redis' protocol.
    #[default]
    Redis,
    /// That of memcached, in text or with meta commands.
    Memcached,
}

/// The parser of one connection.
#[derive(Debug)]
pub enum Parser {
    /// Of Redis' protocol.
    Redis(RequestParser),
    /// Of memcached's.
    Memcached(MemcachedParser),
    /// None: what comes is for the link to the primary, which has its own.
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

    /// Bytes that the request at the front of the input takes, as far as it is known.
    pub fn bytes_wanted(&self) -> usize {
        match self {
            Parser::Redis(parser) => parser.bytes_wanted(),
            Parser::Memcached(parser) => parser.bytes_wanted(),
            Parser::Primary => 0,
        }
    }
}
