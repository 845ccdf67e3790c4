//! The TLS handshake of a connection, if `http-tls` is on.
//!
//! It may take `tls-handshake-timeout`, and counts as a connection that waits (`connections.rs`). So there are at most
//! `http-connections-max` of them, and none keeps a new connection out.
//!
//! Not here: certificates, and when they are reloaded (`clients`).

use std::io;
use std::time::Duration;

use config::{HTTP_TLS, TLS_AUTH_CLIENTS_USER, TLS_HANDSHAKE_TIMEOUT};
use tls::name_in_log;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::guard::Peer;
use crate::serving::send_away;
use crate::state::State;
use crate::stream::Stream;

/// The answer to a client that speaks HTTP without TLS.
const NOT_SECURED: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n\
      this port speaks HTTP over TLS (setting http-tls): ask for https://\n";

/// An open connection for HTTP, and its peer.
pub(crate) enum Opened {
    Plain(Stream, Peer),
    Secured(Box<TlsStream<Stream>>, Peer),
}

/// Completes the handshake of a new connection; `None`: it failed or took too long.
pub(crate) async fn open(state: &State, stream: Stream, peer: Peer) -> Option<Opened> {
    let settings = state.source.settings();
    if !settings.is_on(HTTP_TLS) {
        return Some(Opened::Plain(stream, peer));
    }
    let address = peer.address;
    let limit = match settings.number(TLS_HANDSHAKE_TIMEOUT) {
        0 => Duration::MAX,
        seconds => Duration::from_secs(seconds as u64),
    };
    let made = tokio::time::timeout(limit, shake_hands(state, stream)).await;
    match made.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(stream) => {
            let peer = Peer { common_name: common_name(&stream), ..peer };
            note_stranger(state, &peer);
            Some(Opened::Secured(Box::new(stream), peer))
        }
        Err(error) => {
            tracing::info!("Error accepting a client connection: {error} (addr={address}, HTTP)");
            None
        }
    }
}

async fn shake_hands(state: &State, mut stream: Stream) -> io::Result<TlsStream<Stream>> {
    if stream.first_byte().await?.is_some_and(|byte| byte.is_ascii_uppercase()) {
        send_away(&mut stream, NOT_SECURED).await?;
        return Err(io::Error::other("it speaks HTTP without TLS"));
    }
    let config = state.source.tls().ok_or_else(|| io::Error::other("TLS was not set up"))?;
    TlsAcceptor::from(config).accept(stream).await
}

fn common_name(stream: &TlsStream<Stream>) -> Option<String> {
    let (_, session) = stream.get_ref();
    session.peer_certificates()?.first().and_then(tls::common_name)
}

/// Logs a certificate that does not name an existing user.
fn note_stranger(state: &State, peer: &Peer) {
    if state.source.settings().is_on(TLS_AUTH_CLIENTS_USER)
        && let Some(name) = &peer.common_name
        && state.source.users().vouch_for(name.as_bytes()).is_none()
    {
        tracing::info!(
            "the certificate of {} names user '{}', who does not exist",
            peer.address,
            name_in_log(name)
        );
    }
}
