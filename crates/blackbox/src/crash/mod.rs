//! Kills a server repeatedly, and checks each time whether it has kept all promised changes.
//!
//! ```text
//! start ─▶ clients work ─▶ (BGREWRITEAOF) ─▶ kill -9 ─▶ (start ─▶ kill -9 while it recovers)* ─▶ start ─▶ read all ─▶ check
//!             ▲                                                                                              │
//!             └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Sometimes the thread that writes Darter's journal stands still before the kill, as in a write that hangs. Nothing that is
//! lost then may be acknowledged for long.
//!
//! The server may be any that accepts redis-server's options. It keeps one folder throughout. The seed decides when it is
//! killed, but not what then happens on which thread. So a seed repeats the clients and the pauses, but not the run.

mod clients;
mod power;

pub(crate) use clients::End;
pub use clients::{Field, work};
pub use power::{Fault, Recorded};
use powerlog::Halt;
pub use powerlog::Promise;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ds::random::Random;
use rustix::process::Signal;

use crate::account::{Account, Crash, Found, Moment, Timeline};
use crate::server::{Server, StartError};

/// Shortest and longest time that clients work before the server is killed.
const LIFE_MS: (u64, u64) = (10, 500);
/// Longest time after which it is killed during a recovery.
const RECOVERY_MS: u64 = 40;

/// The thread of Darter that writes the journal.
const LOG_THREAD: &str = "journal";
/// One in this many lives ends with a log thread that stands still, for this long.
const HANG_ONE_IN: u64 = 6;
const HANG_MS: (u64, u64) = (1_500, 2_000);
/// If replies do not wait for the disk, changes are acknowledged no longer than this after the log thread has stopped. The server
/// takes a tenth of a second (`journal-pending-ms`); the rest is for clients that get no core.
const HANG_ACKNOWLEDGED_MS_MAX: u64 = 1_000;

/// The server to test, and the conditions.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The program with its options. Its port and its folder are added.
    pub server: Vec<String>,
    /// The folder for its data; empty at first.
    pub folder: PathBuf,
    /// Seed of the random choices.
    pub seed: u64,
    /// Changes that the server acknowledged within this time before the kill may be lost.
    pub tolerance: Duration,
}

/// The reason why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server did not keep its promise.
    #[error("{}", .0.join("\n"))]
    Broken(Vec<String>),
    /// The server does not start on the data that it left.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server cannot be queried.
    #[error("it does not tell what it holds: {0}")]
    Io(#[from] io::Error),
}

/// A server that is killed now and then, and its clients.
#[derive(Debug)]
pub struct Crashes {
    trial: Trial,
    random: Random,
    timeline: Timeline,
    account: Account,
    server: Server,
    /// How often it was killed, including in recoveries.
    pub kills: u64,
    /// Total number of acknowledged operations.
    pub acknowledged: u64,
    /// How often the log thread stood still before a kill.
    pub hangs: u64,
}

/// When a life ended.
#[derive(Clone, Copy)]
struct Death {
    killed: Moment,
    /// When the log thread stopped, if it did.
    hung: Option<Moment>,
}

impl Crashes {
    /// Starts the server for the first time.
    pub fn begin(trial: Trial) -> Result<Crashes, Failure> {
        let server = start(&trial)?;
        let random = Random::new(trial.seed);
        let (timeline, account) = (Timeline::begin(), Account::default());
        Ok(Crashes { trial, random, timeline, account, server, kills: 0, acknowledged: 0, hangs: 0 })
    }

    /// The server's current process.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Lets the clients work, kills the server, starts it again, and compares.
    pub fn round(&mut self) -> Result<(), Failure> {
        self.round_with(|_| ())
    }

    /// Runs one life, too. Between death and start, `damage` may change the files in the folder.
    pub fn round_with(&mut self, damage: impl FnOnce(&Path)) -> Result<(), Failure> {
        let stop = AtomicBool::new(false);
        let seed = self.random.next_u64();
        let field = Field { port: self.server.port(), timeline: &self.timeline, stop: &stop, seed };
        let (server, random) = (&self.server, &mut self.random);
        let (Death { killed, hung }, complaints) = work(&mut self.account, field, || {
            pause(random, LIFE_MS);
            if random.below(4) == 0 {
                // Neither the reply matters, nor whether a rewrite is in progress.
                if let Ok(mut socket) = server.connect() {
                    let _ = socket.send(&[vec![b"BGREWRITEAOF".to_vec()]]);
                }
                pause(random, LIFE_MS);
            }
            let halt = (random.below(HANG_ONE_IN) == 0).then(|| halt_log(server)).flatten();
            let hung = halt.is_some().then(|| field.timeline.moment());
            if hung.is_some() {
                pause(random, HANG_MS);
            }
            let killed = field.timeline.moment();
            server.signal(Signal::KILL);
            Death { killed, hung }
        });
        self.server.wait();
        self.kills += 1;
        self.acknowledged += self.account.acknowledged() as u64;
        if !complaints.is_empty() {
            return Err(Failure::Broken(complaints));
        }
        let at = self.timeline.moment();
        let mut crash = Crash::new(at, Duration::ZERO);
        if !self.trial.tolerance.is_zero() {
            crash.promised = Crash::new(hung.unwrap_or(killed), self.trial.tolerance).promised;
            if let Some(hung) = hung {
                self.check_hang(hung)?;
            }
        }
        self.hangs += u64::from(hung.is_some());
        damage(&self.trial.folder);
        while self.random.below(4) == 0 {
            self.kill_in_recovery()?;
        }
        self.server = start(&self.trial)?;
        let found = Found::read(&mut self.server.connect()?)?;
        let complaints = self.account.check(&found, crash);
        if !complaints.is_empty() {
            return Err(Failure::Broken(complaints));
        }
        self.account.adopt(&found, crash);
        Ok(())
    }

    /// While nothing was written, no changes may have been acknowledged for long.
    fn check_hang(&self, hung: Moment) -> Result<(), Failure> {
        let end = hung + HANG_ACKNOWLEDGED_MS_MAX * 1_000_000;
        match self.account.changes_acknowledged_after(end) {
            0 => Ok(()),
            count => Err(Failure::Broken(vec![format!(
                "{count} changes were acknowledged more than {HANG_ACKNOWLEDGED_MS_MAX} ms after the log thread had stopped, and are lost"
            )])),
        }
    }

    fn kill_in_recovery(&mut self) -> Result<(), Failure> {
        let mut server = Server::begin(&self.trial.server, &options(&self.trial))?;
        pause(&mut self.random, (0, RECOVERY_MS));
        // The server may have ended by itself. Then the next start shows why.
        if server.is_running()? {
            server.signal(Signal::KILL);
        }
        server.wait();
        self.kills += 1;
        Ok(())
    }
}

/// Stops the thread that writes the journal; `None`: the server has no such thread, or this system does not allow it.
fn halt_log(server: &Server) -> Option<Halt> {
    Halt::thread(server.process_id(), LOG_THREAD).ok().flatten()
}

fn start(trial: &Trial) -> Result<Server, StartError> {
    Server::of(&trial.server, &options(trial))
}

fn options(trial: &Trial) -> [&str; 2] {
    ["--dir", trial.folder.to_str().expect("the folder's name is text")]
}

fn pause(random: &mut Random, (least, most): (u64, u64)) {
    thread::sleep(Duration::from_millis(least + random.below(most - least)));
}
