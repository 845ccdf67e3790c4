//! Commands as a client of the server: one end of a pair of sockets is a connection of a data thread like any other.
//!
//! So a command of the console is subject to what applies to all commands: its user's rules, `maxclients`, loading, a
//! paused server, a read-only replica. MONITOR, CLIENT LIST and the slow log show it, with the name `http` and the
//! address of the HTTP client. The HTTP user has already authenticated here, so no command is needed for that: HELLO
//! and AUTH may be renamed or disabled.

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

/// How long the server may take to answer a command.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest reply that is accepted.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// How many bytes are read at once.
const READ_BYTES: usize = 64 << 10;

/// The beginning of the error with which a connection is rejected: `maxclients` or `maxclients-per-user` is reached.
const TURNED_AWAY: &str = "ERR max number of clients";

/// See the head of this file.
pub(crate) struct Messenger {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Messenger {
    /// Opens a client that acts as `visitor`.
    pub(crate) fn open(source: &dyn Source, visitor: &Visitor) -> Result<Messenger, Refusal> {
        Messenger::connect(source, &visitor.peer.to_string(), Some(visitor.access.clone()))
    }

    /// Opens a client that has not authenticated.
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

    /// Selects a database.
    pub(crate) async fn select(&mut self, db: u64) -> Result<(), Refusal> {
        if db == 0 {
            return Ok(());
        }
        match self.call(&[b"SELECT", db.to_string().as_bytes()]).await? {
            Value::Error(why) => Err(refused(&why)),
            _ => Ok(()),
        }
    }

    /// Runs a command and returns its reply, which may be an error.
    pub(crate) async fn call(&mut self, args: &[&[u8]]) -> Result<Value, Refusal> {
        let mut replies = self.call_all(&[args.iter().map(|arg| arg.to_vec()).collect()]).await?;
        Ok(replies.pop().expect("a command has a reply"))
    }

    /// The first [`call`](Messenger::call) of a connection. If the server rejects the connection, that is the refusal.
    pub(crate) async fn call_first(&mut self, args: &[&[u8]]) -> Result<Value, Refusal> {
        match self.call(args).await? {
            Value::Error(why) if why.starts_with(TURNED_AWAY.as_bytes()) => Err(refused(&why)),
            reply => Ok(reply),
        }
    }

    /// Runs several commands, which are sent together.
    pub(crate) async fn call_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, Refusal> {
        let mut requests = Vec::new();
        commands.iter().for_each(|args| resp::encode_request(args, &mut requests));
        let talk = async {
            let (mut reader, mut writer) = self.stream.split();
            let write = async {
                // The server may have closed its end after sending the reason, which `read` below finds.
                let _ = writer.write_all(&requests).await;
            };
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

/// Writes and reads at the same time, since neither side accepts everything before the other has begun.
async fn both<T>(write: impl Future<Output = ()>, read: impl Future<Output = T>) -> T {
    let (mut write, mut read) = (std::pin::pin!(write), std::pin::pin!(read));
    let mut is_written = false;
    std::future::poll_fn(move |cx| {
        is_written = is_written || write.as_mut().poll(cx).is_ready();
        read.as_mut().poll(cx)
    })
    .await
}

/// Reads the next reply. `received`: bytes that have already been read.
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

/// The answer over HTTP for an error reply.
pub(crate) fn refused(why: &[u8]) -> Refusal {
    let text = String::from_utf8_lossy(why).into_owned();
    let status = match text.split(' ').next().unwrap_or_default() {
        "NOPERM" | "NOAUTH" | "WRONGPASS" | "READONLY" => StatusCode::FORBIDDEN,
        "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" => StatusCode::SERVICE_UNAVAILABLE,
        _ if text.starts_with(TURNED_AWAY) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The answer to a client whose server sends `said` and closes the connection before the client has written
    /// anything.
    fn told(said: &[u8]) -> Result<Value, (StatusCode, String)> {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.write_all(said).unwrap();
        drop(theirs);
        ours.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut messenger =
                Messenger { stream: UnixStream::from_std(ours).unwrap(), received: Vec::new() };
            let reply = messenger.call_first(&[b"PING"]).await;
            reply.map_err(|refusal| (refusal.status, refusal.why.to_string()))
        })
    }

    #[test]
    fn what_the_server_said_before_it_closed_is_told() {
        let why = "ERR max number of clients of this user reached".to_owned();
        let said = format!("-{why}\r\n");
        assert_eq!(told(said.as_bytes()), Err((StatusCode::SERVICE_UNAVAILABLE, why)));
        assert_eq!(told(b"+PONG\r\n"), Ok(Value::Simple(b"PONG".to_vec())));
        let closed = "the server closed the connection".to_owned();
        assert_eq!(told(b""), Err((StatusCode::SERVICE_UNAVAILABLE, closed)));
    }
}
