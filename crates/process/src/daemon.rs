//! Runs in the background, as `daemonize yes` asks for.
//!
//! The process forks before it has any other thread. The original process waits until the new one listens, or has
//! failed and has printed why, and then exits with status 0 or 1. So the caller knows whether the server serves. The
//! new process keeps standard error until then, and no longer. If systemd or upstart supervises the process, it stays
//! in the foreground, as Redis does.

use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};

use config::{DAEMONIZE, Settings};
use rustix::stdio;

use crate::error::Error;
use crate::supervisor::Supervisor;
use crate::system;

/// Reports from a server in the background to the process that was started; `None` in the foreground.
#[derive(Debug)]
pub struct Background(Option<PipeWriter>);

impl Background {
    /// If the settings ask for it, continues in a new process. The process that was started then does not return from
    /// this. It may have no other threads yet.
    pub fn begin(settings: &Settings) -> Result<Background, Error> {
        if !settings.is_on(DAEMONIZE) || Supervisor::of(settings) != Supervisor::Nobody {
            return Ok(Background(None));
        }
        let failed = |source| Error { what: "cannot go into the background".to_owned(), source };
        let (mut reader, writer) = io::pipe().map_err(failed)?;
        if !system::fork().map_err(failed)? {
            drop(writer);
            let status = match reader.read(&mut [0]) {
                Ok(1) => 0,
                _ => 1,
            };
            std::process::exit(status);
        }
        rustix::process::setsid().map_err(|error| failed(error.into()))?;
        let nowhere = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
        stdio::dup2_stdin(&nowhere).map_err(|error| failed(error.into()))?;
        stdio::dup2_stdout(&nowhere).map_err(|error| failed(error.into()))?;
        Ok(Background(Some(writer)))
    }

    /// Whether the server runs in the background.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Lets the original process exit. Call this when the server listens.
    pub fn end_start(self) {
        let Some(mut writer) = self.0 else { return };
        let nowhere = File::options().write(true).open("/dev/null");
        if nowhere.and_then(|nowhere| Ok(stdio::dup2_stderr(&nowhere)?)).is_err() {
            tracing::warn!("standard error stays open");
        }
        // If the other process was killed, the write fails, and no process waits for it.
        let _ = writer.write_all(b"1");
    }
}
