//! Keeps the TLS configuration of a running server: set up as the settings want it, reloaded when files change, and used
//! for new connections.
//!
//! ```text
//!   start, CONFIG SET, SIGHUP, changed files ──▶ read all files ─┬▶ good: for connections from now on
//!                                                                └▶ bad: the log says why, what was there stays
//! ```
//!
//! Not here: the settings. A function says what they want ([`WantedTls`]), because the thread that checks for changed files
//! asks again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime};
use std::{fs, mem};

use proactor::{Codec, Socket};

use crate::error::Error;
use crate::files::Identity;
use crate::options::Options;
use crate::secured::{Handshake, Handshakes, Secured};
use crate::sides::{client_config, server_config};

/// The error of CONFIG SET, in Redis' words.
const NOT_UPDATED: &str = "Unable to update TLS configuration. Check server logs.";

/// What the settings want.
#[derive(Debug)]
pub struct WantedTls {
    /// Connections are accepted with TLS.
    pub accepts: bool,
    /// Connections to other servers are made with TLS.
    pub dials: bool,
    /// How often to check for changed files. `None`: never.
    pub reload_interval: Option<Duration>,
    /// The files and the protocol.
    pub options: Options,
}

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
    pub fn configure(
        &'static self,
        wanted: impl Fn() -> WantedTls + Copy + Send + 'static,
    ) -> Result<Former, Error> {
        let WantedTls { accepts, dials, options, reload_interval } = wanted();
        let mut configured = Configured::default();
        if accepts || dials {
            configured.stamps = stamps(&options);
            let identity = Identity::read(&options)?;
            if accepts {
                configured.accepting = Some(server_config(&options, &identity)?);
            }
            if dials {
                configured.dialing = Some(client_config(&options, &identity)?);
            }
            if reload_interval.is_some() {
                self.watch(wanted);
            }
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
    pub fn change(
        &'static self,
        wanted: impl Fn() -> WantedTls + Copy + Send + 'static,
    ) -> Result<Former, String> {
        self.configure(wanted).map_err(|error| {
            tracing::warn!("the TLS settings are unchanged: {error}");
            NOT_UPDATED.to_owned()
        })
    }

    /// Reads all files again, and logs the result.
    pub fn reload(&'static self, wanted: impl Fn() -> WantedTls + Copy + Send + 'static) {
        let is_used = {
            let configured = self.configured.read().unwrap_or_else(PoisonError::into_inner);
            configured.accepting.is_some() || configured.dialing.is_some()
        };
        if is_used {
            match self.configure(wanted) {
                Ok(_) => tracing::info!("the TLS certificates were reloaded"),
                Err(error) => tracing::warn!("the TLS certificates were not reloaded: {error}"),
            }
        }
    }

    /// Prepares TLS for an accepted connection. `None`: the connection must be closed, because it cannot get TLS or
    /// `handshakes_max` connections are in their handshake.
    pub fn admit(&self, handshakes_max: usize, socket: &Socket) -> Option<Admission> {
        let config = self.accepting()?;
        let Some(handshake) = self.handshakes.begin(handshakes_max) else {
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

    /// Prepares TLS for a connection to another server, if there is a configuration for it.
    pub fn dialed(&self) -> Option<Box<dyn Codec>> {
        let config = self.dialing()?;
        Some(Box::new(
            Secured::dialed(&config).expect("a client session can be made of a good configuration"),
        ))
    }

    /// The configuration for connections to other servers; `None` if there is none.
    pub fn dialing(&self) -> Option<Arc<rustls::ClientConfig>> {
        self.configured.read().unwrap_or_else(PoisonError::into_inner).dialing.clone()
    }

    /// Starts a thread that checks for changed files, while the settings ask for it.
    fn watch(&'static self, wanted: impl Fn() -> WantedTls + Copy + Send + 'static) {
        if self.is_watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let work = move || {
            let mut tried = Stamps::new();
            while let Some(interval) = wanted().reload_interval {
                thread::sleep(interval);
                let found = stamps(&wanted().options);
                let read = self.configured.read().unwrap_or_else(PoisonError::into_inner).stamps.clone();
                if found != read && found != tried {
                    tried = found;
                    self.reload(wanted);
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
