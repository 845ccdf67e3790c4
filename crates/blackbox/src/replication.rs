//! Checks of replication: servers that follow each other, and clients that write meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use command::{Group, Table};

use crate::{Batch, Client, Generator, Scratch, Server, StartError, check, eventually, scale};

/// Clients that write while replicas come.
const WRITERS: u64 = 3;
/// Batches that each of them sends at least.
const BATCHES: usize = 300;
/// Larger batches are left out: tests with a small backlog count on what replicas can miss in a second.
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

/// `None` where there is no redis-server.
pub fn redis(more: &[&str]) -> Option<Redis> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let scratch =
        Scratch::new(&format!("redis-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
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

/// Has `replica` follow `primary`.
pub fn follow(replica: &Server, primary: &Server) {
    check(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port()), "OK");
}

/// Whether its link to its primary is up.
pub fn is_up(replica: &Server) -> bool {
    replica.client().info("replication", "master_link_status") == "up"
}

/// Waits until the replica has everything, and has the same data; it must not have refused any of it.
pub fn expect_same(replica: &Server, primary: &Server) {
    let (mut theirs, mut ours) = (replica.client(), primary.client());
    eventually("the replica has the same data", || {
        let offset = theirs.info("replication", "master_repl_offset");
        theirs.info("replication", "master_link_status") == "up"
            && ours.info("replication", "master_repl_offset") == offset
            && ours.show("DEBUG DIGEST") == theirs.show("DEBUG DIGEST")
            // The digest knows nothing of them, and the offset does not count yet what was done a moment ago.
            && functions(&mut ours) == functions(&mut theirs)
            && ours.info("replication", "master_repl_offset") == offset
    });
    assert_eq!(theirs.info("stats", "unexpected_error_replies"), "0");
}

/// What `FUNCTION LIST` says, whose order is by chance.
fn functions(client: &mut Client) -> Vec<String> {
    let text = client.show("FUNCTION LIST WITHCODE");
    let mut words: Vec<String> =
        text.split_whitespace().map(str::to_owned).filter(|word| !word.ends_with(')')).collect();
    words.sort_unstable();
    words
}

/// Whether the batch is about data only and small, and each request has one reply soon.
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

/// Sends random commands on data until `is_over`, and so many batches at least.
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

/// Does `work` while clients write random commands on data.
pub fn while_writing(server: &Server, seed: u64, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let is_over = &is_over;
            scope.spawn(move || write(server, seed + writer, BATCHES * scale(), is_over));
        }
        // Also if the work panics: the writers end with it.
        let _end = End(&is_over);
        work();
    });
}

/// Says so when it goes.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
