//! The server that workers use: it is killed or replaced, and its data survives in its journal or on its replica.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use ds::random::Random;
use resp::Value;
use rustix::process::Signal;
use transcript::{Runner, Socket};

use crate::client::{PATIENCE, text};
use crate::crash::{End, Failure};
use crate::server::{Server, StartError};

/// The place in which the data survives when a server is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survivor {
    /// Its journal. It starts again.
    Journal,
    /// Its replica, which becomes the primary and gets a replica in turn. The server has `repl-sync-replicas 1`.
    Replica,
}

/// The longest time for which a stopped primary, once replaced and continued, serves clients by itself.
const ALONE_MS: u64 = 600;

/// The server that workers use, and its replica if it has one.
#[derive(Debug)]
pub(super) struct Servers {
    words: Vec<String>,
    folder: PathBuf,
    folders: u32,
    pub(super) primary: Server,
    replica: Option<Server>,
}

/// The reply to a request, which must be no error.
pub(super) fn heard(socket: &mut Socket, words: &[&str]) -> Result<Value, End> {
    let request: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match socket.call(&request)? {
        Value::Error(error) => {
            Err(End::Strange(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&error))))
        }
        reply => Ok(reply),
    }
}

pub(super) fn say(socket: &mut Socket, line: &str) -> Result<Value, End> {
    heard(socket, &line.split(' ').collect::<Vec<_>>())
}

/// Sends a request on a connection of its own.
fn order(server: &Server, line: &str) -> Result<Value, Failure> {
    say(&mut server.connect()?, line).map_err(broken)
}

pub(super) fn broken(end: End) -> Failure {
    match end {
        End::Closed => Failure::Broken(vec!["the server has gone".to_owned()]),
        End::Strange(text) => Failure::Broken(vec![text]),
    }
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return Err(Failure::Broken(vec![format!("{what}: not in time")]));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Servers {
    pub(super) fn begin(words: &[String], folder: PathBuf, survivor: Survivor) -> Result<Servers, Failure> {
        let primary = start(words, &folder)?;
        let mut servers = Servers { words: words.to_vec(), folder, folders: 0, primary, replica: None };
        if survivor == Survivor::Replica {
            servers.add_replica()?;
        }
        Ok(servers)
    }

    /// Ends the primary in one way or another, and continues with the server that has its data.
    pub(super) fn replace(&mut self, random: &mut Random) -> Result<(), Failure> {
        let Some(mut replica) = self.replica.take() else {
            self.kill();
            self.primary = start(&self.words, &self.folder)?;
            return Ok(());
        };
        match random.below(3) {
            0 => {
                order(&self.primary, &format!("FAILOVER TO 127.0.0.1 {}", replica.port()))?;
                until("it hands over", || matches!(role(&self.primary).as_deref(), Ok("slave")))?;
                std::mem::swap(&mut self.primary, &mut replica);
                self.accept(replica)
            }
            1 => {
                self.primary.signal(Signal::STOP);
                order(&replica, "REPLICAOF NO ONE")?;
                std::mem::swap(&mut self.primary, &mut replica);
                replica.signal(Signal::CONT);
                thread::sleep(Duration::from_millis(random.below(ALONE_MS)));
                order(&replica, &format!("REPLICAOF 127.0.0.1 {}", self.primary.port()))?;
                self.accept(replica)
            }
            _ => {
                self.kill();
                order(&replica, "REPLICAOF NO ONE")?;
                self.primary = replica;
                self.add_replica()
            }
        }
    }

    fn kill(&mut self) {
        self.primary.signal(Signal::KILL);
        self.primary.wait();
    }

    /// Starts a server that follows the primary.
    fn add_replica(&mut self) -> Result<(), Failure> {
        self.folders += 1;
        let folder = self.folder.join(self.folders.to_string());
        std::fs::create_dir(&folder)?;
        let replica = start(&self.words, &folder)?;
        order(&replica, &format!("REPLICAOF 127.0.0.1 {}", self.primary.port()))?;
        self.accept(replica)
    }

    /// Waits until the primary counts its replica, and so accepts writes, until the replica has all that clients read, and
    /// until it may take the primary's place.
    fn accept(&mut self, replica: Server) -> Result<(), Failure> {
        until("writes are accepted", || order(&self.primary, "DEL none").is_ok())?;
        until("the data can be read", || order(&self.primary, "EXISTS none").is_ok())?;
        until("it may be promoted", || {
            order(&replica, "INFO replication")
                .is_ok_and(|info| text(&info).contains("master_link_status:up"))
        })?;
        self.replica = Some(replica);
        Ok(())
    }
}

fn start(words: &[String], folder: &std::path::Path) -> Result<Server, StartError> {
    Server::of(words, &["--dir", folder.to_str().expect("the folder's name is text")])
}

fn role(server: &Server) -> Result<String, Failure> {
    match order(server, "ROLE")? {
        Value::Array(fields) => Ok(text(&fields[0])),
        other => Err(Failure::Broken(vec![format!("ROLE: {other:?}")])),
    }
}
