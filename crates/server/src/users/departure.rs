//! Applies a change of users to clients that are idle or waiting.
//!
//! A client is disconnected if its user is gone, or if it has a subscription that its user may no longer have. A client
//! that waits with a command that its user may no longer run gets the error at once. If it was just served, the value
//! goes back.

use acl::{Context, Lack, Latest};
use engine::CommandError;
use proactor::{CloseMode, ConnId};

use crate::thread::Thread;
use crate::users::permission::follow;
use clients::Connections;

/// The clients of a thread that a change of users affects at once.
#[derive(PartialEq, Eq, Debug, Default)]
struct Concerned {
    /// Clients to be disconnected.
    gone: Vec<ConnId>,
    /// Waiting clients for which it has yet to be checked whether they may run their commands.
    waiting: Vec<ConnId>,
}

impl Concerned {
    /// The affected clients of `connections`, all of which act as the `latest` users say from here on.
    fn of(connections: &mut Connections, latest: &Latest) -> Concerned {
        let mut concerned = Concerned::default();
        for (conn, session) in connections.iter_mut().filter(|(_, session)| !session.access.is_of(latest)) {
            if !follow(session, latest) {
                concerned.gone.push(conn);
            } else if session.state.wait().is_some() {
                concerned.waiting.push(conn);
            }
        }
        concerned
    }
}

impl Thread {
    /// Checks the clients of this thread.
    pub(crate) fn follow_users(&mut self) {
        let latest = self.host.shared.users.latest();
        let Concerned { gone, waiting } = Concerned::of(&mut self.host.net.connections, &latest);
        for conn in gone {
            self.close(conn, CloseMode::AfterFlush);
        }
        for conn in waiting {
            if let Some(error) = self.wait_error(conn) {
                // If it is being served at this moment, it is checked when the outcome is known.
                self.time_out(conn, Some(&error));
            }
        }
    }

    /// The error of a waiting client whose user may no longer run its command.
    pub(crate) fn wait_error(&mut self, conn: ConnId) -> Option<CommandError> {
        let session = self.host.net.connections.session(conn)?;
        let wait = session.state.wait()?;
        if !session.access.is_limited() {
            return None;
        }
        let waiter = wait.blocked.waiter.clone();
        let args = waiter.wait.args.slices();
        let command = self.host.shared.table.resolve(&args).expect("it was resolved before");
        let (parser, session) = self.host.net.connections.take(conn)?;
        let outer = self.host.current.replace(session);
        let mut error = None;
        if let Err(Lack::Permission(denied)) = self.host.permit_in(Context::TopLevel, command, &args) {
            let denial = denied.refusal(self.host.session().access.user(), command);
            self.host.reports.accounting.count_rejection(Some(command.id), &denial);
            error = Some(denial);
        }
        let session = std::mem::replace(&mut self.host.current, outer).expect("it was put there above");
        self.host.net.connections.put_back(conn, parser, session);
        error
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use acl::{Access, Grammar};
    use clients::session::{Parser, Protocol, Session, Wait};
    use config::Settings;
    use engine::{Blocked, Client, OwnedArgs, When};
    use resp::Proto;
    use shard::{Claim, Waiter};

    use super::*;

    /// A client with this access.
    fn session(access: Access) -> Session {
        Session::new(Client::internal(0, Proto::Resp2), access, 0)
    }

    /// A client's wait.
    fn wait() -> Wait {
        let wait = engine::Wait {
            client: Client::internal(0, Proto::Resp2),
            args: OwnedArgs::default(),
            when: When::Is(|_, _, _| true),
            also: None,
            serve: |_, _| Ok(true),
        };
        let waiter = Arc::new(Waiter { claim: Claim::default(), wait, heeds_loss: false, awaits_due: false });
        let (tickets, said) = Default::default();
        let blocked = Blocked { waiter, tickets, timeout_ms: 0, null_array: false, said, ran_ns: 0 };
        Wait { blocked: Box::new(blocked), deadline_ms: None }
    }

    #[test]
    fn those_who_lose_their_user_or_a_subscription_go_and_those_who_wait_are_looked_at() {
        let table = crate::commands::table();
        let grammar = Grammar { table: &table, all_channels: true };
        let users = super::super::default_users(&Settings::default(), &table);
        let may_all: &[&[u8]] = &[b"on", b"nopass", b"~*", b"&*", b"+@all"];
        let mut connections = Connections::default();
        let names = ["stays", "removed", "listens", "listens to others", "waits", "waits unchanged"];
        let conns: Vec<ConnId> = (0..names.len() as u64).map(ConnId::from_bits).collect();
        for (name, conn) in names.iter().zip(&conns) {
            let name = name.replace(' ', "_");
            users.set(grammar, name.as_bytes(), may_all).expect("these are rules");
            let mut session =
                session(users.authenticate(name.as_bytes(), b"").expect("any password will do"));
            if name.starts_with("listens") {
                session.subscriptions.add_pattern(&Arc::from(&b"news.*"[..]));
            }
            if name.starts_with("waits") {
                session.state.block(wait());
            }
            connections.add(*conn, Box::new(Parser::new(Protocol::Redis)), Box::new(session));
        }
        assert_eq!(Concerned::of(&mut connections, &users.latest()), Concerned::default());
        users.remove(&[b"removed"]);
        users.set(grammar, b"listens", &[b"resetchannels"]).expect("it is a rule");
        users.set(grammar, b"listens_to_others", &[b"resetchannels", b"&news.*"]).expect("these are rules");
        users.set(grammar, b"waits", &[b"-blpop"]).expect("it is a rule");
        let concerned = Concerned { gone: vec![conns[1], conns[2]], waiting: vec![conns[4]] };
        assert_eq!(Concerned::of(&mut connections, &users.latest()), concerned);
    }
}
