//! Simulates thousands of power failures in one run.
//!
//! The server is recorded while clients work on it (`powerlog`). Then, for each of many moments, a folder is created
//! that a power failure might have left, and a server is started on it. It must contain what had been acknowledged by
//! that moment.

use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ds::random::Random;
use powerlog::{Disk, Event, Promise, Recording};
use resp::Value;
use scratch::free_port;
use transcript::{Runner, Socket};

use super::clients::{Field, work};
use super::{Failure, Trial, options, start};
use crate::account::{Account, Crash, Found, Moment, Timeline};
use crate::client::PATIENCE;
use crate::server::StartError;

/// Number of servers that run at the same time.
const SERVERS_AT_ONCE: usize = 2;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The operations of a server on its files, and the changes that it acknowledged meanwhile.
#[derive(Debug)]
pub struct Recorded {
    trial: Trial,
    events: Vec<Event>,
    account: Account,
    /// When the server first answered, and when its clients had ended.
    served: (Moment, Moment),
}

/// A power failure after which something was wrong.
#[derive(Debug)]
pub struct Fault {
    /// The number of the point.
    pub point: u64,
    /// When the power failed.
    pub at: Moment,
    /// The folder that was left. The server has been started on it.
    pub folder: PathBuf,
    /// The fault that was found.
    pub failure: Failure,
}

impl Recorded {
    /// Lets clients work for this time on a server that is recorded. Its folder is created in the trial's.
    pub fn record(trial: Trial, duration: Duration) -> Result<Recorded, Failure> {
        let folder = trial.folder.join("recorded");
        fs::create_dir_all(&folder)?;
        let timeline = Arc::new(Timeline::begin());
        let port = free_port()?;
        let log = trial.folder.join("server.log");
        let moments = Arc::clone(&timeline);
        let command = command(&trial, &folder, port, &log)?;
        let recording = Recording::start(command, &folder, move || moments.moment());
        let recording = recording.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StartError::Missing(trial.server[0].clone()),
            _ => error.into(),
        })?;
        if !answers(port, &recording)? {
            let log = fs::read_to_string(log)?;
            return Err(StartError::Failed { name: trial.server.join(" "), log }.into());
        }
        let begin = timeline.moment();
        let (stop, mut account) = (AtomicBool::new(false), Account::default());
        let field = Field { port, timeline: &timeline, stop: &stop, seed: trial.seed };
        let ((), complaints) = work(&mut account, field, || {
            thread::sleep(duration / 2);
            if let Ok(mut socket) = Socket::connect(("127.0.0.1", port)) {
                // The reply does not matter.
                let _ = socket.call(&[b"BGREWRITEAOF".to_vec()]);
            }
            thread::sleep(duration / 2);
            stop.store(true, Ordering::Relaxed);
        });
        let end = timeline.moment();
        if recording.kill().is_err() {
            return Err(Failure::Broken(vec!["it ended by itself:".to_owned(), fs::read_to_string(log)?]));
        }
        let events = recording.finish()?;
        if !complaints.is_empty() {
            return Err(Failure::Broken(complaints));
        }
        let mut disk = Disk::new(&events, Promise::Any);
        disk.advance(Moment::MAX);
        let missed = disk.differences(&folder)?;
        if !missed.is_empty() {
            return Err(Failure::Broken(
                [vec!["the recorder has missed something:".to_owned()], missed].concat(),
            ));
        }
        fs::remove_dir_all(folder)?;
        Ok(Recorded { trial, events, account, served: (begin, end) })
    }

    /// Number of recorded calls, and of acknowledged operations.
    pub fn counts(&self) -> (usize, usize) {
        (self.events.len(), self.account.acknowledged())
    }

    /// Lets the power fail at this many points. Calls `shown` after each. Returns the faults.
    pub fn fail(&self, points: u64, promise: Promise, shown: impl Fn(u64) + Sync) -> io::Result<Vec<Fault>> {
        let mut random = Random::new(self.trial.seed);
        let mut moments: Vec<Moment> = (0..points).map(|_| self.moment(&mut random)).collect();
        moments.sort_unstable();
        let disk = Disk::new(&self.events, promise);
        let next = Mutex::new((disk, moments.into_iter().enumerate()));
        let faults = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let run = || -> io::Result<()> {
                while let Some((point, at, folder)) = self.next_image(&next)? {
                    match self.look(at, &folder) {
                        Ok(()) => fs::remove_dir_all(&folder)?,
                        Err(failure) => {
                            let fault = Fault { point, at, folder, failure };
                            faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
                        }
                    }
                    shown(point);
                }
                Ok(())
            };
            let threads: Vec<_> = (0..SERVERS_AT_ONCE).map(|_| scope.spawn(run)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })?;
        let mut faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
        faults.sort_by_key(|fault| fault.point);
        Ok(faults)
    }

    /// A random moment while clients worked: just before or after the beginning or end of a call, or any.
    fn moment(&self, random: &mut Random) -> Moment {
        let (begin, end) = self.served;
        let any = begin + random.below(end - begin);
        if self.events.is_empty() {
            return any;
        }
        let event = &self.events[random.below(self.events.len() as u64) as usize];
        let moment = match random.below(6) {
            0 => event.begin - 1,
            1 => event.begin,
            2 => event.end - 1,
            3 => event.end,
            _ => any,
        };
        if (begin..=end).contains(&moment) { moment } else { any }
    }

    /// Creates the folder that the next failure leaves.
    fn next_image(
        &self,
        next: &Mutex<(Disk<'_>, impl Iterator<Item = (usize, Moment)>)>,
    ) -> io::Result<Option<(u64, Moment, PathBuf)>> {
        let (disk, moments) = &mut *next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((point, at)) = moments.next() else { return Ok(None) };
        let folder = self.trial.folder.join(format!("point-{point}"));
        fs::create_dir_all(&folder)?;
        disk.advance(at);
        disk.image(self.trial.seed.wrapping_add(point as u64), &folder)?;
        Ok(Some((point as u64, at, folder)))
    }

    /// Starts a server on the folder, and compares.
    fn look(&self, at: Moment, folder: &Path) -> Result<(), Failure> {
        let server = start(&Trial { folder: folder.to_owned(), ..self.trial.clone() })?;
        let found = Found::read(&mut server.connect()?)?;
        let complaints = self.account.check(&found, Crash::new(at, self.trial.tolerance));
        if complaints.is_empty() { Ok(()) } else { Err(Failure::Broken(complaints)) }
    }
}

fn command(trial: &Trial, folder: &Path, port: u16, log: &Path) -> io::Result<Command> {
    let (program, words) = trial.server.split_first().expect("a server has a program");
    let log = File::create(log)?;
    let mut command = Command::new(program);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(words)
        .args(options(&Trial { folder: folder.to_owned(), ..trial.clone() }))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(command)
}

/// Waits until the server has loaded. False if it ended before that.
fn answers(port: u16, recording: &Recording) -> io::Result<bool> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && !recording.is_over() {
        // Not with [`Socket`] and its timeouts, because most attempts are too early.
        if TcpStream::connect(("127.0.0.1", port)).is_ok()
            && Socket::connect(("127.0.0.1", port))?.call(&[b"PING".to_vec()])?
                == Value::Simple(b"PONG".to_vec())
        {
            return Ok(true);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(false)
}
