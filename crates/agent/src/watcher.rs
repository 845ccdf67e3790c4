//! The small process that proves the death of this one (Group rule 8).
//!
//! ```text
//!   server ──spawn──▶ /proc/self/exe --cluster-watch
//!          ──pipe───▶ the store, the node and its life; then nothing
//!          ◀─────────  "ready"
//!       ⋮ the server ends: the kernel closes the pipe
//!                     watcher ──prove_dead(life)──▶ store, again and again until it succeeds
//! ```
//!
//! A proof is never wrong. The kernel closes the pipe when the last thread of the server is gone, and then no one can send
//! in its name. A process that is stopped keeps it open. The server's end of the pipe is never closed on purpose, closes
//! at `exec`, and is opened before there is a thread that could fork.
//!
//! The watcher has a session of its own, so that signals of a terminal do not reach it, and the folder `/`. It keeps nothing
//! of the server open and opens the store only after the pipe is closed. It receives no secrets: files with secrets
//! are read when the store is opened.
//!
//! `SIGTERM` reaches it when a service manager stops all processes of a unit. It waits for the end of the server all the
//! same, but then it tries for a short time only, because it would delay the next start, which proves it, too.
//!
//! Not here: the end of a container or a machine, with which the watcher ends as well.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::ManuallyDrop;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::stdio;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use topology::{History, Life, NodeId, Reason};

use crate::error::Error;
use crate::store_options::StoreOptions;

/// The argument that makes a process the watcher.
const FLAG: &str = "--cluster-watch";
/// This program.
const PROGRAM: &str = "/proc/self/exe";
/// The line of a watcher that watches.
const READY: &str = "ready\n";
/// The longest order.
const ORDER_BYTES_MAX: u64 = 64 * 1024;
/// How long it tries to write the proof. By then a person or the next start of the node has seen to it.
const PROVE_MAX: Duration = Duration::from_secs(600);
/// How long it tries if the service manager wants it to end.
const PROVE_STOPPED_MAX: Duration = Duration::from_secs(5);
/// The pauses between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How soon a pause notices that the service manager wants it to end.
const PAUSE_STEP: Duration = Duration::from_millis(50);

/// The server's side of it.
#[derive(Debug)]
pub struct Watcher {
    /// Open until the process ends: closing it earlier would prove a death that has not happened.
    _pipe: ManuallyDrop<ChildStdin>,
    child: Child,
}

/// The first line that the watcher reads.
#[derive(Serialize, Deserialize)]
struct WatchOrder {
    store: StoreOptions,
    node: NodeId,
    life: Life,
}

impl Watcher {
    /// Starts the process that proves the death of `life`, which is that of this process. To be called before the process
    /// has any other thread. Returns when the watcher watches.
    pub fn start(store: &StoreOptions, node: &NodeId, life: Life) -> Result<Watcher, Error> {
        let failed =
            |source| Error::Io { what: "cannot start the process that watches this one".to_owned(), source };
        let order = WatchOrder { store: store.clone(), node: node.clone(), life };
        let order = serde_json::to_string(&order).expect("its keys are texts");
        let mut command = Command::new(PROGRAM);
        command.arg0("darter").arg(FLAG).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut pipe, output) = pipes.expect("both are piped");
        let mut answer = String::new();
        let told = pipe.write_all(format!("{order}\n").as_bytes());
        let answered =
            told.and_then(|()| BufReader::new(output.take(ORDER_BYTES_MAX)).read_line(&mut answer));
        if answered.is_ok() && answer == READY {
            return Ok(Watcher { _pipe: ManuallyDrop::new(pipe), child });
        }
        // It may watch, and would take the end of the pipe for that of this process.
        let _ = child.kill();
        let _ = child.wait();
        let said = || io::Error::other(format!("it answers '{}'", answer.trim_end().escape_debug()));
        Err(failed(answered.err().unwrap_or_else(said)))
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still watches. If not, only the unit's `ExecStopPost` or the next start proves this process dead.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

/// Watches, if the arguments after the program's name ask for it; otherwise `None`.
pub fn watch(args: &[String]) -> Option<ExitCode> {
    let [flag] = args else { return None };
    (flag == FLAG).then(|| match watch_parent() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The server reads this if it still waits for the watcher to be ready.
            let _ = writeln!(io::stdout(), "{error}");
            ExitCode::FAILURE
        }
    })
}

fn watch_parent() -> Result<(), Error> {
    let failed = |source| Error::Io { what: "cannot watch".to_owned(), source };
    // This fails only if a shell has started it as the leader of a session already.
    let _ = rustix::process::setsid();
    let is_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, is_to_end.clone()).map_err(failed)?;
    }
    let mut pipe = io::stdin().lock();
    let mut order = Vec::new();
    (&mut pipe).take(ORDER_BYTES_MAX).read_until(b'\n', &mut order).map_err(failed)?;
    let order: WatchOrder = serde_json::from_slice(&order).map_err(|error| failed(error.into()))?;
    io::stdout().write_all(READY.as_bytes()).and_then(|()| io::stdout().flush()).map_err(failed)?;
    let nowhere = std::fs::File::options().write(true).open("/dev/null").map_err(failed)?;
    stdio::dup2_stdout(&nowhere).map_err(|error| failed(error.into()))?;
    // An error tells nothing about the server, so it ends the watch without a proof.
    io::copy(&mut pipe, &mut io::sink()).map_err(failed)?;
    prove(&order, &is_to_end)
}

/// Writes the proof, whatever it takes.
fn prove(order: &WatchOrder, is_to_end: &AtomicBool) -> Result<(), Error> {
    let begin = Instant::now();
    let mut pause = PAUSE_MIN;
    let is_over = || {
        let max = if is_to_end.load(Ordering::Relaxed) { PROVE_STOPPED_MAX } else { PROVE_MAX };
        begin.elapsed() >= max
    };
    loop {
        let error = match try_to_prove(order) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if is_over() {
                return Err(error);
            }
            thread::sleep(PAUSE_STEP.min(pause));
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn try_to_prove(order: &WatchOrder) -> Result<(), Error> {
    let mut store = order.store.open(History::default())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let why = Reason::new(&order.node, now.as_millis() as u64, "its process has ended");
    Ok(store.prove_dead(order.life, &why)?)
}
