//! Checks of replication: servers that follow each other while clients write.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Group, Table};

use crate::{Batch, Client, Generator, Scratch, Server, StartError, check, eventually, scale};

/// Number of clients that write while replicas connect.
const WRITERS: u64 = 3;
/// Minimum number of batches that each of them sends.
const BATCHES: usize = 300;
/// Larger batches are skipped: tests with a small backlog depend on how much replicas can miss in a second.
const BATCH_BYTES_MAX: usize = 8 << 10;

/// A redis-server whose files are in a folder of its own.
pub struct Redis {
    server: Server,
    _scratch: Scratch,
}

impl std::ops::Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Starts a redis-server; `None` if it is not installed.
pub fn redis(more: &[&str]) -> Option<Redis> {
    let scratch = Scratch::new("redis");
    let folder = scratch.path("");
    match Server::redis_with(&[&["--dir", &folder], more].concat()) {
        Ok(server) => Some(Redis { server, _scratch: scratch }),
        Err(StartError::Missing(name)) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {name} is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Makes `replica` follow `primary`.
pub fn follow(replica: &Server, primary: &Server) {
    check(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port()), "OK");
}

/// Whether its link to its primary is up.
pub fn is_up(replica: &Server) -> bool {
    replica.client().info("replication", "master_link_status") == "up"
}

/// Waits until the replica has the whole stream and equal data. It must not have refused anything.
pub fn expect_same(replica: &Server, primary: &Server) {
    let (mut theirs, mut ours) = (replica.client(), primary.client());
    eventually("the replica has the same data", || {
        let offset = theirs.info("replication", "master_repl_offset");
        theirs.info("replication", "master_link_status") == "up"
            && ours.info("replication", "master_repl_offset") == offset
            && ours.show("DEBUG DIGEST") == theirs.show("DEBUG DIGEST")
            // Which the digest does not cover.
            && functions(&mut ours) == functions(&mut theirs)
    });
    assert_eq!(theirs.info("stats", "unexpected_error_replies"), "0");
}

/// The words of `FUNCTION LIST` in a fixed order, because its own is random.
fn functions(client: &mut Client) -> Vec<String> {
    let text = client.show("FUNCTION LIST WITHCODE");
    let mut words: Vec<String> =
        text.split_whitespace().map(str::to_owned).filter(|word| !word.ends_with(')')).collect();
    words.sort_unstable();
    words
}

/// Whether the batch has only data commands, is small, and each request gets one reply soon.
fn is_about_data(table: &Table, batch: &Batch) -> bool {
    let bytes: usize = batch.requests.iter().flatten().map(Vec::len).sum();
    let is_small = bytes <= BATCH_BYTES_MAX;
    is_small
        && batch.requests.iter().all(|request| {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            table.resolve(&args).is_ok_and(|command| {
                let group = command.entry.group;
                !matches!(group, Group::Server | Group::Connection | Group::PubSub | Group::Cluster)
            })
        })
}

/// Sends random data commands until `is_over`, but at least this many batches.
fn write(server: &Server, seed: u64, batches: usize, is_over: &AtomicBool) {
    let table = server::table();
    let mut generator = Generator::new(seed, &table);
    let mut client = server.client();
    let mut sent = 0;
    while sent < batches || !is_over.load(Ordering::Relaxed) {
        let batch = generator.batch();
        if !is_about_data(&table, &batch) {
            continue;
        }
        sent += 1;
        if batch.is_pipelined {
            batch.requests.iter().for_each(|request| client.send_args(&slices(request)));
            batch.requests.iter().for_each(|_| drop(client.receive()));
        } else {
            for request in &batch.requests {
                client.send_args(&slices(request));
                client.receive();
            }
        }
    }
}

fn slices(request: &[Vec<u8>]) -> Vec<&[u8]> {
    request.iter().map(Vec::as_slice).collect()
}

/// Runs `work` while clients write random data commands.
pub fn while_writing(server: &Server, seed: u64, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let is_over = &is_over;
            scope.spawn(move || write(server, seed + writer, BATCHES * scale(), is_over));
        }
        // Even if the work panics, the writers end.
        let _end = End(&is_over);
        work();
    });
}

/// Sets the flag when dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
