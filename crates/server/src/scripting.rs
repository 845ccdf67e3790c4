//! Scripts on one thread: what a running script may do, and for how long.
//!
//! The shards of a script's keys are entered before it runs. If it touches others, they are entered as it touches
//! them: out of order, so only by trying. A shard that is taken makes the script run again with it among those
//! entered in order, as long as nothing was written. A script that was seen to roam, or was never seen to its end,
//! also enters the *roaming* shard, so that it is the only one of its kind and may wait for a taken shard after it
//! wrote.
//!
//! A script that runs for longer than `busy-reply-threshold` is slow: its thread answers `BUSY` to its other clients, the
//! other threads answer `BUSY` where a command meets its shards, and `SCRIPT KILL` ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use command::{Client, Command, CommandError, Flag, Needs, Tx};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use script::{Engine, Interrupt, Reach, Script, Sha1Hex};
use shard::ShardId;
use smallvec::SmallVec;

use crate::script_store::Slow;
use crate::session::Session;
use crate::settings::Settings;
use crate::thread::ThreadHost;

/// How long a script that wrote waits for a shard that it did not declare.
const ROAM_WAIT_MS: u64 = 5_000;

/// The script engine of a thread.
pub(crate) struct Scripting {
    /// Made when the first script comes; out while one runs.
    engine: Option<Box<Engine>>,
    memory_bytes_max: usize,
    is_running: bool,
    /// The client that commands of scripts see; out while one runs.
    session: Option<Box<Session>>,
}

impl Scripting {
    pub(crate) fn new(settings: &Settings) -> Self {
        Scripting {
            engine: None,
            memory_bytes_max: settings.script_memory_bytes_max(),
            is_running: false,
            session: None,
        }
    }

    fn engine(&mut self) -> &mut Engine {
        let memory_bytes_max = self.memory_bytes_max;
        self.engine.get_or_insert_with(|| Box::new(Engine::new(memory_bytes_max)))
    }
}

/// A call of a script.
pub(crate) struct ScriptCall<'a> {
    /// The script, compiled on this thread.
    pub(crate) script: &'a Script,
    /// `KEYS`
    pub(crate) keys: &'a [&'a [u8]],
    /// `ARGV`
    pub(crate) args: &'a [&'a [u8]],
    /// It must not write.
    pub(crate) is_read_only: bool,
}

/// What a client wants to be run.
pub(crate) enum Wanted<'a> {
    /// This source.
    Source(&'a [u8]),
    /// The script of this name.
    Named(&'a [u8]),
}

impl ThreadHost {
    /// The script that a client wants, compiled on this thread.
    pub(crate) fn script(&mut self, wanted: &Wanted) -> Result<Arc<Script>, ScriptFailure> {
        let sha = match wanted {
            Wanted::Source(source) => Sha1Hex::of(source),
            Wanted::Named(name) => Sha1Hex::parse(name).ok_or(CommandError::NO_SCRIPT)?,
        };
        if let Some(script) = self.scripting.engine().script(&sha) {
            return Ok(script.clone());
        }
        let known = self.shared.scripts.cache().get(&sha);
        let script = match (known, wanted) {
            (Some(script), _) => script,
            (None, Wanted::Named(_)) => return Err(CommandError::NO_SCRIPT.into()),
            (None, Wanted::Source(source)) => {
                let script = Arc::new(Script::new(source)?);
                self.scripting.engine().compile(&script)?;
                return Ok(self.shared.scripts.cache().insert(script, script::Origin::Eval));
            }
        };
        self.scripting.engine().compile(&script)?;
        Ok(script)
    }

    /// The shards that a script needs beside those of its keys.
    pub(crate) fn script_needs(&mut self, args: &[&[u8]], by_name: bool) -> Needs {
        let Some(&what) = args.get(1) else { return Needs::Nothing };
        if self.scripting.is_running {
            // It will be refused, and the engine is out.
            return Needs::Nothing;
        }
        let wanted = if by_name { Wanted::Named(what) } else { Wanted::Source(what) };
        match self.script(&wanted) {
            // It will be refused.
            Err(_) => Needs::Nothing,
            Ok(script) if script.reach() == Reach::Declared => Needs::Nothing,
            Ok(_) => Needs::One(self.shared.shards.roaming()),
        }
    }

    /// Runs a script on the entered shards.
    pub(crate) fn run_script<'t>(
        &mut self,
        tx: &mut Tx<'t>,
        client: Client,
        call: &ScriptCall,
        reply: &mut Reply,
    ) -> script::Outcome {
        let &ScriptCall { script, keys, args, is_read_only } = call;
        let Some(mut engine) = self.scripting.engine.take() else { return script::Outcome::Missing };
        let client = Client { deny_blocking: true, in_script: true, proto: Proto::Resp2, ..client };
        let mut session =
            self.scripting.session.take().unwrap_or_else(|| Box::new(Session::new(client, self.now_ms)));
        session.client = client;
        let caller = self.current.replace(session);
        self.scripting.is_running = true;
        let started_ms = self.driver.clock().monotonic_ms();
        let mut run =
            Run { tx, host: self, is_read_only, started_ms, is_slow: false, reach: Reach::Declared };
        let outcome = engine.eval(script.sha(), keys, args, &mut run, reply);
        let (reach, is_slow) = (run.reach, run.is_slow);
        script.note_reach(reach);
        if is_slow {
            self.own_slow_script().set(Slow::No);
            self.shared.scripts.note_slow(false);
        }
        self.scripting.is_running = false;
        self.scripting.session = self.current.take();
        if is_slow && let Some(caller) = &caller {
            self.driver.resume_reading(ConnId::from_bits(caller.client.connection));
        }
        self.current = caller;
        self.scripting.engine = Some(engine);
        outcome
    }

    fn own_slow_script(&self) -> &'static crate::script_store::SlowScript {
        &self.shared.threads[usize::from(self.id)].slow_script
    }
}

/// Why a script cannot be run.
pub(crate) enum ScriptFailure {
    /// The source is no script.
    Source(script::ScriptError),
    /// Anything else.
    Command(CommandError),
}

impl From<script::ScriptError> for ScriptFailure {
    fn from(error: script::ScriptError) -> Self {
        ScriptFailure::Source(error)
    }
}

impl From<CommandError> for ScriptFailure {
    fn from(error: CommandError) -> Self {
        ScriptFailure::Command(error)
    }
}

/// A running script.
struct Run<'a, 't> {
    tx: &'a mut Tx<'t>,
    host: &'a mut ThreadHost,
    is_read_only: bool,
    started_ms: u64,
    is_slow: bool,
    reach: Reach,
}

impl script::Host for Run<'_, '_> {
    fn call(&mut self, args: &[&[u8]], is_resp3: bool, out: &mut Output) -> Result<(), Interrupt> {
        let proto = if is_resp3 { Proto::Resp3 } else { Proto::Resp2 };
        let command = match self.admit(args) {
            Ok(command) => command,
            Err(error) => {
                Reply::new(out, proto).error(error.text());
                return Ok(());
            }
        };
        let needs = Needs::of(command, args, self.tx.hold.shards().placement());
        if let Err(error) = self.enter(&needs)? {
            Reply::new(out, proto).error(error.text());
            return Ok(());
        }
        let client = Client { proto, ..self.host.session().client };
        let started = self.host.driver.clock().ticks();
        let mark = out.mark();
        let outcome = self.tx.run(command, args, &client, self.host, out);
        self.host.count_command(command, args, &client, started, &outcome, mark, out);
        self.host.monitor(command, args, true);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        let now_ms = self.host.driver.clock().monotonic_ms();
        if now_ms.saturating_sub(self.started_ms) < self.host.shared.settings.script_time_limit_ms() {
            return Ok(());
        }
        let slow = self.host.own_slow_script();
        if !self.is_slow {
            self.is_slow = true;
            slow.set(Slow::Killable);
            self.host.shared.scripts.note_slow(true);
            tracing::warn!(
                "Slow script detected: still in execution after {} ms. You can try killing it with SCRIPT KILL.",
                now_ms - self.started_ms
            );
        }
        if self.tx.wrote {
            slow.note_write();
        }
        self.host.busy_turn(self.tx);
        // A server that stops waits for no slow script, whatever it wrote.
        let is_over = slow.get() == Slow::Killed || self.host.shared.stopping.load(Ordering::Acquire);
        if is_over { Err(Interrupt::Killed) } else { Ok(()) }
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match level {
            0 => tracing::trace!("{text}"),
            1 => tracing::debug!("{text}"),
            2 => tracing::info!("{text}"),
            _ => tracing::warn!("{text}"),
        }
    }

    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool> {
        self.tx.table.resolve(args).is_ok().then_some(true)
    }
}

impl<'t> Run<'_, 't> {
    /// The command that a script calls, if it may.
    fn admit(&self, args: &[&[u8]]) -> Result<&'t Command, CommandError> {
        let table = self.tx.table;
        let command = table.resolve(args).map_err(|_| match table.named(args) {
            Err(_) => CommandError::fixed("ERR Unknown Redis command called from script"),
            Ok(_) => CommandError::fixed("ERR Wrong number of args calling Redis command from script"),
        })?;
        if command.has(Flag::NoScript) {
            return Err(CommandError::NOT_FROM_SCRIPT);
        }
        if self.is_read_only && (command.is_write() || command.has(Flag::MayReplicate)) {
            return Err(CommandError::new("ERR Write commands are not allowed from read-only scripts."));
        }
        if command.is_write() && self.host.shared.refuses_writes() {
            return Err(CommandError::fixed(crate::admit::MISCONF));
        }
        Ok(command)
    }

    /// Enters the shards of a call that were not entered yet.
    fn enter(&mut self, needs: &Needs) -> Result<Result<(), CommandError>, Interrupt> {
        let all: SmallVec<[ShardId; 8]>;
        let ids: &[ShardId] = match needs {
            Needs::Nothing => return Ok(Ok(())),
            Needs::One(id) if self.tx.hold.has(*id) => return Ok(Ok(())),
            Needs::One(id) => std::slice::from_ref(id),
            Needs::Several(ids) => ids,
            Needs::All => {
                all = self.tx.hold.shards().ids().collect();
                &all
            }
        };
        for &id in ids {
            if !self.tx.hold.has(id) {
                self.reach = Reach::Roaming;
                if !self.tx.hold.try_enter(id)
                    && !self.tx.hold.wait(id, false)
                    && let Err(error) = self.enter_taken(id, ids)?
                {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(()))
    }

    /// A shard that the script did not declare is taken.
    fn enter_taken(&mut self, id: ShardId, ids: &[ShardId]) -> Result<Result<(), CommandError>, Interrupt> {
        let roaming = self.tx.hold.shards().roaming();
        if !self.tx.wrote {
            let mut wanted: SmallVec<[ShardId; 8]> = self.tx.hold.entered().into();
            wanted.extend_from_slice(ids);
            wanted.push(roaming);
            self.tx.wanted = wanted;
            return Err(Interrupt::Retry);
        }
        let deadline_ms = self.host.driver.clock().monotonic_ms() + ROAM_WAIT_MS;
        let is_alone = self.tx.hold.try_enter(roaming) || self.tx.hold.wait(roaming, true);
        let clock = self.host.driver.clock();
        if is_alone && self.tx.hold.wait_long(id, || clock.monotonic_ms() >= deadline_ms) {
            return Ok(Ok(()));
        }
        Ok(Err(CommandError::new(
            "TRYAGAIN The script touched a key that it did not declare and that is in use",
        )))
    }
}
