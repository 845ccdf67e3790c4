//! One member of etcd: its connection and our token there.
//!
//! Everything has a time limit, and answers have a size limit, since a member that hangs or is hostile must not hold up or fill
//! this process. After a time limit the connection is dropped, because the answer may still come; and so is the token, because
//! a member that does not know a token yet makes its requests wait.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::fate::{Fate, fate_of};
use super::options::Address;
use super::wire::{self, ErrorAnswer, TokenAnswer};
use crate::error::Error;

/// The largest answer: the log or all announcements, as base64.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The longest token.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(1);

/// As whom we speak, and what of.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) tls: Option<TlsConnector>,
}

/// See the head of this file.
pub(crate) struct Member {
    pub(crate) address: Address,
    /// For people.
    pub(crate) name: String,
    link: Option<HttpConnection>,
    token: Token,
}

/// Our token at a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// It has to be asked for.
    Unknown,
    /// None is needed.
    NotNeeded,
    Known(String),
}

/// An open connection, which a task drives.
pub(crate) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The outcome of a request.
type Attempt<T> = Result<T, Fate>;

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

impl Member {
    pub(crate) fn new(address: Address) -> Member {
        Member { name: address.to_string(), address, link: None, token: Token::Unknown }
    }

    /// Forgets the connection and the token.
    fn reset(&mut self) {
        self.link = None;
        self.token = Token::Unknown;
    }

    /// Opens a connection, unless one is open, and gets a token, if one is needed. Errors mean that nothing was sent.
    pub(crate) async fn prepare(&mut self, credentials: &Credentials) -> Result<(), Error> {
        if self.link.as_ref().is_some_and(|link| link.sender.is_closed()) {
            self.link = None;
        }
        if self.link.is_none() {
            self.link = Some(self.connect(credentials).await?);
        }
        if self.token == Token::Unknown {
            let token = self.authenticate(credentials).await;
            self.token = token.inspect_err(|_| self.reset())?;
        }
        Ok(())
    }

    async fn connect(&self, credentials: &Credentials) -> Result<HttpConnection, Error> {
        let unreachable = |why: &dyn std::fmt::Display| Error::Unreachable(format!("{}: {why}", self.name));
        let connecting = async {
            let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Duplex> = match credentials.tls.as_ref().filter(|_| self.address.is_secured) {
                Some(tls) => {
                    let name = ServerName::try_from(self.address.host.clone());
                    let name = name.map_err(std::io::Error::other)?;
                    Box::new(tls.connect(name, stream).await?)
                }
                None => Box::new(stream),
            };
            let mut builder = http1::Builder::new();
            builder.max_buf_size(HEAD_BYTES_MAX);
            let (sender, connection) =
                builder.handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
            // Errors of the connection are those of its requests as well.
            let task = tokio::spawn(async move { drop(connection.await) });
            Ok::<HttpConnection, std::io::Error>(HttpConnection { sender, task })
        };
        match tokio::time::timeout(CONNECT, connecting).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(_) => Err(unreachable(&format_args!("no connection within {} ms", CONNECT.as_millis()))),
        }
    }

    async fn authenticate(&mut self, credentials: &Credentials) -> Result<Token, Error> {
        if credentials.user.is_empty() {
            return Ok(Token::NotNeeded);
        }
        let body = wire::authenticate(&credentials.user, &credentials.password).to_string();
        let (status, answer) =
            self.post("auth/authenticate", body.into(), CONNECT).await.map_err(Fate::into_error)?;
        if status != 200 {
            // A user was set, but etcd does not ask for one.
            let is_off = |error: ErrorAnswer| error.message.contains("authentication is not enabled");
            if serde_json::from_slice(&answer).is_ok_and(is_off) {
                return Ok(Token::NotNeeded);
            }
            return Err(fate_of(&self.name, status, &answer).into_error());
        }
        let nonsense =
            |why: &str| Error::Nonsense { member: self.name.clone(), why: format!("no token: {why}") };
        let answer: TokenAnswer =
            serde_json::from_slice(&answer).map_err(|error| nonsense(&error.to_string()))?;
        let is_one = |byte: u8| byte.is_ascii_graphic();
        if answer.token.len() > TOKEN_BYTES_MAX || !answer.token.bytes().all(is_one) {
            return Err(nonsense("it has other characters, or too many"));
        }
        Ok(Token::Known(answer.token))
    }

    /// Sends a request and judges its answer. The member was prepared.
    pub(crate) async fn exchange(&mut self, path: &str, body: Bytes, limit: Duration) -> Attempt<Bytes> {
        let (status, answer) = self.post(path, body, limit).await?;
        if status == 200 {
            return Ok(answer);
        }
        let fate = fate_of(&self.name, status, &answer);
        if let Fate::NewToken(_) = fate {
            self.token = Token::Unknown;
        }
        Err(fate)
    }

    /// Sends a request and reads its answer: status and body.
    async fn post(&mut self, path: &str, body: Bytes, limit: Duration) -> Attempt<(u16, Bytes)> {
        let end = Instant::now() + limit;
        let name = self.name.clone();
        let nonsense = |why: String| Fate::Unknown(Error::Nonsense { member: name.clone(), why });
        let exchange = async {
            let response = self.send(path, body).await?;
            let status = response.status().as_u16();
            let body = read_body(response.into_body()).await.map_err(nonsense)?;
            Ok((status, body))
        };
        let answer = timeout_at(end, exchange).await.unwrap_or_else(|_| {
            let limit_ms = limit.as_millis() as u64;
            Err(Fate::Unknown(Error::TimedOut { member: name.clone(), limit_ms }))
        });
        if answer.is_err() {
            self.reset();
        }
        answer
    }

    /// Sends a request and waits for the head of its answer.
    async fn send(&mut self, path: &str, body: Bytes) -> Attempt<Response<Incoming>> {
        let lost = |why: String| Error::Lost { member: self.name.clone(), why };
        let mut request = Request::post(format!("/v3/{path}"))
            .header(HOST, &self.name)
            .header(CONTENT_TYPE, "application/json")
            // A member without a leader answers at once. Otherwise a watch of it is silent.
            .header("grpc-metadata-hasleader", "true");
        if let Token::Known(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| Fate::NotDone(lost(error.to_string())))?;
        let Some(link) = &mut self.link else {
            return Err(Fate::NotDone(lost("it is not open".to_owned())));
        };
        match link.sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => {
                // A request that comes back was not sent.
                let is_unsent = error.take_message().is_some();
                let error = lost(error.into_error().to_string());
                Err(if is_unsent { Fate::NotDone(error) } else { Fate::Unknown(error) })
            }
        }
    }

    /// Begins a stream: sends a request and returns the body of its answer, and the connection, which is the stream's from
    /// then on.
    pub(crate) async fn open_stream(
        &mut self,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<(HttpConnection, Incoming), Error> {
        let sent = tokio::time::timeout(limit, self.send(path, body)).await;
        let timed_out = || Error::TimedOut { member: self.name.clone(), limit_ms: limit.as_millis() as u64 };
        let response = sent.map_err(|_| timed_out()).and_then(|sent| sent.map_err(Fate::into_error));
        let response = response.inspect_err(|_| self.reset())?;
        let status = response.status().as_u16();
        if status != 200 {
            self.reset();
            return Err(Error::Failed(format!("no watch ({}, status {status})", self.name)));
        }
        let link = self.link.take().ok_or_else(|| Error::Unreachable(self.name.clone()))?;
        Ok((link, response.into_body()))
    }
}

/// Reads a whole body of limited size.
async fn read_body(mut body: Incoming) -> Result<Bytes, String> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Some(data) = frame.data_ref() else { continue };
        if whole.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(format!("it has more than {ANSWER_BYTES_MAX} bytes"));
        }
        whole.extend_from_slice(data);
    }
    Ok(whole.into())
}
