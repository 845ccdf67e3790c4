//! Plays `tests/transcripts/` in simulated worlds: with one to three threads, every way of entry, and short and late input
//! and output. A second client reads across all shards meanwhile, so that batons are taken.
//!
//! `DARTER_TRANSCRIPTS=string/get` plays only files whose path contains that.

use std::io;
use std::path::Path;

use resp::Value;
use sim::{Client, ENTRIES, Request, Setup, World, for_each_seed, request};
use transcript::{Block, Runner};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transcripts");

/// Reads keys of all shards, without changing anything that a transcript could see.
const LOOK_AROUND: &str =
    "local n = 0 for i = 1, 12 do n = n + redis.call('EXISTS', 'noise' .. i) end return n";

/// The client of the transcript, and one that makes noise.
struct Played {
    world: World,
    client: Client,
    noise: Client,
}

impl Played {
    fn make_noise(&mut self) {
        self.world.pump(&mut self.noise);
        if self.noise.unanswered() < 2 && self.world.one_in(4) {
            let keys: Vec<String> = (1..9).map(|number| format!("noise{number}")).collect();
            let request = match self.world.below(3) {
                0 => request("EVAL", [LOOK_AROUND, "0"]),
                1 => request("MGET", &keys),
                _ => request("EXISTS", &keys[..1]),
            };
            self.noise.send(&request);
        }
    }
}

impl Runner for Played {
    fn call(&mut self, request: &[Vec<u8>]) -> io::Result<Value> {
        let reply = self.call_once(request)?;
        if request[0].eq_ignore_ascii_case(b"SCAN") { self.scan_on(request, reply) } else { Ok(reply) }
    }
}

impl Played {
    /// Continues SCAN to its end: it stops at a shard that is taken, which no transcript can foresee.
    fn scan_on(&mut self, request: &[Vec<u8>], reply: Value) -> io::Result<Value> {
        let Value::Array(parts) = &reply else { return Ok(reply) };
        let [Value::Bulk(cursor), Value::Array(keys)] = &parts[..] else { return Ok(reply) };
        if cursor == b"0" {
            return Ok(reply);
        }
        let mut next = request.to_vec();
        next[1].clone_from(cursor);
        let rest = self.call(&next)?;
        let Value::Array(mut rest) = rest else { return Ok(rest) };
        if let Some(Value::Array(more)) = rest.get_mut(1) {
            more.splice(0..0, keys.iter().cloned());
        }
        Ok(Value::Array(rest))
    }

    fn call_once(&mut self, request: &[Vec<u8>]) -> io::Result<Value> {
        self.client.send(request);
        loop {
            if let Some(reply) = self.world.pump(&mut self.client).pop() {
                return Ok(reply);
            }
            if self.client.has_ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.make_noise();
            self.world.step();
        }
    }
}

/// Every block of every transcript, with its position.
fn blocks() -> Vec<(String, Block)> {
    let wanted = std::env::var("DARTER_TRANSCRIPTS").unwrap_or_default();
    let mut all = Vec::new();
    for path in transcript::files(Path::new(FOLDER)).expect("the folder of transcripts can be read") {
        let name = path.strip_prefix(FOLDER).unwrap_or(&path).display().to_string();
        if name.contains(&wanted) {
            let blocks = transcript::read(&path).expect("transcripts are well-formed");
            all.extend(blocks.into_iter().map(|block| (format!("{name}:{}", block.line), block)));
        }
    }
    all
}

#[test]
fn transcripts_hold_in_any_world() {
    let blocks = blocks();
    assert!(blocks.len() > 100 || std::env::var("DARTER_TRANSCRIPTS").is_ok());
    for_each_seed("transcripts", 2, |mut entropy| {
        // Several blocks share a world: creating a server costs more than playing a block.
        for blocks in blocks.chunks(40) {
            let mut setup = Setup::any(&mut entropy);
            setup.threads = 1 + entropy.below(3);
            // Some transcripts query how long a key lives.
            setup.stalls_take_time = false;
            setup.entry = ENTRIES[entropy.below(3) as usize];
            let world = World::new(proactor::Entropy::from_seed(entropy.next_u64()), &setup);
            let (client, noise) = (world.connect(), world.connect());
            let mut played = Played { world, client, noise };
            for (place, block) in blocks {
                played.client = played.world.connect();
                let problems = play(&mut played, block);
                assert!(problems.is_empty(), "{place} in {setup:?}:\n{}", problems.join("\n"));
            }
        }
    });
}

fn play(played: &mut Played, block: &Block) -> Vec<String> {
    let flush: Request = request("FLUSHALL", [""; 0]);
    let begun = played
        .call(&flush)
        .and_then(|_| played.call(&request("FUNCTION", ["FLUSH"])))
        .and_then(|_| if block.resp3 { played.call(&request("HELLO", ["3"])) } else { Ok(Value::Null) });
    match begun.and_then(|_| block.play(played, |_| true)) {
        Ok(differences) => differences.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}
