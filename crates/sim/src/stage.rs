//! Replaces and restarts the servers of a world, as an administrator does, while its clients go on. A test says how
//! one event goes, with its clients ([`Stage::step`]); the rest follows from that.

use std::collections::BTreeMap;

use resp::Value;

use crate::client::{Request, request};
use crate::machine::Machine;
use crate::world::World;

/// How long an administrator waits for a reply.
const PATIENCE_NS: u64 = 3_000_000_000;

/// The fields of `INFO`.
pub type Facts = BTreeMap<String, String>;

/// The fields in a reply to `INFO`.
pub fn facts(reply: &Value) -> Facts {
    let Value::Bulk(text) = reply else { return Facts::new() };
    let text = String::from_utf8_lossy(text);
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether a server with these fields is a replica that may be promoted, as Sentinel decides it.
pub fn may_lead(facts: &Facts) -> bool {
    facts.get("slave_priority").is_some_and(|priority| priority != "0")
}

/// Whether it also has a link to this primary, not to another one.
pub fn follows(facts: &Facts, primary: usize) -> bool {
    let says = |name: &str, value: &str| facts.get(name).is_some_and(|said| said == value);
    let host = Machine::host_of(primary);
    may_lead(facts) && says("master_host", &host) && says("master_link_status", "up")
}

/// See the head of this file.
pub trait Stage {
    /// Its servers.
    fn world(&mut self) -> &mut World;

    /// Runs one event, and lets clients react.
    fn step(&mut self);

    /// Runs for this long on the world's clock.
    fn run_for(&mut self, ms: u64) {
        let end_ns = self.world().now_ns() + ms * 1_000_000;
        while self.world().now_ns() < end_ns {
            self.step();
        }
    }

    /// Sends requests to a server. Returns the reply to the last one, if it arrives.
    fn ask(&mut self, number: usize, requests: &[Request]) -> Option<Value> {
        let mut client = self.world().connect_to(number)?;
        requests.iter().for_each(|request| client.send(request));
        let (end_ns, mut left) = (self.world().now_ns() + PATIENCE_NS, requests.len());
        while self.world().now_ns() < end_ns && !client.has_ended {
            for reply in self.world().pump(&mut client) {
                left -= 1;
                if left == 0 {
                    return Some(reply);
                }
            }
            self.step();
        }
        None
    }

    /// The replication section of a server's INFO; empty if the server does not answer.
    fn facts(&mut self, number: usize) -> Facts {
        self.ask(number, &[request("INFO", ["replication"])]).map_or_else(Facts::new, |reply| facts(&reply))
    }

    /// Has a server follow `primary` when it starts next, or start as a primary if it is `primary` itself.
    fn start_under(&mut self, number: usize, primary: usize) {
        self.world().change_setup_of(number, |setup| {
            setup.more.retain(|arg| !arg.starts_with("--replicaof"));
            if number != primary {
                setup.more.push(format!("--replicaof={} 6379", Machine::host_of(primary)));
            }
        });
    }

    /// Has a server follow `primary` when it starts next, and now, if it gets the command.
    fn follow(&mut self, number: usize, primary: usize) {
        self.start_under(number, primary);
        self.ask(number, &[request("REPLICAOF", [&Machine::host_of(primary), "6379"])]);
    }
}
