//! Keeps the TLS configuration of a running server: set up from the settings, reloaded when files change, and used for
//! new connections.
//!
//! ```text
//!   start, CONFIG SET, SIGHUP, changed files ──▶ read all files ─┬▶ good: for connections from now on
//!                                                                └▶ bad: the log says why, what was there stays
//! ```
//!
//! Not here: the files and the protocol (crate `tls`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime};
use std::{fs, mem};

use crate::session::Session;
use acl::Users;
use config::*;
use proactor::{Codec, Socket};
use tls::{Authentication, Caching, Error, Handshake, Handshakes, Identity, Options, Secured};
use tls::{client_config, name_in_log, server_config};

/// The error of CONFIG SET, in Redis' words.
const NOT_UPDATED: &str = "Unable to update TLS configuration. Check server logs.";
const SESSIONS_KEPT: usize = 20480;

/// The time of change and the size of each file.
type Stamps = Vec<Option<(SystemTime, u64)>>;

/// The configuration for new connections.
#[derive(Debug, Default)]
struct Configured {
    accepting: Option<Arc<rustls::ServerConfig>>,
    dialing: Option<Arc<rustls::ClientConfig>>,
    /// The state of the files before they were read.
    stamps: Stamps,
}

/// The configuration before a change, including sessions that can be resumed.
#[derive(Debug)]
#[must_use]
pub struct Former(Configured);

/// See the head of this file.
#[derive(Debug, Default)]
pub struct TlsKeeper {
    configured: RwLock<Configured>,
    handshakes: Arc<Handshakes>,
    is_watching: AtomicBool,
}

/// The TLS state of a new connection. Both fields are `None` without TLS.
#[derive(Debug, Default)]
pub struct Admission {
    /// Encrypts and decrypts its bytes.
    pub codec: Option<Box<dyn Codec>>,
    /// The state of its handshake.
    pub handshake: Option<Arc<Handshake>>,
}

impl TlsKeeper {
    /// Reads all files and applies the settings to new connections. Returns the former configuration. Changes nothing
    /// on an error.
    pub fn configure(&'static self, settings: &'static Settings) -> Result<Former, Error> {
        let accepts = [TLS_PORT, MEMCACHED_TLS, HTTP_TLS].iter().any(|id| settings.is_on(*id));
        let dials = settings.is_on(TLS_REPLICATION) || settings.is_on(TLS_CLUSTER);
        let mut configured = Configured::default();
        if accepts || dials {
            let options = options(settings);
            configured.stamps = stamps(&options);
            let identity = Identity::read(&options)?;
            if accepts {
                configured.accepting = Some(server_config(&options, &identity)?);
            }
            if dials {
                configured.dialing = Some(client_config(&options, &identity)?);
            }
            self.watch(settings);
        }
        Ok(Former(self.replace(configured)))
    }

    /// Restores the former configuration after a change that failed elsewhere.
    pub fn restore(&self, former: Former) {
        self.replace(former.0);
    }

    fn replace(&self, configured: Configured) -> Configured {
        mem::replace(&mut *self.configured.write().unwrap_or_else(PoisonError::into_inner), configured)
    }

    /// Applies the settings for `CONFIG SET`.
    pub fn change(&'static self, settings: &'static Settings) -> Result<Former, String> {
        self.configure(settings).map_err(|error| {
            tracing::warn!("the TLS settings are unchanged: {error}");
            NOT_UPDATED.to_owned()
        })
    }

    /// Applies the settings if the server must listen for TLS and has no configuration for it yet.
    pub fn change_for_listening(
        &'static self,
        settings: &'static Settings,
    ) -> Result<Option<Former>, String> {
        let is_ready = self.accepting().is_some();
        if is_ready || !settings.is_on(TLS_PORT) { Ok(None) } else { self.change(settings).map(Some) }
    }

    /// Reads all files again, and logs the result.
    pub fn reload(&'static self, settings: &'static Settings) {
        let is_used = {
            let configured = self.configured.read().unwrap_or_else(PoisonError::into_inner);
            configured.accepting.is_some() || configured.dialing.is_some()
        };
        if is_used {
            match self.configure(settings) {
                Ok(_) => tracing::info!("the TLS certificates were reloaded"),
                Err(error) => tracing::warn!("the TLS certificates were not reloaded: {error}"),
            }
        }
    }

    /// Prepares TLS for an accepted connection. `None`: the connection must be closed, because it cannot get TLS or too
    /// many connections are in their handshake.
    pub fn admit(&self, settings: &Settings, is_secured: bool, socket: &Socket) -> Option<Admission> {
        if !is_secured {
            return Some(Admission::default());
        }
        let config = self.accepting()?;
        let Some(handshake) = self.handshakes.begin(settings.number(TLS_HANDSHAKES_MAX) as usize) else {
            tracing::debug!("closing a connection: tls-handshakes-max handshakes are in progress");
            return None;
        };
        match Secured::accepted(&config, handshake.clone(), socket.peer()) {
            Ok(codec) => Some(Admission { codec: Some(Box::new(codec)), handshake: Some(handshake) }),
            Err(error) => {
                tracing::warn!("{error}");
                None
            }
        }
    }

    /// The configuration for accepted connections; `None` if there is none.
    pub fn accepting(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.configured.read().unwrap_or_else(PoisonError::into_inner).accepting.clone()
    }

    /// Prepares TLS for a connection to the primary, if `tls-replication` is on and there is a configuration for it.
    pub fn dialed(&self, settings: &Settings) -> Option<Box<dyn Codec>> {
        let config = self.dialing().filter(|_| settings.is_on(TLS_REPLICATION))?;
        Some(Box::new(
            Secured::dialed(&config).expect("a client session can be made of a good configuration"),
        ))
    }

    /// The configuration for connections to other servers; `None` if there is none.
    pub fn dialing(&self) -> Option<Arc<rustls::ClientConfig>> {
        self.configured.read().unwrap_or_else(PoisonError::into_inner).dialing.clone()
    }

    /// Starts a thread that checks for changed files, while the settings ask for it.
    fn watch(&'static self, settings: &'static Settings) {
        if !settings.is_on(TLS_AUTO_RELOAD_INTERVAL) || self.is_watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let work = move || {
            let mut tried = Stamps::new();
            loop {
                let seconds = settings.number(TLS_AUTO_RELOAD_INTERVAL) as u64;
                if seconds == 0 {
                    break;
                }
                thread::sleep(Duration::from_secs(seconds));
                let found = stamps(&options(settings));
                let read = self.configured.read().unwrap_or_else(PoisonError::into_inner).stamps.clone();
                if found != read && found != tried {
                    tried = found;
                    self.reload(settings);
                }
            }
            self.is_watching.store(false, Ordering::Release);
        };
        let builder = thread::Builder::new().name("tls-files".to_owned()).stack_size(256 * 1024);
        if let Err(error) = builder.spawn(work) {
            self.is_watching.store(false, Ordering::Release);
            tracing::warn!("cannot start the thread that watches the TLS files: {error}");
        }
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

/// The options of TLS, from the settings.
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

fn stamps(options: &Options) -> Stamps {
    let files = [
        &options.cert_file,
        &options.key_file,
        &options.client_cert_file,
        &options.client_key_file,
        &options.ca_cert_file,
        &options.ca_cert_dir,
    ];
    let stamp = |path: &&String| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.iter().map(stamp).collect()
}
