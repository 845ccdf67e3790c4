//! Kills a server again and again, and checks each time whether it has kept what it promised.
//!
//! ```text
//! start ─▶ clients work ─▶ (BGREWRITEAOF) ─▶ kill -9 ─▶ (start ─▶ kill -9 while it recovers)* ─▶ start ─▶ read all ─▶ check
//!             ▲                                                                                              │
//!             └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The server may be any that accepts redis-server's options. It keeps one folder throughout. The seed decides when it
//! is killed; it does not decide what then happens on which thread. So a seed gives the same clients and the same
//! pauses, but not the same run.

mod clients;
mod power;

pub use clients::{Field, work};
pub use power::{Fault, Recorded};
pub use powerlog::Promise;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ds::random::Random;
use rustix::process::Signal;

use crate::account::{Account, Crash, Found, Timeline};
use crate::server::{Server, StartError};

/// How long clients work at least and at most before the server is killed.
const LIFE_MS: (u64, u64) = (10, 500);
/// Into a recovery it is killed after at most so long.
const RECOVERY_MS: u64 = 40;

/// What is tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The program and its options; where it listens and its folder are added.
    pub server: Vec<String>,
    /// Where it keeps its data; empty at first.
    pub folder: PathBuf,
    /// What is drawn from.
    pub seed: u64,
    /// What it acknowledged so shortly before it was killed may be lost.
    pub tolerance: Duration,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It did not keep its promise.
    #[error("{}", .0.join("\n"))]
    Broken(Vec<String>),
    /// It does not start on what it left.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It cannot be asked.
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
    /// How often it was killed, in recoveries too.
    pub kills: u64,
    /// What was acknowledged in all.
    pub acknowledged: u64,
}

impl Crashes {
    /// Starts the server for the first time.
    pub fn begin(trial: Trial) -> Result<Crashes, Failure> {
        let server = start(&trial)?;
        let random = Random::new(trial.seed);
        let (timeline, account) = (Timeline::begin(), Account::default());
        Ok(Crashes { trial, random, timeline, account, server, kills: 0, acknowledged: 0 })
    }

    /// The server's process as it is now.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Has the clients work, kills the server, starts it again, and compares.
    pub fn round(&mut self) -> Result<(), Failure> {
        self.round_with(|_| ())
    }

    /// The same; between death and start `damage` may change what is in the folder.
    pub fn round_with(&mut self, damage: impl FnOnce(&Path)) -> Result<(), Failure> {
        let stop = AtomicBool::new(false);
        let seed = self.random.next_u64();
        let field = Field { port: self.server.port(), timeline: &self.timeline, stop: &stop, seed };
        let (server, random) = (&self.server, &mut self.random);
        let (killed, complaints) = work(&mut self.account, field, || {
            pause(random, LIFE_MS);
            if random.below(4) == 0 {
                // Its answer does not matter, nor whether one is under way.
                if let Ok(mut socket) = server.connect() {
                    let _ = socket.send(&[vec![b"BGREWRITEAOF".to_vec()]]);
                }
                pause(random, LIFE_MS);
            }
            let killed = field.timeline.moment();
            server.signal(Signal::KILL);
            killed
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
            crash.promised = Crash::new(killed, self.trial.tolerance).promised;
        }
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

    fn kill_in_recovery(&mut self) -> Result<(), Failure> {
        let mut server = Server::begin(&self.trial.server, &options(&self.trial))?;
        pause(&mut self.random, (0, RECOVERY_MS));
        // It may have ended by itself: then the next start says why.
        if server.is_running()? {
            server.signal(Signal::KILL);
        }
        server.wait();
        self.kills += 1;
        Ok(())
    }
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
