//! A connection to a running server.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use resp::Value;

use crate::play::Runner;

/// How long a reply may take: a test that hangs says so.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A blocking connection: one request, one reply.
#[derive(Debug)]
pub struct Socket<S = TcpStream> {
    /// The stream that carries the bytes.
    pub stream: S,
    input: Vec<u8>,
}

impl Socket {
    /// Connects to `address`, such as `127.0.0.1:6379`.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Socket> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Socket::over(stream))
    }
}

impl<S: Read + Write> Socket<S> {
    /// A connection over `stream`.
    pub fn over(stream: S) -> Socket<S> {
        Socket { stream, input: Vec::new() }
    }

    /// Empties the server and, for `resp3`, changes to that protocol: how every block begins.
    pub fn begin(&mut self, resp3: bool) -> io::Result<()> {
        self.call(&[b"FLUSHALL".to_vec()])?;
        self.call(&[b"FUNCTION".to_vec(), b"FLUSH".to_vec()])?;
        if resp3 {
            self.call(&[b"HELLO".to_vec(), b"3".to_vec()])?;
        }
        Ok(())
    }

    /// Sends requests without waiting for their replies.
    pub fn send(&mut self, requests: &[Vec<Vec<u8>>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| resp::encode_request(request, &mut bytes));
        self.stream.write_all(&bytes)
    }

    /// The next reply or push.
    pub fn receive(&mut self) -> io::Result<Value> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let decoded = resp::decode(&self.input)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}")))?;
            if let Some((value, length)) = decoded {
                self.input.drain(..length);
                return Ok(value);
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.input.extend_from_slice(&chunk[..length]),
            }
        }
    }
}

impl<S: Read + Write> Runner for Socket<S> {
    fn call(&mut self, request: &[Vec<u8>]) -> io::Result<Value> {
        self.send(&[request.to_vec()])?;
        self.receive()
    }
}
