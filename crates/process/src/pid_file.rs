//! The file that holds the process number.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use config::{PIDFILE, Settings};

/// Where a server in the background writes the file by default, as in Redis.
const DEFAULT: &str = "/var/run/redis.pid";

/// The file. It is removed when the server stops. `None`: there is no file.
#[derive(Debug)]
pub struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the file. A server in the background always has one. A failure is only logged, because the server can do
    /// without.
    pub fn write(settings: &Settings, is_in_background: bool) -> PidFile {
        let path = match settings.text(PIDFILE) {
            path if !path.is_empty() => path,
            _ if is_in_background => DEFAULT.into(),
            _ => return PidFile(None),
        };
        let path = std::path::absolute(Path::new(&*path)).unwrap_or_else(|_| PathBuf::from(&*path));
        match write(&path) {
            Ok(()) => PidFile(Some(path)),
            Err(error) => {
                tracing::warn!("cannot write the pid file {}: {error}", path.display());
                PidFile(None)
            }
        }
    }
}

/// Writes the number for everybody to read. A symbolic link at the end of the path is refused. Opening does not wait for
/// the reader of a pipe.
fn write(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o644);
    let mut file = proactor::open_no_follow(path, &mut options, libc::O_NONBLOCK)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The file may have been removed already, which does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}
