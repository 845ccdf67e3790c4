//! Plays `tests/transcripts/` against the data commands in process. Checks the replies, and that each has the
//! shape that its command declares.
//!
//! With `DARTER_ORACLE=host:port` the blocks are also played against the redis-server there, which is
//! flushed; steps marked `! 7.2` are run there but not compared. With `DARTER_TRANSCRIPTS=string/get` only
//! files whose path contains that text are played. Blocks that need sessions, or commands other than data
//! commands, are left to the runner of the server.

#![expect(
    clippy::disallowed_methods,
    reason = "which transcripts are played, and against what, is said from outside"
)]

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use commands::FAMILIES;
use engine::{Client, Local};
use resp::{Output, Proto, Value};
use transcript::{Block, Runner, Socket};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transcripts");

/// A store in process.
struct InProcess {
    local: Local,
    proto: Proto,
}

impl InProcess {
    fn new(block: &Block) -> Self {
        let proto = if block.resp3 { Proto::Resp3 } else { Proto::Resp2 };
        InProcess { local: Local::new(&[FAMILIES, sketching::FAMILIES].concat()), proto }
    }

    /// Whether all commands of `block` are data commands.
    fn knows(&self, block: &Block) -> bool {
        !block.needs_server
            && block.steps.iter().all(|step| self.local.table().by_name(&step.request[0]).is_some())
    }
}

impl Runner for InProcess {
    fn call(&mut self, request: &[Vec<u8>]) -> io::Result<Value> {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut out = Output::new();
        self.local.run(Client::internal(0, self.proto), &args, &mut (), &mut out);
        let bytes = out.to_vec();
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let (value, length) = resp::decode(&bytes)
            .map_err(|error| invalid(format!("{error:?} in {}", bytes.escape_ascii())))?
            .ok_or_else(|| invalid(format!("an unfinished reply: {}", bytes.escape_ascii())))?;
        if length != bytes.len() {
            return Err(invalid(format!("more than one reply: {}", bytes.escape_ascii())));
        }
        if let Ok(command) = self.local.table().resolve(&args)
            && !command.entry.reply.fits(&value, self.proto == Proto::Resp3)
        {
            let declared = command.entry.reply;
            return Err(invalid(format!("{} answers {value:?}, not {declared:?}", command.full_name)));
        }
        Ok(value)
    }
}

fn chosen_files() -> Vec<PathBuf> {
    let wanted = std::env::var("DARTER_TRANSCRIPTS").unwrap_or_default();
    let mut files = transcript::files(Path::new(FOLDER)).expect("the folder of transcripts can be read");
    files.retain(|path| path.to_string_lossy().contains(&wanted));
    files
}

/// Plays every block of the chosen files through `play`, and panics with all differences.
fn play_all(mut play: impl FnMut(&Block) -> io::Result<Vec<transcript::Difference>>) {
    let mut report = String::new();
    for path in chosen_files() {
        let name = path.strip_prefix(FOLDER).unwrap_or(&path).display();
        match transcript::read(&path) {
            Err(error) => writeln!(report, "{name}: {error}").expect("strings can be written to"),
            Ok(blocks) => {
                for block in &blocks {
                    let problems: Vec<String> = match play(block) {
                        Ok(differences) => differences.iter().map(ToString::to_string).collect(),
                        Err(error) => vec![format!("block at line {}: {error}", block.line)],
                    };
                    for problem in problems {
                        writeln!(report, "{name}: {problem}").expect("strings can be written to");
                    }
                }
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn replies_are_as_written() {
    play_all(|block| {
        let mut runner = InProcess::new(block);
        if !runner.knows(block) {
            return Ok(Vec::new());
        }
        block.play(&mut runner, |_| true)
    });
}

#[test]
fn redis_answers_the_same() {
    let Ok(address) = std::env::var("DARTER_ORACLE") else { return };
    play_all(|block| {
        let mut socket = Socket::connect(&address)?;
        socket.begin(block.resp3)?;
        block.play(&mut socket, |step| step.newer.is_none())
    });
}
