//! The name of the program, and hiding parts of the command line, which the system shows to all users of the machine.
//!
//! The command line is in the process's own memory, which the process may change through a file, like any process's
//! memory.

use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The field of `/proc/self/stat` with the address of the arguments, counted from the one after the program's name.
const ARG_START_FIELD: usize = 45;

/// Whether this program was started under a name.
pub fn is_called(name: &str) -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name().is_some_and(|file| file == name)
}

/// Overwrites parts of the arguments with stars. A part is the number of an argument, the program's name not counted,
/// and a range of its bytes.
///
/// # Errors
/// If the system does not let the process read or write its memory, or these arguments are not found there.
pub fn hide(args: &[String], parts: &[(usize, Range<usize>)]) -> io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "the arguments are not where they should be");
    let shown = fs::read("/proc/self/cmdline")?;
    let mut starts = vec![0];
    starts.extend(shown.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1));
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let address: u64 = fields
        .split_whitespace()
        .nth(ARG_START_FIELD)
        .and_then(|word| word.parse().ok())
        .ok_or_else(unknown)?;
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    for (index, bytes) in parts {
        let start = starts.get(index + 1).copied().ok_or_else(unknown)?;
        let part = &args[*index].as_bytes()[bytes.clone()];
        let at = address + (start + bytes.start) as u64;
        let mut found = vec![0; part.len()];
        memory.read_exact_at(&mut found, at)?;
        if found != part {
            return Err(unknown());
        }
        memory.write_all_at(&vec![b'*'; part.len()], at)?;
    }
    Ok(())
}
