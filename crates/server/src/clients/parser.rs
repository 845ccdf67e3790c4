//! What finds requests in a connection's input, by what is spoken on it.

use resp::RequestParser;
use resp::memcached::MemcachedParser;

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Protocol {
    #[default]
    Redis,
    Memcached,
}

/// The parser of one connection.
#[derive(Debug)]
pub(crate) enum Parser {
    Redis(RequestParser),
    Memcached(MemcachedParser),
}

impl Parser {
    pub(crate) fn new(protocol: Protocol) -> Parser {
        match protocol {
            Protocol::Redis => Parser::Redis(RequestParser::default()),
            Protocol::Memcached => Parser::Memcached(MemcachedParser::default()),
        }
    }

    /// Bytes that the request at the front of the input takes, as far as it is known.
    pub(crate) fn bytes_wanted(&self) -> usize {
        match self {
            Parser::Redis(parser) => parser.bytes_wanted(),
            Parser::Memcached(parser) => parser.bytes_wanted(),
        }
    }
}
