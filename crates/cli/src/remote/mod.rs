//! `darter --queues`: shows the queues of a running server on the terminal, once or repeatedly.
//! `darter --check-health`: says whether it is alive.
//!
//! | file | what |
//! |---|---|
//! | `command_line` | the flags, which are those of redis-cli |
//! | `connection` | a client that trusts no server: every wait and every reply has a limit |
//! | `health` | asks whether a server is healthy |
//! | `queue` | a queue in the reply of QUEUE LIST |
//! | `screen` | properties of standard output: width, height, colours |
//! | `table` | the table of queues |
//! | `figures` | ages, rates, counts and bytes for people, and text from elsewhere made safe for a terminal |
//! | `error` | the errors, with the exit status |

mod command_line;
pub(crate) mod connection;
pub(crate) mod error;
pub(crate) mod figures;
mod health;
mod queue;
mod screen;
mod table;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::remote::command_line::Task;
use crate::remote::connection::{Connection, ReplyLimits};
use crate::remote::error::Error;
use crate::remote::queue::Queue;
use crate::remote::screen::Screen;

/// The part of the help about these flags.
pub(crate) const HELP: &str = "
The queues of a running server
  --queues         Show them: how many jobs, how old the oldest is, how many come and go each second, who waits. Exit status: 1: the
                   flags are wrong; 2: the server cannot be reached or is silent; 3: it wants other credentials; 4: it is no Darter
    -h HOST        With --queues: the server's host [default: 127.0.0.1]
    -p PORT        Its port [default: 6379]
    --user NAME    The user, with a password
    --pass TEXT    The password; -a is the same. In REDISCLI_AUTH nobody else sees it
    -n DB          The database [default: 0]
    -i SECONDS     Show them again and again, so many seconds apart

The health of a running server
  --check-health   Ask for its /healthz, as the health check of a container does. Exit status: 0: it is healthy; 1: it is not, or the
                   flags are wrong; 2: it cannot be reached
    -h HOST        With --check-health: the server's host [default: 127.0.0.1]
    -p PORT        Its http-port [default: 8379]
";

/// Runs the command line after the program's name; `None` if it has none of these flags.
pub fn run(args: &[String]) -> Option<ExitCode> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("--help") || !(has("--queues") || has(health::FLAG)) {
        return None;
    }
    let outcome = if has("--queues") {
        let password = std::env::var("REDISCLI_AUTH").ok();
        Task::parse(args, password).and_then(|task| show(&task, &ReplyLimits::default()))
    } else {
        health::check(args)
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "darter: {error}");
            error.status()
        }
    })
}

/// Shows the queues once, or again and again.
fn show(task: &Task, limits: &ReplyLimits) -> Result<(), Error> {
    let mut connection = Connection::open(&task.host, task.port, limits)?;
    if let Some(password) = &task.password {
        let user = task.user.as_ref().map(|user| user.as_bytes());
        let words: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(user).chain([password.as_bytes()]).collect();
        connection.command(&words)?;
    }
    if task.db > 0 {
        connection.command(&[b"SELECT", task.db.to_string().as_bytes()])?;
    }
    loop {
        let queues = queues(&mut connection)?;
        let screen = Screen::of_standard_output(task.every.is_some());
        let text = table::text(queues, task.db, &screen);
        match write(&screen.page(&text)) {
            // The reader of a pipe has seen enough and closed it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(Error::Output)?,
        }
        match task.every {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(()),
        }
    }
}

fn queues(connection: &mut Connection) -> Result<Vec<Queue>, Error> {
    let count = connection.ask_for_items(&[b"QUEUE", b"LIST"])?;
    let mut queues = Vec::new();
    for _ in 0..count {
        let queue = Queue::read(&connection.value()?);
        queues.push(queue.ok_or_else(|| connection.no_darter("its reply about queues has an unknown form"))?);
    }
    Ok(queues)
}

fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
