//! A made-up server that has nothing but queues.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use acl::{Access, Grammar, Users};
use config::SettingValue;
use config::{HTTP_PORT, Settings};
use engine::{Entry, Flag, Shards, Table};
use httpd::{Listening, ServerConfig, Source};
use jobs::queues::{Row, State, System, Waits};
use observe::{Clients, CpuTime, Facts, Memory, Observed, Persistence, Replication, Server, Spans};

/// See the head of this file.
pub(crate) struct MadeUp {
    rows: Vec<Row>,
    settings: Settings,
    users: Users,
    table: Table,
    shards: Shards,
    observed: Observed,
}

const ENTRIES: &[Entry] = &[
    Entry { name: "info", ..Entry::DEFAULT },
    Entry { name: "queue", ..Entry::DEFAULT },
    Entry { name: "get", flags: &[Flag::ReadOnly], ..Entry::DEFAULT },
];

impl MadeUp {
    /// Serves HTTP for a server with these queues; returns the port.
    pub(crate) fn serve(rows: Vec<Row>) -> u16 {
        let port = scratch::free_port().expect("there are free ports");
        let settings = Settings::default();
        settings.force(HTTP_PORT, &SettingValue { number: port.into(), text: port.to_string() });
        let table = Table::new(&[ENTRIES]);
        let users = Users::new(Grammar { table: &table, all_channels: true }, None);
        let placement = shard::Placement::new(ds::hashing::Seed::new(1), 2, None);
        let quiet = observe::ObserveSettings {
            logs: Default::default(),
            latency_threshold_ms: None,
            tracks_durations: true,
        };
        let observed = Observed::new(2, table.len(), quiet);
        let shards = Shards::new(placement, 2, 1, 1);
        let listening = Listening::open(&settings).expect("it is free").expect("it is not 0");
        let source = MadeUp { rows, settings, users, table, shards, observed };
        httpd::start(Box::leak(Box::new(source)), listening).expect("there are threads");
        port
    }
}

impl Source for MadeUp {
    fn facts(&self) -> Box<dyn Facts + '_> {
        Box::new(self)
    }
    fn queues(&self) -> Vec<Row> {
        self.rows.clone()
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn users(&self) -> &Users {
        &self.users
    }
    fn is_stalled(&self) -> bool {
        false
    }
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
    fn connect(&self, _peer: &str, _access: Option<Access>) -> io::Result<UnixStream> {
        Err(io::Error::other("there are no data threads"))
    }
}

impl Facts for &MadeUp {
    fn observed(&self) -> &Observed {
        &self.observed
    }
    fn shards(&self) -> &Shards {
        &self.shards
    }
    fn table(&self) -> &Table {
        &self.table
    }
    fn server(&self) -> Server {
        Server { database_count: 1, thread_count: 2, ..Server::default() }
    }
    fn clients(&self) -> Clients {
        Clients { connected: 3, max: 10, tracking: 0 }
    }
    fn memory(&self) -> Memory {
        Memory::default()
    }
    fn persistence(&self) -> Persistence {
        Persistence::default()
    }
    fn replication(&self) -> Replication {
        Replication::default()
    }
    fn spans(&self) -> Spans {
        Spans::default()
    }
    fn pattern_count(&self) -> usize {
        0
    }
    fn cpu(&self) -> [CpuTime; 3] {
        [CpuTime::default(); 3]
    }
    fn latency_percents(&self) -> Vec<f64> {
        vec![50.0]
    }
}

/// A queue of this depth.
pub(crate) fn row(name: &[u8], depth: u64) -> Row {
    Row {
        name: name.into(),
        db: 0,
        system: System::Sidekiq,
        state: State::Waiting,
        depth,
        score_ms: Some(1000.0),
        oldest_ms: (depth > 0).then_some(1500),
        due_in_ms: None,
        in_per_s: [1.0; 3],
        out_per_s: [2.0; 3],
        pushed: depth,
        popped: 0,
        waiters: 1,
        is_paused: false,
        memory_bytes: depth,
        waits: Waits { counts: [1; 12], count: 12, sum_ms: 1000, last_minute: Some([1, 2, 3]) },
        jobs: None,
    }
}

/// The body of the answer to a GET of this path.
pub(crate) fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}
