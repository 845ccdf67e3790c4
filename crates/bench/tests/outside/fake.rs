//! A small server that does what a test tells it to.
//!
//! It keeps lists, answers what a run needs, and asks the test's function about every request first.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use resp::Value;

/// The treatment of a request.
pub(crate) enum Answer {
    /// Serve it.
    Serve,
    /// Send this reply instead.
    Say(&'static str),
    /// Send no reply.
    Ignore,
    /// Close the connection.
    HangUp,
}

type Lists = Mutex<HashMap<String, VecDeque<Vec<u8>>>>;

/// Starts a server that lives as long as the test. `rule` gets the words of each request. Returns the port.
pub(crate) fn server(rule: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let (rule, lists) = (Arc::new(rule), Arc::new(Lists::default()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (rule, lists) = (rule.clone(), lists.clone());
            std::thread::spawn(move || serve(stream, &*rule, &lists));
        }
    });
    port
}

fn serve(mut stream: TcpStream, rule: &dyn Fn(&[String]) -> Answer, lists: &Lists) {
    let mut received = Vec::new();
    let mut chunk = [0; 65_536];
    loop {
        // A request is encoded like a reply that is an array.
        while let Ok(Some((Value::Array(items), length))) = resp::decode(&received) {
            received.drain(..length);
            let words: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                    other => panic!("a request of {other}"),
                })
                .collect();
            let reply = match rule(&words) {
                Answer::Serve => keep(&words, lists),
                Answer::Say(text) => text.to_owned(),
                Answer::Ignore => continue,
                Answer::HangUp => return,
            };
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => received.extend_from_slice(&chunk[..count]),
        }
    }
}

fn keep(words: &[String], lists: &Lists) -> String {
    let mut lists = lists.lock().expect("no test panics with it");
    match words[0].to_lowercase().as_str() {
        "lpush" => {
            let list = lists.entry(words[1].clone()).or_default();
            words[2..].iter().for_each(|value| list.push_front(value.clone().into_bytes()));
            format!(":{}\r\n", list.len())
        }
        "brpop" => match lists.get_mut(&words[1]).and_then(VecDeque::pop_back) {
            Some(value) => {
                let (key, value) = (&words[1], String::from_utf8_lossy(&value));
                format!("*2\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len())
            }
            None => "*-1\r\n".to_owned(),
        },
        "llen" => format!(":{}\r\n", lists.get(&words[1]).map_or(0, VecDeque::len)),
        "info" => "$19\r\nredis_version:7.2.0\r\n".to_owned(),
        "script" => "$3\r\nabc\r\n".to_owned(),
        "exec" => "*0\r\n".to_owned(),
        "get" | "unlink" | "srem" | "sadd" => ":1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}
