//! The HTTP port under attack: endless requests, slow ones, unknown hosts, other sites' pages, wrong passwords. Each
//! bad request gets an error or meets a named limit, and a client of Redis' protocol beside it notices nothing.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Instant;

use blackbox::{PATIENCE, Scratch, Server, Signal, Witness, check, eventually, free_port, scale};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// HTTP connections that a server takes unless told otherwise.
const CONNECTIONS_MAX: usize = 64;
/// The window in which wrong passwords are counted, and how many there may be in it.
const WINDOW_S: u64 = 10;
const FAILURES_MAX: u64 = 10;

/// A server with HTTP.
struct Site {
    server: Server,
    port: u16,
}

impl Site {
    #[track_caller]
    fn start(more: &[&str]) -> Site {
        let port = free_port().expect("there are free ports");
        let http = ["--http-port".to_owned(), port.to_string()];
        let options: Vec<&str> = http.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Site { server: Server::start(2, "auto", &options), port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
        stream
    }

    /// The answer up to the end of the connection.
    #[track_caller]
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // It may hang up before all is sent.
        let _ = stream.write_all(request);
        rest(&mut stream)
    }

    /// The answer to a request with these headers, each with its line end.
    #[track_caller]
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\n{headers}", self.port);
        let text = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        Answer::read(&self.raw(text.as_bytes()))
    }

    #[track_caller]
    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    /// The headers of a command as the console sends it.
    fn own_headers(&self) -> String {
        let overview = self.get("/api/overview").body;
        let token = overview.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let token = token.expect("the overview has a token");
        let origin = format!("Origin: http://localhost:{}\r\n", self.port);
        format!("Content-Type: application/json\r\nX-Darter-Token: {token}\r\n{origin}")
    }
}

/// An answer in full.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn read(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {head:?}"));
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    #[track_caller]
    fn has(&self, status: u16, part: &str) {
        assert!(self.status == status && self.body.contains(part), "{status} {part:?} expected: {self:?}");
    }
}

/// The bytes up to the end of the connection, however it ends.
fn rest(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("the connection goes on: {error}"),
        _ => String::from_utf8_lossy(&received).into_owned(),
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let site = Site::start(&[]);
    let mut witness = Witness::new(&site.server);
    let host = format!("Host: localhost:{}\r\n", site.port);
    let long = "x".repeat(64 << 10);
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    for (request, status) in [
        ("PING\r\n\r\n".to_owned(), Some(400)),
        ("*1\r\n$4\r\nPING\r\n".to_owned(), Some(400)),
        (format!("GET /{long} HTTP/1.1\r\n{host}\r\n"), Some(431)),
        (format!("GET / HTTP/1.1\r\n{host}X: {long}\r\n\r\n"), Some(431)),
        (format!("GET / HTTP/1.1\r\n{host}{many}\r\n"), Some(431)),
        (format!("GET / HTTP/9.9\r\n{host}\r\n"), Some(400)),
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), Some(400)),
        (format!("DELETE / HTTP/1.1\r\n{host}Connection: close\r\n\r\n"), Some(405)),
        (format!("POST /metrics HTTP/1.1\r\n{host}Connection: close\r\n\r\n"), Some(405)),
        (format!("GET /api/command HTTP/1.1\r\n{host}Connection: close\r\n\r\n"), Some(405)),
        (format!("GET /../etc/passwd HTTP/1.1\r\n{host}Connection: close\r\n\r\n"), Some(404)),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(), Some(403)),
        (format!("GET / HTTP/1.1\r\n{host}Host: evil.example\r\nConnection: close\r\n\r\n"), Some(400)),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}".to_owned() + &"\0".repeat(400), Some(400)),
    ] {
        let text = site.raw(request.as_bytes());
        let found = (!text.is_empty()).then(|| Answer::read(&text).status);
        assert_eq!(found, status, "{:?} … {text:?}", &request[..request.len().min(80)]);
        witness.look();
    }
    // After something that is not a request, the rest of a pipeline is not run.
    let good = format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    let text = site.raw(format!("{good}{good}\0garbage\r\n\r\n{good}").as_bytes());
    assert_eq!((text.matches("200 OK").count(), text.matches("400 Bad").count()), (2, 1), "{text}");
    witness.look();
    site.get("/healthz").has(200, "ok");
}

#[test]
fn only_the_servers_own_pages_command() {
    let site = Site::start(&[]);
    let mut client = site.server.client();
    check(&mut client, "SET kept 1", "OK");
    check(&mut client, "CONFIG SET slowlog-log-slower-than 0", "OK");
    let own = site.own_headers();
    let help = r#"{"db":0,"args":["QUEUE",{"b64":"SEVMUA=="}]}"#;
    site.ask("POST", "/api/command", &own, help).has(200, r#"{"reply":["QUEUE <subcommand>"#);
    let slow = client.show("SLOWLOG GET 5");
    assert!(
        slow.contains("\"HELP\"") && slow.contains("http:127.0.0.1:"),
        "it is a client's command: {slow}"
    );
    for (headers, status, why) in [
        (own.replace("Origin", "X-Origin"), 403, "Origin"),
        (own.replace("http://localhost", "http://evil.example"), 403, "Origin"),
        (own.clone() + "Sec-Fetch-Site: cross-site\r\n", 403, "Origin"),
        (own.replace("X-Darter-Token: ", "X-Darter-Token: 0"), 403, "token"),
        (own.replace("X-Darter-Token", "X-Other"), 403, "token"),
        (own.replace("application/json", "text/plain"), 415, "application/json"),
        (own.replace("application/json", "application/x-www-form-urlencoded"), 415, "application/json"),
    ] {
        site.ask("POST", "/api/command", &headers, help).has(status, why);
    }
    for (body, status, why) in [
        (r#"{"args":["FLUSHALL"]}"#, 403, "only QUEUE"),
        (r#"{"args":["EVAL","return 1","0"]}"#, 403, "only QUEUE"),
        (r#"{"args":[]}"#, 403, "only QUEUE"),
        (r#"{"args":[null]}"#, 400, "an argument is"),
        (r#"{"args":"QUEUE"}"#, 400, "a command is"),
        ("not json", 400, "a command is"),
        (r#"{"args":["QUEUE","NONSENSE"]}"#, 400, "ERR unknown subcommand"),
        (r#"{"db":99,"args":["QUEUE","HELP"]}"#, 400, "DB index is out of range"),
    ] {
        site.ask("POST", "/api/command", &own, body).has(status, why);
    }
    let long = format!(r#"{{"args":["QUEUE","{}"]}}"#, "x".repeat(2 << 20));
    site.ask("POST", "/api/command", &own, &long).has(413, "1 MiB");
    let host = format!("Host: localhost:{}\r\n", site.port);
    let endless = format!("POST /api/command HTTP/1.1\r\n{host}{own}Transfer-Encoding: chunked\r\n\r\n");
    let chunks = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(32);
    let text = site.raw((endless + &chunks).as_bytes());
    assert!(text.is_empty() || text.contains("1 MiB"), "an end without a word, or with one: {text}");
    site.ask("GET", "/api/overview", "Sec-Fetch-Site: cross-site\r\n", "").has(403, "another site");
    check(&mut client, "GET kept", "\"1\"");
}

#[test]
fn the_page_is_locked_up_and_kept() {
    let site = Site::start(&["--http-hosts", "darter.example"]);
    let page = site.get("/");
    page.has(200, "<title>Darter");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-cache",
    ] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    assert!(!page.head.contains("access-control"), "{}", page.head);
    let tag =
        page.head.split("etag: ").nth(1).and_then(|rest| rest.lines().next()).expect("it has a validator");
    site.ask("GET", "/", &format!("If-None-Match: {tag}\r\n"), "").has(304, "");
    let named = "GET /healthz HTTP/1.1\r\nHost: Darter.Example:1\r\nConnection: close\r\n\r\n";
    Answer::read(&site.raw(named.as_bytes())).has(200, "ok");
}

#[test]
fn a_queue_that_is_none_is_not_found() {
    let site = Site::start(&[]);
    // "queue:a"
    let path = "/api/queue?key=cXVldWU6YQ==";
    site.get(path).has(404, r#"{"error":"ERR no such queue"}"#);
    site.get("/api/queue?key=!").has(400, "base64");
    check(&mut site.server.client(), "LPUSH queue:a job", "(integer) 1");
    site.get(path).has(200, r#""name":"queue:a""#);
}

#[test]
fn the_console_needs_no_command_to_say_who_asks() {
    let renames =
        ["--rename-command", "HELLO", "", "--rename-command", "AUTH", "", "--rename-command", "CLIENT", "x"];
    for options in [&renames[..], &[&renames[..], &["--requirepass", "secret"]].concat()] {
        let site = Site::start(options);
        // "default:secret", which is as good as nothing where no password is asked for.
        let user = authorization("ZGVmYXVsdDpzZWNyZXQ=");
        let overview = site.ask("GET", "/api/overview", &user, "").body;
        let token = overview.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let token = token.unwrap_or_else(|| panic!("no token: {overview}"));
        let origin = format!("Origin: http://localhost:{}\r\n", site.port);
        let own = format!("{user}Content-Type: application/json\r\nX-Darter-Token: {token}\r\n{origin}");
        let pause = r#"{"args":["QUEUE","PAUSE","queue:a"]}"#;
        site.ask("POST", "/api/command", &own, pause).has(200, r#"{"reply":1}"#);
        site.ask("GET", "/api/queue?key=cXVldWU6YQ==", &user, "").has(200, r#""paused":1"#);
        site.ask("GET", "/api/now", &user, "").has(200, r#""slow":"#);
        // "default:wrong"
        let wrong = authorization("ZGVmYXVsdDp3cm9uZw==");
        let expected = if options.len() > renames.len() { 401 } else { 200 };
        site.ask("GET", "/api/overview", &wrong, "").has(expected, "");
    }
}

/// The header of HTTP basic authentication: `user:password` in base64.
fn authorization(encoded: &str) -> String {
    format!("Authorization: Basic {encoded}\r\n")
}

#[test]
fn users_see_what_their_rules_allow() {
    let site = Site::start(&["--requirepass", "secret"]);
    let mut client = site.server.client();
    check(&mut client, "AUTH secret", "OK");
    check(&mut client, "ACL SETUSER reader on >pw +info +queue|help ~*", "OK");
    // "default:secret", ":secret", "reader:pw" and "reader:wrong"
    let (default, unnamed) = (authorization("ZGVmYXVsdDpzZWNyZXQ="), authorization("OnNlY3JldA=="));
    let (reader, wrong) = (authorization("cmVhZGVyOnB3"), authorization("cmVhZGVyOndyb25n"));
    for path in ["/", "/metrics", "/queues.json", "/api/overview", "/api/now", "/nothing"] {
        let answer = site.get(path);
        answer.has(401, "");
        assert!(answer.head.contains("www-authenticate: basic"), "{answer:?}");
    }
    site.get("/healthz").has(200, "ok");
    site.get("/readyz").has(200, "ready");
    site.ask("GET", "/metrics", &default, "").has(200, "redis_up 1");
    site.ask("GET", "/metrics", &unnamed, "").has(200, "redis_up 1");
    site.ask("GET", "/metrics", &reader, "").has(200, "redis_up 1");
    site.ask("GET", "/api/overview", &reader, "").has(200, "\"can_write\":false");
    check(&mut client, "ACL LOG", "(empty array)");
    site.ask("GET", "/queues.json", &reader, "").has(403, "NOPERM");
    site.ask("GET", "/metrics", &wrong, "").has(401, "");
    let log = client.show("ACL LOG");
    assert!(
        log.contains("\"auth\"") && log.contains("\"reader\"") && log.contains("addr=http:127.0.0.1:"),
        "{log}"
    );
    assert_eq!(client.info("stats", "acl_access_denied_auth"), "1");
    // The user may go while the page is open.
    check(&mut client, "ACL DELUSER reader", "(integer) 1");
    site.ask("GET", "/metrics", &reader, "").has(401, "");
}

#[test]
fn a_users_requests_that_run_commands_count_as_its_connections() {
    let site = Site::start(&["--maxclients-per-user", "1"]);
    let (mut client, mut tenant) = (site.server.client(), site.server.client());
    check(&mut client, "ACL SETUSER reader on >pw ~* +@all", "OK");
    check(&mut client, "QUEUE PAUSE queue:a", "(integer) 1");
    // "reader:pw"
    let (reader, own) = (authorization("cmVhZGVyOnB3"), site.own_headers());
    let ask = |path: &str| site.ask("GET", path, &reader, "");
    let resume = r#"{"args":["QUEUE","RESUME","queue:a"]}"#;
    let command = |who: &str| site.ask("POST", "/api/command", &format!("{own}{who}"), resume);
    // Each gives its place back.
    for _ in 0..3 {
        eventually("a place", || ask("/api/now").status == 200);
    }
    eventually("a place", || tenant.show("AUTH reader pw") == "OK");
    let refused = client.info("stats", "rejected_connections").parse::<u64>().expect("it is a number");
    let too_many = "ERR max number of clients of this user reached";
    ask("/api/now").has(503, too_many);
    ask("/api/queue?key=cXVldWU6YQ==").has(503, too_many);
    ask("/api/peek?key=cXVldWU6YQ==").has(503, too_many);
    command(&reader).has(503, too_many);
    let counted = client.info("stats", "rejected_connections");
    assert_eq!(counted, (refused + 4).to_string());
    // Pages that run no command take no place, and the default user has as many places as it wants.
    ask("/metrics").has(200, "redis_up 1");
    ask("/queues.json").has(200, "queue:a");
    site.get("/api/now").has(200, r#""slow":"#);
    site.get("/readyz").has(200, "ready");
    drop(tenant);
    eventually("a place", || command(&reader).status == 200);
}

#[test]
fn wrong_passwords_are_not_tried_fast() {
    let site = Site::start(&["--requirepass", "secret"]);
    let mut stream = site.connect();
    let host = format!("Host: localhost:{}\r\n", site.port);
    let (began, mut tried, mut refused) = (Instant::now(), 0, 0);
    for _ in 0..1000 * scale() {
        // ":wrong"
        let request = format!("HEAD /metrics HTTP/1.1\r\n{host}{}\r\n", authorization("Ondyb25n"));
        stream.write_all(request.as_bytes()).expect("the connection is kept");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("there is an answer");
            head.push(byte[0]);
        }
        match &head[9..12] {
            b"401" => tried += 1,
            b"429" => refused += 1,
            _ => panic!("{}", String::from_utf8_lossy(&head)),
        }
    }
    let windows = began.elapsed().as_secs() / WINDOW_S + 1;
    assert!(tried <= FAILURES_MAX * windows, "{tried} passwords were looked at in {:?}", began.elapsed());
    assert!(refused > 0, "{refused} were not");
    let mut client = site.server.client();
    check(&mut client, "AUTH secret", "OK");
    assert_eq!(client.info("stats", "acl_access_denied_auth"), tried.to_string());
}

#[test]
fn slow_clients_end() {
    let site = Site::start(&[]);
    let mut witness = Witness::new(&site.server);
    let host = format!("Host: localhost:{}\r\n", site.port);
    let command =
        format!("POST /api/command HTTP/1.1\r\n{host}{}Content-Length: 100\r\n\r\n{{", site.own_headers());
    let mut silent = site.connect();
    let [mut head, mut kept, mut body, mut deaf] = [
        format!("GET / HTTP/1.1\r\n{host}X-Slow:"),
        format!("GET /healthz HTTP/1.1\r\n{host}\r\n"),
        command,
        format!("GET /metrics HTTP/1.1\r\n{host}\r\n").repeat(2000),
    ]
    .map(|sent| {
        let mut stream = site.connect();
        stream.set_nonblocking(true).expect("sockets can be");
        // Not all requests of the deaf client are sent, because its answers are not read.
        let _ = stream.write(sent.as_bytes());
        stream.set_nonblocking(false).expect("sockets can be");
        stream
    });
    witness.look();
    assert!(rest(&mut silent).is_empty());
    assert!(!rest(&mut head).contains("200 OK"));
    Answer::read(&rest(&mut kept)).has(200, "ok");
    Answer::read(&rest(&mut body)).has(408, "ten seconds");
    eventually("who does not read is disconnected", || {
        witness.look();
        site.get("/metrics").body.contains("darter_http_connections 1\n")
    });
    let _ = rest(&mut deaf);
}

#[test]
fn a_crowd_meets_the_limit() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, all).expect("the soft limit may be raised to the hard one");
    let site = Site::start(&[]);
    let mut witness = Witness::new(&site.server);
    // Each connection has a request under way whose body never arrives.
    let host = format!("Host: localhost:{}\r\n", site.port);
    let command =
        format!("POST /api/command HTTP/1.1\r\n{host}{}Content-Length: 100\r\n\r\n{{", site.own_headers());
    let seated: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|_| {
            let mut stream = site.connect();
            stream.write_all(command.as_bytes()).expect("it is open");
            stream
        })
        .collect();
    let mut told = 0;
    for _ in 0..1000 * scale() {
        let text = site.raw(b"");
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 503 "), "{text}");
        told += usize::from(text.contains("http-connections-max"));
    }
    assert!(told > 0, "nobody was told why");
    witness.look();
    // All at once; what they are told does not matter.
    let address = SocketAddr::from(([127, 0, 0, 1], site.port));
    let crowd: Vec<_> =
        (0..500 * scale()).filter_map(|_| TcpStream::connect_timeout(&address, PATIENCE).ok()).collect();
    witness.look();
    drop(crowd);
    drop(seated);
    eventually("those who come now are served", || {
        let text = site.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        text.contains("ok")
    });
    assert_eq!(witness.client().info("clients", "connected_clients"), "1", "none of them was a client");
}

#[test]
fn who_sends_nothing_keeps_nobody_out() {
    let site = Site::start(&[]);
    let mut kept = site.connect();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is open");
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok\n") {
        let mut byte = [0];
        kept.read_exact(&mut byte).expect("it answers");
        answer.extend(byte);
    }
    let mut silent: Vec<TcpStream> = (0..2 * CONNECTIONS_MAX).map(|_| site.connect()).collect();
    let half = b"GET /healthz HTTP/1.1\r\nHost:";
    silent.iter_mut().skip(CONNECTIONS_MAX).for_each(|stream| stream.write_all(half).expect("it is open"));
    for _ in 0..10 {
        site.get("/healthz").has(200, "ok");
    }
    // The first silent ones were closed at once; connections that have sent a request stayed open.
    assert!(rest(&mut silent[0]).is_empty());
    kept.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it is open");
    assert_eq!(rest(&mut kept).matches("200 OK").count(), 1);
    let metrics = site.get("/metrics").body;
    assert!(metrics.contains("darter_http_rejected_connections_total 0\n"), "{metrics}");
    assert!(!metrics.contains("darter_http_displaced_connections_total 0\n"), "{metrics}");
}

#[test]
fn who_has_asked_is_answered_before_others_take_the_place() {
    let site = Site::start(&[]);
    site.server.signal(Signal::STOP);
    // The system takes them in meanwhile, as many as it lets wait.
    let asked: Vec<TcpStream> = (0..CONNECTIONS_MAX + 32)
        .map(|_| {
            let mut stream = site.connect();
            let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(request).expect("it is open");
            stream
        })
        .collect();
    site.server.signal(Signal::CONT);
    for mut stream in asked {
        Answer::read(&rest(&mut stream)).has(200, "ok");
    }
}

#[test]
fn figures_are_told_while_shards_are_held() {
    let site = Site::start(&["--http-bind", "127.0.0.1"]);
    let mut busy = site.server.client();
    busy.send("EVAL \"redis.call('GET', KEYS[1]) while true do end\" 1 k");
    let mut client = site.server.client();
    eventually("the script runs", || client.show("GET k").starts_with("(error) BUSY"));
    for (path, part) in [
        ("/metrics", "redis_up 1"),
        ("/queues.json", "\"queues\":[]"),
        ("/api/overview", "\"role\":\"primary\""),
        ("/api/charts?range=24h", "\"step_ms\":60000"),
        ("/healthz", "ok"),
    ] {
        site.get(path).has(200, part);
    }
    site.get("/api/charts?range=1y").has(400, "10m or 24h");
    check(&mut client, "SCRIPT KILL", "OK");
    assert!(busy.receive().to_string().contains("Script killed"));
}

#[test]
fn readiness_knows_the_role() {
    let site = Site::start(&[]);
    site.get("/readyz?role=primary").has(200, "primary");
    site.get("/readyz?role=replica").has(503, "it is a primary");
    site.get("/readyz?role=king").has(400, "primary or replica");
    let nobody = free_port().expect("there are free ports");
    check(&mut site.server.client(), &format!("REPLICAOF 127.0.0.1 {nobody}"), "OK");
    site.get("/readyz").has(200, "replica");
    site.get("/readyz?role=primary").has(503, "it is a replica");
    site.get("/readyz?role=replica").has(503, "link to its primary is down");
    site.get("/api/overview").has(200, "The link to the primary 127.0.0.1:");
    site.get("/metrics").has(200, "redis_master_link_up{master_host=\"127.0.0.1\"");
}

#[test]
fn a_server_that_loads_lives_but_is_not_ready() {
    let scratch = Scratch::new("console-loads");
    let folder = scratch.path("");
    let place = ["--dir", &folder, "--dbfilename", "dump.rdb"];
    check(&mut Server::start(1, "auto", &place).client(), "SAVE", "OK");
    let dump = scratch.path("dump.rdb");
    let content = fs::read(&dump).expect("it was saved");
    fs::remove_file(&dump).expect("it is there");
    assert!(Command::new("mkfifo").arg(&dump).status().expect("mkfifo is there").success());
    let port = free_port().expect("there are free ports");
    let http = format!("--http-port={port}");
    let options = [&place[..], &["--proactor-threads=2", &http]].concat();
    let site = Site { server: Server::loading(&options).expect("it starts"), port };
    let mut pipe = File::options().write(true).open(dump).expect("the server opens it, too");
    site.get("/healthz").has(200, "ok");
    site.get("/readyz").has(503, "it is loading its data");
    site.get("/metrics").has(200, "redis_loading_dump_file 1");
    site.get("/api/overview").has(200, "The data is being loaded");
    pipe.write_all(&content).expect("the server reads it");
    drop(pipe);
    eventually("it has loaded", || site.get("/readyz").status == 200);
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let site = Site::start(&[]);
    check(&mut site.server.client(), "SETEX k 100 v", "OK");
    let text = site.get("/metrics");
    assert!(text.head.contains("content-type: text/plain; version=0.0.4"), "{}", text.head);
    text.has(200, "# TYPE redis_commands_processed_total counter\nredis_commands_processed_total ");
    text.has(200, "redis_db_keys_expiring{db=\"db0\"} 1\n");
    let open = site.ask("GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n", "");
    assert!(open.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", open.head);
    open.has(200, "# TYPE redis_commands_processed counter\nredis_commands_processed_total ");
    assert!(open.body.ends_with("# EOF\n"), "{}", &open.body[open.body.len() - 100..]);
    let lines: Vec<&str> = text.body.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut unique = lines.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(lines.len(), unique.len(), "each family comes once");
}

#[test]
fn a_port_that_somebody_has_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = taken.local_addr().expect("it listens").port().to_string();
    let failed = Server::darter(&["--http-port", &port]).expect_err("the port is taken").to_string();
    assert!(failed.contains("http-port"), "{failed}");
}
