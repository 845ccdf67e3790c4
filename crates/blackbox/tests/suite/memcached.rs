//! Sends random requests of memcached's protocol to Darter and to memcached 1.6. Every reply must be the same.
//!
//! Each server has its own cas numbers, so they are compared, and named in requests, by the order in which they first
//! appeared. Times to live are compared in hundreds of seconds, and no item is near its end. The seed is printed;
//! `DARTER_SEED` replays it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::memcached_requests::{self, Generator};
use blackbox::{PATIENCE, Server, free_port, scale};

const ROUNDS: usize = 1500;
/// The end of the replies to one round. No reply of the test contains it.
const END: &[u8] = b"MN\r\n";

/// The process of memcached.
struct Oracle(Child);

impl Drop for Oracle {
    fn drop(&mut self) {
        // The server may have ended by itself. Then there is nothing to kill, and the error is of no use.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// memcached on a port of its own. If it is not installed, `None` and a printed note; with `CI=true` that is a failure.
fn oracle() -> Option<(Oracle, u16)> {
    let port = free_port().expect("some port is free");
    let started = Command::new("memcached")
        .args(["-p", &port.to_string(), "-U", "0", "-l", "127.0.0.1", "-u", "nobody"])
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(child) => Some((Oracle(child), port)),
        Err(error) if std::env::var("CI").as_deref() == Ok("true") => panic!("memcached: {error}"),
        Err(_) => {
            println!("SKIPPED: memcached is not installed, nothing to compare with");
            None
        }
    }
}

/// A client of one server, and the cas numbers that it has seen.
struct Side {
    stream: TcpStream,
    seen: Vec<u64>,
    /// The cas numbers of each key, as indices into `seen`.
    of_key: BTreeMap<String, Vec<usize>>,
}

impl Side {
    fn connect(port: u16) -> Side {
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < end, "nobody listens on {port}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
        stream.set_nodelay(true).expect("TCP can do this");
        Side { stream, seen: Vec::new(), of_key: BTreeMap::new() }
    }

    /// Sends requests, and returns what arrives before the reply to `mn`.
    fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        self.stream.write_all(&[requests, b"mn\r\n"].concat()).expect("the server reads");
        let (mut replies, mut buffer) = (Vec::new(), [0; 65536]);
        while !replies.ends_with(END) {
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => replies.extend_from_slice(&buffer[..count]),
                other => panic!("{other:?} after {} to {}", replies.escape_ascii(), requests.escape_ascii()),
            }
        }
        replies.truncate(replies.len() - END.len());
        replies
    }

    /// The requests with this server's cas numbers in place of `@<number>@`.
    fn with_numbers(&self, requests: &[u8]) -> Vec<u8> {
        let mut parts = requests.split(|&byte| byte == b'@');
        let mut whole = parts.next().unwrap_or_default().to_vec();
        while let (Some(number), Some(rest)) = (parts.next(), parts.next()) {
            let index: usize = String::from_utf8_lossy(number).parse().expect("the generator writes numbers");
            whole.extend_from_slice(self.seen[index].to_string().as_bytes());
            whole.extend_from_slice(rest);
        }
        whole
    }

    fn number_of(&mut self, cas: &str) -> String {
        let Ok(cas) = cas.parse::<u64>() else { return cas.to_owned() };
        // An item that is not stored has none.
        if cas == 0 {
            return "0".to_owned();
        }
        let known = self.seen.iter().position(|seen| *seen == cas);
        let index = known.unwrap_or_else(|| {
            self.seen.push(cas);
            self.seen.len() - 1
        });
        format!("#{index}")
    }

    /// The replies, normalized where they may differ.
    fn comparable(&mut self, replies: &[u8]) -> String {
        let (mut shown, mut rest) = (String::new(), replies);
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 2..];
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let length_at = match words[0].as_str() {
                "VALUE" => Some(3),
                "VA" => Some(1),
                _ => None,
            };
            match words[0].as_str() {
                "VALUE" if words.len() > 4 => words[4] = self.number_of(&words[4]),
                "ME" => {
                    words.iter_mut().for_each(|word| self.make_equal(word));
                    let index: Option<usize> =
                        words[4].strip_prefix("cas=#").and_then(|index| index.parse().ok());
                    self.of_key.entry(words[1].clone()).or_default().extend(index);
                }
                "HD" | "VA" => words.iter_mut().for_each(|word| self.make_equal(word)),
                _ => {}
            }
            let length: Option<usize> = length_at.map(|at| words[at].parse().expect("a length"));
            if let (Some(at), Some(length)) = (length_at, length) {
                let mut value = rest[..length].to_vec();
                rest = &rest[length + 2..];
                // memcached leaves blanks behind a number that became shorter.
                if value.first().is_some_and(u8::is_ascii_digit) {
                    value.truncate(value.trim_ascii_end().len());
                }
                words[at] = value.len().to_string();
                words.push(format!("= {}", value.escape_ascii()));
            }
            shown += &words.join(" ");
            shown.push('\n');
        }
        assert!(rest.is_empty(), "half a line: {}", rest.escape_ascii());
        shown
    }

    fn make_equal(&mut self, word: &mut String) {
        let hundreds = |text: &str| match text.parse::<i64>() {
            // A time in the far future.
            Ok(10_000_000..) => "far".to_owned(),
            Ok(left) => ((left + 50) / 100).to_string(),
            Err(_) => text.to_owned(),
        };
        if let Some(cas) = word.strip_prefix("cas=") {
            *word = format!("cas={}", self.number_of(cas));
        } else if let Some(left) = word.strip_prefix("exp=-").filter(|left| *left != "1") {
            *word = format!("exp={}", hundreds(left));
        } else if word.starts_with("la=") || word.starts_with("size=") || word.starts_with("cls=") {
            word.truncate(3);
        } else if let Some(cas) = word.strip_prefix('c') {
            *word = format!("c{}", self.number_of(cas));
        } else if let Some(left) = word.strip_prefix('t').filter(|left| *left != "-1") {
            *word = format!("t{}", hundreds(left));
        } else if let Some(idle) = word.strip_prefix('l') {
            assert!(idle.parse::<u32>().is_ok_and(|idle| idle < 60), "idle for {idle} s");
            *word = "l".to_owned();
        }
    }
}

#[test]
fn replies_are_those_of_memcached() {
    let Some((_oracle, oracle_port)) = oracle() else { return };
    let port = free_port().expect("some port is free");
    let _darter = Server::start(2, "auto", &["--memcached-port", &port.to_string()]);
    let (mut ours, mut theirs) = (Side::connect(port), Side::connect(oracle_port));
    let seed = std::env::var("DARTER_SEED").map_or(1, |seed| seed.parse().expect("DARTER_SEED is a number"));
    println!("DARTER_SEED={seed}");
    let mut generator = Generator::new(seed);
    let mut said = std::collections::BTreeSet::new();
    for round in 0..ROUNDS * scale() {
        assert_eq!(ours.seen.len(), theirs.seen.len());
        let requests = generator.requests(ours.seen.len(), &ours.of_key);
        let our_replies = ours.ask(&ours.with_numbers(&requests));
        let their_replies = theirs.ask(&theirs.with_numbers(&requests));
        let (our_text, their_text) = (ours.comparable(&our_replies), theirs.comparable(&their_replies));
        let shown = requests.escape_ascii().to_string().replace(&"x".repeat(1000), "");
        assert_eq!(our_text, their_text, "DARTER_SEED={seed} round {round}: {shown}");
        said.extend(
            their_text.lines().map(|line| line.split([' ', '=']).take(2).collect::<Vec<_>>().join(" ")),
        );
        // Changes that the replies did not show.
        let state = generator.state(round % 50 == 0);
        let (our_replies, their_replies) = (ours.ask(&state), theirs.ask(&state));
        let (our_text, their_text) = (ours.comparable(&our_replies), theirs.comparable(&their_replies));
        assert_eq!(our_text, their_text, "DARTER_SEED={seed} after round {round}: {shown}");
    }
    for reply in memcached_requests::REPLIES {
        assert!(
            said.iter().any(|line| line.starts_with(reply)),
            "no request was answered {reply}: {said:#?}"
        );
    }
}
