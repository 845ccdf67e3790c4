//! Measures the overhead of scripts without that of their commands: one thread, and a host that answers at
//! once.
//!
//! `cargo bench -p lua`. Prints nanoseconds per run and per call; compare runs on the same machine only.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lua::{Engine, Host, Interrupt, MEMORY_BYTES_DEFAULT, Script};
use resp::{Output, Proto, Reply};

const LAP_NS: f64 = 200_000.0;
const DURATION: Duration = Duration::from_millis(500);

/// Answers GET with ten bytes, INCR with a number, ZRANGE with ten members and everything else with OK.
struct InstantHost;

impl Host for InstantHost {
    fn call(&mut self, args: &[&[u8]], _: bool, out: &mut Output) -> Result<(), Interrupt> {
        let mut reply = Reply::new(out, Proto::Resp2);
        match args[0] {
            b"GET" => reply.bulk(b"0123456789"),
            b"INCR" => reply.int(black_box(12_345)),
            b"ZRANGE" => {
                reply.array(10);
                (0..10).for_each(|_| reply.bulk(b"member:0123456789"));
            }
            _ => reply.ok(),
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        Ok(())
    }

    fn log(&mut self, _: i64, _: &[u8]) {}

    fn set_stated(&mut self, _: bool) {}

    fn is_allowed(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }
}

fn measure(name: &str, call_count: u32, source: &str) {
    let mut engine = Engine::new(MEMORY_BYTES_DEFAULT, 0x0007_0205);
    let script = Arc::new(Script::new(source.as_bytes()).expect("a script"));
    engine.compile(&script).expect("it compiles");
    let (keys, args): ([&[u8]; 1], [&[u8]; 2]) = ([b"bull:queue:id"], [b"argument", b"1700000000000"]);
    let mut out = Output::new();
    let mut best_ns = f64::INFINITY;
    let started = Instant::now();
    while started.elapsed() < DURATION {
        let lap = Instant::now();
        // Laps are shorter than a time slice, so the best one was not interrupted.
        let run_count = if best_ns.is_finite() { (LAP_NS / best_ns) as u32 + 1 } else { 1 };
        for _ in 0..run_count {
            out.clear();
            let mut reply = Reply::new(&mut out, Proto::Resp2);
            black_box(engine.eval(script.sha(), &keys, &args, &mut InstantHost, &mut reply));
        }
        best_ns = best_ns.min(lap.elapsed().as_nanos() as f64 / f64::from(run_count));
    }
    let per_call_ns = best_ns / f64::from(call_count.max(1));
    println!(
        "{name:<24} {best_ns:>9.0} ns/run {per_call_ns:>7.0} ns/call  {} KiB",
        engine.memory_bytes() / 1024
    );
}

fn main() {
    measure("return 1", 0, "return 1");
    measure("GET", 1, "return redis.call('GET', KEYS[1])");
    measure("SET, GET", 2, "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])");
    measure("40 INCR", 40, "local r for i = 1, 40 do r = redis.call('INCR', KEYS[1]) end return r");
    measure("40 SET", 40, "for i = 1, 40 do redis.call('SET', KEYS[1], i) end return 1");
    measure(
        "40 HSET of 7",
        40,
        "for i = 1, 40 do redis.call('HSET', KEYS[1], 'a', i, 'b', ARGV[1], 'c', ARGV[2]) end",
    );
    measure("10 ZRANGE of 10", 10, "for i = 1, 10 do redis.call('ZRANGE', KEYS[1], 0, 9) end return 1");
    measure("reply of 10", 1, "return redis.call('ZRANGE', KEYS[1], 0, 9)");
    measure(
        "cjson round",
        0,
        "return cjson.encode(cjson.decode('{\"id\":12,\"args\":[1,\"two\",null],\"class\":\"HardJob\"}'))",
    );
    measure(
        "cmsgpack round",
        0,
        "return cmsgpack.pack(cmsgpack.unpack(cmsgpack.pack({id = 12, args = {1, 'two'}})))",
    );
    measure("loop of 10000", 0, "local s = 0 for i = 1, 10000 do s = s + i % 7 end return s");
}
