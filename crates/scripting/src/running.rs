//! Runs scripts and functions on a thread: what they may do, and for how long.
//!
//! The shards of a script's declared keys are entered before it runs. Other shards are entered as the script
//! touches them: out of order, so only by trying. If one is taken and the script has not written, the script
//! runs again with that shard among those entered in order. If it has written, it waits (`roaming.rs`). A
//! script that may roam ([`ReachSeen`](lua::ReachSeen)) also enters the *roaming* shard, so only one such
//! script runs at a time.
//!
//! A script that runs for longer than `busy-reply-threshold` is slow: its thread answers `BUSY` to its other
//! clients, other threads answer `BUSY` where a command needs its shards, and `SCRIPT KILL` (for a function
//! `FUNCTION KILL`) ends it. A script that has written nothing is ended when `script-time-max` is over, and when its
//! client is killed.

use effectlog::Lsn;
use engine::{Client, Command, CommandError, Flag, Located, Needs, Outcome, Tx};
use lua::{Interrupt, Reach};
use resp::{Output, Proto, Reply};
use shard::ShardId;
use smallvec::SmallVec;

use crate::host::{ScriptSettings, ScriptThread};
use crate::program::Program;
use crate::roaming::Waiting;
use crate::scripts::Scripts;
use crate::slow::{Slow, SlowKind};
use crate::states::Running;

/// A call of a script or function.
#[derive(Clone, Copy)]
pub(crate) struct ScriptCall<'a> {
    /// The script or function.
    pub(crate) program: &'a Program,
    /// The whole request. The keys start at argument 3.
    pub(crate) request: &'a [&'a [u8]],
    /// Number of keys among the arguments.
    pub(crate) key_count: usize,
    /// Whether it must not write.
    pub(crate) is_read_only: bool,
}

/// Runs a script or function on the entered shards.
pub(crate) fn run<'t>(
    host: &mut ScriptThread<'_>,
    tx: &mut Tx<'t>,
    client: Client,
    call: &ScriptCall,
    reply: &mut Reply,
) -> Result<lua::Errors, CommandError> {
    let client = as_in_script(client);
    let ScriptSettings { trusted_after, time_max_ms, .. } = (host.settings)();
    let states = host.states();
    let mut running = states.begin();
    let (scripts, thread, started_ms) = (states.scripts, states.thread, states.clock.monotonic_ms());
    host.thread.enter_script(&client);
    let lacks_room = !call.program.flags().allow_oom && host.lacks_room;
    let mut run = ScriptRun {
        tx,
        host,
        scripts,
        thread,
        libraries_version: running.libraries_version,
        call: *call,
        lacks_room,
        started_ms,
        time_max_ms,
        is_slow: false,
        reach: Reach::Declared,
        wanted: SmallVec::new(),
        lent_count: 0,
        is_watched: call.program.reach().may_roam(trusted_after),
    };
    let outcome = run.run(&mut running, reply);
    let ScriptRun { reach, is_slow, wanted, lent_count, .. } = run;
    tx.is_silent = false;
    let may_be_noted = reach == Reach::Roaming || matches!(outcome, lua::Outcome::Returned(_));
    if may_be_noted && call.program.reach().note(reach, trusted_after) {
        scripts.roamed.add(call.program.name());
    }
    if is_slow {
        scripts.end_slow(thread);
    }
    host.thread.leave_script(is_slow, lent_count);
    host.states().end(running);
    match outcome {
        lua::Outcome::Missing => Err(CommandError::NO_SCRIPT),
        lua::Outcome::Retry => Err(CommandError::again(wanted)),
        lua::Outcome::Returned(errors) | lua::Outcome::Raised(errors) => Ok(errors),
    }
}

/// A running script or function.
struct ScriptRun<'a, 't, 'h> {
    tx: &'a mut Tx<'t>,
    host: &'a mut ScriptThread<'h>,
    scripts: &'static Scripts,
    /// The thread's number.
    thread: usize,
    /// The version of the libraries that the function belongs to.
    libraries_version: u64,
    call: ScriptCall<'a>,
    /// Memory is short: commands that need memory are refused until the script has written.
    lacks_room: bool,
    started_ms: u64,
    /// `script-time-max`, as of the last tick.
    time_max_ms: u64,
    is_slow: bool,
    reach: Reach,
    /// If the script runs again: the shards that it needs then.
    wanted: SmallVec<[ShardId; 8]>,
    /// How many shards it has lent.
    lent_count: usize,
    /// The script is not trusted yet, so the keys that it touches are checked.
    is_watched: bool,
}

impl ScriptRun<'_, '_, '_> {
    /// Runs the program in its Lua state.
    fn run(&mut self, running: &mut Running, reply: &mut Reply) -> lua::Outcome {
        let ScriptCall { program, request, key_count, .. } = self.call;
        let (keys, args) = request[3..].split_at(key_count);
        match (program, &mut running.engine, &mut running.functions) {
            (Program::Script(script), Some(engine), _) => engine.eval(script.sha(), keys, args, self, reply),
            (Program::Function(library, index), _, Some(functions)) => {
                functions.call(library, *index, keys, args, self, reply)
            }
            (Program::Script(_), None, _) | (Program::Function(..), _, None) => lua::Outcome::Missing,
        }
    }
}

impl lua::Host for ScriptRun<'_, '_, '_> {
    fn call(&mut self, args: &[&[u8]], is_resp3: bool, out: &mut Output) -> Result<(), Interrupt> {
        let proto = if is_resp3 { Proto::Resp3 } else { Proto::Resp2 };
        self.check_time()?;
        let held_nothing = self.tx.hold.entered().is_empty();
        let command = match self.admit(args) {
            Ok(command) => command,
            Err(error) => return self.refuse(args, &error, proto, out),
        };
        if self.is_watched && self.reach == Reach::Declared && self.builds_names(command, args) {
            self.reach = Reach::Roaming;
        }
        let located = self.enter_for(command, args)?;
        // The server may have become a replica meanwhile.
        if held_nothing && let Err(error) = self.admit(args) {
            return self.refuse(args, &error, proto, out);
        }
        self.tx.located = located;
        while let Outcome::Again(shards) = self.host.thread.run(self.tx, command, args, proto, out) {
            self.enter(&Needs::several(shards.into_vec().into()))?;
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        if self.host.shutdown.ends_script(self.thread as u16, self.tx.wrote) {
            return Err(Interrupt::Killed);
        }
        let ScriptSettings { slow_after_ms, time_max_ms, .. } = (self.host.settings)();
        self.time_max_ms = time_max_ms;
        self.check_time()?;
        self.host.thread.breathe();
        if !self.tx.wrote && self.host.thread.is_caller_killed() {
            return Err(Interrupt::Killed);
        }
        let now_ms = self.host.states().clock.monotonic_ms();
        if now_ms.saturating_sub(self.started_ms) < slow_after_ms {
            return Ok(());
        }
        if !self.is_slow {
            self.is_slow = true;
            let call = self.call.program.slow_call(self.call.request, self.started_ms);
            let family = if call.kind == SlowKind::Function { "FUNCTION" } else { "SCRIPT" };
            self.scripts.begin_slow(self.thread, call, self.tx.wrote);
            tracing::warn!(
                "Slow script detected: still in execution after {} ms. You can try killing it with {family} KILL.",
                now_ms - self.started_ms
            );
        }
        let slow = self.scripts.thread(self.thread);
        if self.tx.wrote {
            slow.note_write();
        }
        self.host.thread.serve_others(self.tx);
        // A server that shuts down does not wait for slow scripts, even if they have written.
        let is_over = slow.get() == Slow::Killed || self.scripts.is_stopping();
        if is_over { Err(Interrupt::Killed) } else { Ok(()) }
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        (self.scripts.log)(level, text);
    }

    fn set_stated(&mut self, is_stated: bool) {
        self.tx.is_silent = !is_stated;
    }

    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = self.tx.table.named(args).ok()?;
        Some(self.host.thread.permit(command, args, false).is_ok())
    }
}

/// The client on whose behalf a script of `client` calls commands. Elements that the script pops belong to
/// the script: they are never put back, even if the client is gone.
fn as_in_script(client: Client) -> Client {
    Client { deny_blocking: true, in_script: true, proto: Proto::Resp2, may_be_gone: false, ..client }
}

impl<'t> ScriptRun<'_, 't, '_> {
    /// Ends the script if it has written nothing and exceeds `script-time-max`. A script that has written
    /// continues, because its changes must not be applied by half.
    #[inline]
    fn check_time(&mut self) -> Result<(), Interrupt> {
        if self.time_max_ms == u64::MAX || self.tx.wrote {
            return Ok(());
        }
        let spent_ms = self.host.states().clock.monotonic_ms().saturating_sub(self.started_ms);
        if spent_ms < self.time_max_ms { Ok(()) } else { Err(Interrupt::TimeOver) }
    }

    fn refuse(
        &mut self,
        args: &[&[u8]],
        error: &CommandError,
        proto: Proto,
        out: &mut Output,
    ) -> Result<(), Interrupt> {
        let known = self.tx.table.named(args).ok().map(|command| command.id);
        self.host.thread.note_refusal(known, error);
        Reply::new(out, proto).error(error.text());
        Ok(())
    }

    /// The command that a script calls, if it is allowed.
    fn admit(&mut self, args: &[&[u8]]) -> Result<&'t Command, CommandError> {
        let table = self.tx.table;
        let command = table.resolve(args).map_err(|_| match table.named(args) {
            Err(_) => CommandError::fixed("ERR Unknown Redis command called from script"),
            Ok(_) => CommandError::fixed("ERR Wrong number of args calling Redis command from script"),
        })?;
        if command.has(Flag::NoScript) {
            return Err(CommandError::NOT_FROM_SCRIPT);
        }
        let standing = if self.tx.keeps_due { None } else { (self.host.standing)() };
        let (read_only, stale) =
            standing.map_or((None, None), |standing| (standing.read_only, standing.stale));
        if stale.is_some() && !command.has(Flag::Stale) {
            return Err(CommandError::fixed("ERR Can not execute the command on a stale replica"));
        }
        self.host.thread.permit(command, args, true)?;
        if self.call.is_read_only && (command.writes(args) || command.has(Flag::MayReplicate)) {
            return Err(CommandError::new("ERR Write commands are not allowed from read-only scripts."));
        }
        // A script that has written is not stopped half-way by conditions that may change at any moment.
        let may_be_refused = command.writes(args) && !self.tx.wrote;
        if may_be_refused && let Some(error) = read_only {
            return Err(error);
        }
        if self.lacks_room && command.has(Flag::DenyOom) {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        self.lacks_room &= !command.is_write();
        if may_be_refused && let Some(error) = (self.host.refuses_writes)() {
            return Err(error);
        }
        Ok(command)
    }

    /// Whether a call touches a key that is neither declared nor always in the shard of a declared one,
    /// because of its hash tag or a colocation rule. Such a key may be in an entered shard only by accident.
    fn builds_names(&self, command: &Command, args: &[&[u8]]) -> bool {
        let declared = &self.call.request[3..3 + self.call.key_count];
        let placement = self.tx.hold.shards().placement();
        let is_declared = |key: &[u8]| {
            let part = placement.placing_part(key);
            declared.iter().any(|known| placement.placing_part(known) == part)
        };
        command.keys(args).is_some_and(|keys| keys.iter().any(|key| !is_declared(args[key.index])))
    }

    /// Enters the shards of a call. If the call has exactly one key, returns where that key is.
    #[inline]
    fn enter_for(&mut self, command: &Command, args: &[&[u8]]) -> Result<Located, Interrupt> {
        let placement = self.tx.hold.shards().placement();
        let Some(index) = command.lone_key(args) else {
            self.enter(&Needs::of_no_lone_key(command, args, placement))?;
            return Ok(Located::default());
        };
        let located = Located::new(args[index], placement.locate(args[index]));
        self.enter(&Needs::One(located.shard()))?;
        Ok(located)
    }

    /// Enters those shards of a call that are not entered yet.
    fn enter(&mut self, needs: &Needs) -> Result<(), Interrupt> {
        let all: SmallVec<[ShardId; 8]>;
        let ids: &[ShardId] = match needs {
            Needs::Nothing => return Ok(()),
            Needs::One(id) if self.tx.hold.has(*id) => return Ok(()),
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
                if !self.tx.hold.try_enter(id) && !self.tx.hold.wait(id, false) {
                    self.enter_taken(id, ids)?;
                }
            }
        }
        // The script held no shard, and the libraries have been replaced. Data that it reads now is newer
        // than its own code.
        if self.is_outdated() && !self.tx.wrote {
            return Err(self.again(ids));
        }
        Ok(())
    }

    /// Whether this is a function and its libraries have been replaced.
    fn is_outdated(&self) -> bool {
        matches!(self.call.program, Program::Function(..))
            && self.scripts.libraries.version() != self.libraries_version
    }

    /// Makes the script run again with these shards, besides those that it holds and the roaming one.
    fn again(&mut self, ids: &[ShardId]) -> Interrupt {
        self.wanted = self.tx.hold.entered().into();
        self.wanted.extend_from_slice(ids);
        self.wanted.push(self.tx.hold.shards().roaming());
        Interrupt::Retry
    }

    /// Enters an undeclared shard that is taken: by running again or, if the script has written, by waiting.
    fn enter_taken(&mut self, id: ShardId, ids: &[ShardId]) -> Result<(), Interrupt> {
        if !self.tx.wrote {
            return Err(self.again(ids));
        }
        let roaming = self.tx.hold.shards().roaming();
        if !self.tx.hold.has(roaming) {
            self.wait_for(roaming);
        }
        if !self.tx.hold.has(id) {
            self.wait_for(id);
        }
        Ok(())
    }

    /// Waits for a shard as long as necessary: the changes of the script cannot be undone, so it must
    /// continue.
    fn wait_for(&mut self, id: ShardId) {
        let Some(mut waiting) = Waiting::begin(&mut self.tx.hold, id) else { return };
        let mut written = Lsn::NONE;
        if id == self.tx.hold.shards().roaming() {
            // The script lends shards that it has changed, so its changes so far must be committed before the
            // borrower's. Only here is a script more than one unit, so a crash may keep only the first. Its
            // next run enters the roaming shard at once.
            self.tx.commit();
            // Other clients may be served meanwhile, but this slice belongs to the script's client.
            written = std::mem::take(&mut self.tx.written);
        }
        self.tx.hold.shards().note_asker(true);
        let mut lent_count = 0;
        while !waiting.look(&mut self.tx.hold) {
            lent_count = lent_count.max(waiting.lent_count());
            waiting.pause();
            // Once the script is slow, its thread's other clients are served. It cannot be ended here, not
            // even by a shutdown: the shard comes when its holder is done.
            let _ = lua::Host::tick(self);
        }
        self.tx.hold.shards().note_asker(false);
        self.lent_count += lent_count;
        if written != Lsn::NONE {
            // Checked when the shards are left, even if nothing more is recorded.
            self.tx.written = written;
            self.tx.hold.note_unpublished(true);
        }
    }
}
