//! What the settings say about TLS, and which user a client is by its certificate.
//!
//! Not here: the configuration that is made of them, and when it is (crate `tls`).

use std::time::Duration;

use acl::Users;
use config::*;
use tls::{Authentication, Caching, Handshake, Options, WantedTls, name_in_log};

use crate::session::Session;

const SESSIONS_KEPT: usize = 20480;

/// Says what the settings want.
pub fn wanted_tls(settings: &'static Settings) -> impl Fn() -> WantedTls + Copy + Send {
    move || {
        let reload_seconds = settings.number(TLS_AUTO_RELOAD_INTERVAL) as u64;
        WantedTls {
            accepts: [TLS_PORT, MEMCACHED_TLS, HTTP_TLS].iter().any(|id| settings.is_on(*id)),
            dials: settings.is_on(TLS_REPLICATION) || settings.is_on(TLS_CLUSTER),
            reload_interval: (reload_seconds > 0).then(|| Duration::from_secs(reload_seconds)),
            options: options(settings),
        }
    }
}

fn options(settings: &Settings) -> Options {
    let text = |id| settings.text(id).to_string();
    let caching = Caching {
        count_max: match settings.number(TLS_SESSION_CACHE_SIZE) {
            0 => SESSIONS_KEPT,
            count => count as usize,
        },
        timeout: Duration::from_secs(settings.number(TLS_SESSION_CACHE_TIMEOUT) as u64),
    };
    Options {
        cert_file: text(TLS_CERT_FILE),
        key_file: text(TLS_KEY_FILE),
        key_file_pass: text(TLS_KEY_FILE_PASS),
        client_cert_file: text(TLS_CLIENT_CERT_FILE),
        client_key_file: text(TLS_CLIENT_KEY_FILE),
        client_key_file_pass: text(TLS_CLIENT_KEY_FILE_PASS),
        ca_cert_file: text(TLS_CA_CERT_FILE),
        ca_cert_dir: text(TLS_CA_CERT_DIR),
        authentication: match settings.number(TLS_AUTH_CLIENTS) {
            0 => Authentication::No,
            1 => Authentication::Required,
            _ => Authentication::Optional,
        },
        protocols: text(TLS_PROTOCOLS),
        ciphers: text(TLS_CIPHERS),
        ciphersuites: text(TLS_CIPHERSUITES),
        prefer_server_ciphers: settings.is_on(TLS_PREFER_SERVER_CIPHERS),
        caching: settings.is_on(TLS_SESSION_CACHING).then_some(caching),
    }
}

/// Called after a handshake. If the settings ask for it, the client becomes the user that its certificate names.
/// Returns false if the client must be disconnected, because that user has too many connections.
#[cold]
pub fn greet(users: &Users, settings: &Settings, session: &mut Session, handshake: &Handshake) -> bool {
    if settings.is_on(TLS_AUTH_CLIENTS_USER)
        && let Some(name) = handshake.common_name()
    {
        if let Some(access) = users.vouch_for(name.as_bytes()) {
            let seats_max = settings.number(MAXCLIENTS_PER_USER) as u64;
            if access.take_seat(&mut session.seat, seats_max).is_err() {
                tracing::info!(
                    "user '{}' has reached maxclients-per-user: refusing {}",
                    name_in_log(name),
                    session.peer
                );
                return false;
            }
            session.access = access;
            session.client.reads_all_keys = true;
        } else {
            tracing::info!(
                "the certificate of {} names user '{}', who does not exist",
                session.peer,
                name_in_log(name)
            );
        }
    }
    true
}
