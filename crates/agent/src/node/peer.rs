//! A connection to another node of the group, for one question at a time.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use config::{MASTERAUTH, MASTERUSER, Settings, TLS_REPLICATION};
use effectlog::StreamPosition;
use group::{Ack, LinkId, Standing};
use replication::{Address, Introduction};
use resp::Value;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use topology::Term;

/// The current TLS configuration for connections that this server makes.
pub type DialTls = Box<dyn Fn() -> Option<Arc<ClientConfig>> + Send + Sync>;

/// The longest answer.
const ANSWER_BYTES_MAX: usize = 4096;

trait PeerStream: Read + Write + Send {}

impl<S: Read + Write + Send> PeerStream for S {}

/// See the head of this file.
pub(super) struct Peer {
    stream: Box<dyn PeerStream>,
    received: Vec<u8>,
}

impl Peer {
    /// Connects, and authenticates as replicas do.
    pub(super) fn connect(
        address: &Address,
        settings: &Settings,
        tls: &DialTls,
        timeout: Duration,
    ) -> io::Result<Peer> {
        let mut tcp = connect_tcp(address, timeout)?;
        let stream: Box<dyn PeerStream> = match tls().filter(|_| settings.is_on(TLS_REPLICATION)) {
            None => Box::new(tcp),
            Some(config) => {
                // The address stands for a name: TLS sends no server name and checks none.
                let name = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
                let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
                while session.is_handshaking() {
                    session.complete_io(&mut tcp)?;
                }
                Box::new(StreamOwned::new(session, tcp))
            }
        };
        let mut peer = Peer { stream, received: Vec::new() };
        let (user, password) = (settings.text(MASTERUSER), settings.text(MASTERAUTH));
        if !password.is_empty() {
            match user.is_empty() {
                true => peer.send(&["AUTH", &password])?,
                false => peer.send(&["AUTH", &user, &password])?,
            }
            peer.answer()?;
        }
        Ok(peer)
    }

    /// Asks for the next beat, and answers the last one with `ack`.
    pub(super) fn ask_for_beat(
        &mut self,
        introduction: &Introduction,
        link: LinkId,
        ack: Option<&Ack>,
    ) -> io::Result<()> {
        let (offset, beat_ms) = ack.map_or((0, 0), |ack| (ack.offset.get(), ack.beat_ms));
        let words = [link.0, offset, beat_ms].map(|number| number.to_string());
        self.send(&["GROUP-BEAT", &introduction.to_string(), &words[0], &words[1], &words[2]])
    }

    /// The beat: when it was sent, by the primary's clock.
    pub(super) fn beat(&mut self) -> io::Result<u64> {
        match self.answer()? {
            Value::Int(sent_ms) => u64::try_from(sent_ms).map_err(io::Error::other),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks for the data that the node has, for a recovery.
    pub(super) fn standing(&mut self) -> io::Result<Standing> {
        self.send(&["GROUP-STANDING"])?;
        let answer = self.answer()?;
        let Value::Array(items) = &answer else { return Err(unexpected(&answer)) };
        let [Value::Bulk(node), Value::Int(is_whole), Value::Int(last_term), Value::Int(written)] =
            &items[..]
        else {
            return Err(unexpected(&answer));
        };
        let node = std::str::from_utf8(node).map_err(io::Error::other)?.parse().map_err(io::Error::other)?;
        let number = |number: &i64| u64::try_from(*number).map_err(io::Error::other);
        Ok(Standing {
            node,
            is_whole: *is_whole == 1,
            last_term: Term(number(last_term)?),
            written: StreamPosition::new(number(written)?),
        })
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = Vec::new();
        resp::encode_request(words, &mut request);
        self.stream.write_all(&request)?;
        self.stream.flush()
    }

    fn answer(&mut self) -> io::Result<Value> {
        loop {
            let decoded =
                resp::decode(&self.received).map_err(|_| io::Error::other("it does not speak RESP"))?;
            if let Some((value, length)) = decoded {
                self.received.drain(..length);
                return match value {
                    Value::Error(text) => Err(io::Error::other(String::from_utf8_lossy(&text).into_owned())),
                    value => Ok(value),
                };
            }
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length if self.received.len() + length > ANSWER_BYTES_MAX => {
                    return Err(io::Error::other("the answer is too long"));
                }
                length => self.received.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

fn unexpected(value: &Value) -> io::Error {
    io::Error::other(format!("an unexpected answer: {value:?}"))
}

fn connect_tcp(Address { host, port }: &Address, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host.as_str(), *port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
