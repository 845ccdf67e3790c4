//! Scripts and functions on one thread: what a running script may do, and for how long.
//!
//! The shards of a script's keys are entered before it runs. If it touches others, they are entered as it touches
//! them: out of order, so only by trying. A shard that is taken makes the script run again with it among those
//! entered in order, as long as nothing was written. Once it has written it waits (`roaming.rs`). A script that may roam
//! ([`ReachSeen`]) also enters the *roaming* shard, so that it is the only one of its kind.
//!
//! A script that runs for longer than `busy-reply-threshold` is slow: its thread answers `BUSY` to its other clients, the
//! other threads answer `BUSY` where a command meets its shards, and `SCRIPT KILL`, or of a
//! function `FUNCTION KILL`, ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use acl::{Context, Lack};
use command::{Callee, Client, Command, CommandError, Flag, Needs, Outcome, Tx};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use script::{
    Engine, Flags, FunctionEngine, Interrupt, Library, LibrarySet, Reach, ReachSeen, Script, ScriptError,
    Sha1Hex,
};
use settings::Settings;
use shard::{ShardId, hash_tag};
use smallvec::SmallVec;

use crate::scripts::libraries::Loading;
use crate::scripts::roaming::Waiting;
use crate::scripts::store::{Slow, SlowCall, SlowKind};
use crate::session::Session;
use crate::thread::ThreadHost;

/// The script engine of a thread.
pub(crate) struct Scripting {
    /// Made when the first script comes; out while one runs.
    engine: Option<Box<Engine>>,
    /// The same for functions.
    functions: Option<Box<FunctionEngine>>,
    /// The libraries of this version, as far as this thread knows.
    libraries: Arc<LibrarySet>,
    libraries_version: u64,
    memory_bytes_max: usize,
    is_running: bool,
    /// The client that commands of scripts see; out while one runs.
    session: Option<Box<Session>>,
    /// The client that called the script that runs.
    caller: Option<Box<Session>>,
}

impl Scripting {
    pub(crate) fn new(settings: &Settings) -> Self {
        Scripting {
            engine: None,
            functions: None,
            libraries: Arc::default(),
            libraries_version: 0,
            memory_bytes_max: settings.script_memory_bytes_max(),
            is_running: false,
            session: None,
            caller: None,
        }
    }

    fn engine(&mut self) -> &mut Engine {
        let memory_bytes_max = self.memory_bytes_max;
        self.engine.get_or_insert_with(|| Box::new(Engine::new(memory_bytes_max)))
    }

    fn functions(&mut self) -> &mut FunctionEngine {
        let memory_bytes_max = self.memory_bytes_max;
        self.functions.get_or_insert_with(|| Box::new(FunctionEngine::new(memory_bytes_max)))
    }
}

/// What can be run.
pub(crate) enum Program {
    /// A script, compiled on this thread.
    Script(Arc<Script>),
    /// A function of a library, by its number there.
    Function(Arc<Library>, usize),
}

impl Program {
    /// What it says about itself.
    pub(crate) fn flags(&self) -> Flags {
        match self {
            Program::Script(script) => script.flags(),
            Program::Function(library, index) => library.functions()[*index].flags,
        }
    }

    /// What it is known by: the SHA-1 of a script, the name of a function.
    fn name(&self) -> &[u8] {
        match self {
            Program::Script(script) => script.sha().as_str().as_bytes(),
            Program::Function(library, index) => &library.functions()[*index].name,
        }
    }

    fn reach(&self) -> &ReachSeen {
        match self {
            Program::Script(script) => script.reach(),
            Program::Function(library, index) => &library.functions()[*index].reach,
        }
    }

    /// How others are told of `call` when it is slow.
    fn slow_call(&self, call: &Call, started_ms: u64) -> SlowCall {
        let (kind, name) = match self {
            Program::Script(_) => (SlowKind::Script, Vec::new()),
            Program::Function(library, index) => {
                (SlowKind::Function, library.functions()[*index].name.clone())
            }
        };
        let request = call.request.iter().map(|&arg| arg.into()).collect();
        SlowCall { kind, name, request, started_ms }
    }
}

/// A call of a script or function.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// What is called.
    pub(crate) program: &'a Program,
    /// The whole request: the keys begin at argument 3.
    pub(crate) request: &'a [&'a [u8]],
    /// How many of its arguments are keys.
    pub(crate) key_count: usize,
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
                if self.shared.scripts.roamed.has(sha.as_str().as_bytes()) {
                    script.reach().note(Reach::Roaming, 0);
                }
                // Another thread may have been first: its one is the script, so that all forget the same.
                self.shared.scripts.cache().insert(script, script::Origin::Eval)
            }
        };
        self.scripting.engine().compile(&script)?;
        Ok(script)
    }

    /// The function of this name, as of when the libraries were renewed.
    pub(crate) fn function(&self, name: &[u8]) -> Option<Program> {
        let (library, index) = self.scripting.libraries.function(name)?;
        Some(Program::Function(library.clone(), index))
    }

    /// Takes the libraries as they are now.
    #[inline]
    pub(crate) fn renew_libraries(&mut self) {
        let is_new = self.shared.libraries.version() != self.scripting.libraries_version;
        if is_new && !self.scripting.is_running {
            self.keep_libraries();
        }
    }

    /// The same, and lets go of all others that are loaded on this thread.
    #[cold]
    fn keep_libraries(&mut self) {
        let Scripting { functions, libraries, libraries_version, .. } = &mut self.scripting;
        (*libraries_version, *libraries) = self.shared.libraries.get();
        let all = libraries.iter().flat_map(|library| library.functions());
        for function in all.filter(|function| self.shared.scripts.roamed.has(&function.name)) {
            function.reach.note(Reach::Roaming, 0);
        }
        if let Some(functions) = functions {
            functions.keep_only(libraries);
        }
        self.note_state_bytes();
    }

    /// Loads the library of a function on this thread, if it is not.
    pub(crate) fn load_library_of(&mut self, program: &Program) -> Result<(), ScriptError> {
        let Program::Function(library, _) = program else { return Ok(()) };
        let mut loading = Loading::unlimited(self.driver.clock(), self.shared);
        self.scripting.functions().load_again(library, &mut loading)
    }

    /// Makes `change` the libraries of all threads, which it may load here; all shards are entered.
    pub(crate) fn change_libraries<R>(
        &mut self,
        change: impl FnOnce(&mut LibrarySet, &mut FunctionEngine, &mut Loading) -> Result<R, ScriptFailure>,
    ) -> Result<R, ScriptFailure> {
        let mut set = LibrarySet::clone(&self.shared.libraries.get().1);
        let mut loading = Loading::limited(self.driver.clock(), self.shared);
        let mut result = change(&mut set, self.scripting.functions(), &mut loading);
        if set.memory_bytes() > self.scripting.memory_bytes_max {
            result = result.and(Err(CommandError::LIBRARIES_TOO_LARGE.into()));
        }
        if result.is_ok() {
            self.shared.libraries.set(set);
        }
        self.keep_libraries();
        result
    }

    /// What a call runs; none if it will be refused.
    pub(crate) fn called(&mut self, args: &[&[u8]], callee: Callee) -> Option<Program> {
        let &what = args.get(1)?;
        if self.scripting.is_running {
            // The engine is out.
            return None;
        }
        match callee {
            Callee::Source => self.script(&Wanted::Source(what)).ok().map(Program::Script),
            Callee::Sha1 => self.script(&Wanted::Named(what)).ok().map(Program::Script),
            Callee::Function => {
                self.renew_libraries();
                self.function(what)
            }
        }
    }

    /// The shards that a script or function needs beside those of its keys.
    pub(crate) fn script_needs(&mut self, args: &[&[u8]], callee: Callee) -> Needs {
        let shards = &self.shared.shards;
        let roaming = if shards.len() > 1 { Needs::One(shards.roaming()) } else { Needs::Nothing };
        let trusted_after = self.shared.settings.script_trusted_after();
        match self.called(args, callee) {
            Some(program) if !program.reach().may_roam(trusted_after) => Needs::Nothing,
            // One that is unknown may be known when its turn comes.
            _ => roaming,
        }
    }

    /// Runs a script or function on the entered shards.
    pub(crate) fn run_program<'t>(
        &mut self,
        tx: &mut Tx<'t>,
        client: Client,
        call: &Call,
        reply: &mut Reply,
    ) -> Result<script::Errors, CommandError> {
        let (mut engine, mut functions) = (self.scripting.engine.take(), self.scripting.functions.take());
        let client = as_in_script(client);
        let mut session = match self.scripting.session.take() {
            Some(session) => session,
            None => Box::new(Session::new(client, self.shared.users.access(), self.now_ms)),
        };
        session.client = client;
        // Scripts of a client whose commands must be looked at do not travel: if it is not here, there is nothing to look at.
        let caller = self.current.as_deref().filter(|caller| caller.client.id == client.id);
        match caller.filter(|caller| caller.access.is_limited()) {
            Some(caller) => session.access = caller.access.clone(),
            None => session.access.lift_limits(),
        }
        self.scripting.caller = self.current.replace(session);
        self.scripting.is_running = true;
        self.own_slow_script().note_running(true);
        let started_ms = self.driver.clock().monotonic_ms();
        let trusted_after = self.shared.settings.script_trusted_after();
        let lacks_room = !call.program.flags().allow_oom && self.lacked_room(&client);
        let mut run = Run {
            tx,
            host: self,
            call: *call,
            lacks_room,
            started_ms,
            is_slow: false,
            reach: Reach::Declared,
            wanted: SmallVec::new(),
            is_watched: call.program.reach().may_roam(trusted_after),
        };
        let outcome = run.run(&mut engine, &mut functions, reply);
        let (reach, is_slow, wanted) = (run.reach, run.is_slow, run.wanted);
        run.tx.is_silent = false;
        let may_be_noted = reach == Reach::Roaming || matches!(outcome, script::Outcome::Returned(_));
        if may_be_noted && call.program.reach().note(reach, trusted_after) {
            self.shared.scripts.roamed.add(call.program.name());
        }
        if is_slow {
            self.own_slow_script().end();
            self.shared.scripts.note_slow(false);
        }
        self.scripting.is_running = false;
        self.own_slow_script().note_running(false);
        self.scripting.session = self.current.take();
        let caller = self.scripting.caller.take();
        if is_slow && let Some(caller) = &caller {
            self.driver.resume_reading(ConnId::from_bits(caller.client.connection));
        }
        self.current = caller;
        (self.scripting.engine, self.scripting.functions) = (engine, functions);
        self.note_state_bytes();
        match outcome {
            script::Outcome::Missing => Err(CommandError::NO_SCRIPT),
            script::Outcome::Retry => Err(CommandError::again(wanted)),
            script::Outcome::Returned(errors) | script::Outcome::Raised(errors) => Ok(errors),
        }
    }

    /// Lets others see how much memory the Lua states of this thread take.
    pub(crate) fn note_state_bytes(&mut self) {
        let Scripting { engine, functions, .. } = &self.scripting;
        let script_bytes = engine.as_ref().map_or(0, |engine| engine.memory_bytes());
        let function_bytes = functions.as_ref().map_or(0, |functions| functions.memory_bytes());
        self.stats().script_state_bytes.set(script_bytes as u64);
        self.stats().function_state_bytes.set(function_bytes as u64);
    }

    /// The client whose command runs; of a command in a script the one that called the script.
    pub(crate) fn caller(&self) -> &Session {
        let current = self.current.as_deref().expect("a command runs for a client");
        self.scripting.caller.as_deref().filter(|_| current.client.in_script).unwrap_or(current)
    }

    fn own_slow_script(&self) -> &'static crate::scripts::store::SlowScript {
        &self.shared.threads[usize::from(self.id)].slow_script
    }
}

/// Why a script cannot be run.
pub(crate) enum ScriptFailure {
    /// The source is no script.
    Source(ScriptError),
    /// Anything else.
    Command(CommandError),
}

impl std::fmt::Display for ScriptFailure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScriptFailure::Source(error) => error.fmt(out),
            ScriptFailure::Command(error) => error.fmt(out),
        }
    }
}

impl From<ScriptError> for ScriptFailure {
    fn from(error: ScriptError) -> Self {
        ScriptFailure::Source(error)
    }
}

impl From<CommandError> for ScriptFailure {
    fn from(error: CommandError) -> Self {
        ScriptFailure::Command(error)
    }
}

/// A running script or function.
struct Run<'a, 't> {
    tx: &'a mut Tx<'t>,
    host: &'a mut ThreadHost,
    call: Call<'a>,
    /// There is no room; what needs some is refused, until it has written.
    lacks_room: bool,
    started_ms: u64,
    is_slow: bool,
    reach: Reach,
    /// With which shards it is to run again, when it is.
    wanted: SmallVec<[ShardId; 8]>,
    /// It is not trusted yet: which keys it touches is looked at.
    is_watched: bool,
}

impl Run<'_, '_> {
    /// Runs the program in the state that has it.
    fn run(
        &mut self,
        engine: &mut Option<Box<Engine>>,
        functions: &mut Option<Box<FunctionEngine>>,
        reply: &mut Reply,
    ) -> script::Outcome {
        let Call { program, request, key_count, .. } = self.call;
        let (keys, args) = request[3..].split_at(key_count);
        match (program, engine, functions) {
            (Program::Script(script), Some(engine), _) => engine.eval(script.sha(), keys, args, self, reply),
            (Program::Function(library, index), _, Some(functions)) => {
                functions.call(library, *index, keys, args, self, reply)
            }
            (Program::Script(_), None, _) | (Program::Function(..), _, None) => script::Outcome::Missing,
        }
    }
}

impl script::Host for Run<'_, '_> {
    fn call(&mut self, args: &[&[u8]], is_resp3: bool, out: &mut Output) -> Result<(), Interrupt> {
        let proto = if is_resp3 { Proto::Resp3 } else { Proto::Resp2 };
        let command = match self.admit(args) {
            Ok(command) => command,
            Err(error) => {
                let known = self.tx.table.named(args).ok().map(|command| command.id);
                self.host.count_rejection(known, &error);
                Reply::new(out, proto).error(error.text());
                return Ok(());
            }
        };
        if self.is_watched && self.reach == Reach::Declared && self.builds_names(command, args) {
            self.reach = Reach::Roaming;
        }
        let needs = Needs::of(command, args, self.tx.hold.shards().placement());
        self.enter(&needs)?;
        let client = Client { proto, ..self.host.session().client };
        let started = self.host.driver.clock().ticks();
        let mark = out.mark();
        let mut outcome = self.tx.run(command, args, &client, self.host, out);
        while let Outcome::Again(shards) = outcome {
            self.enter(&Needs::several(shards.into_vec().into()))?;
            outcome = self.tx.run(command, args, &client, self.host, out);
        }
        self.host.count_command(command, args, &client, started, &mut outcome, mark, out);
        self.host.monitor(command, args, true);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Interrupt> {
        if self.host.shared.shutdown.ends_script(self.host.id, self.tx.wrote) {
            return Err(Interrupt::Killed);
        }
        let now_ms = self.host.driver.clock().monotonic_ms();
        if now_ms.saturating_sub(self.started_ms) < self.host.shared.settings.script_time_limit_ms() {
            return Ok(());
        }
        let slow = self.host.own_slow_script();
        if !self.is_slow {
            self.is_slow = true;
            let call = self.call.program.slow_call(&self.call, self.started_ms);
            let family = if call.kind == SlowKind::Function { "FUNCTION" } else { "SCRIPT" };
            slow.begin(call, self.tx.wrote);
            self.host.shared.scripts.note_slow(true);
            tracing::warn!(
                "Slow script detected: still in execution after {} ms. You can try killing it with {family} KILL.",
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
        log_line(level, text);
    }

    fn set_stated(&mut self, is_stated: bool) {
        self.tx.is_silent = !is_stated;
    }

    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = self.tx.table.named(args).ok()?;
        let access = &self.host.session().access;
        Some(!access.is_limited() || access.user().check(command, args).is_ok())
    }
}

/// The client of the commands that a script of `client` calls. What the script pops is its own: nothing of it is put back,
/// whoever is gone.
fn as_in_script(client: Client) -> Client {
    Client { deny_blocking: true, in_script: true, proto: Proto::Resp2, may_be_gone: false, ..client }
}

/// Writes a line that a script logs.
pub(crate) fn log_line(level: i64, text: &[u8]) {
    let text = crate::process::log::one_line(text);
    match level {
        0 => tracing::trace!("{text}"),
        1 => tracing::debug!("{text}"),
        2 => tracing::info!("{text}"),
        _ => tracing::warn!("{text}"),
    }
}

impl<'t> Run<'_, 't> {
    /// The command that a script calls, if it may.
    fn admit(&mut self, args: &[&[u8]]) -> Result<&'t Command, CommandError> {
        let table = self.tx.table;
        let command = table.resolve(args).map_err(|_| match table.named(args) {
            Err(_) => CommandError::fixed("ERR Unknown Redis command called from script"),
            Ok(_) => CommandError::fixed("ERR Wrong number of args calling Redis command from script"),
        })?;
        if command.has(Flag::NoScript) {
            return Err(CommandError::NOT_FROM_SCRIPT);
        }
        if self.host.session().access.is_limited()
            && let Err(Lack::Permission(denied)) = self.host.permit_in(Context::Lua, command, args)
        {
            return Err(denied.refusal_in_script(self.host.session().access.user(), command));
        }
        if self.call.is_read_only && (command.is_write() || command.has(Flag::MayReplicate)) {
            return Err(CommandError::new("ERR Write commands are not allowed from read-only scripts."));
        }
        if self.lacks_room && command.has(Flag::DenyOom) {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        self.lacks_room &= !command.is_write();
        if command.is_write() && self.host.shared.refuses_writes() {
            return Err(CommandError::fixed(crate::life::admit::MISCONF));
        }
        Ok(command)
    }

    /// Whether a call touches a key that is neither declared nor has the hash tag of one that is: then it is by chance
    /// that it lies where a declared one does.
    fn builds_names(&self, command: &Command, args: &[&[u8]]) -> bool {
        let declared = &self.call.request[3..3 + self.call.key_count];
        let is_declared = |key: &[u8]| declared.iter().any(|known| hash_tag(known) == hash_tag(key));
        command.keys(args).is_some_and(|keys| keys.iter().any(|key| !is_declared(args[key.index])))
    }

    /// Enters the shards of a call that were not entered yet.
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
        // It held nothing, and meanwhile there are other libraries: what it reads now comes after them.
        if self.is_outdated() && !self.tx.wrote {
            return Err(self.again(ids));
        }
        Ok(())
    }

    /// Whether this is a function of libraries that were changed since.
    fn is_outdated(&self) -> bool {
        matches!(self.call.program, Program::Function(..))
            && self.host.shared.libraries.version() != self.host.scripting.libraries_version
    }

    /// The script runs again with these shards beside those that it holds.
    fn again(&mut self, ids: &[ShardId]) -> Interrupt {
        self.wanted = self.tx.hold.entered().into();
        self.wanted.extend_from_slice(ids);
        self.wanted.push(self.tx.hold.shards().roaming());
        Interrupt::Retry
    }

    /// A shard that the script did not declare is taken.
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

    /// Waits for a shard for as long as it takes: what the script has written cannot be undone, so it must go on.
    fn wait_for(&mut self, id: ShardId) {
        let Some(mut waiting) = Waiting::begin(&mut self.tx.hold, id) else { return };
        // It may lend what it has changed, so what it did so far has to come before what the borrower does.
        self.tx.commit();
        self.tx.hold.shards().note_asker(true);
        let mut lent_count = 0;
        while !waiting.look(&mut self.tx.hold) {
            lent_count = lent_count.max(waiting.lent_count());
            waiting.pause();
            // When it has become slow, its thread's other clients are served. It cannot be ended here, not even by the
            // end of the server: the shard comes when those who hold it have ended.
            let _ = script::Host::tick(self);
        }
        self.tx.hold.shards().note_asker(false);
        self.host.stats().lent.add(lent_count as u64);
    }
}
