//! A host with a few commands on a hash map, and an engine to go with it.

use std::collections::HashMap;
use std::sync::Arc;

use lua::{Engine, Errors, Host, Interrupt, MEMORY_BYTES_DEFAULT, Outcome, Script};
use resp::{Output, Proto, Reply};

/// A number of errors, and the codes of those that were not counted before.
pub(crate) fn errors(count: u64, uncounted: &[(&[u8], u64)]) -> Errors {
    let uncounted = uncounted.iter().map(|(code, count)| ((*code).into(), *count)).collect();
    Errors { count, uncounted }
}

/// The outcome of a script that raised an error with this code.
pub(crate) fn raised(code: &[u8]) -> Outcome {
    Outcome::Raised(errors(1, &[(code, 1)]))
}

/// The host of the tests.
#[derive(Default)]
pub(crate) struct MemoryHost {
    pub(crate) values: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) log: Vec<(i64, Vec<u8>)>,
    pub(crate) call_count: usize,
    pub(crate) is_silent: bool,
    pub(crate) tick_count: usize,
    /// Interrupts the script after this many ticks.
    pub(crate) interrupt_at: Option<(usize, Interrupt)>,
}

impl Host for MemoryHost {
    fn call(&mut self, args: &[&[u8]], is_resp3: bool, out: &mut Output) -> Result<(), Interrupt> {
        self.call_count += 1;
        let mut reply = Reply::new(out, if is_resp3 { Proto::Resp3 } else { Proto::Resp2 });
        let name = args[0].to_ascii_lowercase();
        match (name.as_slice(), &args[1..]) {
            (b"ping", []) => reply.simple("PONG"),
            (b"echo", [text]) => reply.bulk(text),
            (b"join", texts) => reply.bulk(&texts.join(&b',')),
            (b"set", [key, value]) => {
                self.values.insert(key.to_vec(), value.to_vec());
                reply.ok();
            }
            (b"set", [_, _, ..]) => reply.error("ERR syntax error"),
            (b"get", [key]) => match self.values.get(*key) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            // Replies with its argument unchanged.
            (b"reply", [bytes]) => reply.out().extend_from_slice(bytes),
            (b"retry", []) => return Err(Interrupt::Retry),
            (b"kill", []) => return Err(Interrupt::Killed),
            (b"ping" | b"echo" | b"set" | b"get" | b"incr", _) => {
                reply.error("ERR Wrong number of args calling Redis command from script");
            }
            _ => reply.error("ERR Unknown Redis command called from script"),
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        self.tick_count += 1;
        match self.interrupt_at {
            Some((count, interrupt)) if self.tick_count >= count => Err(interrupt),
            _ => Ok(()),
        }
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        self.log.push((level, text.to_vec()));
    }

    fn set_stated(&mut self, is_stated: bool) {
        self.is_silent = !is_stated;
    }

    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool> {
        match args[0] {
            b"get" | b"set" => Some(true),
            b"flushall" => Some(false),
            _ => None,
        }
    }
}

/// An engine, its host, and the protocol of replies.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) host: MemoryHost,
    pub(crate) proto: Proto,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with_memory(MEMORY_BYTES_DEFAULT)
    }

    pub(crate) fn with_memory(memory_bytes_max: usize) -> Bench {
        Bench {
            engine: Engine::new(memory_bytes_max, 0x0007_0205),
            host: MemoryHost::default(),
            proto: Proto::Resp2,
        }
    }

    /// Runs a source. Returns the reply's bytes, and how the run ended.
    pub(crate) fn run(
        &mut self,
        source: &[u8],
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> (Vec<u8>, Option<Outcome>) {
        let mut out = Output::new();
        let mut reply = Reply::new(&mut out, self.proto);
        let compiled = Script::new(source).and_then(|script| {
            let script = Arc::new(script);
            self.engine.compile(&script).map(|()| script)
        });
        let outcome = match compiled {
            Ok(script) => Some(self.engine.eval(script.sha(), keys, args, &mut self.host, &mut reply)),
            Err(error) => {
                error.write(&mut reply);
                None
            }
        };
        (out.to_vec(), outcome)
    }

    /// Runs a source. Returns the reply as text.
    pub(crate) fn eval(&mut self, source: &str) -> String {
        String::from_utf8_lossy(&self.run(source.as_bytes(), &[], &[]).0).into_owned()
    }
}
