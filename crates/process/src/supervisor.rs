//! Reports the server's state to the service manager that started it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use config::{SUPERVISED, Settings};

use crate::system;

/// The values of `supervised`.
const BY_UPSTART: i64 = 1;
const BY_SYSTEMD: i64 = 2;
const AUTO: i64 = 3;
/// How often a [`Ticker`] reports, and how much more time each report asks for.
const TICK: Duration = Duration::from_secs(1);
const EXTENSION: Duration = Duration::from_secs(30);

/// The supervisor of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Supervisor {
    /// A person or a script.
    Nobody,
    /// `upstart`
    Upstart,
    /// `systemd`
    Systemd,
}

impl Supervisor {
    /// From `supervised`. With `auto`, the environment variables of the service managers decide.
    pub fn of(settings: &Settings) -> Supervisor {
        let is_set = |variable: &str| std::env::var_os(variable).is_some();
        match settings.number(SUPERVISED) {
            BY_SYSTEMD if is_set("NOTIFY_SOCKET") => Supervisor::Systemd,
            BY_UPSTART if is_set("UPSTART_JOB") => Supervisor::Upstart,
            AUTO if is_set("UPSTART_JOB") => Supervisor::Upstart,
            AUTO if is_set("NOTIFY_SOCKET") => Supervisor::Systemd,
            _ => Supervisor::Nobody,
        }
    }

    /// The name in `INFO`.
    pub fn name(self) -> &'static str {
        match self {
            Supervisor::Nobody => "no",
            Supervisor::Upstart => "upstart",
            Supervisor::Systemd => "systemd",
        }
    }
}

/// Called when the server starts: warns if the service manager of the settings did not start it.
pub fn begin(settings: &Settings) {
    let supervisor = Supervisor::of(settings);
    match settings.number(SUPERVISED) {
        BY_SYSTEMD if supervisor == Supervisor::Nobody => {
            tracing::warn!(
                "systemd supervision requested or auto-detected, but Darter wasn't started by systemd: NOTIFY_SOCKET is not set"
            );
        }
        BY_UPSTART if supervisor == Supervisor::Nobody => {
            tracing::warn!("upstart supervision requested, but UPSTART_JOB is not set");
        }
        _ => {}
    }
}

/// Tells the service manager that the server is ready. For upstart, the process stops itself.
pub fn ready(settings: &Settings) {
    match Supervisor::of(settings) {
        Supervisor::Nobody => {}
        Supervisor::Systemd => notify(settings, "STATUS=Ready to accept connections\nREADY=1"),
        Supervisor::Upstart => {
            tracing::info!("supervised by upstart, will stop to signal readiness");
            system::stop_oneself();
        }
    }
}

/// Sends a notification to systemd, if that supervises the server.
pub fn notify(settings: &Settings, state: &str) {
    if Supervisor::of(settings) == Supervisor::Systemd {
        system::notify_systemd(state);
    }
}

/// Tells systemd the status, and asks for more time.
pub fn notify_slow(settings: &Settings, status: &str) {
    notify(settings, &format!("STATUS={status}\nEXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
}

/// Tells systemd the progress once a second and asks for more time, until it is dropped.
#[derive(Debug)]
pub struct Ticker(#[expect(dead_code, reason = "the thread ends when it is dropped")] Option<Sender<()>>);

impl Ticker {
    /// `progress`: the progress, in words.
    pub fn start(settings: &'static Settings, progress: impl Fn() -> String + Send + 'static) -> Ticker {
        if Supervisor::of(settings) != Supervisor::Systemd {
            return Ticker(None);
        }
        let (ticker, ended) = channel();
        // At once: it may be over before a thread has begun.
        notify_slow(settings, &progress());
        let work = move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                notify_slow(settings, &progress());
            }
        };
        // If the thread cannot be started, the service manager only gets fewer reports.
        let started = std::thread::Builder::new().name("ticker".to_owned()).spawn(work);
        Ticker(started.is_ok().then_some(ticker))
    }
}
