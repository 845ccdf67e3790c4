//! Servers under test: a child process each, on a free port of the loopback interface.
//!
//! A server is ready when it answers `PING`; that is polled for a bounded time. Dropping it kills the process, and
//! shows the end of its log if the test is panicking. The log goes to a file, so that a server that says much never
//! waits for its reader.

use std::fs::File;
use std::io::{self, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use resp::Value;
use transcript::{Runner, Socket};

/// How long a server may take to answer its first request, on a machine with other things to do.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two attempts to reach it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Ports that are tried: another process may take one between its choice and the start.
const ATTEMPTS_MAX: usize = 3;
/// Lines of the log that are shown.
const LOG_LINES_SHOWN: usize = 40;

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
    name: String,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program is not on this machine.
    #[error("{0} is not there")]
    Missing(String),
    /// It ended, or never answered.
    #[error("{name} does not start; its log:\n{log}")]
    Failed {
        /// The program with its options.
        name: String,
        /// What it wrote.
        log: String,
    },
    /// The machine does not let it run.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Server {
    /// Starts the `darter` at `DARTER`, or the one that lies beside the running test, with `options`.
    pub fn darter(options: &[&str]) -> Result<Server, StartError> {
        let program = match std::env::var_os("DARTER") {
            Some(path) => PathBuf::from(path),
            None => built_binary()?,
        };
        Server::start(&program, options)
    }

    /// Starts the `redis-server` of the search path, the oracle.
    pub fn redis() -> Result<Server, StartError> {
        let options = ["--save", "", "--enable-debug-command", "yes"];
        Server::start(Path::new("redis-server"), &options)
    }

    fn start(program: &Path, options: &[&str]) -> Result<Server, StartError> {
        let mut attempt = Server::start_once(program, options);
        for _ in 1..ATTEMPTS_MAX {
            match &attempt {
                Err(StartError::Failed { log, .. }) if log.contains("in use") => {
                    attempt = Server::start_once(program, options);
                }
                _ => break,
            }
        }
        attempt
    }

    fn start_once(program: &Path, options: &[&str]) -> Result<Server, StartError> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let name = format!("{} {}", program.display(), options.join(" "));
        let log = std::env::temp_dir().join(format!("blackbox-{}-{port}.log", std::process::id()));
        let output = File::create(&log)?;
        let spawned = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(options)
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                std::fs::remove_file(&log)?;
                return Err(match error.kind() {
                    io::ErrorKind::NotFound => StartError::Missing(program.display().to_string()),
                    _ => error.into(),
                });
            }
        };
        let mut server = Server { child, port, log, name };
        if server.answers_in_time()? {
            return Ok(server);
        }
        Err(StartError::Failed { name: server.name.clone(), log: server.log_end() })
    }

    fn answers_in_time(&mut self) -> io::Result<bool> {
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end && self.child.try_wait()?.is_none() {
            let pong = self.connect().and_then(|mut socket| socket.call(&[b"PING".to_vec()]));
            if pong.is_ok_and(|reply| reply == Value::Simple(b"PONG".to_vec())) {
                return Ok(true);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(false)
    }

    /// A new connection.
    pub fn connect(&self) -> io::Result<Socket> {
        Socket::connect(("127.0.0.1", self.port))
    }

    /// The program with its options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The last lines of what it wrote.
    pub fn log_end(&self) -> String {
        let mut bytes = Vec::new();
        if let Err(error) = File::open(&self.log).and_then(|mut file| file.read_to_end(&mut bytes)) {
            return format!("{}: {error}", self.log.display());
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the log of {}\n{}\n---", self.name, self.log_end());
        }
        // It may have ended by itself, and then there is nothing to kill and nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// `target/debug/darter` for a test in `target/debug/deps`. Cargo does not build it for this crate.
fn built_binary() -> Result<PathBuf, StartError> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let binary = folder.join("darter");
    if binary.exists() {
        return Ok(binary);
    }
    Err(StartError::Missing(format!("{} (build it with `cargo build -p server`)", binary.display())))
}

/// The oracle, or `None` and a printed note where it is not installed. With `CI=true` that is a failure.
pub fn oracle() -> Option<Server> {
    match Server::redis() {
        Ok(server) => Some(server),
        Err(StartError::Missing(name)) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {name} is not installed, nothing to compare with");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
