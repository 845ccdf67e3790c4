//! Plays every block of `tests/transcripts/` over a socket: against Darter with each driver, several numbers of
//! threads and both ways to enter shards, and against redis-server.
//!
//! Each block starts with an empty store and a new connection. Steps marked `! 7.2` are run by redis-server but not
//! compared. With `DARTER_TRANSCRIPTS=string/get`, only files whose path contains that are played.

use std::io;
use std::path::Path;

use blackbox::{Server, Shapes, StartError, oracle};
use resp::Value;
use transcript::{Block, Runner, Socket};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transcripts");

/// A connection whose replies are checked against the declarations.
struct Checked {
    socket: Socket,
    shapes: Shapes,
}

impl Runner for Checked {
    fn call(&mut self, request: &[Vec<u8>]) -> io::Result<Value> {
        let reply = self.socket.call(request)?;
        self.shapes
            .check(request, &reply)
            .map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
        Ok(reply)
    }
}

/// Plays all blocks. Panics with a list of all differences.
fn play_all(server: &Server, play: impl Fn(Socket, &Block) -> io::Result<Vec<transcript::Difference>>) {
    let wanted = std::env::var("DARTER_TRANSCRIPTS").unwrap_or_default();
    let mut problems = Vec::new();
    for path in transcript::files(Path::new(FOLDER)).expect("the folder of transcripts can be read") {
        let name = path.strip_prefix(FOLDER).unwrap_or(&path).display().to_string();
        if !name.contains(&wanted) {
            continue;
        }
        let blocks = transcript::read(&path).expect("transcripts are well-formed");
        for block in &blocks {
            let played = server.connect().and_then(|mut socket| {
                socket.begin(block.resp3)?;
                play(socket, block)
            });
            match played {
                Ok(differences) => problems.extend(differences.iter().map(|d| format!("{name}: {d}"))),
                Err(error) => problems.push(format!("{name}: block at line {}: {error}", block.line)),
            }
        }
    }
    assert!(problems.is_empty(), "{}:\n{}", server.name(), problems.join("\n"));
}

fn play_on_darter(options: &[&str]) {
    let server = match Server::darter(options) {
        Ok(server) => server,
        Err(StartError::Failed { name, log }) if options.contains(&"--io=uring") && is_refused(&log) => {
            println!("SKIPPED: {name} is refused by this machine:\n{log}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    play_all(&server, |socket, block| {
        block.play(&mut Checked { socket, shapes: Shapes::new(block.resp3) }, |_| true)
    });
}

/// Whether `log` says that the kernel does not offer io_uring here.
fn is_refused(log: &str) -> bool {
    ["not permitted", "not implemented", "not supported"].iter().any(|reason| log.contains(reason))
}

#[test]
fn one_thread() {
    play_on_darter(&["--proactor-threads=1"]);
}

#[test]
fn two_threads() {
    play_on_darter(&["--proactor-threads=2"]);
}

#[test]
fn eight_threads() {
    play_on_darter(&["--proactor-threads=8"]);
}

#[test]
fn epoll() {
    play_on_darter(&["--proactor-threads=2", "--io=epoll"]);
}

#[test]
fn uring() {
    play_on_darter(&["--proactor-threads=2", "--io=uring"]);
}

#[test]
fn home_two_threads() {
    play_on_darter(&["--proactor-threads=2", "--shard-entry=home"]);
}

#[test]
fn home_eight_threads() {
    play_on_darter(&["--proactor-threads=8", "--io=epoll", "--shard-entry=home"]);
}

#[test]
fn two_hops_two_threads() {
    play_on_darter(&["--proactor-threads=2", "--shard-entry=home", "--singlehop-blocking=false"]);
}

#[test]
fn two_hops_eight_threads() {
    play_on_darter(&[
        "--proactor-threads=8",
        "--io=epoll",
        "--shard-entry=home",
        "--singlehop-blocking=false",
    ]);
}

#[test]
fn redis_answers_the_same() {
    let Some(server) = oracle() else { return };
    play_all(&server, |mut socket, block| block.play(&mut socket, |step| step.newer.is_none()));
}
