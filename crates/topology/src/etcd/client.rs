//! Several members of etcd as one: asks another one if one does not answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use super::fate::Fate;
use super::member::{Credentials, Member};
use super::options::EtcdOptions;
use crate::error::Error;
use crate::history::History;

/// How long a member has for an answer that another one may give as well.
const ASK: Duration = Duration::from_millis(1_000);
/// How long it has for a change that must not be sent twice.
const CHANGE: Duration = Duration::from_millis(2_000);
/// How often a change is sent again because its token was not valid or etcd was too busy to look at it.
const AGAIN_MAX: usize = 2;
/// How many members are asked in one call, so that it ends in a few seconds.
const ASKED_MAX: usize = 4;
/// The threads that look up names of hosts. One that hangs outlives its time limit.
const LOOKUPS_MAX: usize = 4;

/// See the head of this file.
pub(crate) struct Client {
    /// Taken when it is dropped only.
    runtime: Option<Runtime>,
    pub(crate) members: Vec<Member>,
    /// The member that is asked first: the last that answered.
    pub(crate) at: usize,
    pub(crate) credentials: Arc<Credentials>,
    history: Arc<Mutex<History>>,
}

impl Client {
    pub(crate) fn new(options: &EtcdOptions, history: History) -> Result<Client, Error> {
        let addresses = options.addresses()?;
        let tls = options.tls(&addresses)?.map(TlsConnector::from);
        let credentials = Credentials { user: options.user.clone(), password: options.password.clone(), tls };
        Client::build(
            addresses.into_iter().map(Member::new).collect(),
            0,
            Arc::new(credentials),
            Arc::new(Mutex::new(history)),
        )
    }

    /// Another client of the same members with connections of its own, which shares what is known of the store.
    pub(crate) fn another(&self) -> Result<Client, Error> {
        let members = self.members.iter().map(|member| Member::new(member.address.clone())).collect();
        Client::build(members, self.at, self.credentials.clone(), self.history.clone())
    }

    fn build(
        members: Vec<Member>,
        at: usize,
        credentials: Arc<Credentials>,
        history: Arc<Mutex<History>>,
    ) -> Result<Client, Error> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(LOOKUPS_MAX).build();
        let runtime = runtime.map_err(|error| Error::Failed(format!("cannot start: {error}")))?;
        Ok(Client { runtime: Some(runtime), members, at, credentials, history })
    }

    /// The memory of the store.
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on this thread, with the connections.
    pub(crate) fn run<T>(&mut self, work: impl AsyncFnOnce(&mut Client) -> T) -> T {
        let runtime = self.runtime.take().expect("it is there between two calls");
        let result = runtime.block_on(work(self));
        self.runtime = Some(runtime);
        result
    }

    /// Sends a request that may be carried out more than once, to one member after the other until one answers. Returns its
    /// name and the answer.
    pub(crate) async fn ask(&mut self, path: &str, request: &Value) -> Result<(String, Bytes), Error> {
        let body = Bytes::from(request.to_string());
        let mut worst: Option<Error> = None;
        for _ in 0..ASKED_MAX.min(self.members.len() + 1) {
            match self.ask_one(path, &body).await {
                Ok(answer) => return Ok((self.members[self.at].name.clone(), answer)),
                Err(error) => {
                    self.at = (self.at + 1) % self.members.len();
                    let is_telling = matches!(error, Error::Denied(_) | Error::NoSpace(_));
                    if worst.is_none() || is_telling {
                        worst = Some(error);
                    }
                }
            }
        }
        Err(worst.unwrap_or_else(|| Error::Unreachable("there are no members".to_owned())))
    }

    async fn ask_one(&mut self, path: &str, body: &Bytes) -> Result<Bytes, Error> {
        let member = &mut self.members[self.at];
        member.prepare(&self.credentials).await?;
        match member.exchange(path, body.clone(), ASK).await {
            Err(Fate::NewToken(_)) => {
                member.prepare(&self.credentials).await?;
                member.exchange(path, body.clone(), ASK).await.map_err(Fate::into_error)
            }
            answer => answer.map_err(Fate::into_error),
        }
    }

    /// Sends a change, again only if it is certain that it was not made. Never [`Fate::NewToken`].
    pub(crate) async fn change(&mut self, path: &str, request: &Value) -> Result<(String, Bytes), Fate> {
        let body = Bytes::from(request.to_string());
        let mut again = 0;
        let mut last = None;
        for _ in 0..ASKED_MAX.min(self.members.len()) + AGAIN_MAX {
            let member = &mut self.members[self.at];
            if let Err(error) = member.prepare(&self.credentials).await {
                self.at = (self.at + 1) % self.members.len();
                last = Some(error);
                continue;
            }
            match member.exchange(path, body.clone(), CHANGE).await {
                Ok(answer) => return Ok((member.name.clone(), answer)),
                Err(Fate::Unknown(error)) => {
                    self.at = (self.at + 1) % self.members.len();
                    return Err(Fate::Unknown(error));
                }
                Err(Fate::NewToken(error) | Fate::NotDone(error)) => {
                    again += 1;
                    let may_pass = matches!(error, Error::Denied(_) | Error::Lost { .. });
                    last = Some(error);
                    if again > AGAIN_MAX || !may_pass {
                        break;
                    }
                }
            }
        }
        Err(Fate::NotDone(last.unwrap_or_else(|| Error::Unreachable("there are no members".to_owned()))))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A thread that looks up a name may hang; it is not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
