//! `darter --cluster`: what a person does with groups, in the store that the configuration names.
//!
//! | file | what |
//! |---|---|
//! | `command_line` | the verb and its flags, and the settings around them |
//! | `change` | a change of the document, whose outcome is always settled |
//! | `create`, `members`, `repair` | the changes |
//! | `status` | who leads, who is in sync, which nodes live, what changed and why |
//! | `failover` | asks the primary to hand over |
//! | `folder` | the data folder of a node: a copy is adopted, a process that has ended is proven dead |
//! | `error` | the errors, with the exit status |

mod change;
mod command_line;
mod create;
mod error;
mod failover;
mod folder;
mod members;
mod repair;
mod status;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use config::Settings;
use topology::{History, Reason, Store};

use crate::cluster::command_line::{ClusterTask, FLAG, Verb};
use crate::cluster::error::Error;

/// The part of the help about these flags.
pub(crate) const HELP: &str = "
Groups that fail over by themselves: the store is that of the settings, in a file before --cluster or as flags after it. Exit
status: 0: it is done; 1: it is refused; 2: the store or the server does not answer, or the outcome is not known
  --cluster create [NODE...]   Create the cluster with these members, of which the first leads; without names: with this node
  --cluster status             Show groups, nodes, and the last changes
    --json                     As JSON
  --cluster add NODE...        Make nodes members of the group
  --cluster remove NODE        Take a node out of the group that is neither in sync nor leads
  --cluster failover [NODE]    Hand over to this node, or to the best one. Password: REDISCLI_AUTH, or masterauth, or requirepass
    --timeout-ms MS            How long the primary tries [default: 5000]
    --user NAME --pass TEXT    The user and the password at the primary
  --cluster repair             Say what is wrong with the group, and what can be done
    --accept-loss NODE         Let this node lead, though it may lack what was acknowledged
    --stopped                  With --accept-loss: the servers that were in sync are stopped, on your word
    --above-term N             With --accept-loss: begin a term above N, which a node knew before the store was restored
    --accept-store             Let this node, which is stopped, follow a store that was restored or replaced
  --cluster adopt              Make the copied data folder of this configuration that of a new node
    --moved                    Or that of the node that it was: its original never starts again
  --cluster dead               Prove that the last process of this node is dead (for ExecStopPost of a unit)
";

/// Runs the command line after the program's name; `None` if it has no `--cluster`.
pub fn run(args: &[String]) -> Option<ExitCode> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("--help") || !has(FLAG) {
        return None;
    }
    let outcome = ClusterTask::parse(args).and_then(|task| carry_out(&task));
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "darter: {error}");
            error.status()
        }
    })
}

fn carry_out(task: &ClusterTask) -> Result<(), Error> {
    let settings = &task.settings;
    match &task.verb {
        Verb::Create(nodes) => create::create(&mut *open(settings)?, settings, nodes),
        Verb::Status { as_json } => status::show(&mut *open(settings)?, settings, *as_json),
        Verb::Add(nodes) => members::add(&mut *open(settings)?, settings, nodes),
        Verb::Remove(node) => members::remove(&mut *open(settings)?, settings, node),
        Verb::Failover(order) => failover::hand_over(&mut *open(settings)?, settings, order),
        Verb::Diagnose => repair::diagnose(&mut *open(settings)?, settings),
        Verb::AcceptLoss(order) => repair::accept_loss(&mut *open(settings)?, settings, order),
        Verb::AcceptStore => folder::accept_store(settings),
        Verb::Adopt(adoption) => folder::adopt(settings, *adoption),
        Verb::Dead => folder::prove_dead(settings),
    }
}

/// The store. A person wants to see it as it is, so nothing is remembered of it.
fn open(settings: &Settings) -> Result<Box<dyn Store>, Error> {
    Ok(agent::open_store(settings, History::default())?)
}

/// Prints lines.
fn say(text: &str) -> Result<(), Error> {
    let mut output = io::stdout().lock();
    output.write_all(format!("{text}\n").as_bytes()).and_then(|()| output.flush()).map_err(Error::Output)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

/// The reason of a change that a person makes.
fn because(reason: &str) -> Reason {
    let user = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "a person".to_owned());
    Reason::new(format!("{user} (darter {FLAG})"), now_ms(), reason)
}

/// Names with commas and a last *and*.
fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    match &names[..] {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
