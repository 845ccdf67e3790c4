//! The codec of one connection: a session of rustls, and the state of its handshake.

use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use proactor::{Codec, Heard, InputBuffer};
use rustls::pki_types::CertificateDer;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, InvalidMessage, ServerConfig,
    ServerConnection,
};
use x509_cert::der::Decode;

use crate::error::Error;

/// Counts connections in their handshake.
#[derive(Debug, Default)]
pub struct Handshakes(AtomicUsize);

impl Handshakes {
    /// Begins a handshake, unless `count_max` are in progress (0: no limit).
    pub fn begin(self: &Arc<Self>, count_max: usize) -> Option<Arc<Handshake>> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        if count_max > 0 && before >= count_max {
            self.0.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (is_over, common_name) = (AtomicBool::new(false), OnceLock::new());
        Some(Arc::new(Handshake { all: self.clone(), is_over, common_name }))
    }

    /// How many handshakes are in progress.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The handshake of one connection. Its result can be read even after the connection has ended.
#[derive(Debug)]
pub struct Handshake {
    all: Arc<Handshakes>,
    is_over: AtomicBool,
    common_name: OnceLock<String>,
}

impl Handshake {
    /// Whether it has succeeded, or its connection is closed.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The common name in the peer's certificate.
    pub fn common_name(&self) -> Option<&str> {
        self.common_name.get().map(String::as_str)
    }

    fn end(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            self.all.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Secured {
    session: Connection,
    /// Present until the handshake is over.
    handshake: Option<Beginning>,
    /// The error if the peer closes without a closing message.
    truncation: Option<ErrorKind>,
}

#[derive(Debug)]
struct Beginning {
    handshake: Arc<Handshake>,
    /// The peer's address, for the log.
    peer: String,
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.handshake.end();
    }
}

impl Secured {
    /// For an accepted connection from `peer`.
    pub fn accepted(
        config: &Arc<ServerConfig>,
        handshake: Arc<Handshake>,
        peer: &str,
    ) -> Result<Secured, Error> {
        let mut session = ServerConnection::new(config.clone())?;
        // The connection limits the bytes to send: it hands over one piece at a time.
        session.set_buffer_limit(None);
        let handshake = Some(Beginning { handshake, peer: peer.to_owned() });
        // Clients of Redis close without a goodbye, and each request says where it ends.
        Ok(Secured { session: session.into(), handshake, truncation: None })
    }

    /// For a connection to another server.
    pub fn dialed(config: &Arc<ClientConfig>) -> Result<Secured, Error> {
        // The peer is not told a name, and its name is not checked.
        let name = std::net::Ipv4Addr::UNSPECIFIED.into();
        let mut session =
            ClientConnection::new(config.clone(), rustls::pki_types::ServerName::IpAddress(name))?;
        session.set_buffer_limit(None);
        Ok(Secured { session: session.into(), handshake: None, truncation: None })
    }

    /// Continues a client's session whose handshake is done and whose input is read. The server will close it
    /// with a closing message.
    pub fn established(session: ClientConnection) -> Secured {
        Secured { session: session.into(), handshake: None, truncation: Some(ErrorKind::UnexpectedEof) }
    }

    #[cold]
    fn note_end_of_handshake(&mut self) {
        let Some(beginning) = self.handshake.take() else { return };
        let certificate = self.session.peer_certificates().and_then(|chain| chain.first());
        if let Some(name) = certificate.and_then(common_name) {
            // It is set once.
            let _ = beginning.handshake.common_name.set(name);
        }
    }

    #[cold]
    fn refuse(&self, error: &rustls::Error) -> ErrorKind {
        let why = plainly(error);
        match (&self.handshake, &self.session) {
            (Some(Beginning { peer, .. }), _) => {
                tracing::info!("Error accepting a client connection: {why} (addr={peer})");
            }
            // That the other side does not accept this certificate may be known only after the handshake.
            (None, Connection::Client(_)) => {
                tracing::warn!("TLS error on a connection to another server: {why}");
            }
            (None, Connection::Server(_)) => tracing::debug!("TLS protocol error on a connection: {why}"),
        }
        ErrorKind::InvalidData
    }

    fn write_out(&mut self, wire: &mut Vec<u8>) {
        while self.session.wants_write() {
            self.session.write_tls(wire).expect("a vector takes all it is given");
        }
    }
}

/// The error of a handshake in words, for errors that rustls only names.
fn plainly(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(why))
            if why.to_string().contains("UnsupportedCertVersion") =>
        {
            "its certificate is not of X.509 version 3".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(why))
            if why.to_string().contains("CaUsedAsEndEntity") =>
        {
            "nothing in tls-ca-cert-file or tls-ca-cert-dir vouches for its certificate, which is an authority's".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "no authority in tls-ca-cert-file or tls-ca-cert-dir vouches for its certificate".to_owned()
        }
        rustls::Error::AlertReceived(alert) => format!("the other side refused it: alert {alert:?}"),
        error => error.to_string(),
    }
}

/// A name from a certificate as part of one line of the log. The party that requested the certificate chose
/// the name, so it is shortened and escaped.
pub fn name_in_log(name: &str) -> String {
    name.chars().take(100).flat_map(char::escape_debug).collect()
}

/// The common name of the subject of a certificate.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    let name = certificate.tbs_certificate().subject().common_name().ok()??;
    Some(name.value().into_owned())
}

impl Codec for Secured {
    fn receive(&mut self, mut wire: &[u8], plain: &mut InputBuffer) -> Result<Heard, ErrorKind> {
        let refused = |error: io::Error| error.kind();
        while !wire.is_empty() {
            self.session.read_tls(&mut wire).map_err(refused)?;
            let state = match self.session.process_new_packets() {
                Ok(state) => state,
                Err(error) => return Err(self.refuse(&error)),
            };
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = self.session.reader();
                let bytes = reader.fill_buf().map_err(refused)?;
                let length = bytes.len();
                plain.append(bytes);
                reader.consume(length);
                left -= length;
            }
            if state.peer_has_closed() {
                return Ok(Heard::Goodbye);
            }
        }
        if self.handshake.is_some() && !self.session.is_handshaking() {
            self.note_end_of_handshake();
        }
        Ok(Heard::More)
    }

    fn is_ready(&self) -> bool {
        !self.session.is_handshaking()
    }

    fn has_words(&self) -> bool {
        self.session.wants_write()
    }

    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        self.session.writer().write_all(plain).expect("the session takes all it is given");
        self.write_out(wire);
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        self.session.send_close_notify();
        self.write_out(wire);
    }

    fn truncation(&self) -> Option<ErrorKind> {
        self.truncation
    }

    fn memory_bytes(&self) -> usize {
        SESSION_BYTES
    }
}

/// The memory of a session: the session, its keys, and rustls' buffer for an incomplete record.
const SESSION_BYTES: usize = size_of::<Secured>() + 4096 + 2048;
