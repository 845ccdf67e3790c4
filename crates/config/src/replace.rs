//! Replacing a file as a whole: after a crash there is the old one or the new one, never a part of either.
//!
//! What is written to a temporary file is made durable, then the file gets its name, then the name is made durable in
//! its directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces the file at `path` as a whole, durably. It keeps its permissions. With an error the old one is still there, or
/// the new one, whose name may not be durable.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_path(path);
    let replaced = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        if let Ok(metadata) = fs::metadata(path) {
            file.set_permissions(metadata.permissions())?;
        }
        put_in_place(&temporary, path)
    });
    if replaced.is_err() {
        // The error that is reported is the first one.
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Makes `temporary`, all of which is durable, the file at `path`, which is on the same file system.
pub fn put_in_place(temporary: &Path, path: &Path) -> io::Result<()> {
    fs::rename(temporary, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync_folder(folder.unwrap_or(Path::new(".")))
}

/// Makes the names of the files in a directory durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Where a file is written that is to take the place of the one at `path`.
fn temporary_path(path: &Path) -> PathBuf {
    let mut temporary: OsString = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    temporary.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_whole_file_is_another_and_has_its_permissions() {
        let folder = std::env::temp_dir().join(format!("darter-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.conf");
        replace_file(&path, b"port 1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace_file(&path, b"p").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"p");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(replace_file(&folder, b"").is_err(), "a directory is no file");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing temporary is left in it");
        assert!(!temporary_path(&folder).exists(), "nor beside it");
        fs::remove_dir_all(&folder).unwrap();
    }
}
