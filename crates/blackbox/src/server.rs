//! Servers under test: each is a child process, on a port of the loopback interface and in a folder that no other test has.
//!
//! A server is ready when it answers `PING`, which is polled for a bounded time. Dropping it kills the process, and shows the end of
//! its log if the test is panicking. The log goes to a file, so that a server that logs much never waits for a reader.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use resp::Value;
use rustix::process::{Pid, Signal, kill_process};
use scratch::{Scratch, free_port};
use transcript::{Runner, Socket};

use crate::client::{Client, PATIENCE};

/// Interval between two attempts to reach it.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Most ports that are tried: another process may take one before the server does.
const ATTEMPTS_MAX: usize = 3;
/// Its log, in its folder.
const LOG: &str = "server.log";
/// Number of log lines that are shown.
const LOG_LINES_SHOWN: usize = 40;

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    /// Where it starts, with its log.
    folder: Scratch,
    name: String,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program is not installed.
    #[error("{0} is not there")]
    Missing(String),
    /// The server ended, or never answered.
    #[error("{name} does not start; its log:\n{log}")]
    Failed {
        /// The program with its options.
        name: String,
        /// Its log.
        log: String,
    },
    /// The system refused to run it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Server {
    /// Starts the `darter` at `DARTER`, or the one next to the running test, with `options`. The first one may be a configuration
    /// file. It listens at a free port, or at that of `--port`.
    pub fn darter(options: &[&str]) -> Result<Server, StartError> {
        Server::launch(&[], options)
    }

    /// Starts `darter` through `launcher`: a program with arguments that executes the command after them in its place.
    pub fn launch(launcher: &[&str], options: &[&str]) -> Result<Server, StartError> {
        let binary = binary()?;
        let words: Vec<&Path> = launcher.iter().map(Path::new).chain([binary.as_path()]).collect();
        Server::attempt(&words, options, false)
    }

    /// Starts `darter` without waiting until it has loaded its data.
    pub fn loading(options: &[&str]) -> Result<Server, StartError> {
        Server::attempt(&[&binary()?], options, true)
    }

    /// Starts `darter` with this many threads, all of which get connections, this driver and `more` options. Panics if it does not
    /// start.
    #[track_caller]
    pub fn start(threads: usize, io: &str, more: &[&str]) -> Server {
        let (threads, io) = (format!("--proactor-threads={threads}"), format!("--io={io}"));
        let options = [more, &["--threads-elastic=no", &threads, &io]].concat();
        Server::darter(&options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts the oracle: the `redis-server` in the search path.
    pub fn redis() -> Result<Server, StartError> {
        Server::redis_with(&[])
    }

    /// Starts the oracle with `more` options. The first one may be a configuration file.
    pub fn redis_with(more: &[&str]) -> Result<Server, StartError> {
        Server::attempt_redis(more, false)
    }

    /// Starts the oracle without waiting until it has loaded its data.
    pub fn redis_loading(more: &[&str]) -> Result<Server, StartError> {
        Server::attempt_redis(more, true)
    }

    fn attempt_redis(more: &[&str], may_load: bool) -> Result<Server, StartError> {
        // A name that no file has. Otherwise it would load a snapshot that another test left in its directory.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let snapshot = format!("oracle-{}-{}.rdb", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let has_file = more.first().is_some_and(|option| !option.starts_with('-'));
        let (file, more) = more.split_at(usize::from(has_file));
        let options = [file, &["--dbfilename", &snapshot], more].concat();
        Server::attempt(&[Path::new("redis-server")], &options, may_load)
    }

    /// Starts any server that accepts redis-server's options: `words` are the program and its first options; `more` are added at the
    /// end.
    pub fn of(words: &[String], more: &[&str]) -> Result<Server, StartError> {
        let (program, options) = split(words, more)?;
        Server::attempt(&[&program], &options, false)
    }

    /// Starts such a server without waiting for anything.
    pub fn begin(words: &[String], more: &[&str]) -> Result<Server, StartError> {
        let (program, options) = split(words, more)?;
        Server::spawn(&[&program], &options)
    }

    fn attempt(words: &[&Path], options: &[&str], may_load: bool) -> Result<Server, StartError> {
        let mut attempt = Server::start_once(words, options, may_load);
        for _ in 1..ATTEMPTS_MAX {
            match &attempt {
                Err(StartError::Failed { log, .. })
                    if log.contains("in use") || log.contains("uses this port") =>
                {
                    attempt = Server::start_once(words, options, may_load);
                }
                _ => break,
            }
        }
        attempt
    }

    fn start_once(words: &[&Path], options: &[&str], may_load: bool) -> Result<Server, StartError> {
        let mut server = Server::spawn(words, options)?;
        if server.answers_in_time(may_load)? {
            return Ok(server);
        }
        Err(StartError::Failed { name: server.name.clone(), log: server.log() })
    }

    fn spawn(words: &[&Path], options: &[&str]) -> Result<Server, StartError> {
        let asked = options.windows(2).find(|pair| pair[0] == "--port").and_then(|pair| pair[1].parse().ok());
        let port = asked.map_or_else(free_port, Ok)?;
        let shown: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
        let name = format!("{} {}", shown.join(" "), options.join(" "));
        let folder = Scratch::new("server");
        let output = File::create(folder.path(LOG))?;
        let has_file = options.first().is_some_and(|option| !option.starts_with('-'));
        let (file, options) = options.split_at(usize::from(has_file));
        let spawned = Command::new(words[0])
            .args(&words[1..])
            .args(file)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--dbfilename", &format!("blackbox-{port}.rdb")])
            .args(["--enable-debug-command", "yes"])
            // A configuration file sets this itself.
            .args(if has_file { &[][..] } else { &["--save", ""] })
            .args(options)
            .current_dir(folder.folder())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::NotFound => StartError::Missing(words[0].display().to_string()),
                    _ => error.into(),
                });
            }
        };
        Ok(Server { child, port, folder, name })
    }

    fn answers_in_time(&mut self, may_load: bool) -> io::Result<bool> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.child.try_wait()?.is_none() {
            let answer = self.connect().and_then(|mut socket| socket.call(&[b"PING".to_vec()]));
            match answer {
                Ok(Value::Error(text)) if !may_load && text.starts_with(b"LOADING ") => {}
                // An error reply is an answer, too.
                Ok(_) => return Ok(true),
                Err(_) => {}
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(false)
    }

    /// A new connection.
    pub fn connect(&self) -> io::Result<Socket> {
        Socket::connect(("127.0.0.1", self.port))
    }

    /// A new connection, for tests.
    #[track_caller]
    pub fn client(&self) -> Client {
        self.client_at(Ipv4Addr::LOCALHOST.into())
    }

    /// A new connection to this address of the machine.
    #[track_caller]
    pub fn client_at(&self, address: IpAddr) -> Client {
        let stream = TcpStream::connect((address, self.port)).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
        stream.set_nodelay(true).expect("TCP can do this");
        Client::over(stream)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        let kib: u64 = line.trim_end_matches("kB").trim().parse().expect("a number");
        kib * 1024
    }

    /// Sends it a signal. After [`Signal::STOP`], waits until all its threads have stopped.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        if signal == Signal::STOP {
            // The kernel stops all threads only once one of them has handled the signal.
            crate::eventually("all of its threads stand still", || self.threads_stand_still());
        }
    }

    fn threads_stand_still(&self) -> bool {
        let mut threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let stands = |thread: io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.expect("it is listed").path().join("stat"));
            // A thread that has ended since then does nothing either.
            stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T')))
        };
        threads.all(stands)
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(Instant::now() < end, "the server does not stop");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The program with its options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Its whole log.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path(LOG)).expect("it was created with the server");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the log of {}\n{}\n---", self.name, self.log_end());
        }
        // The server may have ended by itself. Then there is nothing to kill, and the error is of no use.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Splits a command line into a program, and its options followed by `more`. The server runs in another directory, so a relative
/// path is made absolute.
fn split<'a>(words: &'a [String], more: &[&'a str]) -> io::Result<(PathBuf, Vec<&'a str>)> {
    let (program, options) = words.split_first().expect("a server has a program");
    let program = if program.contains('/') { std::path::absolute(program)? } else { program.into() };
    Ok((program, options.iter().map(String::as_str).chain(more.iter().copied()).collect()))
}

/// Runs `darter` to its end, through `launcher` like [`Server::launch`].
pub fn run(launcher: &[&str], args: &[&str]) -> Output {
    let binary = binary().unwrap_or_else(|error| panic!("{error}"));
    let words: Vec<&Path> = launcher.iter().map(Path::new).chain([binary.as_path()]).collect();
    Command::new(words[0]).args(&words[1..]).args(args).output().expect("the binary runs")
}

/// The program at `DARTER`, or `target/debug/darter` for a test in `target/debug/deps`. Cargo builds it only for the tests of its
/// own crate.
///
/// # Errors If it was not built.
pub fn binary() -> Result<PathBuf, StartError> {
    if let Some(path) = std::env::var_os("DARTER") {
        return Ok(PathBuf::from(path));
    }
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let binary = folder.join("darter");
    if binary.exists() {
        return Ok(binary);
    }
    Err(StartError::Missing(format!("{} (build it with `cargo build -p server`)", binary.display())))
}

/// Starts the oracle. If it is not installed, returns `None` and prints a note; with `CI=true` that is a failure.
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

/// Runs a test on servers with 1, 2 and 4 threads and each driver, and on one whose commands hop.
pub fn on_each_server(test: impl Fn(&Server)) {
    for (threads, io) in [(1, "epoll"), (2, "auto"), (4, "epoll"), (4, "auto")] {
        test(&Server::start(threads, io, &[]));
    }
    test(&Server::start(3, "epoll", &["--shard-entry=home"]));
}
