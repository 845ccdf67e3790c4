//! Copies of files.

use std::io;
use std::path::Path;

use proactor::{Disk, Open};

use crate::error::Error;

/// How much is copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Copies a file, durably but for its name, over one that may be there.
pub(crate) fn copy_file(disk: &Disk, from: &Path, to: &Path) -> Result<u64, Error> {
    let source = disk.open(from, Open::Read).map_err(Error::io(from, "open it"))?;
    let target = disk.open(to, Open::Empty).map_err(Error::io(to, "make it"))?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let count = match source.read_at(offset, &mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(from, "read it")(error).at(offset)),
        };
        target.write_all_at(offset, &bytes[..count]).map_err(Error::io(to, "write it"))?;
        offset += count as u64;
    }
    target.sync().map_err(Error::io(to, "make it durable"))?;
    Ok(offset)
}
