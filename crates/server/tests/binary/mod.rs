//! Starts the real `darter` binary and talks to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_darter")).args(args).output().expect("the binary runs")
}

/// A port that nobody listens on just now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    listener.local_addr().expect("it is bound").port()
}

/// A directory of a test's own; removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// An empty directory called after the test.
    pub(crate) fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("darter-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written to");
        Scratch(path)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the scratch directory can be written to");
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts one with two threads on a free port, and waits until it answers.
    pub(crate) fn start(args: &[&str]) -> Server {
        Server::start_with(args, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Server {
        let port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_darter"))
            .args(args)
            .envs(variables.iter().copied())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--proactor_threads", "2"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let server = Server { child, port };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(server.client().ask(&["PING"]), "+PONG");
        server
    }

    /// A new connection.
    pub(crate) fn client(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Client { stream: BufReader::new(stream) }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits until the process has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not stop");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection; replies come as lines of text, an array's elements in brackets.
pub(crate) struct Client<S> {
    stream: BufReader<S>,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Client<S> {
        Client { stream: BufReader::new(stream) }
    }

    /// Sends a command and returns its reply.
    pub(crate) fn ask(&mut self, args: &[&str]) -> String {
        self.send(args);
        self.reply().expect("the server answers")
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, args: &[&str]) {
        let mut request = format!("*{}\r\n", args.len());
        for arg in args {
            request.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
    }

    /// The next reply; `None` when the connection has ended.
    pub(crate) fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        let number = || line[1..].parse::<i64>().expect("a length");
        Some(match line.as_bytes()[0] {
            b'$' | b'=' if number() < 0 => "(nil)".to_owned(),
            b'$' | b'=' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            b'*' | b'~' => self.elements(number())?,
            b'%' => self.elements(number() * 2)?,
            _ => line,
        })
    }

    fn elements(&mut self, count: i64) -> Option<String> {
        let elements: Option<Vec<String>> = (0..count).map(|_| self.reply()).collect();
        Some(format!("[{}]", elements?.join(" ")))
    }

    /// A field of INFO.
    pub(crate) fn info(&mut self, section: &str, field: &str) -> String {
        let text = self.ask(&["INFO", section]);
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("INFO {section} has no {field}:\n{text}")).to_owned()
    }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a file is there.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
