//! Runs scripts on a thread of the server: provides the caller's permissions, and serves other clients meanwhile.
//!
//! The commands of a script have a client of their own, with a session like any other. The session of the client that
//! called the script is put aside while it runs.
//!
//! Not here: scripts and their commands (crate `scripting`), and the rights of other clients while one is slow
//! (`life/busy.rs`).

use acl::{Context, Lack};
use clients::session::{Part, Session};
use engine::{Client, Command, CommandError, CommandId, CommandResult, Outcome, OwnCall, Tx};
use observe::{Call, RequestSource};
use proactor::ConnId;
use replication::Standing as Refused;
use resp::{Output, Proto, Reply};
use scripting::{Function, ScriptHost, ScriptSettings, ScriptThread, Standing, States};

use crate::life::admit::refuses_all_writes;
use crate::life::gather::gather;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::{ThreadHost, running};

/// Runs a command of `scripting`.
pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let (shared, command) = (host.shared, call.command.id);
    let settings = &shared.settings;
    let mut thread = ScriptThread {
        lacks_room: call.store.client.lacks_room && settings.memory_bytes_max() > 0,
        thread: host,
        shutdown: &shared.shutdown,
        settings: &|| ScriptSettings {
            slow_after_ms: settings.script_time_limit_ms(),
            time_max_ms: settings.script_time_max_ms(),
            trusted_after: settings.script_trusted_after(),
        },
        standing: &|| standing(shared),
        refuses_writes: &|| refuses_all_writes(shared),
        errors: None,
        answer: None,
    };
    let result = function(&mut call.on(&mut thread));
    let ScriptThread { errors, answer, .. } = thread;
    if let Some(errors) = errors {
        let uncounted = errors.uncounted.iter().map(|(code, count)| (&**code, *count));
        host.reports.accounting.count_errors_of_script(command, uncounted);
    }
    if let Some(answer) = answer {
        let finish = move |_: Vec<Part>, reply: &mut Reply<'_>| {
            if let Err(error) = answer(reply) {
                reply.error(error.text());
            }
        };
        let session = running(&mut host.current);
        gather(session, &mut host.net, Message::PassScript, Box::new(finish));
    }
    result
}

/// What this server refuses to scripts because of its role, if it refuses anything.
fn standing(shared: &Shared) -> Option<Standing> {
    let may_refuse = shared.following.is_replica() || shared.journal.synced.is_in_doubt();
    may_refuse.then(|| {
        let standing = shared.standing();
        Standing {
            read_only: standing.is_read_only.then_some(Refused::READ_ONLY),
            stale: standing.refuses_reads(),
        }
    })
}

impl ScriptHost for ThreadHost {
    fn lend_states(&mut self) -> &mut States {
        &mut self.scripts.lua
    }

    fn enter_script(&mut self, client: &Client) {
        let mut session = match self.scripts.aside.script.take() {
            Some(session) => session,
            None => Box::new(Session::new(*client, self.shared.users.access(), self.net.now_ms)),
        };
        session.client = *client;
        // Scripts of a client whose commands must be checked do not travel. So if the caller is not here, there is
        // nothing to check.
        let caller = self.current.as_deref().filter(|caller| caller.client.id == client.id);
        match caller.filter(|caller| caller.access.is_limited()) {
            Some(caller) => session.access = caller.access.clone(),
            None => session.access.lift_limits(),
        }
        self.scripts.aside.caller = self.current.replace(session);
        self.scripts.is_caller_killed = false;
    }

    fn is_caller_killed(&self) -> bool {
        // The session that was put aside may be another client's, if the script was delegated to this thread.
        let id_of = |session: &Option<Box<Session>>| session.as_deref().map(|session| session.client.id);
        self.scripts.is_caller_killed && id_of(&self.scripts.aside.caller) == id_of(&self.current)
    }

    fn leave_script(&mut self, was_slow: bool, lent_count: usize) {
        self.reports.accounting.stats().lent.add(lent_count as u64);
        self.scripts.aside.script = self.current.take();
        let caller = self.scripts.aside.caller.take();
        if was_slow && let Some(caller) = &caller {
            self.net.driver.resume_reading(ConnId::from_bits(caller.client.connection));
        }
        self.current = caller;
    }

    fn permit(&mut self, command: &Command, args: &[&[u8]], is_about_to_run: bool) -> CommandResult {
        if !self.session().access.is_limited() {
            return Ok(());
        }
        let refused = if is_about_to_run {
            self.permit_in(Context::Lua, command, args).err()
        } else {
            let database_count = self.shared.settings.databases();
            let caller_db = self.session().caller_db(database_count);
            self.session().access.user().check(caller_db, command, args).err().map(Lack::Permission)
        };
        match refused {
            Some(Lack::Permission(denied)) => {
                Err(denied.refusal_in_script(self.session().access.user(), command))
            }
            _ => Ok(()),
        }
    }

    fn run<'t>(
        &mut self,
        tx: &mut Tx<'t>,
        command: &'t Command,
        args: &[&[u8]],
        proto: Proto,
        out: &mut Output,
    ) -> Outcome {
        let client = Client { proto, ..self.session().client };
        let started = self.net.driver.clock().ticks();
        let mark = out.mark();
        let mut outcome = tx.run(command, args, &client, self, out);
        if !matches!(outcome, Outcome::Again(_)) {
            let call = Call { command, args, started, mark, out, source: RequestSource::Within };
            let (current, clock) = (running(&mut self.current), self.net.driver.clock());
            self.reports.count(&call, &client, &mut outcome, Some(current), clock);
            self.reports.monitor(command, args, current, self.shared, clock);
        }
        outcome
    }

    fn note_refusal(&mut self, command: Option<CommandId>, error: &CommandError) {
        self.reports.accounting.count_rejection(command, error);
    }

    fn serve_others(&mut self, tx: &mut Tx<'_>) {
        self.busy_turn(tx);
    }
}
