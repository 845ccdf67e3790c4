//! Runs scripts on a thread of the server: provides the caller's permissions, and serves other clients meanwhile.
//!
//! The commands of a script have a client of their own, with a session like any other. The session of the client that
//! called the script is put aside while it runs.
//!
//! Not here: scripts and their commands (crate `scripting`), and the rights of other clients while one is slow
//! (`life/busy.rs`).

use acl::{Context, Lack};
use clients::session::{Part, Session};
use engine::{Client, Command, CommandError, CommandId, CommandResult, Outcome, Tx};
use proactor::ConnId;
use replication::Standing as Refused;
use resp::{Output, Proto, Reply};
use scripting::{Answer, Door, ScriptSettings, Standing, States};

use crate::life::admit::refuses_writes;
use crate::life::giving_way::give_way_if_due;
use crate::message::Message;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn states(&mut self) -> &mut States {
        &mut self.scripts.lua
    }

    fn settings(&self) -> ScriptSettings {
        let settings = &self.shared.settings;
        ScriptSettings {
            slow_after_ms: settings.script_time_limit_ms(),
            time_max_ms: settings.script_time_max_ms(),
            trusted_after: settings.script_trusted_after(),
        }
    }

    fn lacked_room(&self, client: &Client) -> bool {
        ThreadHost::lacked_room(self, client)
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
    }

    fn leave_script(&mut self, was_slow: bool) {
        self.scripts.aside.script = self.current.take();
        let caller = self.scripts.aside.caller.take();
        if was_slow && let Some(caller) = &caller {
            self.net.driver.resume_reading(ConnId::from_bits(caller.client.connection));
        }
        self.current = caller;
    }

    fn permit(&mut self, command: &Command, args: &[&[u8]]) -> CommandResult {
        if self.session().access.is_limited()
            && let Err(Lack::Permission(denied)) = self.permit_in(Context::Lua, command, args)
        {
            return Err(denied.refusal_in_script(self.session().access.user(), command));
        }
        Ok(())
    }

    fn is_permitted(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let access = &self.session().access;
        !access.is_limited() || access.user().check(command, args).is_ok()
    }

    fn refuses_writes(&self) -> Option<CommandError> {
        refuses_writes(self.shared).or_else(|| self.shared.quorum.error())
    }

    fn has_standing(&self) -> bool {
        self.shared.following.is_replica() || self.shared.journal.synced.is_in_doubt()
    }

    fn standing(&self) -> Standing {
        let standing = self.shared.standing();
        Standing {
            read_only: standing.is_read_only.then_some(Refused::READ_ONLY),
            stale: standing.refuses_reads(),
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
            self.count_command(command, args, &client, started, &mut outcome, mark, out);
            self.monitor(command, args, true);
        }
        outcome
    }

    fn note_refusal(&mut self, command: Option<CommandId>, error: &CommandError) {
        self.reports.accounting.count_rejection(command, error);
    }

    fn note_errors(&mut self, command: &Command, errors: &lua::Errors) {
        let uncounted = errors.uncounted.iter().map(|(code, count)| (&**code, *count));
        self.reports.accounting.count_errors_of_script(command.id, uncounted);
    }

    fn note_lent(&mut self, count: usize) {
        self.reports.accounting.stats().lent.add(count as u64);
    }

    fn has_to_end(&mut self, has_written: bool) -> bool {
        self.shared.shutdown.ends_script(self.net.id, has_written)
    }

    fn breathe(&mut self) {
        give_way_if_due(self);
    }

    fn serve_others(&mut self, tx: &mut Tx<'_>) {
        self.busy_turn(tx);
    }

    fn answer_once_scripts_passed(&mut self, answer: Answer) {
        let finish = move |_: Vec<Part>, reply: &mut Reply<'_>| {
            if let Err(error) = answer(reply) {
                reply.error(error.text());
            }
        };
        self.gather(Message::PassScript, Box::new(finish));
    }
}
