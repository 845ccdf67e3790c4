//! Commands as a client of the server: one end of a pair of sockets is a connection of a data thread like any other.
//!
//! So a command of the console meets what all commands meet: rules of its user, `maxclients`, loading, a paused server, a
//! read-only replica. MONITOR, CLIENT LIST and the slow log show it, named `http`, at the address of the HTTP client. The HTTP user has
//! authenticated here, so no command is needed for that: HELLO and AUTH may have other names, or none.

use std::io;
use std::time::Duration;

use acl::Access;
use hyper::StatusCode;
use resp::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::Source;
use crate::guard::Visitor;
use crate::reply::Refusal;

/// How long the server may take for a command.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest reply that is collected.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// See the head of this file.
pub(crate) struct Messenger {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Messenger {
    /// A client that acts as `visitor`.
    pub(crate) fn open(source: &dyn Source, visitor: &Visitor) -> Result<Messenger, Refusal> {
        Messenger::connect(source, &visitor.peer.to_string(), Some(visitor.access.clone()))
    }

    /// A client that has not said who it is.
    pub(crate) fn open_as_nobody(source: &dyn Source, peer: &str) -> Result<Messenger, Refusal> {
        Messenger::connect(source, peer, None)
    }

    fn connect(source: &dyn Source, peer: &str, access: Option<Access>) -> Result<Messenger, Refusal> {
        let stream = source.connect(&format!("http:{peer}"), access).and_then(|stream| {
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        });
        Ok(Messenger { stream: stream.map_err(|error| broken(&error))?, received: Vec::new() })
    }

    /// Runs a command on this database.
    pub(crate) async fn select(&mut self, db: u64) -> Result<(), Refusal> {
        if db == 0 {
            return Ok(());
        }
        match self.call(&[b"SELECT", db.to_string().as_bytes()]).await? {
            Value::Error(why) => Err(refused(&why)),
            _ => Ok(()),
        }
    }

    /// The reply to a command; an error is one, too.
    pub(crate) async fn call(&mut self, args: &[&[u8]]) -> Result<Value, Refusal> {
        let mut replies = self.call_all(&[args.iter().map(|arg| arg.to_vec()).collect()]).await?;
        Ok(replies.pop().expect("a command has a reply"))
    }

    /// The replies to commands, which are sent together.
    pub(crate) async fn call_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, Refusal> {
        let mut requests = Vec::new();
        commands.iter().for_each(|args| resp::encode_request(args, &mut requests));
        let talk = async {
            let (mut reader, mut writer) = self.stream.split();
            let write = async { writer.write_all(&requests).await.map_err(|error| broken(&error)) };
            let read = async {
                let mut replies = Vec::with_capacity(commands.len());
                while replies.len() < commands.len() {
                    replies.push(next_reply(&mut reader, &mut self.received).await?);
                }
                Ok(replies)
            };
            both(write, read).await
        };
        let silent =
            |_| Refusal::new(StatusCode::GATEWAY_TIMEOUT, "the server did not answer within five seconds");
        tokio::time::timeout(ANSWER_WAIT_MAX, talk).await.map_err(silent)?
    }
}

/// Writes while it reads, since neither side takes everything before the other has begun.
async fn both<T>(
    write: impl Future<Output = Result<(), Refusal>>,
    read: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let (mut write, mut read) = (std::pin::pin!(write), std::pin::pin!(read));
    let mut is_written = false;
    std::future::poll_fn(move |cx| {
        if !is_written && let std::task::Poll::Ready(written) = write.as_mut().poll(cx) {
            is_written = true;
            if let Err(refusal) = written {
                return std::task::Poll::Ready(Err(refusal));
            }
        }
        read.as_mut().poll(cx)
    })
    .await
}

/// The next reply of those that come in, of which `received` has the beginning.
async fn next_reply(
    reader: &mut tokio::net::unix::ReadHalf<'_>,
    received: &mut Vec<u8>,
) -> Result<Value, Refusal> {
    loop {
        let decoded = resp::decode(received).map_err(|error| broken(&io::Error::other(error)))?;
        if let Some((value, length)) = decoded {
            received.drain(..length);
            return Ok(value);
        }
        if received.len() > REPLY_BYTES_MAX {
            return Err(Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "the reply is longer than 4 MiB"));
        }
        received.reserve(READ_BYTES);
        if reader.read_buf(received).await.map_err(|error| broken(&error))? == 0 {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server closed the connection"));
        }
    }
}

fn broken(error: &io::Error) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("the server cannot be reached: {error}"))
}

/// What an error reply means to who asks over HTTP.
pub(crate) fn refused(why: &[u8]) -> Refusal {
    let text = String::from_utf8_lossy(why).into_owned();
    let status = match text.split(' ').next().unwrap_or_default() {
        "NOPERM" | "NOAUTH" | "WRONGPASS" | "READONLY" => StatusCode::FORBIDDEN,
        "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" => StatusCode::SERVICE_UNAVAILABLE,
        _ if text.starts_with("ERR max number of clients") => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, text)
}
